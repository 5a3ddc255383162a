"""Sweeps: expansion, deduplication, skipping, selection, failures, launchers."""

import json
from pathlib import Path

import pytest

from semimedref import config, expansion
from semimedref.errors import UserError
from semimedref.only import chosen, select
from semimedref.sweep import expand
from tests.command import semimedref
from tests.conftest import SMOKE

pytestmark = pytest.mark.slow

CELLS = ["experiment=quickstart", *SMOKE, "scale.epochs=1"]
QUICK = [*CELLS, "hydra/launcher=basic"]  # in this process


def test_quickstart_has_two_rows_and_two_ratios():
    cells = expand(["experiment=quickstart"]).cells
    assert [(c.row, c.point["ratio"]) for c in cells] == [
        ("Baseline", "2pct"), ("Baseline", "15pct"), ("+ T-S EMA", "2pct"), ("+ T-S EMA", "15pct"),
    ]  # fmt: skip
    assert len({c.signature for c in cells}) == 4


def test_a_cell_is_what_its_overrides_compose_to():
    for cell in expand(["experiment=quickstart"]).cells:
        plain = config.resolved(config.compose(list(cell.overrides)))
        assert config.signature(plain) == cell.signature
        assert config.run_name(plain) == cell.name


def test_the_command_line_can_replace_add_and_fix_params():
    cells = expand(["experiment=quickstart", "seed=s0,s1", "ratio=5pct"]).cells
    assert len(cells) == 4
    assert {(c.point["ratio"], c.point["seed"]) for c in cells} == {("5pct", "s0"), ("5pct", "s1")}


def test_one_run_in_two_tables_is_one_signature():
    quick = {c.signature for c in expand(["experiment=quickstart"]).cells}
    seeds = {c.signature for c in expand(["experiment=phantom_seeds"]).cells}
    assert len(quick & seeds) == 2


def test_cells_with_one_signature_are_handed_to_a_launcher_once(tmp_path):
    """Handed over twice, two processes would wait for one run folder."""
    words = [*QUICK, f"run_root={tmp_path}", "ratio=15pct,15pct", "only=Baseline"]
    assert len({c.signature for c in expand(words[:-1]).cells}) == 2 < len(expand(words).cells)
    done = semimedref("train", "-m", *words)
    assert done.stdout.splitlines()[0] == "1 cell, 0 done, 1 to run"
    assert "is done: test" not in done.stdout  # what a run says that finds its own result


def test_an_expansion_comes_from_the_cache_the_second_time(monkeypatch):
    first = expand(["experiment=quickstart", "seed=s1"]).cells
    calls = []
    real = config.compose
    monkeypatch.setattr(config, "compose", lambda *a, **k: calls.append(1) or real(*a, **k))
    assert expand(["experiment=quickstart", "seed=s1"]).cells == first
    assert calls == []  # neither the experiment itself nor any of its cells


def test_a_data_set_that_reads_the_ratio_is_composed_once_and_resolved_for_each_ratio(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path))
    calls, real = [], expansion._composed
    monkeypatch.setattr(expansion, "_composed", lambda words: calls.append(words) or real(words))
    words = ["experiment=quickstart", "dataset=mosmed_plus", "ratio=2pct,5pct", "seed=s0,s1,s42"]
    cells = expand(words).cells
    assert len(cells) == 12
    assert len(calls) == 2  # one for each row
    assert {c.config["dataset"]["fraction"] for c in cells} == {0.02, 0.05}
    for cell in (cells[1], cells[5], cells[11]):
        assert cell.config == config.resolved(config.compose(list(cell.overrides)))


def test_what_an_experiment_sets_inside_a_ratio_is_in_each_of_its_cells(monkeypatch, tmp_path):
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "experiment" / "own.yaml"
    file.parent.mkdir()
    file.write_text(
        "# @package _global_\ndefaults: [quickstart]\nexperiment_name: own\n"
        "ratio: {split_seed: 7}\n"
    )
    words = ["experiment=own", f"hydra.searchpath=[file://{tmp_path}]", "ratio=2pct,5pct"]
    for cell in expand(words).cells:
        assert cell.config["ratio"]["split_seed"] == 7
        assert cell.config == config.resolved(config.compose(list(cell.overrides)))


def test_only_takes_numbers_rows_and_lists():
    cells = expand(["experiment=quickstart"]).cells
    assert select(cells, 0) == cells[:1]
    assert select(cells, "Baseline") == cells[:2]
    assert select(cells, [1, 3]) == [cells[1], cells[3]]
    with pytest.raises(UserError, match="from 0 to 3"):
        select(cells, "Base")


