"""Exchanged frequencies against a plain loop over the bins of numpy's spectrum."""

import numpy as np
import pytest
import torch

from semimedref.augment.frequency_exchange import KINDS, frequency_exchange

SIDE, CUTOFF = 24, 3.0


def by_hand(image, donor, kind):
    ours, theirs = np.fft.fft2(image), np.fft.fft2(donor)
    out = ours.copy()
    for i in range(SIDE):
        for j in range(SIDE):
            if kind == "unshifted":
                far = np.hypot(i - SIDE // 2, j - SIDE // 2)
            else:
                far = np.hypot(min(i, SIDE - i), min(j, SIDE - j))
            if far <= CUTOFF:
                phase = ours[i, j] / abs(ours[i, j])
                out[i, j] = abs(theirs[i, j]) * phase if kind == "amplitude" else theirs[i, j]
    return np.fft.ifft2(out).real


@pytest.mark.parametrize("kind", KINDS)
def test_bins_within_the_cutoff_are_the_donors(kind):
    image, donor = torch.randn(2, 1, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    found = frequency_exchange(image, donor, cutoff=CUTOFF, kind=kind)[0, 0].numpy()
    pair = (x[0, 0].double().numpy() for x in (image, donor))
    np.testing.assert_allclose(found, by_hand(*pair, kind), atol=1e-5)


def smooth(seed, side=224):
    """Something like a photograph: amplitudes fall with the frequency."""
    rng = np.random.default_rng(seed)
    f = np.fft.fftfreq(side) * side
    fall = 1 / np.maximum(1, np.hypot(f[:, None], f[None])) ** 1.5
    x = np.fft.ifft2(np.fft.fft2(rng.standard_normal((side, side))) * fall).real
    return torch.tensor((x - x.mean()) / x.std(), dtype=torch.float32)[None, None]


def correlation(a, b):
    return float(np.corrcoef(a.flatten(), b.flatten())[0, 1])


def test_the_released_exchange_changes_hardly_anything_and_the_shifted_one_nearly_all():
    image, donor = smooth(1), smooth(2)
    kinds = {k: frequency_exchange(image, donor, cutoff=10, kind=k) for k in KINDS}
    assert correlation(kinds["unshifted"], image) > 0.9999
    assert correlation(kinds["shifted"], donor) > 0.9 > correlation(kinds["shifted"], image)
    assert correlation(kinds["amplitude"], image) > correlation(kinds["amplitude"], donor)
    assert correlation(kinds["amplitude"], image) < 0.999
