"""The settings of the rehearsal: every check runs for real, small and on the CPU."""

import pytest
import torch

from semimedref.config import compose, resolved
from semimedref.gpu_check.accelerator import accelerator
from semimedref.gpu_check.cell import Setup
from semimedref.gpu_check.tf32 import kept_flags


@pytest.fixture(scope="session")
def settings():
    return resolved(compose(["gpu_check=rehearsal"]))["gpu_check"]


@pytest.fixture
def setup(settings, tmp_path):
    return Setup(settings, accelerator("cpu"), tmp_path)


@pytest.fixture(autouse=True)
def switches():
    """A check sets torch's global switches: it has a process of its own, a test has not."""
    before = torch.are_deterministic_algorithms_enabled()
    with kept_flags():
        yield
    if torch.are_deterministic_algorithms_enabled() != before:
        torch.use_deterministic_algorithms(before)
