"""Single checks of a verification, on cases that are worked out by hand."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np

from semimedref.dataset.case import Case, Problem
from semimedref.dataset.checks.copies import check_copies
from semimedref.dataset.checks.patients import crossings
from semimedref.dataset.checks.sides import side_box, text_against_mask
from semimedref.dataset.checks.sizes import check_sizes
from semimedref.dataset.checks.splits import empty_splits
from semimedref.dataset.problem_table import problem_table
from semimedref.text.vocabulary import LUNGS, QUADRANTS


def case(name="a", split="train", patient="p", position=()):
    return Case(name, split, patient, "text", Path(f"{name}.png"), None, tuple(position))


def findings(position, vocabulary, *boxes):
    """What is said of a 10 × 10 mask that is 1 in some boxes (top, bottom, left, right)."""
    mask = np.zeros((10, 10), np.uint8)
    for top, bottom, left, right in boxes:
        mask[top:bottom, left:right] = 1
    found = text_against_mask(case(position=map(int, position)), mask, vocabulary, options="")
    return [(p.kind, p.case) for p in found]


def test_sides_are_halves_of_the_width_in_both_vocabularies():
    for vocabulary in (LUNGS, QUADRANTS):
        assert side_box(vocabulary, "left") == (0, 1, 0, 0.5)
        assert side_box(vocabulary, "right") == (0, 1, 0.5, 1)


def test_one_pixel_on_a_side_of_the_lungs_counts():
    assert findings("100000", LUNGS, (0, 2, 0, 5)) == []
    assert findings("100000", LUNGS, (0, 2, 0, 6)) == [("mask on a side without name", "a (right)")]


def test_levels_do_not_matter_to_the_sides():
    assert findings("100001", LUNGS, (8, 10, 0, 1), (0, 2, 9, 10)) == []


def test_a_named_side_without_a_pixel_is_found():
    assert findings("100100", LUNGS, (0, 2, 0, 2)) == [
        ("text names a side without mask", "a (right)")
    ]


def test_a_lesion_of_a_quadrant_may_reach_across_but_not_lie_across():
    assert findings("10000", QUADRANTS, (0, 3, 1, 7)) == []
    assert findings("10000", QUADRANTS, (0, 3, 4, 9)) == [
        ("mask on a side without name", "a (right)")
    ]


def test_the_center_has_no_side_but_must_hold_the_lesion():
    assert findings("00001", QUADRANTS, (4, 6, 3, 8)) == []
    assert findings("00001", QUADRANTS, (0, 2, 0, 2)) == [
        ("text names a region without mask", "a (center)")
    ]


def test_a_sentence_without_place_says_nothing_about_sides():
    assert findings("000000", LUNGS, (0, 2, 0, 2)) == []


def test_the_fix_of_a_side_names_the_data_set_and_the_split():
    mask = np.zeros((10, 10), np.uint8)
    mask[0, 9] = 1
    wrong = case(split="valid", position=(1, 0, 0, 0, 0, 0))
    found = [p.fix for p in text_against_mask(wrong, mask, LUNGS, options="dataset=x")]
    assert len(found) == 2
    assert all("`semimedref data show dataset=x split=valid cases=NAME`" in fix for fix in found)


def test_a_split_without_a_case_is_an_error():
    (problem,) = empty_splits([case("a", "train"), case("b", "test")])
    assert (problem.case, problem.level) == ("valid", "error")


def test_crossings_count_the_images_of_the_later_split():
    cases = [case("a", "train", "p"), case("b", "train", "q"), case("c", "valid", "q"),
             case("d", "test", "q"), case("e", "test", "q"), case("f", "test", "r")]  # fmt: skip
    found = [(c.first, c.second, c.shared, len(c.cases), c.images) for c in crossings(cases)]
    assert found == [("train", "valid", ("q",), 1, 1), ("train", "test", ("q",), 2, 3),
                     ("valid", "test", ("q",), 2, 3)]  # fmt: skip


def test_equal_images_in_one_split_are_no_leak():
    cases = [case("a"), case("b")]
    assert list(check_copies(cases, dict.fromkeys(map(Path, ["a.png", "b.png"]), "x"),
                             published=False)) == []  # fmt: skip


def test_one_file_for_two_images_is_an_error():
    twins = [case("a"), Case("A", "train", "p", "text", Path("a.png"), None, ())]
    (problem,) = check_copies(twins, {Path("a.png"): "x"}, published=True)
    assert (problem.kind, problem.level) == ("one file for two images", "error")


def test_several_sizes_are_one_note_with_their_counts():
    found = list(check_sizes({"a": (4, 5), "b": (4, 5), "c": (6, 6)}, None))
    assert [p.case for p in found] == ["5 × 4: 2 images", "6 × 6: 1 images"]


def test_a_table_in_a_terminal_is_folded_and_keeps_names_whole(monkeypatch):
    name = "sub-s10004_ses-e20007_run-1_bp-chest_vp-pa_cr.png"
    problems = [Problem("mask is missing", name, "copy the file again from its source")] * 2
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    lines = problem_table(problems, shown=3).splitlines()
    assert len(lines) > 3 and sum(name in line for line in lines) == 2
