import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.model.vlm.contrast import (
    LearnedTemperature,
    identity_contrast,
    local_contrast,
    own,
    parts_contrast,
    pooled_scores,
    symmetric,
)


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def nce(scores, at):
    return math.log(sum(math.exp(s) for s in scores)) - scores[at]


def test_own_column_and_both_directions_by_hand():
    scores = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    rows = (nce([1, 0], 0) + nce([2, 3], 1)) / 2
    columns = (nce([1, 2], 0) + nce([0, 3], 1)) / 2
    assert own(scores).item() == pytest.approx(rows)
    assert symmetric(scores).item() == pytest.approx((rows + columns) / 2)


def test_local_contrast_one_place_after_the_other():
    whole, parts = F.normalize(rand(3, 4), dim=-1), F.normalize(rand(3, 2, 4, seed=1), dim=-1)
    valid = torch.tensor([[True, True], [True, False], [True, True]])
    costs = []
    for i in range(3):
        for k in range(2):
            there = [j for j in range(3) if valid[j, k]]
            if i not in there:
                continue
            scores = [float(whole[i] @ parts[j, k]) / 0.1 for j in there]
            costs.append(nce(scores, there.index(i)))
    found = local_contrast(whole, parts, valid, temperature=0.1)
    assert len(costs) == 5 and found.item() == pytest.approx(sum(costs) / 5, rel=1e-5)


def test_parts_contrast_has_all_parts_of_other_samples_against_each_own_one():
    whole, parts = F.normalize(rand(3, 4), dim=-1), F.normalize(rand(3, 2, 4, seed=1), dim=-1)
    valid = torch.tensor([[True, True], [True, False], [True, True]])
    costs = []
    for i in range(3):
        against = [
            float(whole[i] @ parts[j, k]) / 0.1
            for j in range(3)
            for k in range(2)
            if j != i and valid[j, k]
        ]
        for k in range(2):
            if valid[i, k]:
                costs.append(nce([float(whole[i] @ parts[i, k]) / 0.1, *against], 0))
    found = parts_contrast(whole, parts, valid, temperature=0.1)
    assert len(costs) == 5 and found.item() == pytest.approx(sum(costs) / 5, rel=1e-5)


def test_identity_contrast_one_sample_after_the_other():
    scores = rand(2, 3, 3)
    valid = torch.tensor([[True, True, True], [True, True, False]])
    costs = []
    for b, n in ((0, 3), (1, 2)):
        s = scores[b, :n, :n].tolist()
        for i in range(n):
            rows, columns = s[i], [s[j][i] for j in range(n)]
            costs.append((nce(rows, i) + nce(columns, i)) / 2)
    assert identity_contrast(scores, valid).item() == pytest.approx(sum(costs) / 5, rel=1e-5)


def test_what_a_mask_shows_is_compared_with_its_sentence():
    features, masks = rand(2, 3, 2, 2), rand(2, 2, 2, 2, seed=1).sigmoid()
    sentences = F.normalize(rand(2, 3, seed=2), dim=-1)
    found = pooled_scores(features, masks, sentences)
    for b in range(2):
        for t in range(2):
            shown = sum(
                masks[b, t, y, x] * features[b, :, y, x] for y in range(2) for x in range(2)
            )
            expected = float(shown @ sentences[t] / shown.norm())
            assert found[b, t].item() == pytest.approx(expected, rel=1e-5)


def test_a_learned_temperature_stays_above_zero_and_learns_on():
    tau = LearnedTemperature(0.07)
    assert tau().item() == pytest.approx(0.07)
    with torch.no_grad():
        tau.value.fill_(-3)
    found = tau()
    assert found.item() == pytest.approx(0.01)
    (2 * found).backward()
    assert tau.value.grad == 2
