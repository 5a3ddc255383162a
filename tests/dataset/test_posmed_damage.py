"""PosMed copies that are incomplete, damaged or oddly stored: named, never passed over."""

import csv
import json
import shutil

import pytest
from posmed_tree import CASES, HEAD, build, rows, write_table
from test_posmed import posmed, problems, summary

from semimedref.cli import main
from semimedref.dataset.partition_file import prepare
from semimedref.errors import UserError

BRAIN, BREAST, LUNG_CT, *_ = CASES


def short(table):
    """Rows whose path does not name the folder of the group."""
    return [row | {"image_path": row["image_path"].partition("/")[2]} for row in rows(table)]


def breast(folder):
    return build(folder, tables=(BREAST,))


def run(command, root, *more):
    return main(["data", command, "dataset=posmed", f"dataset.root={root}", *more])


def header(out):
    return json.loads((out / "posmed.json").read_text())


def strange(root, name="breast.csv"):
    """The table of the breast group under a name that says nothing."""
    (root / "annotations" / f"{BREAST}.csv").unlink()
    write_table(root / "annotations" / name, short(BREAST))


def test_a_table_without_any_group_is_refused(tmp_path, capsys):
    root = breast(tmp_path / "data")
    strange(root)
    for command in ("verify", "prepare"):
        assert run(command, root, f"out={tmp_path / 'out'}") == 2
        said = capsys.readouterr().err
        assert "breast.csv: 16 rows, the first: 'train_masks/benign (1).png'" in said
        assert "skin_rgbimage" in said
    assert not (tmp_path / "out").exists()


def test_rows_of_no_group_beside_others_are_an_error_with_file_and_count(tmp_path):
    root = build(tmp_path, tables=(BREAST, LUNG_CT))
    strange(root)
    dataset = posmed(root)
    (problem,) = dataset.found.errors
    assert problem.kind == "rows belong to no group" and "breast.csv: 16 rows" in problem.case
    assert {case.domain for case in dataset.found.cases} == {"lung_ct"}


def test_the_folder_of_a_table_can_say_its_group(tmp_path):
    root = breast(tmp_path)
    (root / "annotations" / f"{BREAST}.csv").unlink()
    write_table(root / "data" / BREAST / "answers.csv", short(BREAST))
    dataset = posmed(root)
    assert not dataset.found.errors
    assert sum(c.image is not None and c.mask is not None for c in dataset.found.cases) == 16


def test_a_copy_with_none_of_the_chosen_domains_is_refused(tmp_path):
    with pytest.raises(UserError, match="of breast_ultrasound alone; expected some of brain_mri"):
        _ = posmed(breast(tmp_path), "dataset.domains=[brain_mri]").found


def test_a_partition_without_any_group_is_not_written(tmp_path, capsys):
    root = build(tmp_path / "data", tables=(BRAIN,), patients=False)
    assert run("prepare", root, f"out={tmp_path / 'out'}") == 2
    assert "dataset.brain_patients=FILE" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run("verify", root) == 1


def test_the_header_names_the_groups_that_could_not_be_prepared(tmp_path, capsys):
    root, out = build(tmp_path / "data", tables=(BRAIN, BREAST), patients=False), tmp_path / "out"
    assert run("prepare", root, f"out={out}") == 0
    assert "error: patients of a group are unknown (1: brain_mri)" in capsys.readouterr().out
    head = header(out)
    assert head["complete"] is False and head["images"]["train"] == 12
    assert head["missing_groups"] == [
        "brain_mri", "lung_ct", "lung_xray", "polyp_endoscopy", "skin_dermoscopy"
    ]  # fmt: skip


def test_the_header_of_a_whole_copy_says_that_it_is_complete(tmp_path):
    prepare(posmed(build(tmp_path / "data")), tmp_path, split_seed=42)
    head = header(tmp_path)
    facts = ("complete", "missing_groups", "images_not_compared")
    assert [head[name] for name in facts] == [True, [], {}]


