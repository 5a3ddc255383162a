import numpy as np

from semimedref.overlays import _choose, fixed_places


def test_fixed_images_depend_on_the_test_set_alone():
    assert fixed_places(600) == [75, 225, 375, 525]
    assert fixed_places(3) == [0, 1, 2]
    assert fixed_places(0) == []


def test_pictures_are_spread_over_dice_and_hold_the_fixed_images():
    scores = np.arange(40)[::-1] / 40  # image 0 is best, image 39 worst
    picks = _choose(scores)
    kinds = {}
    for at, kind in picks.items():
        kinds.setdefault(kind, []).append(at)
    assert kinds == {
        "best": [0, 1],
        "median": [19, 18],
        "worst": [39, 38],
        "quartile": [29, 9],
        "fixed": [5, 15, 25, 35],
    }


def test_one_image_is_shown_once():
    assert _choose(np.array([0.5])) == {0: "best"}
