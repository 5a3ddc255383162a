import numpy as np
import pytest
import torch

from semimedref.metrics import counts, dice, iou, summarize, with_domains


def test_counts_of_a_hand_drawn_mask():
    probability = torch.tensor([[0.9, 0.5, 0.49], [0.1, 0.7, 0.2]])[None, None]
    mask = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])[None, None]
    assert counts(probability, mask, threshold=0.5).tolist() == [[2, 1, 1]]


def test_global_dice_pools_pixels_and_per_image_dice_averages_images():
    table = np.array([[90, 10, 0], [0, 0, 10]])  # a large good image and a small missed one
    scores = summarize(table)
    assert scores["dice"] == pytest.approx(2 * 90 / (2 * 90 + 10 + 10))
    assert scores["miou"] == pytest.approx(90 / 110)
    assert scores["dice_per_image"] == pytest.approx((180 / 190 + 0) / 2)


def test_miou_equals_dice_over_two_minus_dice_for_global_scores():
    scores = summarize(np.array([[7, 3, 5], [11, 2, 1]]))
    assert scores["miou"] == pytest.approx(scores["dice"] / (2 - scores["dice"]))


def test_two_empty_masks_agree():
    assert dice(0, 0, 0) == 1.0
    assert iou(0, 0, 0) == 1.0
    assert dice(0, 1, 0) == 0.0


def test_batch_size_does_not_move_the_counts():
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(7, 1, 9, 9, generator=generator)
    m = (torch.rand(7, 1, 9, 9, generator=generator) > 0.5).float()
    whole = counts(p, m, threshold=0.5)
    single = torch.cat([counts(p[i : i + 1], m[i : i + 1], threshold=0.5) for i in range(7)])
    assert torch.equal(whole, single)


def test_macro_dice_is_the_mean_of_the_domains_global_dice():
    table = np.array([[90, 10, 0], [0, 0, 10], [1, 1, 0], [2, 0, 1]])
    scores = with_domains(summarize, table, ["brain", "skin", "brain", "skin"])
    brain, skin = 2 * 91 / (2 * 91 + 11), 2 * 2 / (2 * 2 + 11)
    assert scores["domain/brain/dice"] == pytest.approx(brain)
    assert scores["domain/skin/dice"] == pytest.approx(skin)
    assert scores["domain/skin/miou"] == pytest.approx(2 / 13)
    assert scores["dice_macro"] == pytest.approx((brain + skin) / 2)
    assert scores["miou_macro"] == pytest.approx((91 / 102 + 2 / 13) / 2)
    assert scores["dice"] == pytest.approx(2 * 93 / (2 * 93 + 22))  # all images together


def test_a_set_of_one_kind_has_its_own_scores_alone():
    table = np.array([[7, 3, 5], [11, 2, 1]])
    assert with_domains(summarize, table, ()) == summarize(table)
