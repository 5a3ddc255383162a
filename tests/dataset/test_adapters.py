"""Every layout of QaTa-COV19 and MosMedData+ gives the same samples."""

import numpy as np
import pytest
import trees
from trees import MOSMED, MOSMED_LAYOUTS, QATA, QATA_LAYOUTS, of

from semimedref.errors import UserError


def assert_same(dataset, cases, *, text, name):
    """The samples of a data set are the cases as they were drawn."""
    assert dataset.found.problems == ()
    for split in ("train", "valid", "test"):
        expected = sorted(of(cases, split), key=name)
        part = dataset.split(split)
        assert part.ids == tuple(map(name, expected))
        assert part.texts == tuple(map(text, expected))
        assert ["".join(map(str, row)) for row in part.positions] == [c.position for c in expected]
        np.testing.assert_array_equal(part.images, [c.image() for c in expected])
        np.testing.assert_array_equal(part.masks, [c.mask() // 255 for c in expected])


@pytest.mark.parametrize("layout", QATA_LAYOUTS)
def test_every_layout_of_qata_cov19_gives_the_same_samples(layout, tmp_path):
    build, source = QATA_LAYOUTS[layout]
    dataset = trees.qata(build(tmp_path), text_source=source)
    assert_same(dataset, QATA, text=lambda c: getattr(c, source), name=lambda c: c.id)
    patients = dataset.split("test").patients
    assert patients == ("sub-s10003", "sub-s10004", "sub-s10004")


@pytest.mark.parametrize("layout", MOSMED_LAYOUTS)
def test_every_layout_of_mosmed_plus_gives_the_same_samples(layout, tmp_path):
    dataset = trees.mosmed(MOSMED_LAYOUTS[layout](tmp_path))
    assert_same(dataset, MOSMED, text=lambda c: c.lvit, name=lambda c: c.file)
    assert dataset.split("train").patients == (
        "jun_coronacases_case1", "jun_coronacases_case1", "jun_radiopaedia_40_86625_0_case18",
        "morozov_study_0255", "bjorke_1", "bjorke_10",
    )  # fmt: skip


def test_all_layouts_have_the_same_labeled_images(tmp_path):
    found = set()
    for number, (build, source) in enumerate(QATA_LAYOUTS.values()):
        dataset = trees.qata(build(tmp_path / str(number)), text_source=source)
        places, _ = dataset.labeled_places(fraction=0.5, split_seed=42)
        found.add(tuple(dataset.found.split("train")[i].id for i in places))
    assert len(found) == 1


def test_another_size_comes_out_at_the_side_of_the_run(tmp_path):
    part = trees.qata(trees.qata_one_csv(tmp_path), side=16).split("train")
    assert part.images.shape == (6, 16, 16) and part.masks[:].shape == (6, 16, 16)
    assert set(np.unique(part.masks[:])) == {0, 1}


def test_the_root_may_be_the_annotation_file_itself(tmp_path):
    trees.qata_one_csv(tmp_path)
    assert len(trees.qata(tmp_path / "annotations.csv").found.cases) == len(QATA)


def test_an_annotation_elsewhere_is_named(tmp_path):
    trees.qata_sgseg(tmp_path / "data")
    (tmp_path / "data" / "annotation.json").rename(tmp_path / "texts.json")
    dataset = trees.qata(tmp_path / "data", annotation=str(tmp_path / "texts.json"))
    assert dataset.found.problems == () and len(dataset.found.cases) == len(QATA)


def test_the_lists_of_the_authors_may_lie_in_a_folder_of_their_own(tmp_path):
    """As in a checkout of their code beside the images."""
    trees.mosmed_lists(tmp_path / "data")
    (tmp_path / "data" / "data_splits").rename(tmp_path / "data_splits")
    dataset = trees.mosmed(tmp_path / "data", annotation=str(tmp_path / "data_splits"))
    assert_same(dataset, MOSMED, text=lambda c: c.lvit, name=lambda c: c.file)


def test_labels_by_two_rules_in_the_lists_are_not_two_rows(tmp_path):
    trees.mosmed_lists(tmp_path)
    (file,) = tmp_path.rglob("labeled_0.02.plabel.csv")
    file.write_text(file.read_text().replace("[0, ", "[1, "))
    assert trees.mosmed(tmp_path).found.problems == ()


def test_the_texts_of_the_other_source_are_not_taken_for_the_wanted_ones(tmp_path):
    trees.qata_lvit_csv(tmp_path)
    with pytest.raises(UserError, match=r"texts of lvit only.*dataset.text_source=lvit"):
        _ = trees.qata(tmp_path, text_source="sgseg").found


def test_captions_and_labels_of_sgseg_go_with_the_wording_of_lvit(tmp_path):
    """The position label belongs to the image: it is SGSeg's with either text."""
    trees.qata_lvit_csv(tmp_path)
    groups = trees.sgseg_groups()
    groups["train"][0]["pseudo_label"] = [0, 0, 1, 0, 0, 0]
    trees.write_json(tmp_path / "annotation.json", groups)
    first = trees.qata(tmp_path, text_source="lvit").found.split("train")[0]
    assert first.text == QATA[0].lvit and first.position == (0, 0, 1, 0, 0, 0)


def test_a_folder_without_annotation_says_what_was_expected(tmp_path):
    trees.qata_pictures(tmp_path)
    with pytest.raises(UserError, match=r"no annotation.*annotation\.json.*dataset\.annotation"):
        _ = trees.qata(tmp_path).found
    with pytest.raises(UserError, match=r"no annotation.*_text\.xlsx"):
        _ = trees.mosmed(tmp_path).found


def test_other_tables_and_settings_beside_the_annotation_do_no_harm(tmp_path):
    trees.mosmed_frames(tmp_path)
    (tmp_path / "settings.json").write_text('{"side": 512, "rows": [1, 2]}')
    trees.write_csv(tmp_path / "ages.csv", ["patient", "age"], [["a", 3]])
    assert trees.mosmed(tmp_path).found.problems == ()


def test_a_damaged_table_beside_a_good_one_is_a_warning(tmp_path):
    trees.qata_sgseg(tmp_path)
    (tmp_path / "Train_text.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    (problem,) = trees.qata(tmp_path).found.problems
    assert problem.level == "warning" and problem.case.startswith("Train_text.xlsx (damaged")


@pytest.mark.parametrize("content", [b"", b'{"train": [', b"PK\x03\x04", b"\x00\x01\x02"])
@pytest.mark.parametrize("file", ["annotation.json", "Train_text.xlsx"])
def test_a_damaged_annotation_is_one_line(file, content, tmp_path):
    trees.qata_pictures(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError) as error:
        _ = trees.qata(tmp_path).found
    assert file in str(error.value) or "no annotation" in str(error.value)


def test_one_table_for_each_split_with_a_split_column_is_joined(tmp_path):
    trees.mosmed_one_csv(tmp_path)
    (tmp_path / "mosmed.csv").unlink()
    for split in ("train", "valid", "test"):
        rows = [[c.file, split, c.lvit] for c in of(MOSMED, split)]
        trees.write_csv(tmp_path / f"{split}_part.csv", ["image", "split", "text"], rows)
    dataset = trees.mosmed(tmp_path)
    assert_same(dataset, MOSMED, text=lambda c: c.lvit, name=lambda c: c.file)


def test_a_table_with_semicolons_is_read(tmp_path):
    trees.mosmed_frames(tmp_path)
    for split in ("train", "valid", "test"):
        file = tmp_path / f"{split}.csv"
        lines = [f'{c.file};"{c.lvit}"' for c in of(MOSMED, split)]
        file.write_text("\n".join(["Image;text", *lines]), encoding="cp1252")
    assert len(trees.mosmed(tmp_path).found.cases) == len(MOSMED)


def test_a_position_that_excel_took_for_a_number_is_restored(tmp_path):
    trees.qata_one_csv(tmp_path)
    head = ["image", "split", "text_sgseg", "text_lvit", "position"]
    rows = [[c.id, c.split, c.sgseg, c.lvit, int(c.position)] for c in QATA]
    (tmp_path / "annotations.csv").unlink()
    trees.write_excel(tmp_path / "annotations.xlsx", head, rows)
    found = trees.qata(tmp_path).found
    assert ["".join(map(str, c.position)) for c in found.cases] == [c.position for c in QATA]


def test_a_bare_side_marks_all_levels_only_in_scarcely_labeled_training(tmp_path):
    """BUG 1 of the release: "left lung" is three regions in its lists below 100 %."""
    dataset = trees.mosmed(trees.mosmed_frames(tmp_path))
    dataset.bare_side_label = "all_levels"
    slots = {c.split: c.position for c in dataset.found.cases if "left lung and" in c.text
             and c.text.startswith("Unilateral")}  # fmt: skip
    assert slots == {"train": (1, 1, 1, 0, 1, 0), "valid": (0, 0, 0, 0, 1, 0),
                     "test": (0, 0, 0, 0, 1, 0)}  # fmt: skip


def test_names_without_a_suffix_are_the_same_images(tmp_path):
    trees.mosmed_frames(tmp_path)
    for split in ("train", "valid", "test"):
        rows = [[c.file.removesuffix(".png"), c.lvit] for c in of(MOSMED, split)]
        trees.write_csv(tmp_path / f"{split}.csv", ["Image", "text"], rows)
    dataset = trees.mosmed(tmp_path)
    assert_same(dataset, MOSMED, text=lambda c: c.lvit, name=lambda c: c.file)


@pytest.mark.parametrize("damaged", [[0, 1], [2, 1, 1, 0, 1, 0], [2, 1, 1, 0, 1, 0, 0], "upper"])
def test_a_position_label_that_does_not_fit_is_a_warning(damaged, tmp_path):
    trees.qata_sgseg(tmp_path)
    groups = trees.sgseg_groups()
    groups["train"][0]["pseudo_label"] = damaged
    trees.write_json(tmp_path / "annotation.json", groups)
    found = trees.qata(tmp_path).found
    (problem,) = found.problems
    assert (problem.kind, problem.level) == ("position label does not fit", "warning")
    assert problem.case == f"{QATA[0].id}: {damaged}"
    assert found.cases[0].position == (1, 0, 0, 0, 0, 0)  # by its sentence


def test_a_caption_that_is_no_text_is_an_empty_one(tmp_path):
    trees.qata_sgseg(tmp_path)
    groups = trees.sgseg_groups()
    groups["train"][0]["caption"] = float("nan")
    trees.write_json(tmp_path / "annotation.json", groups)
    (problem,) = trees.qata(tmp_path).found.problems
    assert (problem.kind, problem.case) == ("text is empty", QATA[0].id)
