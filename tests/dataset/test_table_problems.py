"""Annotation files that are damaged, empty, or at odds: nothing of a split gets lost in silence."""

import json

import pytest
import trees
from trees import MOSMED, of

from semimedref.dataset.verify import verify
from semimedref.errors import UserError

HEAD = ["Image", "Description"]


def problems(dataset):
    return {(p.kind, p.level): p.case for p in dataset.found.problems}


def excel_of(root, split):
    return root / trees.FOLDERS[split] / f"{trees.SHORT[split]}_text.xlsx"


def cut_off(root):
    file = excel_of(root, "train")
    file.write_bytes(file.read_bytes()[:1500])
    return "Train_Folder/Train_text.xlsx (damaged: File is not a zip file)"


def unquoted(root):
    excel_of(root, "train").unlink()
    (root / "Train_text.csv").write_text("Image,Description\na.png,left, upper\n")
    return "Train_text.csv (line 2 has too many columns"


def link_to_nothing(root):
    excel_of(root, "train").unlink()
    excel_of(root, "train").symlink_to("/nowhere/Train_text.xlsx")
    return "Train_Folder/Train_text.xlsx (a link that leads nowhere)"


@pytest.mark.parametrize("spoil", [cut_off, unquoted, link_to_nothing])
def test_the_only_table_of_a_split_must_be_readable(spoil, tmp_path, capsys):
    root = trees.mosmed_excel(tmp_path)
    case = spoil(root)
    dataset = trees.mosmed(root)
    assert case in problems(dataset)["annotation file is unreadable", "error"]
    assert verify(dataset, split_seed=42, shown=3) == 1
    assert case in capsys.readouterr().out


def test_a_damaged_list_is_an_error_where_the_lists_are_the_annotation(tmp_path):
    root = trees.qata_lists(tmp_path)
    (file,) = root.rglob("split_unlabeled_0.5.json")
    file.write_text("{")
    assert ("annotation file is unreadable", "error") in problems(trees.qata(root))


def test_a_damaged_table_that_another_one_replaces_is_a_warning(tmp_path):
    root = trees.mosmed_excel(tmp_path)
    cut_off(root)
    trees.write_csv(root / "train.csv", HEAD, [[c.file, c.lvit] for c in of(MOSMED, "train")])
    assert set(problems(trees.mosmed(root))) == {("annotation file is unreadable", "warning")}


@pytest.mark.parametrize("content", ["", "Image,Description\n", "name,age\na,3\n"])
def test_a_split_whose_table_is_empty_is_an_error(content, tmp_path, capsys):
    root = trees.mosmed_excel(tmp_path)
    excel_of(root, "train").unlink()
    (root / "Train_Folder" / "Train_text.csv").write_text(content)
    dataset = trees.mosmed(root)
    assert verify(dataset, split_seed=42, shown=3) == 1
    kind = "table names no image" if "name,age" in content else "table has no rows"
    assert problems(dataset)[kind, "warning"] == "Train_Folder/Train_text.csv"
    said = capsys.readouterr().out
    assert "split has no usable row" in said and kind in said
    with pytest.raises(UserError, match=r"split has no usable row \(train\)"):
        dataset.prepare([])


def test_an_empty_table_beside_a_good_one_is_a_note(tmp_path):
    root = trees.mosmed_excel(tmp_path)
    (root / "test_old.csv").write_text("")
    assert problems(trees.mosmed(root)) == {("table has no rows", "note"): "test_old.csv"}


def test_of_two_tables_the_longer_one_counts_and_a_warning_says_so(tmp_path):
    root = trees.mosmed_excel(tmp_path)
    train = of(MOSMED, "train")
    old = root / "Train_Folder" / "Train_old.csv"
    trees.write_csv(old, HEAD, [[c.file, c.lvit] for c in train[:2]])
    dataset = trees.mosmed(root)
    assert len(dataset.found.split("train")) == len(train)
    assert problems(dataset)["two tables disagree", "warning"] == (
        "Train_Folder/Train_old.csv (2 images of train, 0 other sentences; "
        "Train_Folder/Train_text.xlsx counts, 6 images)"
    )


def test_two_tables_with_other_sentences_are_a_warning_and_equal_ones_are_not(tmp_path):
    root = trees.mosmed_excel(tmp_path)
    rows = [[c.file, c.lvit] for c in of(MOSMED, "test")]
    trees.write_csv(root / "test.csv", HEAD, rows)
    assert problems(trees.mosmed(root)) == {}
    rows[0][1] = "upper left lung"
    trees.write_csv(root / "test.csv", HEAD, rows)
    (case,) = problems(trees.mosmed(root)).values()
    assert "3 images of test, 1 other sentences" in case


@pytest.mark.parametrize("cell", [None, 3, "dev"])
def test_a_row_without_a_known_split_is_an_error_beside_tables_by_split(cell, tmp_path):
    root = trees.mosmed_excel(tmp_path)
    for split in ("train", "valid"):
        excel_of(root, split).unlink()
    rows = [{"image": c.file, "text": c.lvit, "split": c.split} for c in MOSMED
            if c.split != "test"]  # fmt: skip
    rows.append({"image": "x.png", "text": "left"} | ({} if cell is None else {"split": cell}))
    (root / "all.json").write_text(json.dumps(rows))
    dataset = trees.mosmed(root)
    assert len(dataset.found.cases) == len(MOSMED)
    named = "" if cell is None else str(cell)
    assert problems(dataset) == {("split name is unknown", "error"): f"x.png: {named!r}"}


def test_a_damaged_annotation_is_mentioned_where_its_texts_are_asked_for(tmp_path):
    root = trees.qata_lvit_excel(tmp_path)
    (root / "annotation.json").write_text('{"train": [')
    with pytest.raises(UserError, match=r"texts of lvit only.*unreadable: annotation\.json \("):
        _ = trees.qata(root).found
