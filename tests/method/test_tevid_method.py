import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tests.method.conftest import LATE, another_teacher, could_learn

from semimedref.errors import UserError
from semimedref.method.tevid_recon import info_nce, region_mean, reversed_masks
from semimedref.model.losses import dice
from semimedref.model.segmenter import Outputs, TextFeatures

ALL = replace(LATE, stage="all")
SIDES = ("target", "background")


def test_each_decoder_learns_what_the_teachers_other_one_leaves_over():
    taught = Outputs(torch.tensor([[2.0, -1.0, 3.0]]), {"background": torch.tensor([[-2, 1.0, 4]])})
    target, rest = reversed_masks(taught)
    assert target.tolist() == [[1, 0, 0]] and rest.tolist() == [[0, 1, 0]]


def test_the_mean_over_a_region_by_hand():
    features = torch.tensor([[1.0, 3.0], [5.0, 7.0]]).expand(2, 1, 2, 2)
    region = torch.zeros(2, 1, 4, 4)
    region[0, 0, :2, 1:3] = 1  # half of the upper pixels, none of the lower
    mean, there = region_mean(features, region)
    assert mean[0].item() == pytest.approx(2.0) and there.tolist() == [True, False]


def test_the_contrast_against_a_plain_loop():
    g = torch.Generator().manual_seed(0)
    a, p, n = (F.normalize(torch.randn(4, 3, generator=g), dim=-1) for _ in range(3))
    valid = [True, False, True, True]
    total = 0.0
    for i in (0, 2, 3):
        own = math.exp(float(a[i] @ p[i]) / 0.07)
        rest = sum(math.exp(float(a[i] @ n[j]) / 0.07) for j in (0, 2, 3))
        total -= math.log(own / (own + rest))
    found = info_nce(a, p, n, 0.07, torch.tensor(valid))
    assert found.item() == pytest.approx(total / 3, rel=1e-5)
    assert info_nce(a, p, n, 0.07, torch.tensor([False] * 4)) == 0


def test_the_whole_loss_of_both_kinds_of_images(case):
    made = case("method=tevid_recon", "method.weight_visual=0.3", "method.weight_text=0.7")
    method, labeled, unlabeled = made.method, made.labeled, made.unlabeled
    another_teacher(made)
    losses = method.step(labeled, unlabeled, ALL)
    image = method.student.normalized(method.views.weak(unlabeled).image)
    text = method.student.encode_text(unlabeled.text)
    ours, taught = (n.outputs(image, text) for n in (method.student, method.teacher.network))
    target = (taught.extra["background"].sigmoid() < 0.5).float()
    rest = (taught.logits.sigmoid() < 0.5).float()
    expected = dice(ours.logits, target) + dice(ours.extra["background"], rest)
    # a pixel at one half may fall to either side in a batch of another size
    torch.testing.assert_close(losses["loss_unsup"], expected, atol=1e-3, rtol=0)
    unsup = losses["loss_unsup"]
    total = losses["loss_sup"] + unsup + 0.3 * losses["loss_visual"] + 0.7 * losses["loss_text"]
    torch.testing.assert_close(losses["loss"], total)
    assert losses["loss_visual"] > 0 and losses["loss_text"] > 0


@torch.no_grad()
def test_regions_are_drawn_to_the_teachers_and_the_sentence_to_its_target_by_a_plain_loop(case):
    method = case("method=tevid_recon", "method.temperature=0.5").method
    g = torch.Generator().manual_seed(0)
    channels, words = method.heads.region[0].in_features, method.heads.word.in_features
    region = torch.zeros(4, 1, 8, 8)
    region[0, :, :4], region[1, :, :, :2], region[3, :, 4:] = 1, 1, 1  # the third has no target

    def outputs():
        maps = {f"{n}_map": torch.randn(4, channels, 4, 4, generator=g) for n in SIDES}
        return Outputs(torch.zeros(4, 1, 8, 8), maps)

    ours, taught = outputs(), outputs()
    text = TextFeatures(torch.randn(4, 5, words, generator=g), None, None)
    visual, anchored = method.contrasts(ours, taught, text, region)

    def embedded(found, side, i):
        inside = region[i, 0] if side == "target" else 1 - region[i, 0]
        small = inside.reshape(4, 2, 4, 2).mean((1, 3))
        mean = (found.extra[f"{side}_map"][i] * small).sum((1, 2)) / small.sum()
        return F.normalize(method.heads.region(mean), dim=0)

    def cost(anchor, positive, negatives):
        own, *rest = (math.exp(float(anchor @ x) / 0.5) for x in (positive, *negatives))
        return -math.log(own / (own + sum(rest)))

    there = (0, 1, 3)
    theirs = {side: [embedded(taught, side, i) for i in there] for side in SIDES}
    mine = {side: [embedded(ours, side, i) for i in there] for side in SIDES}
    sentences = [F.normalize(method.heads.word(text.tokens[i]).mean(0), dim=0) for i in there]
    looked = [
        (cost(mine[a][k], theirs[a][k], theirs[b])) / 2
        for a, b in (SIDES, SIDES[::-1])
        for k in range(3)
    ]
    read = [cost(sentences[k], mine["target"][k], mine["background"]) for k in range(3)]
    assert visual.item() == pytest.approx(sum(looked) / 3, rel=1e-4)
    assert anchored.item() == pytest.approx(sum(read) / 3, rel=1e-4)


def test_no_gradient_reaches_the_teachers_side_of_the_contrast(case):
    made = case("method=tevid_recon")
    method = made.method
    teacher = could_learn(method.teacher.network)
    losses = method.step(made.labeled, made.unlabeled, ALL)
    losses["loss"].backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert all(p.grad is not None for p in method.heads.parameters())
    channels, words = method.heads.region[0].in_features, method.heads.word.in_features
    region = torch.zeros(2, 1, 8, 8)
    region[:, :, :4] = 1
    ours, taught = (
        Outputs(torch.zeros(2, 1, 8, 8), {f"{n}_map": maps(channels) for n in SIDES})
        for _ in range(2)
    )
    text = TextFeatures(torch.randn(2, 5, words), None, None)
    sum(method.contrasts(ours, taught, text, region)).backward()
    assert all(x.grad is not None for x in ours.extra.values())
    assert all(x.grad is None for x in taught.extra.values())


def maps(channels):
    return torch.randn(2, channels, 4, 4, requires_grad=True)


def test_another_network_is_refused(case):
    with pytest.raises(UserError, match=r"MMIUNet has not: choose model=tevid_recon"):
        case("method=tevid_recon", "model=mmi_unet")