def test_only_narrows_a_table_to_its_rows_and_columns_beside_the_papers_values(tmp_path):
    from semimedref.results.table import build_table

    words = ["experiment=component_ablation", f"run_root={tmp_path}"]
    whole = build_table(chosen(expand(words)))
    one = build_table(chosen(expand([*words, "only='+ PosAug'"])))
    assert len(whole.rows) > 1 and one.rows == ["+ PosAug"]
    assert [e.column for e in one.entries] == [("1pct",), ("2pct",)]
    assert [len(e.runs) for e in one.entries] == [3, 3]
    paper = {(e.row, e.column): e.reported for e in whole.entries}
    assert all(e.reported == paper[e.row, e.column] for e in one.entries)
    first = build_table(chosen(expand([*words, "only=0"])))
    assert [(e.row, e.column, len(e.runs)) for e in first.entries] == [("Baseline", ("1pct",), 1)]
    assert first.runs[0].command.count("only=") == 1
    corner = build_table(chosen(expand([*words, "only=[0,'+ PosAug']"])))
    assert [(e.row, e.column) for e in corner.entries] == [
        ("Baseline", ("1pct",)),
        ("+ PosAug", ("1pct",)),
        ("+ PosAug", ("2pct",)),
    ]  # a cell that was not asked for is no method that is not built
    with pytest.raises(UserError, match="names no cell"):
        chosen(expand([*words, "only=nobody"]))


def test_what_is_of_a_whole_experiment_refuses_only():
    from semimedref.results.commands import report_command
    from semimedref.results.compare_commands import significance_command
    from semimedref.results.figure.commands import figures_command

    for command in (report_command, significance_command, figures_command):
        with pytest.raises(UserError, match=r"found only=, expected a whole experiment"):
            command(["experiment=quickstart", "only=Baseline"])


def test_a_table_needs_an_experiment():
    with pytest.raises(UserError, match="experiment=quickstart"):
        expand([])


def test_the_second_launch_has_nothing_to_do(tmp_path):
    root = f"run_root={tmp_path}"
    first = semimedref("train", "-m", *QUICK, root, "ratio=15pct")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("2 cells, 0 done, 2 to run")
    second = semimedref("train", "-m", *QUICK, root, "ratio=15pct")
    assert second.stdout.splitlines()[0] == "2 cells, 2 done, 0 to run"
    status = semimedref("status", *QUICK, root, "ratio=15pct")
    assert status.returncode == 0 and "missing" not in status.stdout.lower().replace(
        "0 missing", ""
    )
    table = semimedref("table", *QUICK, root, "ratio=15pct")
    assert "Baseline" in table.stdout and "+ T-S EMA" in table.stdout, table.stderr
    report = semimedref("report", *QUICK, root, "ratio=15pct")
    page = Path(report.stdout.strip().splitlines()[-1])
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")


def test_a_failing_cell_does_not_take_the_others_with_it(tmp_path):
    root = f"run_root={tmp_path}"
    cells = expand([*QUICK, root, "ratio=15pct"]).cells
    broken = tmp_path / cells[0].name
    broken.mkdir(parents=True)
    (broken / "last.pt").write_bytes(b"truncated")
    first = semimedref("train", "-m", *QUICK, root, "ratio=15pct")
    assert first.returncode == 2
    assert "1 of 2 cells did not finish" in first.stderr and "Traceback" not in first.stderr
    assert (tmp_path / cells[1].name / "result.json").exists()
    assert "truncated" in json.loads((broken / "failure.json").read_text())["error"]
    again = semimedref("train", "-m", *QUICK, root, "ratio=15pct")
    waits = "2 cells, 1 done, 1 failed (retry_failed=true runs them again), 0 to run"
    assert again.stdout.splitlines()[0] == waits
    (broken / "last.pt").unlink()
    retried = semimedref("train", "-m", *QUICK, root, "ratio=15pct", "retry_failed=true")
    assert retried.returncode == 0, retried.stdout + retried.stderr
    assert (broken / "result.json").exists() and not (broken / "failure.json").exists()


def test_on_error_stop_leaves_the_rest_alone(tmp_path):
    root = f"run_root={tmp_path}"
    cells = expand([*QUICK, root, "ratio=15pct"]).cells
    broken = tmp_path / cells[0].name
    broken.mkdir(parents=True)
    (broken / "last.pt").write_bytes(b"truncated")
    done = semimedref("train", "-m", *QUICK, root, "ratio=15pct", "on_error=stop")
    assert done.returncode == 2
    assert not (tmp_path / cells[1].name / "result.json").exists()


