"""Reading a published checkpoint: what is unwrapped, and what is refused."""

import argparse
import os
import pickle

import pytest
import torch
from safetensors.torch import save_file

from semimedref.errors import UserError
from semimedref.model.published.checkpoint import read

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(7)}


def saved(folder, content, name="c.pth"):
    torch.save(content, folder / name)
    return folder / name


def is_state(found):
    return found.keys() == STATE.keys() and all(torch.equal(found[k], STATE[k]) for k in STATE)


def before(prefix):
    return {prefix + key: tensor for key, tensor in STATE.items()}


@pytest.mark.parametrize(
    ("content", "prefix"),
    [
        (STATE, ""),
        ({"state_dict": STATE, "epoch": 3}, ""),
        ({"model": STATE, "args": argparse.Namespace(lr=0.1)}, ""),
        ({"model": "LViT", "state_dict": STATE}, ""),
        ({"state_dict": before("model.")}, "model."),
        (before("module."), "module."),
        ({"state_dict": before("module.model.")}, "module.model."),
    ],
)
def test_wrappers_and_prefixes_are_taken_off(tmp_path, content, prefix):
    found = read(saved(tmp_path, content))
    assert is_state(found.tensors)
    assert found.prefix == prefix


def test_a_prefix_that_not_all_names_have_stays(tmp_path):
    found = read(saved(tmp_path, {"model.a": torch.zeros(1), "b": torch.zeros(1)}))
    assert set(found.tensors) == {"model.a", "b"} and not found.prefix


def test_safetensors_are_read(tmp_path):
    save_file(STATE, tmp_path / "c.safetensors")
    assert is_state(read(tmp_path / "c.safetensors").tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_become_float32_and_are_remembered(tmp_path, dtype):
    found = read(saved(tmp_path, {"a": torch.ones(2, dtype=dtype), "b": torch.ones(2)}))
    assert {t.dtype for t in found.tensors.values()} == {torch.float32}
    assert found.dtypes == {"a": str(dtype).removeprefix("torch.")}


class Malicious:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("plain_pickle", [True, False])
def test_code_in_a_file_is_refused_and_not_run(tmp_path, plain_pickle):
    path, mark = tmp_path / "evil.pth", tmp_path / "ran"
    content = {"state_dict": STATE, "hyper": Malicious(mark)}
    if plain_pickle:
        path.write_bytes(pickle.dumps({"hyper": Malicious(mark)}))
    else:
        torch.save(content, path)
    with pytest.raises(UserError) as raised:
        read(path)
    assert not mark.exists()
    assert "needs code to be read" in str(raised.value)
    assert "save_file" in str(raised.value) and "evil.safetensors" in str(raised.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(tmp_path, value):
    path = saved(tmp_path, {"a": torch.zeros(2), "b": torch.tensor([0.0, value])})
    with pytest.raises(UserError, match=r"1 of 2 tensors hold NaN or infinite values, e\.g\. b:"):
        read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], "holds list: expected tensors by name"),
        ({}, "expected tensors by name"),
        ({"a": torch.zeros(1), "epoch": 3}, "holds no state dict: epoch is no tensor"),
        ({"a": torch.zeros(1, dtype=torch.complex64)}, "complex"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path, content, words):
    with pytest.raises(UserError, match=words):
        read(saved(tmp_path, content))


def test_damaged_files_are_refused(tmp_path):
    path = saved(tmp_path, STATE)
    path.write_bytes(path.read_bytes()[:-200])
    (tmp_path / "c.safetensors").write_bytes(b"no tensors at all")
    for damaged in (path, tmp_path / "c.safetensors"):
        with pytest.raises(UserError, match="cannot be read as a checkpoint"):
            read(damaged)
    for missing, what in ((tmp_path / "none.pth", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(UserError, match=what):
            read(missing)


def test_a_teachers_copy_beside_the_network_stays_apart(tmp_path):
    content = {"model.a": torch.ones(1), "ema_model.a": torch.zeros(1)}
    found = read(saved(tmp_path, {"state_dict": content}))
    assert found.tensors == {"a": torch.ones(1), "ema_model.a": torch.zeros(1)}
    from semimedref.model.published.catalog import source_of

    reason = source_of("textmoe_seg").reason
    assert "teacher" in reason("ema_model.a")
    assert "counter" in reason("inc.conv.total_ops") and "counter" in reason("total_params")
    only = read(saved(tmp_path, {"ema_model.a": torch.zeros(1)}))
    assert set(only.tensors) == {"ema_model.a"}
