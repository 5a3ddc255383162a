"""What a lab runs, started by hand on loopback: PostgreSQL, and `deploy/mlflow/serve.sh` on it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from live_mlflow import end, free_port, python_env, wait_for

SERVE = Path(__file__).parents[2] / "deploy" / "mlflow" / "serve.sh"


def postgres_programs():
    """The folder of initdb and pg_ctl, or None; Debian keeps them off the PATH."""
    named = shutil.which("initdb")
    places = [Path(named).resolve().parent] if named else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


class Postgres:
    """A cluster in a folder of its own; PostgreSQL refuses to run as root, so root lends a user."""

    def __init__(self, folder):
        self._programs, self._folder, self.port = postgres_programs(), folder, free_port()
        self._user = "postgres" if os.getuid() == 0 else None
        self._data = folder / "data"

    def start(self):
        if self._user:
            shutil.chown(self._folder, self._user)
            for parent in self._folder.parents:  # pytest's folders are closed to other users
                if parent.owner() == "root" and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        self._run("initdb", "-A", "trust", "-U", "mlflow", "-N", "-D", self._data)
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c fsync=off"
        options += " -c unix_socket_directories="  # none: a socket's path must be short
        log = self._folder / "postgres.log"
        self._run("pg_ctl", "-D", self._data, "-l", log, "-w", "-o", options, "start")
        self.create("mlflow")
        return self

    def create(self, database):
        """A new, empty database; returns its address."""
        self.rows(f'CREATE DATABASE "{database}"', "postgres")
        return self.uri(database)

    def uri(self, database="mlflow"):
        return f"postgresql+psycopg2://mlflow@127.0.0.1:{self.port}/{database}"

    def rows(self, query, database="mlflow"):
        """What an SQL query finds."""
        import psycopg2

        at = {"host": "127.0.0.1", "port": self.port, "user": "mlflow", "dbname": database}
        connection = psycopg2.connect(**at)
        connection.autocommit = True  # no database is created inside a transaction
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def stop(self):
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    def _run(self, program, *arguments):
        command = [str(self._programs / program), *map(str, arguments)]
        subprocess.run(
            command, check=True, cwd="/", user=self._user, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip


class LabServer:
    """`serve.sh` on a database; can be frozen, killed, and started again on the same port."""

    def __init__(self, folder, database, *, workers=2, **settings):
        self._process, self.port = None, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._env = {
            "MLFLOW_BACKEND_STORE_URI": database,
            "ARTIFACTS": str(folder / "artifacts"),
            "PORT": str(self.port),
            "WORKERS": str(workers),
            "PYTHON": sys.executable,
        } | settings
        self._log = folder / "server.log"

    def start(self):
        if self._process:
            return self
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                ["sh", str(SERVE)], env=python_env() | self._env,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        wait_for(f"{self.uri}/health", self._process)
        return self

    def freeze(self):
        """The server neither answers nor refuses: a hung host, a network that drops packets."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self):
        os.killpg(self._process.pid, signal.SIGCONT)

    def kill(self):
        if self._process:
            end(self._process)
            self._process = None