def test_local_submitit_runs_the_same_cells(tmp_path):
    words = [*CELLS, f"run_root={tmp_path}", "ratio=15pct", "hydra/launcher=submitit_local"]
    done = semimedref("train", "-m", *words, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*/result.json"))) == 2
    assert "2 cells, 2 done" in done.stdout


def test_jobs_of_joblib_that_start_together_share_one_new_mlflow_store(tmp_path):
    import sqlite3

    parallel = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    cells = ["ratio=15pct", "scale.epochs=3"]
    options = [o for o in CELLS if not o.startswith(("tracking=", "scale.epochs="))]
    words = [*options, f"run_root={tmp_path}", *cells, *parallel]
    done = semimedref("train", "-m", *words, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(f.read_text()) for f in tmp_path.glob("*/result.json")]
    assert len(results) == 2
    query = (
        "select e.name, t.value, count(m.step) from runs r join experiments e using (experiment_id)"
        " join tags t on t.run_uuid = r.run_uuid and t.key = 'signature'"
        " join metrics m on m.run_uuid = r.run_uuid and m.key = 'val/dice'"
        " group by r.run_uuid"
    )
    rows = sqlite3.connect(tmp_path / "mlflow.db").execute(query).fetchall()
    assert sorted(rows) == sorted(("quickstart", r["signature"], 3) for r in results)
    again = semimedref("sync", f"run_root={tmp_path}")
    assert again.returncode == 0 and "2 in MLflow" in again.stdout, again.stdout
    assert "0 values and files sent, 0 failed" in again.stdout


def test_a_users_own_configuration_is_part_of_the_expansion(tmp_path):
    folder = tmp_path / "conf" / "trainer"
    folder.mkdir(parents=True)
    shipped = (config.config_dir() / "trainer" / "default.yaml").read_text()
    (folder / "mine.yaml").write_text(shipped)
    words = ["experiment=quickstart", "trainer=mine", f"hydra.searchpath=[file://{folder.parent}]"]
    before = {c.signature for c in expand(words).cells}
    (folder / "mine.yaml").write_text(shipped.replace("threshold: 0.5", "threshold: 0.4"))
    assert not before & {c.signature for c in expand(words).cells}


def test_changed_weights_change_the_signature_of_a_cached_expansion(tmp_path):
    weights = tmp_path / "net.pth"
    words = ["experiment=quickstart", "image_encoder=convnext_tiny",
             f"image_encoder.weights={weights}"]  # fmt: skip
    weights.write_bytes(b"one")
    config.file_identity.cache_clear()
    before = {c.signature for c in expand(words).cells}
    weights.write_bytes(b"two")
    config.file_identity.cache_clear()
    assert not before & {c.signature for c in expand(words).cells}


def test_a_key_of_a_row_cannot_be_set_for_all_rows():
    with pytest.raises(UserError, match="set by the row 'Baseline'"):
        expand(["experiment=quickstart", "augment=none"])


def test_rows_may_hold_nulls_lists_quotes_and_other_alphabets(tmp_path):
    folder = tmp_path / "conf" / "experiment"
    folder.mkdir(parents=True)
    text = (config.config_dir() / "experiment" / "quickstart.yaml").read_text()
    head = text[: text.index("      Baseline:")]
    rows = """      "+ λ \\"Über\\", 1": {scale.patience: null, image_encoder.widths: [8, 8, 8]}
    params: {ratio: [2pct], seed: s42}
"""
    (folder / "odd.yaml").write_text(head.replace("quickstart", "odd") + rows)
    words = ["experiment=odd", f"hydra.searchpath=[file://{folder.parent}]"]
    (cell,) = expand(words).cells
    assert cell.row == cell.config["row"] == '+ λ "Über", 1'
    assert cell.config["scale"]["patience"] is None
    assert cell.config["image_encoder"]["widths"] == [8, 8, 8]


def test_the_command_of_a_missing_cell_trains_that_cell_alone(tmp_path):
    import shlex

    from semimedref.results.runs import read_run

    experiment = expand(["experiment=quickstart", f"run_root={tmp_path}"])
    command = shlex.split(read_run(experiment.cells[2], experiment).command)
    assert command[:3] == ["semimedref", "train", "-m"]
    words = [w for w in command[3:] if not w.startswith("only=")]
    only = next(w for w in command if w.startswith("only=")).removeprefix("only=")
    assert select(expand(words).cells, only) == [experiment.cells[2]]


@pytest.mark.parametrize("launcher", ["basic", "gpu_local"])
def test_the_command_of_a_missing_cell_runs_with_a_configuration_folder_of_ones_own(
    tmp_path, launcher
):
    import shlex

    from semimedref.results.runs import read_run

    folder = tmp_path / "my conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [quickstart, _self_]\nexperiment_name: mine\n"
    )
    place = f"hydra.searchpath=['file://{folder.parent}']"
    words = ["experiment=mine", *SMOKE, "scale.epochs=1", f"run_root={tmp_path / 'runs'}", place]
    experiment = expand(words)
    command = shlex.split(read_run(experiment.cells[0], experiment).command)[1:]
    done = semimedref(*command, f"hydra/launcher={launcher}")
    assert done.returncode == 0, done.stderr
    assert "1 cells, 0 done, 1 to run" in done.stdout or "1 cell, 0 done" in done.stdout
    (result,) = (tmp_path / "runs").glob("*/result.json")
    assert result.parent.name == experiment.cells[0].name


def test_values_of_a_param_on_the_command_line_decide_the_sweep_as_they_decide_the_table(tmp_path):
    word = "hydra.sweeper.params.ratio=2pct"
    assert len(expand(["experiment=quickstart", word]).cells) == 2
    done = semimedref("train", "-m", *QUICK, f"run_root={tmp_path}", word, "only=nobody")
    assert done.returncode == 2 and "a number from 0 to 1 or a row" in done.stderr
