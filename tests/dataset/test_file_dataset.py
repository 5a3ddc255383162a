"""A run on files: what stops it before it trains, what it never opens, what its result says."""

import itertools
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import corruptions
import pytest
import trees
from tests.command import semimedref
from trees import MOSMED, QATA

from semimedref.config import build, compose
from semimedref.dataset.published import Published
from semimedref.errors import UserError

PAPER = Published(images={"train": 6, "valid": 3, "test": 3}, side=24, labeled=[])
SMOKE = ["scale=smoke", "tracking=off", "hardware=cpu", "hardware.threads=1",
         "dataset=qata_cov19", "dataset.published=null", "dataset.name=my_qata",
         "ratio.fraction=0.5"]  # fmt: skip


SPIES = []  # hooks cannot be taken away again: this one calls those that a test puts here
sys.addaudithook(lambda event, args: [spy(event, args) for spy in SPIES])


def prepared(dataset, fraction=1.0):
    """What a run does with the data before its first step."""
    labeled, unlabeled = dataset.labeled_places(fraction=fraction, split_seed=42)
    dataset.prepare(labeled)
    return unlabeled


def spoil_unlabeled(root, spoil):
    dataset = trees.qata(root)
    _, unlabeled = dataset.labeled_places(fraction=0.5, split_seed=42)
    for place in unlabeled:
        case = dataset.found.split("train")[place]
        for file in (case.mask, *case.mask_copies):
            spoil(file)
    return len(unlabeled)


@pytest.mark.parametrize("corrupt", corruptions.ERRORS, ids=lambda c: c.__name__)
def test_an_error_stops_a_run_with_one_line_before_it_trains(corrupt, tmp_path):
    root = trees.qata_one_csv(tmp_path)
    corrupt(root)
    with pytest.raises(UserError) as error:
        prepared(trees.qata(root))
    said = str(error.value)
    assert corruptions.ERRORS[corrupt] in said and "data verify" in said and "\n" not in said


@pytest.mark.parametrize("corrupt", corruptions.WARNINGS, ids=lambda c: c.__name__)
def test_a_warning_stops_no_run(corrupt, tmp_path):
    root = trees.qata_one_csv(tmp_path)
    corrupt(root)
    prepared(trees.qata(root))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_masks_that_measure_must_be_there(split, tmp_path):
    root = trees.qata_one_csv(tmp_path)
    next((root / split / "masks").iterdir()).unlink()
    with pytest.raises(UserError, match="mask is missing"):
        prepared(trees.qata(root), fraction=0.5)


def test_masks_of_unlabeled_images_may_be_absent_or_garbage(tmp_path):
    root = trees.qata_one_csv(tmp_path)
    assert spoil_unlabeled(root, lambda file: file.unlink()) == 3
    assert len(prepared(trees.qata(root), fraction=0.5)) == 3
    with pytest.raises(UserError, match="mask is missing"):
        prepared(trees.qata(root), fraction=1.0)


def both_spellings(root):
    """Every training mask under a second name, as some copies have it."""
    for file in sorted((root / "train" / "masks").iterdir()):
        file.with_name(file.name.upper()).write_bytes(file.read_bytes())
    return root


def test_masks_of_unlabeled_images_are_not_opened_in_either_spelling(tmp_path):
    root = both_spellings(trees.qata_one_csv(tmp_path))
    count = itertools.count()
    spoil_unlabeled(root, lambda file: file.write_bytes(b"x" * next(count)))
    opened = []

    def spy(event, args):
        if event == "open" and "mask_covid" in str(args[0]).lower():
            opened.append(Path(str(args[0])).name.lower())

    SPIES.append(spy)
    try:
        unlabeled = prepared(trees.qata(root), fraction=0.5)
    finally:
        SPIES.remove(spy)
    train = trees.qata(root).found.split("train")
    hidden = {train[i].mask.name.lower() for i in unlabeled}
    assert next(count) == 6 and opened and not hidden & set(opened)


def test_a_needed_mask_whose_two_spellings_differ_stops_a_run(tmp_path):
    root = both_spellings(trees.qata_one_csv(tmp_path))
    dataset = trees.qata(root)
    (first, *_), _ = dataset.labeled_places(fraction=0.5, split_seed=42)
    trees.save(dataset.found.split("train")[first].mask, QATA[-1].image())
    with pytest.raises(UserError, match="two different files for one mask"):
        prepared(trees.qata(root), fraction=0.5)


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_run_needs_images_of_every_split(split, tmp_path):
    root = trees.qata_one_csv(tmp_path)
    corruptions.edit(root, lambda rows: [row for row in rows if row[1] != split])
    with pytest.raises(UserError, match=rf"split has no usable row \({split}\)"):
        prepared(trees.qata(root))


