"""The device, cores and threads of a run: what is there, and what was promised or asked for."""

import copy
import os

import pytest
import torch
from torch import nn

from semimedref import cores, hardware
from semimedref.config import build
from semimedref.errors import UserError


def test_a_job_with_a_gpu_that_torch_cannot_use_does_not_train_on_a_cpu(compose_smoke, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("SLURM_JOB_GPUS", "0")
    with pytest.raises(UserError, match="given GPU 0, but torch sees none"):
        build(compose_smoke("hardware=auto"), "hardware")
    assert build(compose_smoke("hardware=cpu"), "hardware").device.type == "cpu"
    monkeypatch.delenv("SLURM_JOB_GPUS")
    assert build(compose_smoke("hardware=auto"), "hardware").device.type == "cpu"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Eight cores without a limit, in a tree of cgroups of the test's own."""
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "_CGROUPS", tmp_path)
    return tmp_path


def threads(compose_smoke, *words):
    return build(compose_smoke(*words), "hardware").threads


def test_a_run_takes_the_threads_that_help_it_and_no_more_than_its_cores(
    compose_smoke, machine, monkeypatch
):
    free = "hardware.threads=null"
    assert threads(compose_smoke, free) == 1  # scale=smoke
    paper = ["scale=paper", "hardware.most_threads=null", free]
    assert threads(compose_smoke, *paper) == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "6")
    assert threads(compose_smoke, *paper) == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "3,1")
    assert threads(compose_smoke, *paper) == threads(compose_smoke, free) == 3
    assert threads(compose_smoke, "hardware.threads=5") == 5
    with pytest.raises(UserError, match=r"hardware.most_threads=0: expected a whole number"):
        threads(compose_smoke, "hardware.most_threads=0")


@pytest.mark.parametrize("version", [1, 2])
def test_the_cpu_limit_of_a_cgroup_or_of_one_above_it_is_honoured(machine, monkeypatch, version):
    tree = machine / "cpu,cpuacct" if version == 1 else machine
    line = "4:cpu,cpuacct:/lab/job" if version == 1 else "0::/lab/job"
    monkeypatch.setattr(cores, "_OWN", machine / "own")
    (machine / "own").write_text(f"3:memory:/elsewhere\n{line}\n")

    def limit(folder, quota):
        folder.mkdir(parents=True, exist_ok=True)
        if version == 2:
            (folder / "cpu.max").write_text(f"{quota} 100000\n")
        else:
            (folder / "cpu.cfs_quota_us").write_text(f"{-1 if quota == 'max' else quota}\n")
            (folder / "cpu.cfs_period_us").write_text("100000\n")

    assert cores.cores() == 8
    limit(tree / "lab" / "job", "max")
    assert cores.cores() == 8
    limit(tree / "lab", 350_000)
    assert cores.cores() == 4  # three and a half, rounded up
    limit(tree / "lab" / "job", 50_000)
    assert cores.cores() == 1


def test_fast_computes_in_bf16_where_the_processor_does_and_is_recorded_as_such(
    compose_smoke, monkeypatch
):
    for flags, precision in (("fpu avx512_bf16", "bf16"), ("fpu avx2", "fp32")):
        monkeypatch.setattr(hardware, "_cpu_flags", lambda found=flags: set(found.split()))
        fast = build(compose_smoke("hardware=fast", "hardware.device=cpu"), "hardware")
        assert fast.training_precision("fp32", side=160) == precision
        assert fast.training_precision("fp32", side=96) == "fp32"  # gains nothing
        assert fast.training_precision("fp16", side=160) == "fp16"  # was asked for
        usual = build(compose_smoke("hardware=cpu"), "hardware")
        assert usual.training_precision("fp32", side=160) == "fp32"
    with pytest.raises(UserError, match=r"hardware\.bf16=yes: expected never or auto"):
        build(compose_smoke("hardware.bf16=yes"), "hardware")


def test_on_a_cpu_large_depthwise_kernels_stay_in_fp32_and_all_else_is_bf16(
    compose_smoke, monkeypatch
):
    monkeypatch.setattr(hardware, "_cpu_flags", lambda: {"avx512_bf16"})
    fast = build(compose_smoke("hardware=fast", "hardware.device=cpu"), "hardware")
    kinds = {"5x5": (5, 1), "strided": (3, 2), "3x3": (3, 1)}
    layers = {name: nn.Conv2d(4, 4, k, s, groups=4) for name, (k, s) in kinds.items()}
    network = nn.ModuleDict(layers | {"1x1": nn.Conv2d(4, 4, 1)})
    fast.place_network(network)
    x = torch.rand(1, 4, 8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = {name: layer(x).dtype for name, layer in network.items()}
    low, full = torch.bfloat16, torch.float32
    assert found == {"5x5": full, "strided": full, "3x3": low, "1x1": low}
    torch.testing.assert_close(network["5x5"](x), nn.Conv2d.forward(network["5x5"], x))
    twin = copy.deepcopy(network)  # the copy computes with its own weights
    nn.init.zeros_(twin["5x5"].weight)
    assert twin["5x5"](x)[:, 0].std() < 1e-6 < network["5x5"](x)[:, 0].std()
