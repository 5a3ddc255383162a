"""The numbers of a figure are the table's, and its lines differ without their color."""

import matplotlib
import pytest

from semimedref.errors import UserError
from semimedref.results.figure import sensitivity as settings
from semimedref.results.figure import style
from semimedref.results.figure.label_efficiency import label_efficiency
from semimedref.results.figure.rows import rows
from semimedref.results.figure.sensitivity import sensitivity
from semimedref.results.table import build_table
from tests.results.figure.conftest import counts


def drawn(figure):
    with matplotlib.rc_context(style.RC):
        return figure.draw()


def by_key(figure, *keys):
    head, *lines = figure.table
    records = [dict(zip(head, line, strict=True)) for line in lines]
    return {tuple(r[k] for k in keys): r for r in records}


def named_lines(ax):
    return [line for line in ax.lines if not line.get_label().startswith("_")]


def test_label_efficiency_has_the_tables_means_and_each_seed(ratios):
    found = by_key(label_efficiency(ratios), "row", "labeled, %")
    assert len(found) == 6
    for entry in ratios.entries:
        score = entry.scores["dice"]
        line = found[entry.row, 100 * entry.runs[0].cell.config["ratio"]["fraction"]]
        assert line["mean"] == pytest.approx(100 * score.mean, abs=1e-4)
        assert line["lowest"] == pytest.approx(100 * min(score.values), abs=1e-4)
        assert line["highest"] == pytest.approx(100 * max(score.values), abs=1e-4)
        assert [float(v) for v in line["seeds"].split()] == pytest.approx(
            [100 * v for v in score.values], abs=1e-4
        )
    assert found["Ours", 15.0]["n"] == 1


def test_the_drawn_line_has_the_numbers_of_the_sidecar(ratios):
    figure = label_efficiency(ratios)
    (ax,) = drawn(figure).axes
    found = by_key(figure, "row", "labeled, %")
    for line in named_lines(ax):
        means = [found[line.get_label(), share]["mean"] for share in (2.0, 5.0, 15.0)]
        assert list(line.get_ydata()) == pytest.approx(means, abs=1e-4)
    assert ax.get_xscale() == "log"


def test_lines_differ_in_gray_too(ratios):
    (ax,) = drawn(label_efficiency(ratios)).axes
    lines = named_lines(ax)
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 2


def test_one_share_is_no_curve(lab):
    lab.finish(lab.cell())
    with pytest.raises(UserError, match="two labeled shares, found 1"):
        label_efficiency(build_table(lab.experiment))


def test_a_further_column_is_a_panel(lab):
    lab.columns = ["dataset", "ratio"]
    for dataset in ("qata_cov19", "mosmed_plus"):
        for ratio, share in (("2pct", 0.02), ("5pct", 0.05)):
            cell = lab.cell(dataset=dataset, ratio=ratio, config=lab.config("ispg", share))
            lab.finish(cell, counts(0.5))
    canvas = drawn(label_efficiency(build_table(lab.experiment)))
    assert [ax.get_title(loc="left") for ax in canvas.axes] == ["QaTa-COV19", "MosMedData+"]


def test_forest_has_the_tables_means_and_intervals(ratios):
    found = by_key(rows(ratios), "row", "ratio")
    assert len(found) == len(ratios.entries)
    for entry in ratios.entries:
        score, line = entry.scores["dice"], found[entry.row, entry.column[0]]
        assert line["mean"] == pytest.approx(100 * score.mean, abs=1e-4)
        assert (line["CI low"], line["CI high"]) == pytest.approx(
            [100 * v for v in score.ci], abs=1e-4
        )
    assert [ax.get_title(loc="left") for ax in drawn(rows(ratios)).axes] == ["2 %", "5 %", "15 %"]


def test_a_row_without_a_result_is_listed_and_not_drawn(lab):
    lab.finish(lab.cell(row="A"))
    lab.cell(row="B")
    found = by_key(rows(build_table(lab.experiment)), "row")
    assert found["B",]["mean"] is None and found["B",]["n"] == 0


def test_without_any_result_the_command_is_named(lab):
    lab.cell()
    with pytest.raises(UserError, match="semimedref train -m experiment=quickstart"):
        rows(build_table(lab.experiment))


def test_factors_values_and_the_shared_default_are_read_from_the_rows(factors):
    found = settings.read(factors)
    assert {f: [s.value for s in of] for f, of in found.items()} == {
        "lambda_pacl_sup": ["0.02", "0.01", "0.04"],
        "tau": ["0.07", "0.03", "0.10"],
        "pseudo_label": ["soft T=0.05", "hard"],
    }
    default = [(s.factor, s.value) for of in found.values() for s in of if s.default]
    assert default == [("lambda_pacl_sup", "0.02"), ("tau", "0.07")]


def test_a_default_may_be_known_from_the_experiment_or_written(factors, lab):
    hard = factors.entries[-1].runs[0].cell.signature
    found = settings.read(factors, lambda: frozenset({hard}))
    assert [s.value for of in found.values() for s in of if s.default] == ["hard"]
    lab.finish(lab.cell(row="delta = 0.5 (default)"))
    lab.finish(lab.cell(row="delta = 0.6"))
    found = settings.read(build_table(lab.experiment))
    assert [(s.value, s.default) for s in found["delta"]] == [("0.5", True), ("0.6", False)]


def test_sensitivity_has_the_tables_numbers_in_the_order_of_the_values(factors):
    figure = sensitivity(factors)
    found = by_key(figure, "factor", "value")
    for entry in factors.entries:
        factor, value = entry.row.split(" = ")
        assert found[factor, value]["mean"] == pytest.approx(
            100 * entry.scores["dice"].mean, abs=1e-4
        )
    first, second, third = (ax for ax in drawn(figure).axes if ax.get_visible())
    (line,) = named_lines(first)
    assert list(line.get_xdata()) == [0.01, 0.02, 0.04]  # sorted, whatever the rows' order
    assert (first.get_xscale(), second.get_xscale()) == ("log", "linear")
    (line,) = named_lines(third)
    assert line.get_linestyle() == "None"  # between words there is nothing


def test_a_table_without_factors_has_no_sensitivity(ratios):
    with pytest.raises(UserError, match="factor = value"):
        sensitivity(ratios)
