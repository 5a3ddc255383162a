import numpy as np
import pytest
from PIL import Image

from semimedref.results import figures
from semimedref.results.lettering import font, wrap


def square(low, high, side=96):
    mask = np.zeros((side, side), dtype=bool)
    mask[low:high, low:high] = True
    return mask


def test_overlay_paints_green_red_and_blue_where_they_belong():
    truth, prediction = square(10, 50), square(30, 80)
    picture = figures.overlay(np.full((96, 96), 100, np.uint8), truth, prediction)
    assert picture.shape == (96, 96, 3)
    assert picture.dtype == np.uint8
    assert picture[40, 40].argmax() == 1  # both: green
    assert picture[65, 65].argmax() == 0  # prediction only: red
    assert picture[20, 20].argmax() == 2  # truth only: blue
    assert picture[90, 90].tolist() == [100, 100, 100]


def test_inside_of_a_region_lets_the_image_through_and_its_edge_does_not():
    image = np.full((96, 96), 100, np.uint8)
    mask = square(20, 60)
    picture = figures.overlay(image, mask, mask).astype(int)
    inside = 100 + figures._FILL * (np.array(figures.TRUE_POSITIVE) - 100)
    assert picture[40, 40] == pytest.approx(inside, abs=1)
    distance = np.abs(picture - np.array(figures.TRUE_POSITIVE)).sum(axis=2)
    assert distance[20, 40] < distance[40, 40]


def test_prediction_without_a_truth_is_not_colored_as_right():
    mask = square(20, 60)
    picture = figures.overlay(np.zeros((96, 96), np.uint8), None, mask)
    assert picture[40, 40, 0] > picture[40, 40, 2]
    assert not np.array_equal(picture, figures.overlay(np.zeros_like(mask, np.uint8), mask, mask))


def test_overlay_leaves_its_inputs_alone():
    image, mask = np.full((96, 96), 7, np.uint8), square(10, 20)
    figures.overlay(image, mask, mask)
    assert (image == 7).all()
    assert mask.sum() == 100


def test_masks_of_another_size_are_refused():
    with pytest.raises(ValueError, match="expected one"):
        figures.overlay(np.zeros((96, 96), np.uint8), None, square(1, 2, side=95))


def test_panel_enlarges_small_images_and_wraps_the_sentence(tmp_path):
    image, mask = np.zeros((96, 96), np.uint8), square(10, 40)
    short, long = tmp_path / "short.png", tmp_path / "sub" / "long.png"
    figures.panel(image, "left lung", mask, mask, short, title="t")
    figures.panel(image, "lower left lung and " * 12, mask, mask, long, title="t")
    with Image.open(short) as a, Image.open(long) as b:
        assert a.width == b.width >= 3 * 220
        assert b.height > a.height > 220


def test_panel_without_words_is_three_squares(tmp_path):
    image, mask = np.zeros((96, 96), np.uint8), square(10, 40)
    figures.panel(image, "", mask, mask, tmp_path / "a.png", title=None)
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.height == 288
        assert picture.width == pytest.approx(3 * 288, abs=20)


def test_large_images_are_not_enlarged(tmp_path):
    image, mask = np.zeros((224, 224), np.uint8), square(10, 40, side=224)
    figures.panel(image, "", None, mask, tmp_path / "a.png", title=None)
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.height == 224
        assert picture.width < 3 * 224  # no truth, no truth picture


def test_enlarging_keeps_the_area_of_a_mask_and_a_single_pixel():
    dot = np.zeros((96, 96), dtype=bool)
    dot[5, 5] = True
    _, big, big_dot = figures._upscale(np.zeros((96, 96), np.uint8), square(10, 60), dot)
    assert big.sum() == pytest.approx(9 * 50 * 50, rel=0.01)
    assert big_dot.any()


def test_swap_strip_shows_every_row(tmp_path):
    image, left, right = np.zeros((96, 96), np.uint8), square(10, 40), square(50, 80)
    row = figures.Swap(image, "lower left lung", left, "lower right lung", right)
    figures.swap_strip([row], tmp_path / "one.png")
    figures.swap_strip([row, row], tmp_path / "two.png")
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "two.png") as two:
        assert one.width == two.width >= 3 * 220
        assert two.height > one.height + 220


def test_wrapped_lines_fit_and_lose_nothing():
    face = font(15)
    text = "Bilateral infection with averyveryverylongwordthatfitsnowhere in the lung"
    lines = wrap(text, 120, face)
    assert all(face.getlength(line) <= 120 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrap("", 120, face) == []
