import pytest
import torch

from semimedref.gpu_check.cell import losses
from semimedref.gpu_check.checks import amp
from semimedref.gpu_check.curve import deviation


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_stays_near_fp32_and_is_not_fp32(setup, precision):
    finding = amp.compared(setup, precision)
    assert finding.state == "ok", finding.line()
    assert finding.values["logits"] > 1e-5 and finding.values["losses"] > 0


@pytest.mark.slow
def test_where_the_scaler_makes_no_update_the_reference_makes_none_either(setup):
    low = amp.cell(setup, "trainer.precision=fp16")
    low.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30)  # overflows half precision
    curve, skips = amp.scaled(low, 4)
    assert skips and 0 in skips
    same = deviation(curve, list(losses(amp.cell(setup), 4, without_update=skips)))
    other = deviation(curve, list(losses(amp.cell(setup), 4)))
    assert same.share < 0.5 * other.share


def test_a_relative_difference_is_that_of_the_norms():
    assert amp.relative(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 0.0])) == pytest.approx(4 / 3)


def test_a_gpu_without_bfloat16_skips_it(setup, monkeypatch):
    monkeypatch.setattr(setup.accelerator, "bf16", False)
    monkeypatch.setattr(amp, "compared", lambda setup, precision: precision)
    skipped, fp16 = amp.check(setup)
    assert skipped.state == "skipped" and fp16 == "fp16"
