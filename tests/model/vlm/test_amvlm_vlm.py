import math

import pytest
import torch
import torch.nn.functional as F

from semimedref.config import build, compose
from semimedref.model.vlm.amvlm_vlm import constrain, part_weights


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cross_entropy(scores):
    return F.cross_entropy(scores, torch.arange(len(scores)))


def both_ways(scores):
    return (cross_entropy(scores) + cross_entropy(scores.T)) / 2


def test_the_constraint_by_hand():
    found = constrain(torch.tensor([3.0, -2.0]), torch.tensor([4.0, 3.0]), torch.tensor([2.0, 3.0]))
    assert found.tolist() == pytest.approx([1 + 2 * sigmoid(2), 1 - 3 * sigmoid(1)])


def test_weights_of_parts_by_hand():
    # Variances 1, 4, and 9 of a part that does not exist; shares 1/5 and 4/5; inverses 5 and 1.25.
    scores = torch.tensor([[[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]])
    found = part_weights(scores, torch.tensor([[True, True, False]]))
    assert found.tolist() == [[1.0, 0.0, 0.0]]
    three = part_weights(torch.tensor([[[1.0, -1.0], [2.0, -2.0], [4.0, -4.0]]]),
                         torch.ones(1, 3, dtype=torch.bool))  # fmt: skip
    assert three[0].tolist() == pytest.approx([1.0, (1 / 4 - 1 / 16) / (1 - 1 / 16), 0.0])


@pytest.mark.parametrize("kind", ["text", "image"])
@pytest.mark.parametrize("as_released", [False, True])
def test_parts_belong_to_what_they_attend_to(made, as_released, kind):
    case = made("amvlm", f"vlm.as_released={as_released}")
    model = case.model
    seen, words = model.see(case.image), model.read(case.text)
    parts, others = (words, seen) if kind == "text" else (seen, words)
    found = model._attended(parts, others, kind)
    head = "attended_text" if as_released else f"attended_{kind}"
    costs, tau = [], 0.07
    for b in range(3):
        n, there = int(parts.valid[b].sum()), others.parts[b][others.valid[b]]
        own = parts.parts[b]
        attended = F.normalize((own @ there.T / tau).softmax(1) @ there, dim=-1)
        first, second = model.gaussian[kind](own[None]), model.gaussian[head](attended[None])
        s = torch.zeros(n, n)
        for i in range(n):
            for j in range(n):
                at = (j, j) if as_released else (i, j)
                mu = (first[0][0, at[0]] - second[0][0, at[1]]).square().sum()
                deviations = first[1][0, at[0]], second[1][0, at[1]]
                if not as_released:
                    deviations = tuple(d.exp() for d in deviations)
                sigma = (deviations[0] - deviations[1]).square().sum()
                plain = own[i] @ attended[j] / tau
                s[i, j] = 1 - (1 - plain) * ((mu + sigma) / mu).sigmoid()
        for i in range(n):
            costs.append(-(s.log_softmax(1)[i, i] + s.log_softmax(0)[i, i]) / 2)
    torch.testing.assert_close(found, sum(costs) / len(costs), rtol=1e-4, atol=1e-4)


def test_patches_are_told_apart_by_all_sentences(made):
    case = made("amvlm")
    model = case.model
    seen, words = model.see(case.image), model.read(case.text)
    found = model.against_wholes(seen, words.whole)
    costs = []
    for b in range(3):
        scores = seen.parts[b] @ words.whole.T / 0.07
        inverse = scores.var(1, unbiased=False).sum() / scores.var(1, unbiased=False)
        weight = (inverse - inverse.min()) / (inverse.max() - inverse.min())
        costs.append(-weight * scores.log_softmax(1)[:, b])
    torch.testing.assert_close(found, torch.cat(costs).mean(), rtol=1e-4, atol=1e-5)


def test_within_a_modality_gaussians_and_drawn_parts_are_compared(made):
    case = made("amvlm")
    model = case.model
    seen, words = model.see(case.image), model.read(case.text)
    seen_slow, words_slow = case.told.image, case.told.text
    torch.manual_seed(3)
    found = model._intra(case.told, seen, words)
    torch.manual_seed(3)
    noise = torch.randn(())
    view, said = (
        model.gaussian["other_image"](seen_slow.tokens),
        model.gaussian["text"](words.tokens),
    )
    distance = torch.stack([
        torch.stack([(view[0][i, 0] - said[0][j, 0]).square().sum()
                     + (view[1][i, 0].exp() - said[1][j, 0].exp()).square().sum()
                     for j in range(3)]) for i in range(3)
    ])  # fmt: skip
    total = both_ways((4 - distance / 200) / 0.07)
    for (mean, deviation), whole, valid in (
        (view, seen.whole, seen.valid),
        (said, words_slow.whole, words.valid),
    ):
        drawn = F.normalize(mean[:, 1:] + noise * deviation[:, 1:].exp(), dim=-1)
        costs = []
        for k in range(drawn.shape[1]):
            there = [j for j in range(3) if valid[j, k]]
            for i in there:
                row = torch.stack([whole[i] @ drawn[j, k] / 0.07 for j in there])
                costs.append(-row.log_softmax(0)[there.index(i)])
        total = total + sum(costs) / len(costs)
    torch.testing.assert_close(found, total / 3, rtol=1e-4, atol=1e-4)


def test_the_loss_weighs_its_four_parts(made):
    case = made("amvlm")
    losses = case.model.losses(case.image, case.text, case.slow, case.told)
    parts = [losses[f"loss_{name}"] for name in ("ori", "global", "local", "intra")]
    expected = parts[0] + 0.5 * parts[1] + 0.1 * parts[2] + 0.1 * parts[3]
    torch.testing.assert_close(losses["loss"], expected)
    seen, words = case.model.see(case.image), case.model.read(case.text)
    torch.testing.assert_close(parts[0], both_ways(seen.whole @ words.whole.T / 0.07))


def test_every_part_learns_and_as_released_one_head_is_dead(made):
    for as_released, dead in ((False, set()), (True, {"attended_image"})):
        case = made("amvlm", f"vlm.as_released={as_released}")
        case.model.losses(case.image, case.text, case.slow, case.told)["loss"].backward()
        found = {
            name
            for name, head in case.model.gaussian.items()
            if all(p.grad is None for p in head.parameters())
        }
        assert found == dead


def test_the_size_at_the_papers_scale():
    words = ["text_encoder=bert", "text_encoder.weights=random", "text_encoder.frozen=false"]
    cfg = compose(
        ["scale=paper", *words, "text_encoder.vocabulary=28996", "text_encoder.layers=6",
         "method=vlm_pretraining", "vlm=amvlm", "vlm.image_encoder.weights=random"]
    )  # fmt: skip
    with torch.device("meta"):
        model = build(cfg, "vlm")
    found = sum(p.numel() for p in model.parameters())
    assert found == 160_088_704  # released: 160,567,296
