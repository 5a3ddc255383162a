import pytest
import torch
import torch.nn.functional as F

from semimedref.intensity import standardize
from semimedref.model.frequency import haar, low_and_high


def _gray(n=3, side=32, seed=0):
    """Images of 8 bits that use the whole range."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, 256, (n, 1, side, side), generator=generator).float()
    image[:, :, :2, :2], image[:, :, -2:, -2:] = 0, 255
    return image


def _z(x):
    return (x - x.mean()) / x.std(unbiased=False)


def test_bands_of_one_cell_are_those_worked_out_by_hand():
    cell = torch.tensor([[[[1.0, 2.0], [3.0, 5.0]]]])
    assert [band.item() for band in haar(cell)] == [5.5, -2.5, -1.5, 0.5]


def test_cells_do_not_look_at_each_other():
    image = torch.arange(16.0).view(1, 1, 4, 4)
    low, lh, hl, hh = haar(image)
    assert low[0, 0].tolist() == [[5, 9], [21, 25]]
    assert (lh == -4).all() and (hl == -1).all() and (hh == 0).all()


def test_an_odd_side_repeats_its_last_row_and_column():
    image = torch.arange(1.0, 10.0).view(1, 1, 3, 3)
    low, lh, hl, hh = (band[0, 0].tolist() for band in haar(image))
    assert low == [[6, 9], [15, 18]]  # the last cells: 3 3 6 6, 7 8 7 8 and four times 9
    assert lh == [[-3, -3], [0, 0]]
    assert hl == [[-1, 0], [-1, 0]]
    assert hh == [[0, 0], [0, 0]]


@pytest.mark.parametrize("shape", [(5, 8), (8, 5)])
def test_one_odd_side_is_enough_to_pad_that_one_alone(shape):
    assert haar(torch.rand(1, 1, *shape))[0].shape == (
        1,
        1,
        (shape[0] + 1) // 2,
        (shape[1] + 1) // 2,
    )


@pytest.mark.parametrize("quantize", [False, True])
def test_both_images_equal_the_description_step_by_step(quantize):
    image = _gray(1, 16)

    def to_bytes(x):
        return (x - x.min()) / (x.max() - x.min()) * 255

    a, b, c, d = (image[..., i::2, j::2].double() for i in (0, 1) for j in (0, 1))
    low = to_bytes((a + b + c + d) / 2)
    bands = ((a + b - c - d) / 2, (a - b + c - d) / 2, (a - b - c + d) / 2)
    high = to_bytes(sum(map(to_bytes, bands)))
    for found, small in zip(low_and_high(image, quantize=quantize), (low, high), strict=True):
        small = small.trunc() if quantize else small
        large = F.interpolate(small.float(), size=16, mode="bicubic", align_corners=False)
        assert found.shape == image.shape
        torch.testing.assert_close(found, _z(large), atol=1e-5, rtol=1e-5)


def test_a_z_scored_image_gives_what_its_gray_values_give():
    gray = _gray()
    expected = low_and_high(gray, quantize=False)
    for other in (standardize(gray / 255), gray / 255, 3 * gray - 100):
        for found, wanted in zip(low_and_high(other, quantize=False), expected, strict=True):
            torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)


def test_eight_bits_survive_the_z_score():
    gray = _gray(8)
    low, high = low_and_high(gray, quantize=True)
    other_low, other_high = low_and_high(standardize(gray / 255), quantize=True)
    torch.testing.assert_close(other_low, low, atol=2e-5, rtol=1e-4)  # every level is the same
    assert ((other_high - high).abs() > 1e-3).float().mean() < 0.01  # sums of ratios: nearly all


@pytest.mark.parametrize("quantize", [False, True])
def test_flat_images_and_flat_bands_are_finite(quantize):
    flat = torch.full((1, 1, 32, 32), 0.4)
    for image in (flat, standardize(flat), flat + 1e-8 * torch.randn(flat.shape)):
        for found in low_and_high(image, quantize=quantize):
            assert found.abs().max() < 1e-6
    columns = standardize(torch.rand(1, 1, 1, 32).expand(1, 1, 32, 32))  # only HL is not flat
    low, high = low_and_high(columns, quantize=quantize)
    assert low.isfinite().all() and high.isfinite().all()
    assert high.std(dim=2).max() < 1e-5 and high.std(dim=3).min() > 0.5


def test_images_of_a_batch_are_scaled_one_by_one():
    gray = _gray(2) * torch.tensor([1.0, 0.1])[:, None, None, None]
    both = low_and_high(gray, quantize=True)
    alone = low_and_high(gray[1:], quantize=True)
    for x, y in zip(both, alone, strict=True):
        torch.testing.assert_close(x[1:], y)
