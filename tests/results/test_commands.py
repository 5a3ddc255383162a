import fcntl
import subprocess
import sys
from dataclasses import replace

import pytest

from semimedref.errors import UserError
from semimedref.results.commands import (
    diff_command,
    report_command,
    status_command,
    table_command,
)
from tests.results.conftest import make_config


def test_status_shows_every_state_with_counts_and_reasons(lab, expanded, capsys):
    lab.finish(lab.cell(seed="s0"), [("i", "p", 50, 25, 25)])
    running = lab.start(lab.cell(seed="s1"), val_dice=[0.3, 0.456])
    failed = lab.start(lab.cell(seed="s42"))
    (failed / "failure.json").write_text('{"error": "CUDA is out of memory"}')
    (lab.start(lab.cell(row="Other", seed="s0")) / "last.pt").touch()
    lab.cell(row="Other", seed="s1")
    with (running / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status_command(["experiment=quickstart"]) == 0
    out = capsys.readouterr().out
    assert "5 cells, 1 done, 1 running, 1 failed, 1 paused, 1 missing" in out
    assert "done 66.7" in out
    assert "running epoch 2, val 45.6" in out
    assert "Baseline, 2 %, s42: CUDA is out of memory" in out
    assert expanded == [["experiment=quickstart"]]


def test_status_survives_a_broken_result_and_calls_it_failed(lab, expanded, capsys):
    folder = lab.finish(lab.cell())
    (folder / "result.json").write_text("{")
    assert status_command(["experiment=quickstart"]) == 0
    out = capsys.readouterr().out
    assert "1 failed" in out
    assert "result.json is not valid JSON" in out


def test_status_counts_runs_shared_between_rows(lab, expanded, capsys):
    cell = lab.cell(row="A")
    lab.cells.append(type(cell)(**{**vars(cell), "row": "B"}))
    status_command(["experiment=quickstart"])
    assert "2 cells (1 shared between rows), 2 missing" in capsys.readouterr().out


def test_table_is_printed_plain_and_written_as_markdown_and_csv(lab, expanded, capsys):
    lab.finish(lab.cell())
    assert table_command(["experiment=quickstart"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "1 of 1" in out
    tables = lab.root / "tables"
    assert sorted(path.name for path in tables.iterdir()) == [
        *("quickstart.csv", "quickstart.md", "quickstart.tex")
    ]
    assert (tables / "quickstart.md").read_text().startswith("# Quickstart on the phantom")
    assert (tables / "quickstart.csv").read_text().startswith("row,ratio,metric,mean")


def test_a_part_of_a_table_never_takes_the_place_of_the_whole(lab, expanded, capsys, tmp_path):
    lab.finish(lab.cell(seed="s0"))
    assert table_command(["experiment=quickstart"]) == 0
    whole = (lab.root / "tables" / "quickstart.md").read_text()
    lab.cell(row="Other", config=make_config(only="Baseline"))
    lab.cells[0] = replace(lab.cells[0], config=make_config(only="Baseline"))
    capsys.readouterr()
    assert table_command(["experiment=quickstart", "only=Baseline"]) == 0
    out = capsys.readouterr().out
    assert "only=: 1 of 2 cells" in out and "not written: add out=FOLDER" in out
    assert "Other" not in out
    assert (lab.root / "tables" / "quickstart.md").read_text() == whole
    table_command(["experiment=quickstart", "only=Baseline", f"out={tmp_path / 'part'}"])
    assert "Other" not in (tmp_path / "part" / "quickstart.md").read_text()


def test_table_that_cannot_be_written_is_one_clear_line(lab, expanded):
    lab.finish(lab.cell())
    (lab.root / "tables").write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"could not write .*quickstart\.md"):
        table_command(["experiment=quickstart"])


def test_report_prints_the_path_it_wrote_and_keeps_runs_from_hydra(lab, expanded, capsys):
    folder = lab.finish(lab.cell())
    assert report_command(["experiment=quickstart", f"runs={folder},{folder}"]) == 0
    path = capsys.readouterr().out.strip()
    assert path == str(lab.root / "tables" / "quickstart.html")
    assert expanded == [["experiment=quickstart"]]


def test_diff_of_two_folders_lists_the_keys_that_differ(lab, capsys):
    a = lab.start(lab.cell(config={"seed": {"value": 0}, "lr": 0.1}))
    b = lab.start(lab.cell(seed="s1", config={"seed": {"value": 1}, "lr": 0.1}))
    assert diff_command([str(a), str(b)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", a.name, b.name]
    assert [line.split() for line in lines[1:]] == [["seed.value", "0", "1"]]


def test_diff_of_two_rows_of_an_experiment(lab, expanded, capsys):
    lab.cell(row="Baseline", config={"align": "none"})
    lab.cell(row="+ PACL (Ours) w=0.1", config={"align": "pacl"})
    assert diff_command(["experiment=quickstart", "Baseline", "+ PACL (Ours) w=0.1"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["align", '"none"', '"pacl"']


@pytest.mark.parametrize(
    "args",
    [[], ["one"], ["experiment=quickstart", "a", "b", "c"], ["preset=paper"], ["seed=s0"] * 3],
)
def test_diff_of_anything_but_two_shows_how_to_call_it(args, expanded):
    with pytest.raises(UserError, match="expected two run folders, two rows or two options"):
        diff_command(args)


def test_diff_of_two_options_lists_what_is_written_and_not_where_it_is_read(capsys):
    assert diff_command(["augment=none", "augment=weak_strong"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", "augment=none", "augment=weak_strong"]
    assert all(line.startswith(("augment.jitter", "augment.blur")) for line in lines[1:])
    assert ["augment.jitter.probability", "–", "0.8"] in [line.split() for line in lines]


def test_diff_of_two_options_shows_values_and_no_references(capsys):
    assert diff_command(["augment=weak_strong", "augment=posaug"]) == 0
    assert ["augment.words.rho", "–", "0.5"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_diff_of_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"expected a run folder"):
        diff_command([str(tmp_path), str(tmp_path)])


def test_table_without_an_experiment_shows_an_example():
    with pytest.raises(UserError, match=r"semimedref \w+ experiment=quickstart"):
        table_command([])


def test_status_without_an_experiment_counts_every_run_once(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "semimedref.sweep.known_experiments", lambda folders: ["quickstart", "phantom_seeds"]
    )
    assert status_command([f"run_root={tmp_path}", "ratio=2pct", "seed=s42"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["quickstart", "2", "runs", "2", "missing"]
    assert lines[-1] == "2 experiments, 4 cells, 2 runs: 2 missing"  # the same two


def test_importing_the_commands_loads_nothing_heavy():
    code = (
        "import sys, semimedref.results.commands; "
        "print([m for m in ('numpy', 'pandas', 'torch', 'matplotlib', 'PIL') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
