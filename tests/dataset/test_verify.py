"""``semimedref data verify``: every corruption is named with its case, none is a traceback."""

import hashlib
import json
from dataclasses import replace

import corruptions
import pytest
import trees
from trees import MOSMED, QATA

from semimedref.cli import main
from semimedref.dataset.published import Published
from semimedref.dataset.verify import verify

ALL = (
    [(c, kind, "error") for c, kind in (corruptions.ERRORS | corruptions.LEAKS).items()]
    + [(c, kind, "warning") for c, kind in corruptions.WARNINGS.items()]
    + [(c, kind, "note") for c, kind in corruptions.NOTES.items()]
)
NAMES = [c.__name__ for c, _, _ in ALL]


def published(**changes):
    """What a paper would say of the tree."""
    dataset = {"images": {"train": 6, "valid": 3, "test": 3}, "side": 24, "labeled": []}
    return Published(**(dataset | changes))


def run(dataset, capsys, shown=3):
    code = verify(dataset, split_seed=42, shown=shown)
    return code, capsys.readouterr().out.splitlines()


def row(lines, kind):
    """The line of the table for a kind of problem."""
    return next((line for line in lines if line.startswith(f"{kind}  ")), "")


@pytest.mark.parametrize("layout", trees.QATA_LAYOUTS)
def test_a_good_copy_of_qata_has_no_problem_in_any_layout(layout, tmp_path, capsys):
    build, source = trees.QATA_LAYOUTS[layout]
    code, lines = run(trees.qata(build(tmp_path), text_source=source), capsys)
    assert code == 0 and lines[-1] == "no problems"


def test_gray_masks_of_mosmed_are_a_note(tmp_path, capsys):
    code, lines = run(trees.mosmed(trees.mosmed_excel(tmp_path)), capsys)
    assert code == 0 and lines[-1] == "1 note"
    assert "12: " in row(lines, "mask holds gray values")


