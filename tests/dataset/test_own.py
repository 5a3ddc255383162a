"""A user's own table: the same cases from every format, one clear line for every mistake."""

import csv
import json
import random

import numpy as np
import pytest
from openpyxl import Workbook
from PIL import Image
from tests.text import kidneys

from semimedref.config import build, compose
from semimedref.dataset.verify import verify
from semimedref.errors import UserError

pytestmark = pytest.mark.slow

SIDE = 16
COLUMNS = ["image", "mask", "text", "split", "patient"]
TEXTS = ("A stone in the bladder.", "A stone in the left kidney.", "Stones, two, left upper pole.")


def rows(train=8):
    """Training rows of which every fourth has no mask; two of validation and of test."""
    splits = ["train"] * train + ["valid"] * 2 + ["test"] * 2
    return [
        [f"images/{i}.png", "" if s == "train" and i % 4 == 3 else f"masks/{i}.png",
         TEXTS[i % 3], s, f"p{i // 2}"]
        for i, s in enumerate(splits)
    ]  # fmt: skip


def draw(root, table):
    for i, (image, mask, *_) in enumerate(table):
        pixels = np.random.default_rng(i).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
        for name, content in ((image, pixels), (mask, (pixels > 200).astype(np.uint8) * 255)):
            if name:
                file = root / name
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(content).save(file)


def write_csv(path, table, columns=COLUMNS):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([columns, *table])
    return path


def own(annotation, *overrides):
    options = ["dataset=own", "scale=smoke", f"dataset.annotation={annotation}"]
    return build(compose([*options, *overrides]), "dataset")


@pytest.fixture
def table(tmp_path):
    """Pictures and a CSV beside them."""
    draw(tmp_path, rows())
    return write_csv(tmp_path / "my.csv", rows())


def seen(dataset):
    return [
        (c.id, c.split, c.patient, c.text, c.position, c.image and c.image.name)
        for c in dataset.found.cases
    ]


def kinds(dataset, level="error"):
    return {p.kind: p.case for p in dataset.found.problems if p.level == level}


def test_the_root_is_the_tables_folder_and_rows_become_cases(table):
    dataset = own(table)
    first = dataset.found.cases[0]
    assert dataset.folder == table.parent and kinds(dataset) == {}
    assert (first.id, first.split, first.patient) == ("images/0.png", "train", "p0")
    assert first.image == table.parent / "images/0.png"
    assert first.mask == table.parent / "masks/0.png"
    assert [len(dataset.found.split(s)) for s in ("train", "valid", "test")] == [8, 2, 2]


def test_csv_excel_and_json_give_the_same_cases(table, tmp_path):
    book = Workbook()
    for row in [COLUMNS, *rows()]:
        book.active.append(row)
    book.save(tmp_path / "my.xlsx")
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in rows()]
    by_split = {s: [o for o in objects if o["split"] == s] for s in ("train", "valid", "test")}
    (tmp_path / "flat.json").write_text(json.dumps(objects))
    (tmp_path / "split.json").write_text(json.dumps(by_split))
    expected = seen(own(table))
    for name in ("my.xlsx", "flat.json", "split.json"):
        assert seen(own(tmp_path / name)) == expected, name


def test_paths_may_be_relative_to_another_root_and_spelled_in_other_letters(table, tmp_path):
    shouted = [[i.upper(), m.replace("/", "\\").title(), *rest] for i, m, *rest in rows()]
    other = write_csv(tmp_path / "elsewhere" / "my.csv", shouted)
    dataset = own(other, f"dataset.root={table.parent}")
    assert kinds(dataset) == {}
    assert [c.image for c in dataset.found.cases] == [c.image for c in own(table).found.cases]
    assert [c.mask for c in dataset.found.cases] == [c.mask for c in own(table).found.cases]


