import pytest
import torch

from semimedref.gpu_check.checks import matmul, speed


def test_operations_are_products_times_two():
    a, b = torch.ones(3, 5), torch.ones(5, 7)
    assert speed.operations(lambda: a @ b) == 2 * 3 * 5 * 7


def test_a_depthwise_convolution_counts_its_groups_in_both_directions():
    layer = torch.nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
    image = torch.ones(2, 6, 8, 8)
    forward = 2 * 2 * 6 * 9 * 8 * 8
    assert speed.operations(lambda: layer(image).sum().backward()) == 2 * forward


def test_the_numbers_of_a_step_belong_together(setup):
    values = speed.measured(setup, [*setup.settings["size"], *setup.last_row])
    assert values["images_per_second"] == 8 / values["step_seconds"]  # 4 labeled, 4 unlabeled
    assert values["tflops"] == values["flop_per_step"] / values["step_seconds"] / 1e12
    assert values["flop_per_step"] > 1e6 and values["allocated_bytes"] > 1e6


def measured_if_at_most(size):
    """A device whose memory holds so many labeled images."""

    def measured(setup, cell):
        asked = [int(o.partition("=")[2]) for o in cell if o.startswith("trainer.batch_size=")]
        batch = asked[-1] if asked else 4
        if batch > size:
            raise torch.OutOfMemoryError("out of memory")
        numbers = dict.fromkeys(
            ("step_seconds", "images_per_second", "allocated_bytes", "tflops"), 1.0
        )
        return numbers | {"batch_size": batch, "total_bytes": 2**30}

    return measured


def test_a_batch_that_does_not_fit_is_halved_until_it_does(setup, monkeypatch):
    monkeypatch.setattr(speed, "measured", measured_if_at_most(1))
    finding = speed.fitting(setup, "Baseline", list(setup.settings["size"]))
    assert finding.state == "failed" and finding.values["batch_size"] == 1
    assert "4 + 4 images do not fit; 1 + 1 do" in finding.found
    assert "trainer.batch_size=1 trainer.accumulate=4" in finding.advice


def test_where_nothing_fits_it_says_so(setup, monkeypatch):
    monkeypatch.setattr(speed, "measured", measured_if_at_most(0))
    finding = speed.fitting(setup, "Baseline", list(setup.settings["size"]))
    assert finding.state == "failed" and "4 + 4" in finding.expected


def test_every_row_and_further_precisions_of_the_last_are_measured(setup, monkeypatch):
    cells = []
    monkeypatch.setattr(speed, "measured", lambda setup, cell: cells.append(cell) or {
        "batch_size": 4, "step_seconds": 1.0, "images_per_second": 8.0, "allocated_bytes": 1.0,
        "tflops": 1.0})  # fmt: skip
    monkeypatch.setitem(setup.settings["speed"], "precisions", ["tf32", "bf16"])
    found = list(speed.check(setup))
    assert [f.subject for f in found[:5]] == list(setup.ladder)
    assert [(f.subject, f.state) for f in found[5:]] == [
        ("+ PACL (Ours), tf32", "skipped"),
        ("+ PACL (Ours), bf16", "ok"),
    ]
    assert cells[-1][-1] == "trainer.precision=bf16"


def test_a_matrix_product_is_measured_in_every_precision_and_flags_are_put_back(setup):
    before = torch.backends.cuda.matmul.allow_tf32
    found = {f.subject: f for f in matmul.check(setup)}
    assert [f.state for f in found.values()] == ["ok", "skipped", "ok", "ok"]
    fp32 = found["fp32"].values
    assert fp32["tflops"] == pytest.approx(2 * 128**3 / fp32["seconds"] / 1e12)
    assert torch.backends.cuda.matmul.allow_tf32 == before
