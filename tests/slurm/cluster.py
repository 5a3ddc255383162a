"""A real SLURM for the tests: munge, a controller and several virtual nodes, without a database.

Everything lies in one folder and listens on loopback; nothing of the system's own SLURM is used.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "srun")
_SEARCH = ":".join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))

CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SlurmdParameters=config_overrides
GresTypes=gpu
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=10
MinJobAge=300
MaxArraySize={max_array}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{preempt}
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP {main}
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def installed():
    return all(shutil.which(name, path=_SEARCH) for name in PROGRAMS)


class Cluster:
    """Starts at once; ``close`` stops what was started, by its process numbers."""

    def __init__(self, folder: Path, *, nodes=3, cpus=2, max_array=1001, user_signal=True):
        self.folder, self.nodes = folder, [f"n{i + 1}" for i in range(nodes)]
        self.conf = folder / "slurm.conf"
        for name in ("state", "log", "munge", *(f"spool/{n}" for n in self.nodes)):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": _SEARCH}
        self._munge()
        ports = _free_ports(1 + nodes)
        host = socket.gethostname().partition(".")[0]
        lines = [
            f"NodeName={n} NodeHostname={host} NodeAddr=127.0.0.1 Port={p} CPUs={cpus} "
            "RealMemory=4000 Gres=gpu:2"
            for n, p in zip(self.nodes, ports[1:], strict=True)
        ]
        told = "SlurmctldParameters=preempt_send_user_signal" if user_signal else ""
        self.conf.write_text(
            CONF.format(
                host=host,
                controller=ports[0],
                folder=folder,
                user=getpass.getuser(),
                max_array=max_array,
                preempt=told,
                nodes="\n".join(lines),
                main="PriorityTier=1 GraceTime=30 PreemptMode=REQUEUE",
            )
        )
        # Two files that are always there stand for two GPUs.
        names = ",".join(self.nodes)
        gpus = (
            f"NodeName={names} Name=gpu File=/dev/null\nNodeName={names} Name=gpu File=/dev/zero\n"
        )
        (folder / "gres.conf").write_text(gpus)
        self.run("slurmctld")
        for node in self.nodes:
            self.run("slurmd", "-N", node)
        self.wait(lambda: self.ask("sinfo -h -N -p main -t idle -o %N").split() == self.nodes)

    def run(self, *words, **options):
        """A command of this cluster; fails loudly."""
        return subprocess.run(
            words, env=self.environment, check=True, capture_output=True, text=True, **options
        )

    def ask(self, words):
        done = subprocess.run(
            words.split(), env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def wait(self, true, seconds=60.0, every=0.1):
        """Until something is true; the controller's log says what was wrong."""
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                log = (self.folder / "log" / "slurmctld.log").read_text()[-3000:]
                raise TimeoutError(f"{self.ask('squeue')}\n{log}")
            time.sleep(every)

    def queue(self):
        """States by job id."""
        lines = self.ask("squeue -h -r -o %i|%T").split()
        return dict(line.split("|") for line in lines)

    def facts(self, job):
        words = self.ask(f"scontrol -o show job {job}").split()
        return dict(w.split("=", 1) for w in words if "=" in w)

    def close(self):
        self.ask("scancel -f --user=" + getpass.getuser())
        files = [*self.folder.glob("slurmd-*.pid"), self.folder / "slurmctld.pid"]
        files.append(self.folder / "munge" / "pid")
        _end([int(file.read_text()) for file in files if file.exists()])

    def _munge(self):
        folder = self.folder / "munge"
        folder.chmod(0o700)
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        self.run(
            "munged", "--force", f"--key-file={key}", f"--socket={folder / 'socket'}",
            f"--pid-file={folder / 'pid'}", f"--log-file={folder / 'log'}",
            f"--seed-file={folder / 'seed'}",
        )  # fmt: skip
        folder.chmod(0o711)


def _free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    try:
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]
    finally:
        for one in taken:
            one.close()


def _end(pids, seconds=10.0):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.05)