def test_a_patient_is_optional_and_then_every_image_is_its_own(tmp_path):
    draw(tmp_path, rows())
    path = write_csv(tmp_path / "my.csv", [r[:4] for r in rows()], COLUMNS[:4])
    assert len({c.patient for c in own(path).found.cases}) == len(rows())


def test_positions_come_from_the_column_or_else_from_the_words(tmp_path):
    draw(tmp_path, rows())
    marked = [[*r, "10000" if i == 0 else ""] for i, r in enumerate(rows())]
    path = write_csv(tmp_path / "my.csv", marked, [*COLUMNS, "position"])
    words = f"dataset.vocabulary={kidneys.write(tmp_path)}"
    cases = own(path, words).found.cases
    assert [c.position for c in cases[:3]] == [(1, 0, 0, 0, 0), (0, 0, 1, 0, 0), (1, 0, 0, 0, 0)]
    assert kinds(own(path), "note")["position is not used"] == "my.csv"


def test_without_a_vocabulary_positions_are_an_array_of_no_columns(table):
    part = own(table).split("train")
    assert part.positions.shape == (8, 0) and part.images.shape == (8, 96, 96)


def test_labeled_rows_are_drawn_from_those_with_a_mask_and_the_ratio_counts_all(tmp_path):
    table = rows(train=40)
    draw(tmp_path, table)
    dataset = own(write_csv(tmp_path / "my.csv", table))
    masked = [i for i in range(40) if i % 4 != 3]
    order = list(masked)
    random.Random(42).shuffle(order)
    for fraction, count in ((0.05, 2), (0.15, 6), (0.75, 30)):
        labeled, unlabeled = dataset.labeled_places(fraction=fraction, split_seed=42)
        assert labeled == sorted(order[:count])
        assert sorted(labeled + unlabeled) == list(range(40))
    assert len(kinds(dataset, "note")) == 1


def test_where_all_rows_have_a_mask_the_rule_is_that_of_every_data_set(tmp_path):
    table = [[i, f"masks/{k}.png", *rest] for k, (i, _, *rest) in enumerate(rows(train=40))]
    draw(tmp_path, table)
    dataset = own(write_csv(tmp_path / "my.csv", table))
    order = list(range(40))
    random.Random(42).shuffle(order)
    assert dataset.labeled_places(fraction=0.15, split_seed=42)[0] == sorted(order[:6])


def test_a_ratio_of_more_masks_than_there_are_is_refused(table):
    dataset = own(table)
    labeled, _ = dataset.labeled_places(fraction=1.0, split_seed=42)
    with pytest.raises(UserError, match=r"8 labeled images of 8, and only 6.*fraction=0\.75"):
        dataset.prepare(labeled)


def test_masks_of_unlabeled_rows_are_never_opened(table):
    dataset = own(table)
    labeled, unlabeled = dataset.labeled_places(fraction=0.3, split_seed=42)
    for i in unlabeled:
        (table.parent / f"masks/{i}.png").unlink(missing_ok=True)
    again = own(table)
    assert again.labeled_places(fraction=0.3, split_seed=42)[0] == labeled
    again.prepare(labeled)
    assert again.split("train").masks[labeled].shape == (len(labeled), 96, 96)
    with pytest.raises(UserError, match="has no mask"):
        again.split("train").masks[unlabeled[0]]


def test_one_image_may_have_several_sentences_if_rows_have_ids(table, capsys):
    twice = [[*r, f"a{i}"] for i, r in enumerate(rows())]
    twice.insert(
        1, ["images/0.png", "masks/2.png", "A stone in the left kidney.", "train", "p0", "b"]
    )
    dataset = own(write_csv(table, twice, [*COLUMNS, "id"]))
    assert kinds(dataset) == {}
    assert [c.id for c in dataset.found.cases[:3]] == ["a0", "b", "a1"]
    assert verify(dataset, split_seed=42, shown=3) == 0
    assert "one file for two images" not in capsys.readouterr().out


def spoiled(change):
    table = rows()
    change(table)
    return table


