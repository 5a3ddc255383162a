"""Pictures are found by name: which folders say masks, which say a split, which say nothing."""

import numpy as np
import pytest
import trees
from trees import MOSMED

from semimedref.dataset.checks.mask_copies import differing_masks
from semimedref.dataset.folders import Folders, split_of


def touch(root, *paths, content=b"x"):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


@pytest.mark.parametrize(
    ("above", "images", "masks"),
    [
        ("", "frames", "masks"),
        ("images and masks", "frames", "masks"),
        ("MosMed_train_val_test", "frames", "masks"),
        ("segmentation", "img", "labelcol"),
        ("", "Images", "Segmentations"),
        ("", "frames", "annotations"),
        ("", "pics", "Ground-truths"),
    ],
)
def test_folders_above_the_pictures_tell_nothing_wrong(above, images, masks, tmp_path):
    trees.mosmed_frames(tmp_path)
    (tmp_path / above).mkdir(exist_ok=True)
    for old, new in (("frames", images), ("masks", masks)):
        (tmp_path / old).rename(tmp_path / above / new)
    found = trees.mosmed(tmp_path).found
    assert found.problems == ()
    assert {case.image.parent.name for case in found.cases} == {images}
    assert {case.mask.parent.name for case in found.cases} == {masks}


def test_a_folder_of_one_split_may_hold_all_and_a_note_says_so(tmp_path):
    trees.mosmed_frames(tmp_path)
    (tmp_path / "data" / "train").mkdir(parents=True)
    for name in ("frames", "masks"):
        (tmp_path / name).rename(tmp_path / "data" / "train" / name)
    found = trees.mosmed(tmp_path).found
    assert all(case.image and case.mask for case in found.cases)
    # Validation images among the training images are usual, test images are not.
    assert {(p.kind, p.level) for p in found.problems} == {
        ("image lies in another split's folder", "note"),
        ("mask lies in another split's folder", "note"),
    }
    assert len(found.problems) == 2 * sum(case.split == "test" for case in MOSMED)


def test_a_name_of_two_images_is_taken_from_its_own_split_only(tmp_path):
    touch(tmp_path, "train/images/1.png", "valid/images/1.png")
    folders = Folders(tmp_path)
    assert folders.image("1.png", split="test", anywhere=True).path is None
    assert folders.image("1.png", split="train").path == tmp_path / "train/images/1.png"
    (tmp_path / "valid/images/1.png").unlink()
    folders = Folders(tmp_path)
    assert folders.image("1.png", split="test").path is None
    assert folders.image("1.png", split="test", anywhere=True).elsewhere == "train"


def test_a_name_with_one_split_word_tells_and_one_with_several_does_not():
    assert split_of("Train_Folder") == split_of("training-train") == "train"
    assert split_of("MosMed_train_val_test") is split_of("images") is None


def test_a_link_to_nothing_is_a_missing_image(tmp_path):
    root = trees.qata_one_csv(tmp_path)
    image = root / "train" / "images" / "covid_1.png"
    image.unlink()
    image.symlink_to("/nowhere/covid_1.png")
    (root / "train" / "images" / "COVID_10.PNG").symlink_to("/nowhere/covid_10.png")
    (problem,) = trees.qata(root).found.problems
    assert (problem.kind, problem.case) == ("image is missing", "covid_1.png")


def test_masks_in_two_spellings_are_compared_only_when_asked(tmp_path):
    root = trees.qata_one_csv(tmp_path)
    first = root / "train" / "masks" / "mask_covid_1.png"
    other = first.with_name("MASK_COVID_1.PNG")
    other.write_bytes(first.read_bytes())
    found = trees.qata(root).found
    assert found.problems == () and list(differing_masks(found.cases)) == []
    trees.save(other, np.zeros((24, 24), np.uint8))
    found = trees.qata(root).found
    (problem,) = differing_masks(found.cases)
    assert found.problems == () and problem.kind == "two different files for one mask"
    assert problem.level == "error" and "covid_1.png: masks/" in problem.case
