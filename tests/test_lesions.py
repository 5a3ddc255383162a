import numpy as np
import pytest

from semimedref.lesions import count_lesions


def mask(*rows):
    return np.array([[c == "#" for c in row] for row in rows])[None]


TRUE = mask("##....", "##....", "....##", "....##", "#.....")


def count(predicted, true=TRUE, overlap=0.5, connectivity=8):
    return count_lesions(predicted, true, overlap=overlap, connectivity=connectivity).tolist()


def test_found_missed_and_false_lesions_by_hand():
    predicted = mask("##..#.", "......", ".....#", "......", "......")
    # The first lesion is half covered: found. The second a quarter: missed, but what covers it is
    # right. The third is missed. The component at the top is false.
    assert count(predicted) == [[3, 1, 1]]
    assert count(predicted, overlap=0.25) == [[3, 2, 1]]


def test_a_prediction_that_hardly_touches_a_lesion_is_false():
    predicted = mask("#####.", "......", "......", "......", "......")
    assert count(predicted, overlap=0.5) == [[3, 1, 1]]  # 2 of its 5 pixels are true


def test_without_a_least_share_one_pixel_is_enough_but_none_is_not():
    predicted = mask("#.....", "......", "......", "......", "......")
    assert count(predicted, overlap=0.0) == [[3, 1, 0]]


def test_pixels_that_touch_by_a_corner_are_one_lesion_or_two():
    corner = mask("#.", ".#")
    assert count(corner, corner, connectivity=8) == [[1, 1, 0]]
    assert count(corner, corner, connectivity=4) == [[2, 2, 0]]


def test_lesions_of_one_image_never_join_those_of_the_next():
    full = np.ones((3, 4, 4), dtype=bool)
    assert count(full, full) == [[1, 1, 0]] * 3


def test_empty_masks_have_no_lesions():
    empty = np.zeros((2, 5, 6), dtype=bool)
    assert count(empty, empty) == [[0, 0, 0]] * 2
    assert count(empty[:1]) == [[3, 0, 0]]
    assert count(TRUE, empty[:1]) == [[0, 0, 3]]


@pytest.mark.parametrize("connectivity", [4, 8])
def test_a_flood_fill_finds_the_same(connectivity):
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 6, 14, 11)) > 0.62
    expected = [slow(p, t, 0.4, connectivity) for p, t in zip(a, b, strict=True)]
    assert count(a, b, overlap=0.4, connectivity=connectivity) == expected


def slow(predicted, true, overlap, connectivity):
    def share(component, other):
        return sum(bool(other[p]) for p in component) / len(component)

    lesions, components = fill(true, connectivity), fill(predicted, connectivity)
    found = sum(share(lesion, predicted) >= overlap for lesion in lesions)
    false = sum(share(component, true) < overlap for component in components)
    return [len(lesions), found, false]


def fill(mask, connectivity):
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    steps += [(1, 1), (1, -1), (-1, 1), (-1, -1)] if connectivity == 8 else []
    left = {tuple(p) for p in np.argwhere(mask)}
    components = []
    while left:
        edge, component = [left.pop()], []
        while edge:
            y, x = edge.pop()
            component.append((y, x))
            for near in ((y + dy, x + dx) for dy, dx in steps):
                if near in left:
                    left.remove(near)
                    edge.append(near)
        components.append(component)
    return components
