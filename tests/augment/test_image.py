import math

import pytest
import torch

from semimedref.augment.image import ColorJitter, GaussianBlur, Zoom
from semimedref.intensity import standardize


@pytest.fixture
def image():
    return torch.rand(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))


def test_standardize_gives_mean_zero_and_population_deviation_one(image):
    z = standardize(image * 5 + 2)
    assert z.mean((1, 2, 3)).abs().max() < 1e-5
    assert (z.std((1, 2, 3), unbiased=False) - 1).abs().max() < 1e-5


def test_standardize_of_a_flat_image_is_zero():
    assert standardize(torch.full((1, 1, 4, 4), 0.3)).abs().max() < 1e-6


def test_zoom_leaves_unchosen_samples_bit_equal(image):
    u = torch.tensor([[0.5, 0.5], [0.05, 1.0], [0.9, 0.0]])
    zoomed, _ = Zoom(probability=0.1, low=0.95, high=1.2)(image, None, u)
    assert torch.equal(zoomed[0], image[0]) and torch.equal(zoomed[2], image[2])
    assert not torch.equal(zoomed[1], image[1])


def test_zoom_by_two_shows_the_center_of_the_mask():
    mask = torch.zeros(1, 1, 8, 8)
    mask[..., 2:6, 2:6] = 1
    u = torch.tensor([[0.0, 1.0]])
    _, zoomed = Zoom(probability=1.0, low=1.0, high=2.0)(mask.clone(), mask, u)
    assert zoomed.sum() == 64


def test_zoom_moves_image_and_mask_together():
    picture = torch.zeros(1, 1, 32, 32)
    picture[..., 6:14, 18:26] = 1
    u = torch.tensor([[0.0, 0.9]])
    image, mask = Zoom(probability=1.0, low=0.95, high=1.2)(picture, picture, u)
    assert ((image > 0.5) != (mask > 0.5)).float().mean() < 0.01


def test_jitter_brightness_and_contrast_by_hand():
    image = torch.tensor([[0.2, 0.4], [0.4, 0.6]])[None, None]
    jitter = ColorJitter(probability=1.0, brightness=0.2, contrast=0.2)
    u = torch.tensor([[0.0, 1.0, 0.0, 0.0]])  # brightness 1.2, contrast 0.8, brightness first
    bright = image * 1.2
    expected = bright.mean() + (bright - bright.mean()) * 0.8
    torch.testing.assert_close(jitter(image, u), expected)


def test_jitter_stays_in_range_and_spares_the_unchosen(image):
    jitter = ColorJitter(probability=0.8, brightness=0.9, contrast=0.9)
    u = torch.tensor([[0.85, 1, 1, 0.1], [0.1, 1, 1, 0.1], [0.1, 0, 1, 0.9]])
    out = jitter(image, u)
    assert torch.equal(out[0], image[0])
    assert out.min() >= 0 and out.max() <= 1


def test_blur_equals_a_brute_force_gaussian(image):
    sigma, reach = 0.1 + 1.9 * 0.5, 3
    u = torch.tensor([[0.0, 0.5]]).repeat(3, 1)
    blurred = GaussianBlur(probability=1.0, kernel=7, low=0.1, high=2.0)(image, u)
    weight = [math.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1)]
    weight = [w / sum(weight) for w in weight]

    def reflect(i, n=12):
        return -i if i < 0 else 2 * (n - 1) - i if i >= n else i

    for y, x in ((0, 0), (5, 7), (11, 4)):
        expected = sum(
            weight[a + reach] * weight[b + reach] * image[1, 0, reflect(y + a), reflect(x + b)]
            for a in range(-reach, reach + 1)
            for b in range(-reach, reach + 1)
        )
        assert float(blurred[1, 0, y, x]) == pytest.approx(float(expected), abs=1e-5)


def test_each_sample_has_a_sigma_of_its_own(image):
    same = image[:1].repeat(2, 1, 1, 1)
    u = torch.tensor([[0.0, 0.1], [0.0, 0.9]])
    blurred = GaussianBlur(probability=1.0, kernel=7, low=0.1, high=2.0)(same, u)
    assert blurred[1].std() < blurred[0].std()
