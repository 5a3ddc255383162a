import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.model.vlm.contrast import symmetric
from semimedref.model.vlm.text_mask import TextMask

SETTINGS = {"temperature": 0.07, "soft_share": 0.7, "steepness": 10, "center": 0.25}


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_the_curve_by_hand():
    curve = TextMask(4, **SETTINGS, as_released=False).curve
    for s in (-1.0, 0.0, 0.25, 1.0):
        expected = 0.7 * sigmoid(s) + 0.3 * sigmoid(10 * (s - 0.25))
        assert curve(torch.tensor(s)).item() == pytest.approx(expected)
    low, high = (curve(torch.tensor(s)).item() for s in (-1.0, 1.0))
    assert (low, high) == pytest.approx((0.188, 0.812), abs=5e-4)


def cases(as_released):
    g = torch.Generator().manual_seed(0)
    patches = F.normalize(torch.randn(3, 4, 2, 2, generator=g), dim=1)
    sentences = F.normalize(torch.randn(3, 4, generator=g), dim=-1)
    made = TextMask(4, **SETTINGS, as_released=as_released)
    with torch.no_grad():
        return made, patches, sentences, *made(patches, sentences, 8)


def test_an_image_gets_the_mask_of_its_own_sentence():
    made, patches, sentences, mask, contrast = cases(as_released=False)
    assert mask.shape == (3, 1, 8, 8)
    for b in range(3):
        own = made.curve((patches[b] * sentences[b][:, None, None]).sum(0))
        expected = own.repeat_interleave(4, 0).repeat_interleave(4, 1)
        torch.testing.assert_close(mask[b, 0], expected)
    features = made.decoder(patches).detach()
    maps = torch.einsum("bdhw,td->bthw", features, sentences).sigmoid()  # the soft mask alone
    shown = F.normalize(torch.einsum("bthw,bdhw->btd", maps, features), dim=-1)
    scores = (shown * sentences).sum(-1)
    torch.testing.assert_close(contrast, symmetric(scores / 0.07))


def test_as_released_it_is_the_mean_over_all_sentences_within_narrow_bounds():
    made, patches, sentences, mask, _ = cases(as_released=True)
    for b in range(3):
        maps = [made.curve((patches[b] * s[:, None, None]).sum(0)) for s in sentences]
        mean = (sum(maps) / 3).sigmoid().repeat_interleave(4, 0).repeat_interleave(4, 1)
        torch.testing.assert_close(mask[b, 0], mean)
    bounds = [made.curve(torch.tensor(s)).sigmoid().item() for s in (-1.0, 1.0)]
    assert bounds == pytest.approx([0.547, 0.692], abs=5e-4)  # as the release was measured
