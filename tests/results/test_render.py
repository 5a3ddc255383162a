import csv
import io

import pytest

from semimedref.results import render
from semimedref.results.comparison import compare_rows
from semimedref.results.table import Score, build_table


@pytest.fixture
def table(lab):
    for row, hits in (("Baseline", 60), ("Teacher-student", 80)):
        for seed, more in (("s0", 0), ("s1", 5)):
            tp = hits + more
            rows = [(f"i{i}", f"p{i}", tp + i % 3, 10, 100 - tp - i % 3) for i in range(12)]
            lab.finish(lab.cell(row=row, seed=seed), rows)
    return build_table(lab.experiment)


def lines_of(text):
    return text.splitlines()


def test_score_prints_percent_with_deviation_only_for_several_seeds():
    assert render.format_score(Score((0.5, 0.6))) == "55.00 ± 7.07"
    assert render.format_score(Score((0.5,))) == "50.00"
    assert render.format_score(Score(())) == "–"
    assert render.format_ci(Score((0.5,), (0.412, 0.589))) == "[41.2, 58.9]"


def test_option_names_are_printed_for_the_eye():
    assert [render.pretty(x) for x in ("2pct", "0_5pct", "pct", "s42")] == [
        "2 %",
        "0.5 %",
        "pct",
        "s42",
    ]


def test_p_value_is_never_printed_as_zero():
    assert render.format_p(1 / 20_001) == "p < 0.001"
    assert render.format_p(0.0421) == "p = 0.042"


def test_terminal_table_is_aligned_and_plain_without_a_terminal(table):
    text = render.terminal(table, [], style=False)
    head, rule, *rows = lines_of(text)[2:6]
    assert "\x1b" not in text
    assert len(head) == len(rule) == len(rows[0]) == len(rows[1])
    assert rows[0].startswith("2 %    Baseline ")
    assert rows[1].startswith("       Teacher-student ")
    assert all(row.endswith("2 of 2") for row in rows)


def test_terminal_bold_adds_only_escape_codes(table):
    styled = render.terminal(table, [], style=True)
    plain = styled.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert styled != plain
    stripped = [line.rstrip() for line in lines_of(plain)]
    assert stripped == lines_of(render.terminal(table, [], style=False))


def test_best_value_is_bold_only_when_every_row_is_complete(lab, table):
    text = render.markdown(table, [])
    (row,) = [line for line in lines_of(text) if "Teacher-student" in line]
    assert row.count("**") == 4  # Dice and mIoU, not the text gap
    lab.cell(row="Baseline", seed="s42")
    assert "**" not in render.markdown(build_table(lab.experiment), [])


def test_comparison_is_a_sentence_with_interval_and_p(table):
    (sentence,) = map(render.comparison_sentence, compare_rows(table))
    assert sentence.startswith("Teacher-student, 2 %, minus Baseline: +")
    assert "paired by patient p = 0.00" in sentence
    assert sentence.endswith("s0, s1, 12 images of 12 patients.")


def test_oracle_stands_under_the_table_when_the_results_carry_it(table):
    assert "Dice 58.50." in render.terminal(table, [], style=False)


def test_small_text_gap_is_noted_and_a_large_one_is_not(lab):
    for row, gap in (("Blind", 0.0499), ("Inverse", -0.2), ("Reader", 0.05)):
        lab.finish(lab.cell(row=row), text_gap=gap)
    notes = [
        line for line in render.findings(build_table(lab.experiment), []) if "text gain" in line
    ]
    assert notes == [
        "Blind, 2 %: text gap 4.99 is under 5 points, no text gain is claimed.",
        "Inverse, 2 %: text gap -20.00 is under 5 points, no text gain is claimed.",
    ]


def test_missing_and_failed_cells_come_with_their_command(lab):
    lab.finish(lab.cell(seed="s0"))
    failed = lab.start(lab.cell(seed="s1"))
    (failed / "failure.json").write_text('{"error": "boom"}')
    missing = lab.cell(seed="s42")
    table = build_table(lab.experiment)
    expected = [
        "failed: Baseline, 2 %, s1:  semimedref train -m experiment=quickstart "
        f"only={failed.name} retry_failed=true",
        "missing: Baseline, 2 %, s42:  semimedref train -m experiment=quickstart "
        f"only={missing.name}",
    ]
    assert render.unfinished(table) == expected
    assert "1 of 3" in render.terminal(table, [], style=False)
    assert expected[1] in render.markdown(table, [])


def test_many_missing_cells_end_in_one_command_for_all(lab):
    for seed in range(30):
        lab.cell(seed=f"s{seed}")
    lines = render.unfinished(build_table(lab.experiment))
    assert len(lines) == 9
    assert lines[-1] == "… and 22 more:  semimedref train -m experiment=quickstart"


def test_csv_is_long_form_in_fractions(table):
    rows = list(csv.DictReader(io.StringIO(render.csv_text(table))))
    assert len(rows) == 2 * 3
    first = rows[0]
    assert list(first) == [
        *("row", "ratio", "metric", "mean", "std", "n", "n_expected"),
        *("ci_low", "ci_high", "seeds"),
        *("paper", "paper_std", "paper_family", "difference", "seed_noise"),
    ]
    assert (first["row"], first["ratio"], first["metric"]) == ("Baseline", "2pct", "dice")
    assert (first["n"], first["n_expected"], first["seeds"]) == ("2", "2", "s0 s1")
    assert float(first["ci_low"]) < float(first["mean"]) < float(first["ci_high"]) < 1
    assert rows[1]["ci_low"] == ""


def test_csv_of_an_empty_cell_has_no_numbers(lab):
    lab.cell()
    (row, _) = csv.DictReader(io.StringIO(render.csv_text(build_table(lab.experiment))))
    assert (row["mean"], row["std"], row["n"], row["n_expected"]) == ("", "", "0", "1")


def test_markdown_escapes_what_would_break_the_table(lab):
    lab.finish(lab.cell(row="a|b <i>*x*_"))
    assert r"a\|b \<i\>\*x\*\_" in render.markdown(build_table(lab.experiment), [])
