import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.align.affinity import identity, jaccard
from semimedref.align.alignment import contrastive_loss
from semimedref.align.clip import CLIP
from semimedref.align.pacl import PACL

SHARP = 1 / math.log(3)  # a cosine of 1 then weighs three times as much as a cosine of 0


def pairs(n, *, width=8, regions=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    v, u = (torch.randn(n, width, generator=g, dtype=torch.float64) for _ in range(2))
    return v, u, (torch.rand(n, regions, generator=g) < 0.4).float()


def double_loop(v, u, q, tau):
    """The paper's equation, sum by sum."""
    B = len(q)
    v, u = ([[x / math.hypot(*row) for x in row] for row in m.tolist()] for m in (v, u))
    S = [
        [sum(a * b for a, b in zip(v[i], u[j], strict=True)) / tau for j in range(B)]
        for i in range(B)
    ]
    sets = [{k for k, named in enumerate(row) if named} for row in q.tolist()]
    total = 0.0
    for i in range(B):
        of_texts = math.log(sum(math.exp(S[i][j]) for j in range(B)))
        of_images = math.log(sum(math.exp(S[j][i]) for j in range(B)))
        to_texts = to_images = mass = 0.0
        for j in range(B):
            union = sets[i] | sets[j]
            A = 1.0 if i == j else len(sets[i] & sets[j]) / len(union) if union else 0.0
            to_texts += A * (S[i][j] - of_texts)
            to_images += A * (S[j][i] - of_images)
            mass += A
        total += to_texts / mass + to_images / mass
    return -total / (2 * B)


def test_equation_pacl_of_two_half_compatible_pairs():
    # S = [[ln 3, 0], [0, ln 3]]: softmax 3/4, 1/4. A = [[1, 1/2], [1/2, 1]]: weights 2/3, 1/3.
    v = u = torch.eye(2)
    loss = contrastive_loss(v, u, torch.tensor([[1, 0.5], [0.5, 1]]), temperature=SHARP)
    assert loss.item() == pytest.approx(-(2 / 3 * math.log(3 / 4) + 1 / 3 * math.log(1 / 4)))


def test_equation_pacl_weighs_each_row_by_its_own_sum_in_both_directions():
    # Every image scores ln 3, 0, 0: softmax over texts 3/5, 1/5, 1/5, over images 1/3 each.
    v = torch.tensor([[1.0, 0], [1, 0], [1, 0]])
    u = torch.tensor([[1.0, 0], [0, 1], [0, 1]])
    q = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]])  # weights (2/3, 1/3), (1/3, 2/3), (1)
    to_texts = -(math.log(3 / 5) + 2 * math.log(1 / 5)) / 3
    loss = contrastive_loss(v, u, jaccard(q), temperature=SHARP)
    assert loss.item() == pytest.approx((to_texts + math.log(3)) / 2)


def test_equation_clip_is_the_mean_cross_entropy_of_both_directions():
    v, u, q = pairs(5)
    scores = F.normalize(v, dim=1) @ F.normalize(u, dim=1).T / 0.07
    own = torch.arange(5)
    expected = (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2
    torch.testing.assert_close(contrastive_loss(v, u, identity(q), temperature=0.07), expected)


@pytest.mark.parametrize(("n", "regions", "tau"), [(1, 6, 0.07), (7, 6, 0.07), (9, 5, 0.5)])
def test_pacl_equals_its_double_loop(n, regions, tau):
    v, u, q = pairs(n, regions=regions, seed=n)
    q[0] = 0
    loss = contrastive_loss(v, u, jaccard(q).double(), temperature=tau)
    assert loss.item() == pytest.approx(double_loop(v, u, q, tau), rel=1e-6, abs=1e-12)


def test_disjoint_positions_reduce_pacl_to_clip(alignment):
    v, u, _ = pairs(6)
    pacl, clip = (alignment(kind).contrast(v, u, torch.eye(6)) for kind in (PACL, CLIP))
    torch.testing.assert_close(pacl, clip, rtol=0, atol=0)


def test_shared_positions_part_pacl_from_clip(alignment):
    v, u, _ = pairs(6)
    q = torch.eye(6)
    q[1, 0] = 1
    pacl, clip = (alignment(kind).contrast(v, u, q) for kind in (PACL, CLIP))
    assert abs(pacl - clip) > 1e-3


def test_order_of_the_batch_and_of_the_regions_does_not_matter(alignment):
    v, u, q = pairs(6)
    order, regions = torch.randperm(6), torch.randperm(6)
    pacl = alignment(PACL)
    torch.testing.assert_close(
        pacl.contrast(v[order], u[order], q[order][:, regions]), pacl.contrast(v, u, q)
    )


def test_length_of_an_embedding_does_not_matter(alignment):
    v, u, q = pairs(4)
    pacl = alignment(PACL)
    torch.testing.assert_close(pacl.contrast(7 * v, u / 3, q), pacl.contrast(v, u, q))


def test_one_pair_has_nothing_to_be_told_from(alignment):
    v, u, q = pairs(1)
    assert alignment(PACL).contrast(v, u, q).item() == 0


def test_autocast_does_not_round_the_similarities(alignment):
    v, u, q = pairs(6)
    pacl = alignment(PACL)
    exact = pacl.contrast(v.float(), u.float(), q)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(pacl.contrast(v.float(), u.float(), q), exact)
