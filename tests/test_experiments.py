"""Every experiment file: its cells compose, make sense, and stand where the paper has them."""

import re

import pytest

from semimedref import config
from semimedref.combinations import check_combination
from semimedref.errors import UserError
from semimedref.results.reported import known_tables, load_table
from semimedref.sweep import expand, known_experiments

pytestmark = pytest.mark.slow

TABLES = {*known_tables(), "significance"}
OURS_2 = ["dataset=qata_cov19", "scale=paper", "ratio=2pct", "method=teacher_student",
          "augment=semi_medref", "align=pacl", "seed=s42"]  # fmt: skip


@pytest.mark.parametrize("name", known_experiments())
def test_every_cell_of_every_experiment_composes_and_stands_where_the_paper_has_it(name):
    experiment = expand([f"experiment={name}"])
    assert experiment.name == name
    for cell in experiment.cells:
        check_combination(cell.config)
        assert {*experiment.columns, experiment.over} <= set(cell.point)
    for cell in experiment.cells[-1:]:  # seeds and other values were exchanged in it
        assert cell.config == config.resolved(config.compose(list(cell.overrides)))
    if experiment.paper:
        assert experiment.paper == name and experiment.scale == "paper"
        check_places(experiment, load_table(name))


def check_places(experiment, paper):
    """Each row at each place has the paper's values, and nothing of the paper is left over."""
    assert set(paper.rows) <= set(experiment.rows)
    for row in set(experiment.rows) - set(paper.rows):  # controls, reconstructions
        assert row.endswith((" (no text)", " (no image)")) or " (recon)" in row
    used = set()
    for row in experiment.rows:
        for place in experiment.places:
            found = paper.look(row, place)
            used |= {(row, *place.values(), metric) for metric in found}
            known = {*experiment.metrics, *experiment.cost}
            assert set(found) <= known, (row, place)
    published = [r for r in paper.records if not r["metric"].endswith("_std")]
    assert len(used) == len(published)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_table_of_the_paper_has_its_experiment(name):
    assert name in known_experiments()


def test_the_paper_has_the_numbers_of_cells_that_it_says():
    sizes = {n: len(load_table(n).records) for n in known_tables()}
    assert sizes == {
        "additional_backbones": 160, "alignment_analysis": 8, "augmentation_ablation": 8,
        "component_ablation": 20, "delta_sensitivity": 12, "ispg_removal_matrix": 32,
        "ispg_robustness": 48, "main": 272, "patch_mixing": 12, "position_predictors": 15,
        "posmed": 32, "sensitivity_2pct": 12, "sensitivity_5pct": 22,
    }  # fmt: skip


def test_ours_at_two_percent_stands_in_seven_tables_and_trains_once():
    ours = config.signature(config.resolved(config.compose(OURS_2)))
    names = ("main", "component_ablation", "augmentation_ablation", "patch_mixing", "significance",
             "sensitivity_2pct", "alignment_analysis")  # fmt: skip
    cells = [cell for name in names for cell in expand([f"experiment={name}"]).cells]
    assert sum(cell.signature == ours for cell in cells) == len(names) + 1  # twice in sensitivity
    # main 408, ladder 42, augmentation 30, mixing 12, test 2, sensitivity 18, alignment 6
    assert len(cells) == 518
    # again: ladder 6 at 2 % of main; augmentation 9 (T-S EMA, V2, All are known); two controls in
    # each of them; mixing 3, test 2, sensitivity 6 (both defaults), alignment 6 (CLIP is V3)
    assert len({cell.signature for cell in cells}) == 518 - 6 - 9 - 2 * 6 - 3 - 2 - 6 - 6


def test_a_file_that_kept_the_name_of_its_parent_is_refused(tmp_path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (folder / "mine.yaml").write_text("# @package _global_\ndefaults: [quickstart, _self_]\n")
    with pytest.raises(UserError, match="set experiment_name: mine"):
        expand(["experiment=mine", f"hydra.searchpath=[file://{tmp_path}]"])


def test_a_remark_on_a_row_that_is_not_there_is_refused():
    with pytest.raises(UserError, match=r"table\.remarks .* names 'Nobody', which is no row"):
        expand(["experiment=quickstart", "+table.remarks={Nobody: nothing}"])


def test_another_run_root_costs_no_composition(tmp_path, monkeypatch):
    first = expand(["experiment=quickstart", "run_root=here"]).cells
    calls = []
    real = config.compose
    monkeypatch.setattr(config, "compose", lambda o, **k: calls.append(o) or real(o, **k))
    again = expand(["experiment=quickstart", f"run_root={tmp_path}"])
    assert len(calls) == 1  # the experiment itself; none of its cells
    assert again.run_root == tmp_path
    assert [c.signature for c in first] == [c.signature for c in again.cells]
    for cell in again.cells:
        assert cell.config == config.resolved(real(list(cell.overrides)))
        assert cell.config["run_root"] == str(tmp_path)


def test_one_ispg_training_gives_three_rows():
    cells = expand(["experiment=ispg_robustness", "dataset=qata_cov19", "ratio=2pct"]).cells
    assert len(cells) == 4 * 3 and len({cell.signature for cell in cells}) == 2 * 3


def test_every_field_in_which_the_presets_differ_is_a_row_of_its_own():
    from semimedref.results.configdiff import option_differences

    fields = {d.key for d in option_differences("preset=paper", "preset=release")}
    rows = {
        override.partition("=")[0]
        for name in ("paper_vs_release", "paper_vs_release_mosmed", "paper_vs_release_posmed")
        for cell in expand([f"experiment={name}"]).cells
        for override in cell.overrides
    }
    assert {key for key in fields if key.startswith("preset.")} - rows == set()


def test_a_row_and_a_value_are_added_by_a_file_of_ones_own(tmp_path):
    page = (config.config_dir().parent / "docs" / "tables.md").read_text()
    (written,) = re.findall(r"```yaml\n(# @package.*?)```", page, re.S)
    folder = tmp_path / "my_conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "my_grid.yaml").write_text(written)
    path = f"hydra.searchpath=[file://{folder.parent}]"
    mine = expand(["experiment=my_grid", "seed=s42", path])
    shipped = expand(["experiment=sensitivity_2pct", "seed=s42"])
    assert mine.name == "my_grid" and mine.paper == "sensitivity_2pct"
    assert mine.rows == (*shipped.rows, "lambda_pacl_sup = 0.08", "no PACL")
    assert {c.signature for c in shipped.cells} < {c.signature for c in mine.cells}
    assert "my_grid" in known_experiments([folder.parent])
