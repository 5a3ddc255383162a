"""The benchmarks run, check themselves, and compute ratios correctly."""

import importlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks import step
from benchmarks.__main__ import NAMES, main
from benchmarks.ledger import Ledger, Traffic
from benchmarks.measure import compare
from benchmarks.size import PAPER, TINY
from benchmarks.table import render

pytestmark = pytest.mark.slow


class Clock:
    """Time passes only where a way says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def way(self, *seconds):
        left = iter(seconds)

        def call():
            self.now += next(left)

        return call


def comparison(ours, obvious, **size):
    clock = Clock()
    return compare(
        "a", "b", ours=("c", clock.way(*ours)), obvious=("d", clock.way(*obvious)),
        size=replace(TINY, **size), clock=clock,
    )  # fmt: skip


def test_a_ratio_is_the_quotient_of_the_medians():
    # One call of each to see how long it takes, then three repeats.
    row = comparison([9, 1, 2, 4], [9, 6, 5, 100], least_repeats=3)
    assert (row.ours_seconds, row.obvious_seconds, row.ratio) == (2, 6, 3)
    assert (row.ratio_low, row.ratio_high) == (2.5, 25)


def test_short_calls_are_repeated_until_the_clock_resolves_them():
    row = comparison([0.25] * 5, [1.0] * 2, seconds=1.0)  # four calls a repeat, and one
    assert row.ratio == 4


def test_slow_comparisons_get_fewer_repeats_but_never_too_few():
    sizes = {"repeats": 9, "least_repeats": 3, "budget": 10.0}
    used = [comparison([s] * 10, [s] * 10, **sizes).repeats for s in (0.5, 1, 4)]
    assert used == [9, 5, 3]


def test_the_table_is_aligned():
    rows = [comparison([1] * 2, [s] * 2) for s in (1, 1234)]
    head, rule, *lines = render(rows).splitlines()
    assert {len(line) for line in (head, rule, *lines)} == {len(head)}
    assert [line.split()[6] for line in lines] == ["1.00", "1,234"]


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_runs_at_a_tiny_size_and_gives_ratios(name, tmp_path, capsys, monkeypatch):
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    file = tmp_path / "speed.json"
    assert main([name, "--json", str(file)], size=TINY) == 0
    printed, rows = capsys.readouterr().out, json.loads(file.read_text())["results"]
    assert rows
    for row in rows:
        assert row["case"] in printed
        assert row["ratio"] == row["obvious_seconds"] / row["ours_seconds"]
        assert math.isfinite(row["ratio"]) and row["ratio"] > 0


def one_percent_off(passes):
    passes.shared()
    for p in passes.student.parameters():
        if p.requires_grad:
            p.grad.mul_(1.01)


@pytest.mark.parametrize(
    ("name", "way", "wrong"),
    [
        ("data", "_Files.__getitem__", lambda files, i: np.zeros((96, 96), np.uint8)),
        ("ema", "_mul_add", lambda teacher, student: None),
        ("bootstrap", "_slow_ci", lambda frame, replicates: (0.0, 1.0)),
        ("student_pass", "_Passes.separate", one_percent_off),
        ("release_step", "_patch", lambda *given: None),
        ("release_step", "_contrast", lambda method, image, text, q: image.mean()),
    ],
)
def test_two_ways_that_disagree_are_not_timed(name, way, wrong, monkeypatch):
    monkeypatch.setattr(f"benchmarks.{name}.{way}", wrong)
    with pytest.raises(AssertionError):
        importlib.import_module(f"benchmarks.{name.removeprefix('release_')}").run(TINY)


def test_a_moment_is_booked_to_the_innermost_part_and_a_node_to_the_part_that_made_it():
    clock = Clock()
    book = Ledger(clock)
    inner = book.calls("trunk, forward", clock.way(2, 4))
    outer = book.calls("fusion and decoder, forward", lambda: (clock.way(1)(), inner()))
    outer()
    clock.way(100)()
    inner()
    book.enter("nothing")
    seconds = {"everything else": 100, "fusion and decoder, forward": 1, "trunk, forward": 6}
    assert book.seconds == seconds

    weight = torch.ones(3, requires_grad=True)
    twice = book.calls("trunk, forward", lambda x: 2 * x)
    loss = book.calls("loss, forward", torch.sum)(twice(weight))
    order = []
    book.enter = order.append  # instead of looking at the clock
    book.backward(torch.Tensor.backward)(loss)
    assert order[:2] == ["loss, backward", "trunk, backward"]


def test_a_depthwise_convolution_counts_its_own_operations_forward_and_backward():
    x, weight = torch.rand(1, 8, 5, 5, requires_grad=True), torch.rand(8, 1, 3, 3)
    weight.requires_grad_()
    with Traffic(Ledger()) as traffic:
        torch.nn.functional.conv2d(x, weight, groups=8).sum().backward()
    once = 2 * 8 * 9 * 9  # 9 places, 9 weights, 8 channels
    assert traffic.flop["everything else"] == 3 * once


def test_a_profile_names_every_part_of_a_step():
    from benchmarks.profile import profile

    words = (*TINY.steps["smoke size"], "augment=semi_medref", "align=pacl")
    text = profile(words, steps=1)
    for part in ("trunk, backward", "trunk for PACL, forward", "teacher", "EMA", "a step"):
        assert part in text


def test_the_batch_of_the_step_at_the_papers_shapes_can_be_chosen():
    steps = {PAPER: TINY.steps["smoke size"]}
    (row,) = step.run(replace(TINY, steps=steps, paper_batch=3))
    assert row.case == f"{PAPER}, 3 + 3 images"
    assert "images/s" in row.note and "% of our step is not" in row.note


def test_an_unknown_benchmark_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    assert "expected text, data" in capsys.readouterr().err


def test_a_sweep_whose_cells_grow_dearer_falls_short():
    from benchmarks.sweep_overhead import misses

    assert misses("in-process", {10: 0.9, 100: 0.3, 1000: 0.4}) == []
    assert misses("slurm", {10: 3.0, 100: 0.9, 1000: 0.8}) == []
    (slow,) = misses("in-process", {100: 0.51, 1000: 0.5})
    assert "0.51 s a cell of 100" in slow
    (growing,) = misses("joblib", {100: 0.3, 1000: 0.5})
    assert "not linear" in growing