def put(row, column, value):
    return lambda table: table[row].__setitem__(COLUMNS.index(column), value)


MISTAKES = {
    "path leaves the root": (put(0, "image", "../0.png"), "../0.png"),
    "path leaves the root (absolute)": (put(0, "mask", "/masks/0.png"), "/masks/0.png"),
    "split name is unknown": (put(0, "split", "dev"), "'dev'"),
    "text is empty": (put(0, "text", ""), "images/0.png"),
    "image is missing": (put(0, "image", "images/none.png"), "images/none.png"),
    "mask is missing": (put(0, "mask", "masks/none.png"), "images/0.png"),
    "test row names no mask": (put(-1, "mask", ""), "images/11.png"),
    "row names no image": (put(1, "image", ""), "row 2"),
    "two rows for one image": (put(1, "image", "IMAGES/0.png"), "images/0.png (again in row 2)"),
    "split has no usable row": (lambda t: t.__delitem__(slice(-2, None)), "test"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_table_is_named_with_its_case_and_stops_a_run(mistake, table, capsys):
    change, case = MISTAKES[mistake]
    kind = mistake.partition(" (")[0]
    dataset = own(write_csv(table, spoiled(change)))
    assert case in kinds(dataset)[kind]
    assert verify(dataset, split_seed=42, shown=3) == 1
    assert kind in capsys.readouterr().out
    with pytest.raises(UserError, match=r"dataset=own dataset\.annotation=.*my\.csv"):
        dataset.prepare(range(1))


def test_an_image_in_two_splits_is_an_error_though_its_rows_have_ids(table):
    table_ = [[*r, f"a{i}"] for i, r in enumerate(rows())]
    table_[-1][0] = "images/0.png"
    dataset = own(write_csv(table, table_, [*COLUMNS, "id"]))
    assert kinds(dataset)["image is in two splits"] == "a0 (train) = a11 (test)"


def test_two_files_for_one_spelling_are_named_unless_they_are_equal(table):
    upper, first = table.parent / "images/0.PNG", table.parent / "images/0.png"
    upper.write_bytes(first.read_bytes())
    table_ = spoiled(put(0, "image", "Images/0.png"))
    assert kinds(own(write_csv(table, table_))) == {}
    upper.write_bytes((table.parent / "images/1.png").read_bytes())
    assert "0.png" in kinds(own(table))["two different files for one image"]


def test_a_position_of_another_length_is_an_error(tmp_path):
    draw(tmp_path, rows())
    marked = [[*r, "1010101"] for r in rows()]
    path = write_csv(tmp_path / "my.csv", marked, [*COLUMNS, "position"])
    dataset = own(path, f"dataset.vocabulary={kidneys.write(tmp_path)}")
    assert "1010101" in kinds(dataset)["position does not fit the vocabulary"]


def test_a_missing_column_a_missing_table_and_none_are_told_apart(tmp_path):
    path = write_csv(tmp_path / "my.csv", [["a.png", "train"]], ["image", "split"])
    with pytest.raises(UserError, match=r"'mask' is missing.*patient, position, id"):
        own(path).found  # noqa: B018
    with pytest.raises(UserError, match="does not exist"):
        own(tmp_path / "none.csv").found  # noqa: B018
    with pytest.raises(UserError, match=r"set dataset\.annotation=FILE"):
        build(compose(["dataset=own"]), "dataset")


def test_a_contact_sheet_and_a_description_need_no_mask_of_every_row(table, capsys, tmp_path):
    from semimedref.cli import main

    options = ["dataset=own", f"dataset.annotation={table}", "scale=smoke"]
    assert main(["data", "show", *options, f"out={tmp_path / 'sheet.png'}"]) == 0
    assert main(["data", "describe", *options]) == 0
    assert "regions none" in capsys.readouterr().out
    assert (tmp_path / "sheet.png").stat().st_size > 0
