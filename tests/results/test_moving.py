"""Runs leave one machine and arrive on another with the same numbers."""

import csv
import hashlib
import json
import zipfile
from dataclasses import replace

import pytest

from semimedref import config
from semimedref.cli import main
from semimedref.errors import UserError
from semimedref.folder import IMPORTED, RunFolder
from semimedref.results import render, store
from semimedref.results.comparison import compare_rows
from semimedref.results.moving import export_command, import_command
from semimedref.results.packing import pack
from semimedref.results.table import build_table

IMAGES = [
    ("b-7.png", "smith", 30, 10, 10),
    ("b-10.png", "smith", 20, 0, 20),
    ("a-1.png", "jones", 50, 30, 0),
    ("c.png", "miller", 12, 3, 9),
    ("d.png", "baker", 40, 30, 7),
]
BETTER = [(i, p, tp + fn // 2, fp // 2, fn - fn // 2) for i, p, tp, fp, fn in IMAGES]


def finish(lab, images=IMAGES, **point):
    """A finished run whose signature is that of its configuration, as ``train`` leaves it."""
    cell = lab.cell(**point)
    content = {**cell.config, "row": cell.row, "seed": point.get("seed", "s0")}
    cfg = {**content, "run_root": "/scratch/ann/multirun"}
    signed = json.dumps(content, sort_keys=True, separators=(",", ":"))
    signature = hashlib.sha1(signed.encode()).hexdigest()[:12]
    name = f"{cell.name.rpartition('-')[0]}-{signature}"
    cell = lab.cells[-1] = replace(cell, config=cfg, signature=signature, name=name)
    folder = lab.finish(cell, images)
    run = {"signature": signature, "name": name, "config": cfg, "signed": content, "created": 1.0}
    (folder / "run.json").write_text(json.dumps(run))
    for extra in ("train.log", ".lock", "best.pt", "overlays/a.png", "analysis/swap.png"):
        (folder / extra).parent.mkdir(exist_ok=True)
        (folder / extra).write_text("b-7.png of smith, /scratch/ann")
    (folder / "eval").mkdir()
    (folder / "eval" / "valid-student-true_texts.json").write_text('{"dice": 0.5}')
    return folder


@pytest.fixture
def three(lab):
    """Two rows and two seeds, one cell of which is not finished."""
    finish(lab, row="Baseline", seed="s0")
    finish(lab, row="Baseline", seed="s1")
    finish(lab, BETTER, row="Ours", seed="s0")
    lab.cell(row="Ours", seed="s1")
    return lab


@pytest.fixture
def archive(three, tmp_path):
    path = tmp_path / "runs.zip"
    assert export_command([f"run_root={three.root}", f"out={path}"]) == 0
    return path


@pytest.fixture
def elsewhere(tmp_path):
    return tmp_path / "elsewhere" / "multirun"


def bring(archive, root):
    return import_command([f"archive={archive}", f"run_root={root}"])


def tables(lab):
    table = build_table(lab.experiment)
    tests = compare_rows(table)
    return render.markdown(table, tests), render.csv_text(table), tests


def test_the_table_is_the_same_digit_for_digit(three, archive, elsewhere, capsys):
    before = tables(three)
    bring(archive, elsewhere)
    assert "3 runs imported, in" in capsys.readouterr().out
    moved = replace(three, root=elsewhere)
    assert tables(moved) == before
    assert [store.state(elsewhere / cell.name) for cell in three.cells] == [
        *["done"] * 3,
        "missing",
    ]


def test_nothing_that_names_a_patient_or_the_machine_leaves(three, archive):
    with zipfile.ZipFile(archive) as source:
        names = source.namelist()
        content = b"\n".join(source.read(name) for name in names).decode()
    leaks = ["smith", "jones", "miller", "baker", "b-7", "a-1.png", "/scratch", "ann/"]
    assert [leak for leak in leaks if leak in content + " ".join(names)] == []
    endings = {name.partition("/")[2] for name in names if name != "manifest.json"}
    assert endings == {
        "run.json",
        "result.json",
        "metrics.jsonl",
        "per_image.csv",
        "eval/valid-student-true_texts.json",
    }


def test_equal_runs_give_equal_bytes_whenever_and_whatever_they_are_called(
    three, archive, tmp_path
):
    again = tmp_path / "again.zip"
    names = ",".join(reversed([cell.name for cell in three.cells[:3]]))
    export_command([f"run={names}", f"run_root={three.root}", f"out={again}"])
    assert again.read_bytes() == archive.read_bytes()


def test_an_imported_run_is_packed_as_the_one_that_was_trained(archive, elsewhere, tmp_path):
    bring(archive, elsewhere)
    again = tmp_path / "again.zip"
    export_command([f"run_root={elsewhere}", f"out={again}"])
    assert again.read_bytes() == archive.read_bytes()


def test_archives_made_apart_number_the_same_test_set_alike(three, tmp_path):
    frames = []
    for i, cell in enumerate(three.cells[:3:2]):
        path = tmp_path / f"{i}.zip"
        export_command([f"run={cell.name}", f"run_root={three.root}", f"out={path}"])
        bring(path, tmp_path / str(i))
        frames.append(store.load_per_image(tmp_path / str(i) / cell.name))
    assert frames[0]["id"].tolist() == frames[1]["id"].tolist()
    assert frames[0]["patient"].tolist() == frames[1]["patient"].tolist()


def test_an_experiment_is_exported_by_its_name(three, expanded, tmp_path, capsys):
    path = tmp_path / "x.zip"
    export_command(["experiment=quickstart", "seed=s0,s1", f"out={path}"])
    assert expanded == [["experiment=quickstart", "seed=s0,s1"]]
    assert "3 runs, " in (out := capsys.readouterr().out)
    assert "1 cells are not finished" in out


def test_importing_twice_or_where_it_was_trained_changes_nothing(three, archive, elsewhere, capsys):
    bring(archive, elsewhere)
    for root in (elsewhere, three.root):
        before = {p: p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
        bring(archive, root)
        assert "0 runs imported, 3 were there already" in capsys.readouterr().out
        assert {p: p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()} == before


def test_another_result_is_never_overwritten_and_nothing_else_is_written(three, archive, elsewhere):
    bring(archive, elsewhere)
    last = sorted(cell.name for cell in three.cells[:3])[-1]
    for cell in three.cells[:3]:
        if cell.name != last:
            for path in sorted((elsewhere / cell.name).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            (elsewhere / cell.name).rmdir()
    path = elsewhere / last / "result.json"
    path.write_text(path.read_text().replace('"wall_seconds": 61.4', '"wall_seconds": 61.5'))
    with pytest.raises(UserError, match=f"{last} is done in .* with another result.json") as error:
        bring(archive, elsewhere)
    assert "\n" not in str(error.value)
    assert [p.name for p in elsewhere.iterdir()] == [last]


@pytest.mark.parametrize(
    ("file", "word"),
    [("last.pt", "paused"), ("failure.json", "failed"), ("run.json", "unfinished")],
)
def test_a_run_in_progress_is_not_replaced(three, archive, elsewhere, file, word):
    folder = elsewhere / three.cells[0].name
    folder.mkdir(parents=True)
    (folder / file).write_text("{}")
    with pytest.raises(UserError, match=f"is {word} in .*move that folder away"):
        bring(archive, elsewhere)
    assert [p.name for p in folder.iterdir()] == [file]


def test_what_a_launcher_left_before_a_run_is_replaced(three, archive, elsewhere):
    folder = elsewhere / three.cells[0].name
    (folder / ".hydra").mkdir(parents=True)
    bring(archive, elsewhere)
    assert store.state(folder) == "done"
    assert not (folder / ".hydra").exists()


def test_weights_travel_only_when_asked_and_complete_a_run_that_lacks_them(
    three, archive, elsewhere, tmp_path, capsys
):
    bring(archive, elsewhere)
    folder = elsewhere / three.cells[0].name
    assert not (folder / "best.pt").exists()
    full = tmp_path / "full.zip"
    export_command([f"run_root={three.root}", f"out={full}", "weights=true"])
    bring(full, elsewhere)
    assert "3 completed" in capsys.readouterr().out
    assert (folder / "best.pt").read_bytes() == (three.root / folder.name / "best.pt").read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "image={image}", "text=upper left lung"],
        ["evaluate"],
        ["analyze", "swap"],
    ],
)
def test_commands_that_need_weights_say_that_there_are_none(
    three, archive, elsewhere, command, tmp_path, capsys
):
    bring(archive, elsewhere)
    image = tmp_path / "x.png"
    image.touch()
    run = f"run={elsewhere / three.cells[0].name}"
    words = [word.format(image=image) for word in command]
    assert (
        main(
            [*words, run, f"run_root={elsewhere}"] + ([f"out={tmp_path}"] * (words[0] == "predict"))
        )
        == 2
    )
    error = capsys.readouterr().err
    assert "was imported without weights" in error and error.count("\n") == 1


def test_training_an_imported_run_is_a_no_op(compose_smoke, tmp_path, elsewhere, capsys):
    from semimedref.run import run

    cfg = compose_smoke()
    plain = config.resolved(cfg)
    folder = RunFolder.create(tmp_path / "there" / config.run_name(plain))
    about = {"signature": config.signature(plain), "name": folder.name, "config": plain}
    folder.write_json("run.json", {**about, "signed": config.signed(plain), "created": 1.0})
    best = {"epoch": 1, "val/dice": 0.5}
    result = {"status": "done", **about, "test": {"dice": 0.625}, "best": best}
    folder.write_json("result.json", result)
    export_command([f"run={folder.path}", f"out={tmp_path / 'one.zip'}"])
    bring(tmp_path / "one.zip", elsewhere)
    cfg.run_root = str(elsewhere)
    assert run(cfg) == 0.5  # of validation
    assert "is done: test dice 62.50" in capsys.readouterr().out
    note = json.loads((elsewhere / folder.name / IMPORTED).read_text())
    assert note["archive"] == "one.zip"


def test_what_could_hold_names_is_left_out_and_said(three, tmp_path, capsys):
    folder = three.root / three.cells[0].name
    (folder / "analysis" / "cases.json").write_text('{"worst": "b-7.png"}')
    (folder / "analysis" / "by_case.json").write_text('{"b-7.png": 0.5}')
    described = {"crosses": 0.5, "title": "Swap of b-7.png", "table": [["b-7.png", 0.5]]}
    (folder / "analysis" / "swap.json").write_text(json.dumps(described))
    (folder / "analysis" / "swap_per_image.csv").write_text("id,patient,n\nv-1.png,smith,3\n")
    (folder / "analysis" / "swap-test_per_image.csv").write_text("id,patient,n\nb-7.png,smith,3\n")
    packed = pack(folder)
    kept = {name for name in packed.files if name.startswith("analysis/")}
    assert kept == {"analysis/swap.json", "analysis/swap-test_per_image.csv"}
    assert json.loads(packed.files["analysis/swap.json"]) == {"crosses": 0.5}
    table = list(csv.reader(packed.files["analysis/swap-test_per_image.csv"].decode().splitlines()))
    assert table[1][1].endswith("-p4") and table[1][2] == "3"
    export_command([f"run={folder}", f"out={tmp_path / 'x.zip'}"])
    out = capsys.readouterr().out
    assert "analysis/cases.json is left out: it names images, or holds no numbers" in out
    assert "analysis/swap_per_image.csv is left out" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out=x.tar"], "ends in .zip"),
        ([], "out= is missing"),
        (["out=x.zip", "weights=yes"], "expected true or false"),
        (["out=x.zip", "run_root=/nowhere"], "no run is finished in /nowhere"),
        (["out=x.zip", "run=nothing"], "names no run"),
    ],
)
def test_wrong_words_of_export_are_refused_with_what_was_expected(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        export_command(words)


def test_an_unfinished_run_is_not_exported(three, tmp_path):
    folder = three.start(three.cells[3])
    with pytest.raises(UserError, match=r"result\.json does not exist"):
        export_command([f"run={folder}", f"out={tmp_path / 'x.zip'}"])
    assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*partial"))
