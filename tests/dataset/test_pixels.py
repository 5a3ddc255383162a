"""Pictures of every usual kind come out as the same 8-bit gray."""

import numpy as np
import pytest
from PIL import Image

from semimedref.dataset.pixels import PixelError, binarized, picture_size, read_image, read_mask

GRAY = np.arange(35, dtype=np.uint8).reshape(5, 7) * 7


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P"])
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_gray_color_and_palette_come_out_alike(mode, suffix, tmp_path):
    Image.fromarray(GRAY).convert(mode).save(tmp_path / f"x.{suffix}")
    np.testing.assert_array_equal(read_image(tmp_path / f"x.{suffix}"), GRAY)
    assert picture_size(tmp_path / f"x.{suffix}") == (5, 7)


@pytest.mark.parametrize("rule", ["equals_255", "above_half"])
def test_masks_of_one_bit_of_0_and_1_and_of_0_and_255_are_one_mask(rule, tmp_path):
    inside = (GRAY > 100).astype(np.uint8)
    for number, picture in enumerate((
        Image.fromarray(inside * 255),
        Image.fromarray(inside),
        Image.fromarray(inside * 255).convert("1"),
        Image.fromarray(inside * 255).convert("RGB"),
    )):  # fmt: skip
        picture.save(tmp_path / f"{number}.png")
        np.testing.assert_array_equal(read_mask(tmp_path / f"{number}.png", rule), inside)


def test_gray_values_of_a_mask_are_cut_by_its_rule():
    values = np.array([[0, 127, 128, 254, 255]], np.uint8)
    assert binarized(values, "above_half").tolist() == [[0, 0, 1, 1, 1]]
    assert binarized(values, "equals_255").tolist() == [[0, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "file is empty"), (b"text", "file is no picture"), (None, "file is missing")],
)
def test_an_unusable_file_has_a_reason(content, reason, tmp_path):
    if content is not None:
        (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(PixelError, match=reason):
        read_image(tmp_path / "x.png")


def test_every_cut_through_a_png_is_damage_or_no_picture(tmp_path):
    file = tmp_path / "x.png"
    Image.fromarray(GRAY).save(file)
    whole = file.read_bytes()
    for length in range(1, whole.index(b"IDAT") + 20):
        file.write_bytes(whole[:length])
        with pytest.raises(PixelError, match=r"damaged|no picture"):
            read_image(file)


def test_floating_point_pictures_are_refused(tmp_path):
    Image.fromarray(GRAY.astype(np.float32)).save(tmp_path / "x.tif")
    with pytest.raises(PixelError, match="32 bits"):
        read_image(tmp_path / "x.tif")
