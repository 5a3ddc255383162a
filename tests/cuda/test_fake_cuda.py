from pathlib import Path

import pytest
from fake_cuda import compile_shim, missing_tool, run_check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def report(shim):
    return run_check(Path(__file__).parent / "mmi_unet_step.py", "everything", shim=shim)


def test_full_size_step_makes_no_device_mistake_and_never_waits(report):
    assert report["step"] == {
        "logits": [8, 1, 224, 224],
        "gradients": 49_472_217,
        "device": "cuda:0",
        "precision": ["torch.float32", "torch.float32", "torch.bfloat16"],
    }


def test_every_seeded_bug_is_caught(report):
    assert len(report["bugs"]) == 13
    assert [name for name, error in report["bugs"].items() if error is None] == []


def test_hidden_wait_inside_transformers_is_seen(report):
    assert report["flat mask"] == "aten._local_scalar_dense.default"


@pytest.mark.parametrize(
    ("method", "losses"),
    [
        ("supervised", ["loss", "loss_sup"]),
        ("teacher_student", ["loss", "loss_sup", "loss_unsup"]),
        ("t_patchmix", ["loss", "loss_sup", "loss_unsup"]),
        ("semi_medref", ["loss", "loss_pacl_sup", "loss_pacl_unsup", "loss_sup", "loss_unsup"]),
    ],
)
def test_the_real_step_of_every_ladder_row_makes_no_device_mistake(shim, method, losses):
    heads = 592_128 + 1_182_720 if method == "semi_medref" else 0
    seen = run_check(Path(__file__).parent / "method_step.py", method, shim=shim)
    assert seen == {"losses": losses, "devices": ["cuda:0"], "gradients": 49_472_217 + heads}


def test_the_step_of_every_other_view_makes_no_device_mistake(shim):
    seen = run_check(Path(__file__).parent / "method_step.py", "other_views", shim=shim)
    assert len(seen) == 7 and all(devices == ["cuda:0"] for devices in seen.values())
