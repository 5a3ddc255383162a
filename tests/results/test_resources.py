import csv

import pytest

from semimedref.errors import UserError
from semimedref.results import columns, render, resources
from semimedref.results.latex import latex
from semimedref.results.report import render_page
from semimedref.results.table import build_table

ALL = ("parameters", "step_ms", "memory_mb")


def took(step=None, memory=500e6, learns=1_100_000, machine="Xeon", threads=2):
    return {
        "parameters": {"total": 9_000_000, "trainable": learns},
        "peak_memory_bytes": int(memory),
        "environment": {"processor": machine},
        "precision": {"training": "fp32", "threads": threads},
    } | ({} if step is None else {"step_seconds": step})


@pytest.fixture
def table(lab):
    """Two rows of three seeds: median step 0.25 and 0.04 s, most memory 700 and 500 MB."""
    lab.options["resources"] = ALL
    for seed, step, memory in (("s0", 0.2, 7e8), ("s1", 0.9, 5e8), ("s42", 0.25, 6e8)):
        lab.finish(lab.cell(row="Slow", seed=seed), result=took(step, memory))
        lab.finish(lab.cell(row="Fast", seed=seed), result=took(0.04, learns=45_678))
    return build_table(lab.experiment)


def test_the_step_is_a_median_and_memory_the_most_over_seeds(table):
    slow, fast = (entry.cost for entry in table.entries)
    assert slow == pytest.approx({"parameters": 1.1e6, "step_ms": 250.0, "memory_mb": 700.0})
    assert fast == pytest.approx({"parameters": 45_678, "step_ms": 40.0, "memory_mb": 500.0})


def test_terminal_and_markdown_show_them_after_the_scores(table):
    head = render.header(table)
    assert head[-4:] == ["Trainable", "Step, ms", "Memory, MB", "seeds"]
    assert [line[-4:] for line in render.body(table)] == [
        ["1.10 M", "250", "700", "3 of 3"],
        ["45.7 k", "40.0", "500", "3 of 3"],
    ]
    for text in (render.terminal(table, [], style=False), render.markdown(table, [])):
        assert "median optimizer step with its data, of the last stage" in text
        assert "Warning" not in text


def test_csv_latex_and_html_hold_the_same_numbers(table):
    rows = csv.DictReader(render.csv_text(table).splitlines())
    found = {(r["row"], r["metric"]): r["mean"] for r in rows}
    assert found["Slow", "parameters"] == "1100000" and found["Fast", "memory_mb"] == "500.0"
    assert float(found["Slow", "step_ms"]) == pytest.approx(250.0)
    text = latex(table)
    assert "Trainable & Step, ms & Memory, MB" in text and "& 1.10 M & 250 & 700" in text
    assert "memory: peak of the process" in text
    page = render_page(table, overrides=(), extra=())
    assert "Memory, MB" in page and "45.7 k" in page and "memory: peak of the process" in page


def test_what_is_small_is_not_marked_as_best(table):
    shown = columns.columns(table)
    marked = {shown[n].kind for entry in table.entries for n in columns.best(table, entry)}
    assert marked == {"score"}


def test_a_result_without_the_time_of_a_step_gets_a_dash(lab):
    lab.options["resources"] = ALL
    lab.finish(lab.cell(), result=took() | {"wall_seconds": 61.0, "steps": 1000})
    lab.cell(row="Not trained")
    cells = [line[-4:-1] for line in render.body(build_table(lab.experiment))]
    assert cells == [["1.10 M", "–", "500"], ["–", "–", "–"]]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"machine": "Epyc"}, "different machines (Epyc, Xeon)"),
        ({"threads": 1}, "different numbers of threads (1, 2)"),
    ],
)
def test_other_machines_and_threads_are_warned_of(lab, other, said):
    lab.options["resources"] = ("step_ms",)
    lab.finish(lab.cell(row="One"), result=took(0.1))
    lab.finish(lab.cell(row="Two"), result=took(0.1, **other))
    warned = [note for note in build_table(lab.experiment).notes if note.startswith("Warning")]
    assert len(warned) == 1 and said in warned[0] and "cannot be compared" in warned[0]


def test_weights_alone_do_not_depend_on_the_machine(lab):
    lab.options["resources"] = ("parameters",)
    lab.finish(lab.cell(row="One"), result=took(machine="Xeon"))
    lab.finish(lab.cell(row="Two"), result=took(machine="Epyc"))
    assert build_table(lab.experiment).notes == ("Trainable: weights that learn in what predicts.",)


def test_a_misspelt_resource_is_refused(lab):
    lab.options["resources"] = ("memory",)
    lab.cell()
    with pytest.raises(UserError, match="'memory': expected of parameters, step_ms, memory_mb"):
        build_table(lab.experiment)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (999, "999"), (1000, "1.0 k"), (999_949, "999.9 k"), (999_950, "1.00 M")],
)
def test_weights_are_printed_with_a_unit_that_fits(number, shown):
    assert resources.text("parameters", number) == shown
