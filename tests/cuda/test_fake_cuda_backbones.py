"""Every network takes a step at its published size, alone and under Semi-MedRef, without a GPU."""

from pathlib import Path

import pytest
from fake_cuda import compile_shim, missing_tool, run_check

from semimedref.config import config_dir

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_tool() is not None, reason=str(missing_tool())),
]
COUNTED = {"text_atlas", "mean_mask"}  # nothing to train
NAMES = sorted({f.stem for f in Path(config_dir(), "model").glob("*.yaml")} - COUNTED)
# Parameters that receive a gradient in a supervised step, as the specifications count them.
GRADIENTS = {"mmi_unet": 49_472_217, "guide_decoder": 42_176_545, "fmiseg": 107_757_890}
LOSSES = {
    "alone": ["loss", "loss_sup"],
    "semi": ["loss", "loss_pacl_sup", "loss_pacl_unsup", "loss_sup", "loss_unsup"],
}


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize("name", NAMES)
def test_a_full_size_step_makes_no_device_mistake_and_never_waits(shim, name):
    seen = run_check(Path(__file__).parent / "backbone_step.py", name, shim=shim)
    for kind, losses in LOSSES.items():
        expected = [one for one in losses if name != "unet" or "pacl" not in one]
        assert seen[kind]["losses"] == expected
        assert seen[kind]["devices"] == ["cuda:0"]
    assert seen["alone"]["gradients"] == GRADIENTS.get(name, seen["alone"]["gradients"])