@pytest.mark.parametrize(("corrupt", "kind", "level"), ALL, ids=NAMES)
def test_a_corruption_is_in_the_table_with_its_case(corrupt, kind, level, tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    case = corrupt(root)
    code, lines = run(trees.qata(root), capsys)
    assert code == (level == "error")
    found = row(lines, kind)
    assert case in found and f"  {level}  " in f"{found} "


def test_nothing_is_written_below_the_root(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    before = {f: f.stat().st_mtime_ns for f in root.rglob("*")}
    run(trees.qata(root), capsys)
    assert {f: f.stat().st_mtime_ns for f in root.rglob("*")} == before


def test_the_headline_has_layout_counts_patients_and_labeled_lists(tmp_path, capsys):
    _, lines = run(trees.qata(trees.qata_one_csv(tmp_path)), capsys)
    text = "\n".join(lines)
    assert "one table, annotations.csv" in text
    images = next(line for line in lines if line.startswith("images"))
    patients = next(line for line in lines if line.startswith("patients"))
    assert images.split()[1:] == ["6", "3", "3"] and patients.split()[1:] == ["5", "2", "2"]
    assert [line.split()[4] for line in lines if line.startswith("labeled at")] == ["1"] * 4


def test_all_cases_are_listed_when_asked(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    for file in (root / "train" / "masks").iterdir():
        file.unlink()
    dataset = trees.qata(root)
    _, few = run(dataset, capsys)
    _, every = run(dataset, capsys, shown=None)
    assert row(few, "mask is missing").count(".png") == 3 and "6: " in row(few, "mask is missing")
    assert row(every, "mask is missing").count(".png") == 6


def test_fewer_images_than_published_are_an_error(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    corruptions.edit(root, lambda rows: rows[1:])
    code, lines = run(trees.qata(root, published=published()), capsys)
    assert code == 1
    found = row(lines, "number of images is not the published one")
    assert "train: 5 images, published 6" in found


def test_another_size_than_the_published_one_is_a_note(tmp_path, capsys):
    code, lines = run(
        trees.qata(trees.qata_one_csv(tmp_path), published=published(side=32)), capsys
    )
    assert code == 0 and lines[-1] == "1 note"
    assert "12: covid_1.png (24 × 24)" in row(lines, "image is not 32 × 32 as published")


@pytest.mark.parametrize("right", [True, False])
def test_labeled_lists_are_recognized_by_their_hash(right, tmp_path, capsys):
    # Random(42) shuffles six places to 3, 1, 2, 4, 0, 5: the one labeled image is covid_12.
    digest = hashlib.sha256(b"covid_12.png" if right else b"covid_1.png").hexdigest()
    lists = [{"ratio": 0.02, "images": 1, "sha256": digest}]
    dataset = trees.qata(trees.qata_one_csv(tmp_path), published=published(labeled=lists))
    code, lines = run(dataset, capsys)
    (said,) = [line for line in lines if line.startswith("labeled at 2 %")]
    assert code == 0 and said.endswith("NOT the published list") != right
    assert bool(row(lines, "labeled list is not the published one")) != right


def test_copies_in_the_published_partition_are_a_warning(tmp_path, capsys):
    """Whoever compares with the paper must keep them."""
    root = trees.qata_one_csv(tmp_path)
    corruptions.same_image_in_two_splits(root)
    code, lines = run(trees.qata(root, published=published()), capsys)
    assert code == 0 and "  warning  " in row(lines, "same image in train and valid")


def test_studies_that_cross_splits_count_their_test_images(tmp_path, capsys):
    moved = [replace(c, split="test") if c.file.endswith("case1_9.png") else c for c in MOSMED]
    dataset = trees.mosmed(trees.mosmed_excel(tmp_path, moved))
    code, lines = run(dataset, capsys)
    assert code == 0
    assert "1: jun_coronacases_case1" in row(lines, "study is in train and test")
    found = row(lines, "test image of a study that train has too")
    assert "1: Jun_coronacases_case1_9.png" in found
    assert dataset.warnings()[0] == (
        "1 study is in both train and test: 1 of 4 test images come from a study that train has too"
    )


@pytest.mark.parametrize(
    ("build", "adapter", "name"),
    [
        (trees.qata_lists, trees.qata, "split_unlabeled_0.5.json"),
        (trees.mosmed_lists, trees.mosmed, "labeled_0.02.plabel.csv"),
    ],
)
def test_a_list_of_the_authors_that_differs_from_the_rule_is_a_warning(
    build, adapter, name, tmp_path, capsys
):
    root = build(tmp_path)
    (file,) = root.rglob(name)
    if file.suffix == ".json":
        groups = json.loads(file.read_text())
        gone = groups["train"].pop(0)["image_path"].removeprefix("mask_")
        file.write_text(json.dumps(groups))
    else:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        gone = lines.pop(1).split(",")[0]
        other = next(c for c in MOSMED if c.split == "train" and c.file != gone)
        lines.append(f'{other.file},"{other.lvit}","[0, 1, 0, 0, 0, 0]"')
        file.write_text("\r\n".join(lines))
    code, lines = run(adapter(root), capsys)
    found = row(lines, f"{name} differs from the rule")
    assert code == 0 and f"{gone} (only by the rule)" in found and "  warning  " in found


def test_the_command_exits_with_1_on_errors_and_0_without(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    args = ["data", "verify", "dataset=qata_cov19", f"dataset.root={root}"]
    own = [*args, "dataset.published=null", "dataset.name=my_qata"]
    assert main(own) == 0
    corruptions.truncated_image(root)
    assert main([*own, "cases=all"]) == 1
    assert main(args) == 1  # nor has the tree the published number of images
    assert "Traceback" not in capsys.readouterr().err


def test_bad_options_of_the_command_are_one_line(tmp_path, capsys):
    root = trees.qata_one_csv(tmp_path)
    assert main(["data", "verify", "dataset=qata_cov19", f"dataset.root={root}/none"]) == 2
    assert main(["data", "verify", f"dataset.root={root}", "dataset=qata_cov19", "cases=few"]) == 2
    assert main(["data", "verifi", "dataset=phantom_tiny"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and "does not exist" in errors[0] and "cases=few" in errors[1]


def test_the_phantom_is_clean(capsys):
    assert main(["data", "verify", "dataset=phantom_tiny"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "no problems"
    assert next(line for line in lines if line.startswith("images")).split()[1:] == [
        "200", "24", "30",
    ]  # fmt: skip


def test_every_case_of_the_trees_is_in_one_of_three_splits():
    assert {c.split for c in QATA} == {c.split for c in MOSMED} == {"train", "valid", "test"}