def test_a_partition_without_pictures_says_that_equal_images_were_not_found(tmp_path):
    root = build(tmp_path / "data", tables=(BREAST, LUNG_CT))
    shutil.rmtree(root / "data" / BREAST)
    told = "\n".join(prepare(posmed(root), tmp_path, split_seed=42))
    assert "16 of 28 images are not here, so equal ones could not be found" in told
    assert "needed" not in told
    head = header(tmp_path)
    assert head["images_not_compared"] == {"breast_ultrasound": 16}
    assert head["complete"] is False


def test_empty_files_equal_nothing(tmp_path):
    root = breast(tmp_path)
    for name in ("train_images/benign (1)", "train_images/benign (2)", "test_images/benign (20)",
                 "train_masks/benign (3)", "test_masks/malignant (3)"):  # fmt: skip
        (root / "data" / BREAST / f"{name}.png").write_bytes(b"")
    dataset = posmed(root)
    assert len(dataset.found.cases) == len({case.patient for case in dataset.found.cases}) == 16
    assert len(problems(dataset, "image cannot be compared, it is empty")) == 3
    assert len(problems(dataset, "mask cannot be compared, it is empty")) == 2
    assert dataset.partition_facts()["images_not_compared"] == {"breast_ultrasound": 5}


@pytest.mark.parametrize("moved", ["images", "masks"])
def test_images_and_masks_may_lie_in_different_parts_of_a_download(tmp_path, moved):
    root = breast(tmp_path)
    expected = summary(posmed(root))
    for split in ("train", "val", "test"):
        there = root / "part2" / BREAST / f"{split}_{moved}"
        there.parent.mkdir(parents=True, exist_ok=True)
        (root / "data" / BREAST / f"{split}_{moved}").rename(there)
    dataset = posmed(root)
    assert summary(dataset) == expected and not dataset.found.errors
    assert all(case.image and case.mask for case in dataset.found.cases)
    assert {case.image.parent.name for case in dataset.found.cases} == {
        "train_images", "val_images", "test_images"
    }  # fmt: skip


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "utf-8"), (",", "utf-16")])
def test_tables_are_read_as_any_office_program_writes_them(tmp_path, delimiter, encoding):
    root = breast(tmp_path)
    expected = summary(posmed(root))
    path = root / "annotations" / f"{BREAST}.csv"
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, HEAD, delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows(BREAST))
    assert summary(posmed(root)) == expected


def test_a_table_that_does_not_exist_is_said_to_be_absent(tmp_path):
    with pytest.raises(UserError, match=r"absent\.csv does not exist"):
        _ = posmed(breast(tmp_path), f"dataset.annotation={tmp_path / 'absent.csv'}").found


@pytest.mark.parametrize(("name", "level"), [(f"{BREAST}.csv", "error"), ("mine.csv", "warning")])
def test_a_damaged_table_is_named_and_the_others_are_read(tmp_path, name, level):
    root = build(tmp_path, tables=(LUNG_CT,))
    (root / "annotations" / name).write_text("image_path,answer\na.png,left, or right\n")
    (problem,) = problems(posmed(root), "table cannot be read")
    assert problem.level == level and name in problem.case and "line 2" in problem.case


def test_a_link_to_nowhere_is_a_missing_image(tmp_path):
    root = breast(tmp_path)
    file = root / "data" / BREAST / "train_images" / "benign (1).png"
    file.unlink()
    file.symlink_to(tmp_path / "nowhere.png")
    (root / "annotations" / "old.csv").symlink_to(tmp_path / "nowhere.csv")
    dataset = posmed(root)
    (problem,) = dataset.found.errors
    assert problem.kind == "image is missing" and problem.case.endswith("benign (1).png")
    assert len(dataset.found.cases) == 16


def test_links_in_a_circle_are_not_followed_for_ever(tmp_path):
    root = breast(tmp_path)
    expected = summary(posmed(root))
    (root / "data" / "again").symlink_to(root)
    (root / "data" / BREAST / "again").symlink_to(root / "data" / BREAST)
    dataset = posmed(root)
    assert summary(dataset) == expected
    assert {p.kind for p in dataset.found.problems} == {"a group is absent"}


def test_other_counts_are_allowed_by_the_option_that_posmed_has(tmp_path, capsys):
    assert run("verify", breast(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "dataset.domain_counts=null dataset.name=my_posmed" in said
    assert "dataset.published" not in said
