"""``semimedref data prepare``: a small sorted table that anybody can compare, from texts alone."""

import csv
import hashlib
import json

import corruptions
import pytest
import trees
from trees import MOSMED, of

from semimedref.cli import main
from semimedref.dataset.partition_file import prepare
from semimedref.dataset.published import Published
from semimedref.errors import UserError

HEAD = "id,split,patient,position,labeled_1pct,labeled_2pct,labeled_5pct,labeled_15pct"


def written(out, name):
    table = (out / f"{name}.csv").read_bytes()
    return table, json.loads((out / f"{name}.json").read_text())


def test_the_table_is_sorted_by_split_and_name_and_has_exactly_these_columns(tmp_path):
    root = trees.qata_one_csv(tmp_path / "data")
    corruptions.edit(
        root, lambda rows: rows[::-1]
    )  # the order of the file is not that of the table
    prepare(trees.qata(root), tmp_path / "out", split_seed=42)
    table, _ = written(tmp_path / "out", "qata_tree")
    assert b"\r" not in table and table.endswith(b"\n")
    head, *lines = table.decode().splitlines()
    assert head == HEAD
    rows = list(csv.reader(lines))
    places = [("train", "valid", "test").index(row[1]) for row in rows]
    assert [(p, row[0]) for p, row in zip(places, rows, strict=True)] == sorted(
        (p, row[0]) for p, row in zip(places, rows, strict=True)
    )
    # Random(42) draws place 3 of six first; in the reversed file that is the third image by name.
    assert "covid_11.png,train,covid_11,100000,1,1,1,1" in lines
    assert (
        "sub-s10003_ses-e20005_run-1_bp-chest_vp-pa_cr.png,test,sub-s10003,100000,0,0,0,0" in lines
    )
    assert sum(row[4] == "1" for row in rows) == 1


def test_the_header_says_where_the_table_comes_from(tmp_path):
    root = trees.qata_one_csv(tmp_path / "data")
    prepare(trees.qata(root), tmp_path / "out", split_seed=42)
    table, header = written(tmp_path / "out", "qata_tree")
    source = hashlib.sha256((root / "annotations.csv").read_bytes()).hexdigest()
    assert header["annotation_sha256"] == {"annotations.csv": source}
    assert header["sha256"] == hashlib.sha256(table).hexdigest()
    assert header["dataset"] == "qata_tree" and header["layout"] == "one table, annotations.csv"
    assert header["images"] == {"train": 6, "valid": 3, "test": 3}
    assert header["labeled"]["2pct"] == {
        "images": 1, "sha256": hashlib.sha256(b"covid_12.png").hexdigest(), "published": None,
    }  # fmt: skip
    assert "random.Random(42)" in header["rule"] and "round(n * ratio)" in header["rule"]


def test_every_layout_gives_the_same_table(tmp_path):
    tables = set()
    for name, (build, source) in trees.QATA_LAYOUTS.items():
        dataset = trees.qata(build(tmp_path / name), text_source=source)
        prepare(dataset, tmp_path / "out", split_seed=42)
        tables.add(written(tmp_path / "out", "qata_tree")[0])
    assert len(tables) == 1


def test_texts_alone_are_enough_and_a_note_says_so(tmp_path):
    """One table of training texts, as many people have it."""
    file = tmp_path / "train_texts.csv"
    rows = [[c.file, "train", c.lvit] for c in of(MOSMED, "train")]
    trees.write_csv(file, ["image", "split", "text"], rows)
    for root in (tmp_path, file):
        told = prepare(trees.mosmed(root), tmp_path / "out", split_seed=42)
        assert "note: 6 of 6 images are not here, nor needed here" in told
        table, header = written(tmp_path / "out", "mosmed_tree")
        assert table.count(b"\n") == 7 and "floor(n * ratio)" in header["rule"]


def test_texts_of_training_alone_note_the_other_splits_and_tell_the_labeled_lists(tmp_path):
    rows = [[c.file, c.lvit] for c in of(MOSMED, "train")]
    trees.write_csv(tmp_path / "data" / "Train_text.csv", ["Image", "text"], rows)
    lists = [{"ratio": 0.02, "images": 1, "sha256": "0" * 64}]
    paper = Published(images={"train": 6, "valid": 3, "test": 3}, side=24, labeled=lists)
    dataset = trees.mosmed(tmp_path / "data", published=paper)
    told = prepare(dataset, tmp_path / "out", split_seed=42)
    assert sum(line.startswith("note: split has no usable row: ") for line in told) == 2
    labeled = [line for line in told if line.startswith("labeled at")]
    assert [line.split()[4] for line in labeled] == ["1"] * 4
    assert labeled[1].endswith("NOT the published list")
    assert labeled[0].endswith("no published list to compare with")


def test_without_training_images_nothing_is_written(tmp_path):
    rows = [[c.file, c.lvit] for c in of(MOSMED, "valid")]
    trees.write_csv(tmp_path / "data" / "Val_text.csv", ["Image", "text"], rows)
    with pytest.raises(UserError, match="no training image"):
        prepare(trees.mosmed(tmp_path / "data"), tmp_path / "out", split_seed=42)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("corrupt", corruptions.IN_ANNOTATION, ids=lambda c: c.__name__)
def test_errors_of_the_annotation_refuse_and_write_nothing(corrupt, tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path / "data")
    case = corrupt(root)
    out = tmp_path / "out"
    args = ["data", "prepare", "dataset=qata_cov19", f"dataset.root={root}", f"out={out}"]
    assert main(args) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0 and case in said and corruptions.ERRORS[corrupt] in said
    assert not out.exists()


def test_damaged_pictures_do_not_matter_for_a_partition(tmp_path):
    root = trees.qata_one_csv(tmp_path / "data")
    prepare(trees.qata(root), tmp_path / "before", split_seed=42)
    corruptions.truncated_image(root)
    corruptions.missing_mask(root)
    prepare(trees.qata(root), tmp_path / "after", split_seed=42)
    assert written(tmp_path / "before", "qata_tree") == written(tmp_path / "after", "qata_tree")


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path / "data")
    (tmp_path / "file").write_text("")
    args = ["data", "prepare", "dataset=qata_cov19", f"dataset.root={root}"]
    assert main([*args, f"out={tmp_path / 'file'}"]) == 2
    assert main(args) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2 and "file" in errors[0] and "out=FOLDER" in errors[1]


def test_a_generated_data_set_has_a_partition_too(tmp_path):
    assert main(["data", "prepare", "dataset=phantom_tiny", f"out={tmp_path}"]) == 0
    table, header = written(tmp_path, "phantom_tiny")
    assert table.count(b"\n") == 1 + 254 and header["labeled"]["2pct"]["images"] == 4
