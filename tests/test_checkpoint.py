import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from semimedref import checkpoint
from semimedref.errors import UserError


def test_a_checkpoint_comes_back_equal(tmp_path):
    state = {"step": 3, "weights": {"a": torch.arange(4.0)}, "best": {"val/dice": 0.5}}
    checkpoint.save(state, tmp_path / "last.pt")
    back = checkpoint.load(tmp_path / "last.pt")
    assert back["step"] == 3 and torch.equal(back["weights"]["a"], torch.arange(4.0))
    assert [f.name for f in tmp_path.iterdir()] == ["last.pt"]


def test_random_states_survive_the_safe_loader(tmp_path):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    checkpoint.save(checkpoint.random_state(), tmp_path / "r.pt")
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    checkpoint.restore_random_state(checkpoint.load(tmp_path / "r.pt"))
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_truncated_file_is_one_clear_error(tmp_path, content):
    path = tmp_path / "last.pt"
    checkpoint.save({"a": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:700] if content is None else content)
    with pytest.raises(UserError, match="truncated or no checkpoint"):
        checkpoint.load(path)


def test_pickled_code_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("executed",))

    torch.save({"a": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(UserError):
        checkpoint.load(tmp_path / "evil.pt")


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path):
    path = tmp_path / "last.pt"
    checkpoint.save({"step": 1}, path)
    code = f"""
import resource, signal, torch
from pathlib import Path
from semimedref import checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
try:
    checkpoint.save({{"step": 2, "big": torch.zeros(100000)}}, Path({str(path)!r}))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("UserError could not write"), done.stdout + done.stderr
    assert checkpoint.load(path)["step"] == 1
    assert [f.name for f in tmp_path.iterdir()] == ["last.pt"]
