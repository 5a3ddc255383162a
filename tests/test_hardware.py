"""The device of a run: what is there, and what a cluster has promised."""

import pytest

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