def test_the_options_of_a_data_set_can_be_copied(tmp_path):
    root = trees.qata_one_csv(tmp_path / "with space")
    args = shlex.split(trees.qata(root).options)
    again = build(compose(args), "dataset")
    assert (again.name, again.folder, again.published) == ("qata_tree", root, None)


def test_another_number_of_images_than_published_is_refused(tmp_path):
    root = trees.qata_one_csv(tmp_path)
    with pytest.raises(UserError, match=r"found 6 / 3 / 3, the paper uses 7 / 3 / 3.*verify"):
        prepared(trees.qata(root, published=replace(PAPER, images=PAPER.images | {"train": 7})))


def test_the_facts_of_a_result_name_files_lists_and_warnings(tmp_path):
    dataset = trees.qata(trees.qata_one_csv(tmp_path), published=replace(PAPER, side=224))
    prepared(dataset, fraction=0.02)
    facts = json.loads(json.dumps(dataset.facts()))
    assert set(facts["annotation_sha256"]) == {"annotations.csv"}
    assert facts["images"] == {"train": 6, "valid": 3, "test": 3}
    assert facts["labeled"]["images"] == 1
    assert facts["warnings"] == ["pictures of 24 × 24 pixels, published 224 × 224"]


def test_a_published_copy_has_nothing_to_warn_of(tmp_path):
    dataset = trees.qata(trees.qata_one_csv(tmp_path), published=PAPER)
    prepared(dataset)
    assert dataset.warnings() == ()


def test_a_partition_of_ones_own_is_told_in_every_result(tmp_path):
    dataset = trees.qata(trees.qata_one_csv(tmp_path))
    assert dataset.warnings() == ("a partition of its own: 6 / 3 / 3 images",)


def test_other_labeled_images_than_the_published_ones_are_told(tmp_path):
    lists = [{"ratio": 0.02, "images": 1, "sha256": "0" * 64}]
    dataset = trees.qata(trees.qata_one_csv(tmp_path), published=replace(PAPER, labeled=lists))
    prepared(dataset, fraction=0.02)
    assert dataset.warnings() == ("not the published partition: 1 other images are labeled",)


def test_tables_of_one_name_in_two_folders_are_both_in_the_facts(tmp_path):
    trees.mosmed_excel(tmp_path)
    for folder in trees.FOLDERS.values():
        (file,) = (tmp_path / folder).glob("*.xlsx")
        file.rename(file.with_name("text.xlsx"))
    dataset = trees.mosmed(tmp_path)
    assert len(dataset.found.cases) == len(MOSMED)
    assert set(dataset.annotation_sha256()) == {f"{f}/text.xlsx" for f in trees.FOLDERS.values()}


def test_patients_and_studies_are_read_from_the_names():
    from semimedref.dataset.mosmed_plus import study
    from semimedref.dataset.qata_cov19 import patient

    assert patient("sub-S09123_ses-E1_dx.png") == patient("sub-s09123_ses-e2_cr.png")
    assert patient("covid_1.png") != patient("covid_10.png")
    assert study("Morozov_study_0295_7.png") == study("Morozov_study_0295_12.png")
    assert study("bjorke_1.png") != study("bjorke_2.png")


@pytest.mark.slow
def test_a_run_trains_where_the_masks_of_unlabeled_images_are_garbage(tmp_path):
    from semimedref.run import run

    root = both_spellings(trees.qata_one_csv(tmp_path / "data"))
    spoil_unlabeled(root, lambda file: file.write_bytes(f"no picture {file.name}".encode()))
    cfg = compose([*SMOKE, f"dataset.root={root}", f"run_root={tmp_path / 'runs'}"])
    assert 0 <= run(cfg) <= 1
    (file,) = (tmp_path / "runs").glob("*/result.json")
    data = json.loads(file.read_text())["data"]
    assert data["warnings"] == ["a partition of its own: 6 / 3 / 3 images"]
    assert data["labeled"]["images"] == 3


@pytest.mark.slow
def test_the_command_stops_on_a_damaged_picture_with_one_line(tmp_path):
    root = trees.qata_one_csv(tmp_path / "data")
    corruptions.truncated_image(root)
    done = semimedref("train", *SMOKE, f"dataset.root={root}", f"run_root={tmp_path / 'runs'}")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    (line,) = [li for li in done.stderr.splitlines() if li.startswith("semimedref: error:")]
    assert f"{QATA[0].id}: image file is damaged" in line
    assert not list((tmp_path / "runs").rglob("metrics.jsonl"))
