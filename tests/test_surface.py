import math

import numpy as np
import pytest

from semimedref.surface import edges, surface_scores


def mask(*rows):
    return np.array([[c == "#" for c in row] for row in rows])[None]


def test_the_outline_is_what_touches_background_or_the_edge_of_the_image():
    full = mask("#####", "#####", "#####", "....#")
    assert edges(full).tolist() == mask("#####", "#...#", "#####", "....#").tolist()


def test_scores_of_two_squares_one_pixel_apart_by_hand():
    """3 x 3 outlines of 8 pixels, one shifted right by one: 4 pixels of each lie on the other."""
    a = mask("......", ".###..", ".###..", ".###..", "......")
    b = np.roll(a, 1, axis=2)
    # Of a's outline, 2 pixels of the top row and 2 of the bottom row lie on b's; the others are at
    # distance 1: the left column, and the middle of the right column, which lies in b's hollow.
    (row,) = surface_scores(a, b, tolerance=0.0)
    assert row[0] == 8 / 16
    (row,) = surface_scores(a, b, tolerance=1.0)
    assert row.tolist() == [1.0, 1.0]


def test_hd95_is_the_larger_of_both_directions():
    line = np.zeros((1, 1, 100), dtype=bool)
    a, b = line.copy(), line.copy()
    a[..., :21] = True  # pixels 0..20, all of them outline
    b[..., :1] = True
    (row,) = surface_scores(a, b, tolerance=4.0)
    assert row[1] == 19.0  # 95th percentile of 0..20; the other direction is 0
    assert row[0] == (5 + 1) / 22


def test_empty_masks_agree_and_one_empty_mask_has_no_distance():
    empty, some = np.zeros((1, 4, 4), dtype=bool), mask("....", ".##.", ".##.", "....")
    assert surface_scores(empty, empty, tolerance=1).tolist() == [[1.0, 0.0]]
    for pair in ((empty, some), (some, empty)):
        (row,) = surface_scores(*pair, tolerance=1)
        assert row[0] == 0.0 and math.isnan(row[1])


def test_a_batch_gives_what_its_images_give_alone():
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 5, 12, 9)) > 0.6
    alone = [surface_scores(a[i : i + 1], b[i : i + 1], tolerance=1.5)[0] for i in range(5)]
    assert surface_scores(a, b, tolerance=1.5).tolist() == np.array(alone).tolist()


@pytest.mark.slow  # importing MONAI takes seconds
def test_monai_gives_the_same_numbers():
    import torch
    from scipy.ndimage import gaussian_filter

    monai = pytest.importorskip("monai.metrics")

    rng = np.random.default_rng(1)
    noise = gaussian_filter(rng.standard_normal((2, 12, 48, 40)), (0, 0, 3, 3))
    a, b = noise[0] > 0.02, noise[0] + 0.4 * noise[1] > 0.02
    ours = surface_scores(a, b, tolerance=2.0)
    y_pred, y = (torch.from_numpy(m[:, None].astype(np.float32)) for m in (a, b))
    nsd = monai.compute_surface_dice(y_pred, y, class_thresholds=[2.0], include_background=True)
    hd95 = monai.compute_hausdorff_distance(y_pred, y, include_background=True, percentile=95)
    assert ours[:, 0] == pytest.approx(nsd[:, 0].numpy(), abs=1e-6)
    assert ours[:, 1] == pytest.approx(hd95[:, 0].numpy(), abs=1e-4)
    assert 0.2 < ours[:, 0].mean() < 0.98
