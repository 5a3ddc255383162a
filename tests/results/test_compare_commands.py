import json
import subprocess
import sys

import pytest

from semimedref.errors import UserError
from semimedref.results.compare_commands import compare_command, significance_command

FEW = "replicates=50"


def images(tp):
    return [(f"i{i}", f"p{i // 2}", tp + i, 10, 100 - tp - i) for i in range(10)]


@pytest.fixture
def runs(lab):
    return [
        lab.finish(lab.cell(row=row, seed="s42"), images(tp)) for row, tp in (("A", 50), ("B", 60))
    ]


def test_two_runs_are_compared(runs, capsys):
    assert compare_command([str(runs[1]), str(runs[0]), FEW]) == 0
    out = capsys.readouterr().out
    assert "10 images of 5 patients" in out
    assert f"{runs[1].name} − {runs[0].name}" in out
    assert "50 replicates" in out


def test_a_table_of_ones_own_stands_beside_a_run(runs, lab, tmp_path, capsys):
    mine = tmp_path / "mine.csv"
    rows = "".join(f"{i},{tp},{fp},{fn}\n" for i, _, tp, fp, fn in images(55))
    mine.write_text("id,tp,fp,fn\n" + rows)
    args = [f"ours={runs[1].name}", f"mine={mine}", f"run_root={lab.root}", FEW]
    out_file = tmp_path / "found" / "tests.json"
    assert compare_command([*args, f"out={out_file}", "metrics=dice", "seed=3"]) == 0
    out = capsys.readouterr().out
    assert "ours − mine" in out and "takes the patients of another one" in out
    assert f"written: {out_file}" in out
    plain = json.loads(out_file.read_text())
    assert (plain["bootstrap"], plain["seed"], plain["patients"]) == (50, 3, 5)
    assert [d["metric"] for d in plain["differences"]] == ["dice"]


def test_seeds_are_separated_by_commas(runs, capsys):
    a, b = map(str, runs)
    assert compare_command([f"ours={b},{b}", f"theirs={a},{a}", FEW]) == 0
    assert "2 seeds each" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "found 0 methods"),
        (["one.csv"], "found 1 methods"),
        (["a=x.csv", "a=y.csv"], "found 'a' twice"),
        (["a=", "b=y.csv"], "no table in 'a='"),
        (["a.csv", "b.csv", "out=x.txt"], r"out=x\.txt: expected a name that ends in \.json"),
        (["a.csv", "b.csv"], r"a\.csv does not exist"),
        (["nothing", "b.csv"], "names no run"),
        (["a.csv", "b.csv", "replicates=0"], r"statistics\.bootstrap=0: expected a whole number"),
    ],
)
def test_a_call_that_cannot_work_says_what_is_expected(args, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        compare_command(args)


def test_runs_on_different_images_are_refused(lab, runs):
    other = lab.finish(lab.cell(row="C"), images(50)[:9])
    with pytest.raises(UserError, match="cannot be paired"):
        compare_command([str(runs[0]), str(other), FEW])


def test_significance_prints_the_table_and_writes_it_three_times(runs, lab, expanded, capsys):
    args = ["experiment=quickstart", "statistics.bootstrap=50", "statistics.randomization=99"]
    assert significance_command(args) == 0
    out = capsys.readouterr().out
    assert "B − A" in out and "one pair of checkpoints, seed s42" in out
    files = sorted(path.name for path in (lab.root / "tables").iterdir())
    assert files == [f"quickstart-significance.{ending}" for ending in ("csv", "json", "md")]
    assert expanded == [["experiment=quickstart"]]


def test_significance_over_all_seeds(runs, expanded, capsys):
    assert significance_command(["experiment=quickstart", "seeds=all", FEW]) == 0
    assert "B − A" in capsys.readouterr().out


def test_significance_without_an_experiment_shows_an_example():
    with pytest.raises(UserError, match="semimedref significance experiment="):
        significance_command([])


def test_importing_the_commands_loads_nothing_heavy():
    code = (
        "import sys, semimedref.results.compare_commands; "
        "print([m for m in ('numpy', 'pandas', 'torch', 'scipy', 'hydra') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
