import pytest

from semimedref.errors import UserError
from semimedref.text.vocabulary import LUNGS, QUADRANTS, vocabulary


def test_regions_of_the_quadrants_are_in_the_order_of_the_labels():
    assert QUADRANTS.regions == ("top-left", "top-right", "bottom-left", "bottom-right", "center")


def test_an_unknown_vocabulary_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"'liver'.*lungs, quadrants"):
        vocabulary("liver")


@pytest.mark.parametrize(
    ("name", "region", "box"),
    [
        ("lungs", 0, (0, 32, 0, 48)),
        ("lungs", 2, (64, 96, 0, 48)),
        ("lungs", 4, (32, 64, 48, 96)),
        ("quadrants", 1, (0, 48, 48, 96)),
        ("quadrants", 4, (24, 72, 24, 72)),
    ],
)
def test_boxes_are_halves_thirds_and_the_middle_of_the_image(name, region, box):
    assert vocabulary(name).boxes[region].pixels(96, 96) == box


@pytest.mark.parametrize("side", [7, 96, 160, 223, 224])
def test_the_boxes_of_the_lungs_tile_every_image(side):
    seen = [[0] * side for _ in range(side)]
    for box in LUNGS.boxes:
        top, bottom, left, right = box.pixels(side, side)
        for y in range(top, bottom):
            for x in range(left, right):
                seen[y][x] += 1
    assert {n for row in seen for n in row} == {1}


def test_the_region_of_a_point_is_that_of_its_box_and_the_center_wins():
    assert LUNGS.regions[LUNGS.region_at(0.5, 0.49)] == "middle left"
    assert LUNGS.regions[LUNGS.region_at(0.7, 0.5)] == "lower right"
    assert QUADRANTS.regions[QUADRANTS.region_at(0.1, 0.9)] == "top-right"
    assert QUADRANTS.regions[QUADRANTS.region_at(0.3, 0.3)] == "center"


def test_phrases_join_the_levels_of_a_side_and_name_the_left_first():
    assert LUNGS.phrase([5, 2, 0]) == "upper lower left lung and lower right lung"
    assert LUNGS.phrase([0, 1, 2], "all") == "all left lung"
    assert LUNGS.phrase([0, 1, 2]) == "upper middle lower left lung"
    assert QUADRANTS.phrase([3]) == "the bottom right region of the image"


def test_labels_and_indices_are_two_forms_of_the_same():
    assert LUNGS.multi_hot([5, 0]) == [1, 0, 0, 0, 0, 1]
    assert LUNGS.indices([1, 0, 0, 0, 0, 1]) == (0, 5)
    with pytest.raises(ValueError, match="6 regions, got 5"):
        LUNGS.indices([0] * 5)
