import copy
import json

import pytest
import torch

from semimedref.gpu_check import trace
from semimedref.gpu_check.checks import determinism
from semimedref.method.teacher_student import TeacherStudent

TRACE = {"losses": {"0": {"loss": "0x1p+0"}, "1": {"loss": "0x1p-1"}}, "tensors": {"a": "12"}}


def test_equal_traces_are_equal_to_the_last_bit():
    finding = determinism.compared("x", TRACE, TRACE)
    assert finding.state == "ok" and "2 losses and 1 tensors" in finding.found


def test_a_resumed_trace_needs_only_its_own_steps():
    later = {**TRACE, "losses": {"1": TRACE["losses"]["1"]}}
    assert determinism.compared("x", later, TRACE).state == "ok"
    assert determinism.compared("x", {**TRACE, "losses": {}}, TRACE).state == "failed"


def test_the_first_step_at_which_losses_part_is_named():
    other = copy.deepcopy(TRACE)
    other["losses"]["1"]["loss"] = "0x1.0000000000001p-1"
    finding = determinism.compared("x", other, TRACE)
    assert finding.state == "failed" and finding.found == "the losses part at step 2"


def test_a_tensor_that_differs_is_named():
    finding = determinism.compared("x", {**TRACE, "tensors": {"a": "13"}}, TRACE)
    assert finding.state == "failed" and finding.values["different"] == ["a"]


def test_operators_are_read_from_torchs_messages():
    messages = [
        "upsample_bicubic2d_backward_out_cuda does not have a deterministic implementation, but "
        "you set 'torch.use_deterministic_algorithms(True)'.",
        "something else",
    ]
    assert trace.operators(messages) == ["upsample_bicubic2d_backward_out_cuda"]


def test_every_operator_that_torch_refuses_is_reported(setup, monkeypatch):
    step = TeacherStudent.step

    def put(self, *args):  # no deterministic kernel, on a CPU neither
        torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        return step(self, *args)

    monkeypatch.setattr(TeacherStudent, "step", put)
    overrides = setup.overrides(*setup.settings["size"], *setup.last_row)
    out = setup.folder / "trace.json"
    trace.main({"overrides": overrides, "stop": 1, "folder": str(setup.folder), "out": str(out)})
    assert json.loads(out.read_text())["alerts"] == ["put_"]
    assert "put_" in determinism._alert(["put_"]).line()


@pytest.mark.slow
def test_two_processes_and_a_resumed_one_give_the_same_bits(setup):
    both, resumed = determinism.check(setup)
    assert (both.state, resumed.state) == ("ok", "ok"), (both.line(), resumed.line())
    assert both.values["cublas_workspace"] == ":4096:8"
    assert both.values["tensors"] > 100
