import csv
import re

import pytest

from semimedref.errors import UserError
from semimedref.planning.commands import plan_command
from semimedref.planning.text import number, plan_text
from semimedref.sweep import expand


def test_the_plan_says_what_is_there_and_what_it_will_cost(words, capsys):
    assert plan_command(words) == 0
    text = capsys.readouterr().out
    lines = [line.split() for line in text.splitlines()]
    assert text.startswith("quickstart: 4 cells, 4 runs: 4 missing\n")
    assert ["total", "4", "4", "4", "400", "16.6", "4.62", "4.0", "8.00"] in lines
    for said in (
        "Estimate    for your GPU (1.0 TFLOP/s in fp32)",
        "2.31 h on 2 GPUs at once",
        "4.0 GiB of 8",
        "8.00 GB of runs at the end, 28.0 GB while 2 train",
        "0.30 GB pretrained encoders",
    ):
        assert said in text
    assert "How the numbers come about" not in text


def test_the_formulas_come_on_demand(words, capsys):
    plan_command([*words, "why=true"])
    text = capsys.readouterr().out
    assert "speed = peak x sustained share = 1 TFLOP/s x 1 in fp32" in re.sub(r"\s+", " ", text)
    assert max(map(len, text.partition("How the numbers")[2].splitlines())) <= 100


def test_a_dry_run_gets_the_same_text(words, capsys):
    plan_command(words)
    assert plan_text(expand(words)) == capsys.readouterr().out


def test_a_gpu_that_is_too_small_is_said(words):
    assert "it does not fit" in plan_text(expand([*words, "gpu.memory_gib=2"]))


def test_numbers_are_written_as_csv(words, tmp_path, capsys):
    out = tmp_path / "plan.csv"
    plan_command([*words, f"out={out}"])
    assert f"written: {out}" in capsys.readouterr().out
    *rows, total = csv.DictReader(out.read_text().splitlines())
    assert [row["method"] for row in rows] == ["Baseline", "+ T-S EMA"]
    assert (total["runs"], total["missing"], total["queued"], total["to_do"]) == (
        "4",
        "4",
        "0",
        "4",
    )
    assert float(total["gpu_hours"]) == pytest.approx(4.624, abs=1e-3)
    assert total["gpu_bytes"] == str(4 * 2**30)


def test_one_row_may_be_planned(words, capsys):
    plan_command([*words, "only=Baseline"])
    assert capsys.readouterr().out.startswith("quickstart: 2 cells, 2 runs: 2 missing")


def test_nothing_left_is_said(words, finish):
    experiment = expand([*words, "ratio=2pct"])
    for cell in experiment.cells:
        finish(experiment, cell, done=True)
    assert "2 done\nnothing is left to do\n" in plan_text(experiment)


@pytest.mark.parametrize("wrong", ["out=plan.txt", "why=perhaps"])
def test_wrong_words_are_refused(words, wrong):
    with pytest.raises(UserError, match="expected"):
        plan_command([*words, wrong])


def test_small_numbers_are_not_printed_as_nothing():
    assert [number(x) for x in (0, 0.001, 0.5, 12.34, 1234.5)] == [
        "0.00", "< 0.01", "0.50", "12.3", "1,234"
    ]  # fmt: skip
