import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.method.conftest import LATE, another_teacher

from semimedref.errors import UserError
from semimedref.method.candidates import Candidates, best_overlap, composed
from semimedref.method.semires import pixel_weight
from semimedref.run import Parts

ALL = replace(LATE, stage="all")


def grid(*rows):
    return torch.tensor([[float(c) for c in row] for row in rows])


PSEUDO = grid("1100", "1100", "0000", "0000")[None, None]
SAME = grid("1100", "1000", "0000", "0000")  # IoU 3/4
HALF = grid("1111", "1111", "0000", "0000")  # IoU 1/2, holds all of it
PART = grid("1000", "0000", "0000", "0000")  # IoU 1/4, lies within
ELSE = grid("0000", "0000", "0011", "0011")


def masks(*some):
    return torch.stack(some)[None].bool()


def test_iom_takes_the_best_candidate_above_one_half():
    found, matched = best_overlap(PSEUDO, masks(ELSE, HALF, SAME, PART), threshold=0.5)
    assert matched.tolist() == [True] and torch.equal(found[0, 0], SAME)
    assert best_overlap(PSEUDO, masks(ELSE, HALF), threshold=0.5)[1].tolist() == [False]


def test_cpi_joins_what_holds_the_mask_or_lies_within_it():
    found, matched = composed(PSEUDO, masks(ELSE, HALF, PART), threshold=0.7)
    assert matched.tolist() == [True] and torch.equal(found[0, 0], HALF)
    found, _ = composed(PSEUDO, masks(PART, SAME), threshold=0.7)
    assert torch.equal(found[0, 0], SAME)
    assert composed(PSEUDO, masks(ELSE), threshold=0.7)[1].tolist() == [False]


def test_an_empty_pseudo_mask_matches_nothing():
    nothing = torch.zeros_like(PSEUDO)
    for rule in (best_overlap, composed):
        assert rule(nothing, masks(HALF, torch.zeros_like(HALF)), threshold=0.5)[1].tolist() == [
            False
        ]


def test_the_weight_of_a_pixel_by_hand():
    weight = pixel_weight(torch.tensor([0.0, 0.5, 1.0]), height=1.3, variance=0.1)
    assert weight.tolist() == pytest.approx([0.939, 0.038, 0.939], abs=1e-3)


def test_each_group_has_its_own_cross_entropy_and_both_together_half_of_each(case):
    method = case("method=semires").method
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 1, 4, 4, generator=g)
    target = (torch.rand(3, 1, 4, 4, generator=g) > 0.5).float()
    p = torch.rand(3, 1, 4, 4, generator=g)

    def by_hand(rows, weigh, divide):
        total = weights = 0.0
        for i in rows:
            for x, y, q in zip(
                logits[i].flatten(), target[i].flatten(), p[i].flatten(), strict=True
            ):
                s = 1 / (1 + math.exp(-x))
                cost = -math.log(s if y else 1 - s)
                w = weigh(y, q)
                total, weights = total + w * cost, weights + (w if divide else 1)
        return total / weights

    def classes(y, q):
        return 1.1 if y else 0.9

    def sure(y, q):
        bell = math.exp(-((float(q) - 0.5) ** 2) / 0.2) / math.sqrt(0.2 * math.pi)
        return 1.3 - bell

    found = [method.unlabeled_loss(logits, target, p, torch.tensor(m)).item()
             for m in ([False] * 3, [True] * 3, [True, False, True])]  # fmt: skip
    assert found == pytest.approx(
        [
            by_hand([0, 1, 2], sure, divide=False),
            by_hand([0, 1, 2], classes, divide=True),
            (by_hand([0, 2], classes, divide=True) + by_hand([1], sure, divide=False)) / 2,
        ],
        rel=1e-5,
    )


def test_the_student_learns_the_jittered_view_with_the_teachers_mask(case):
    made = case("method=semires")
    method, unlabeled = made.method, made.unlabeled
    another_teacher(made)
    losses = method.step(made.labeled, unlabeled, ALL)
    weak = method.views.weak(unlabeled)
    teacher = method.teacher.network
    p = teacher(teacher.normalized(weak.image), teacher.encode_text(unlabeled.text)).sigmoid()
    strong = method.views.normalize(method.views.perturb(weak, unlabeled))
    logits = method.student(strong, method.student.encode_text(unlabeled.text))
    each = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, (p > 0.5).float(), reduction="none"
    )
    torch.testing.assert_close(
        losses["loss_unsup"], (pixel_weight(p, height=1.3, variance=0.1) * each).mean()
    )
    torch.testing.assert_close(losses["loss"], losses["loss_sup"] + losses["loss_unsup"])
    assert losses["matched"] == 0


def test_without_the_weight_of_pseudo_masks_labeled_images_alone_teach(case):
    made = case("method=semires", "method.weight_pseudo=0.0")
    losses = made.method.step(made.labeled, made.unlabeled, ALL)
    assert losses["loss_unsup"] > 0 and losses["loss"] == losses["loss_sup"]


@pytest.fixture
def folder(tmp_path, compose_smoke):
    """Candidates of every training image, of another size: nothing, and the left half."""
    parts = Parts.build(compose_smoke("method=supervised", "augment=none"))
    (tmp_path / "sam").mkdir()
    for name in parts.dataset.split("train").ids:
        both = np.zeros((2, 48, 48), np.uint8)
        both[1, :, :24] = 255
        np.savez(tmp_path / "sam" / f"{name}.npz", masks=both)
    return tmp_path / "sam"


def test_candidates_of_a_folder_become_pseudo_masks(case, folder):
    made = case("method=semires", f"method.candidates={folder}", "augment.zoom.probability=0")
    method = made.method
    plan = made.unlabeled.plan
    assert plan.masks.shape == (3, 2, 96, 96) and plan.masks[:, 0, :, :48].all()
    assert not plan.masks[:, 0, :, 48:].any()
    probability = torch.zeros(3, 1, 96, 96)
    probability[0, :, :, :40] = 0.9
    target, matched = method.refine(probability, plan.masks)
    assert matched.tolist() == [True, False, False]
    assert target[0, 0].sum() == 96 * 48 and not target[1:].any()


@pytest.mark.parametrize("match", ["iom", "cpi"])
def test_the_student_learns_what_was_matched(case, tmp_path, compose_smoke, match):
    masks = torch.zeros(3, 96, 96)
    masks[0, :, :48] = 1  # IoU 5/6
    masks[1, :32, :56] = 1  # 5/7 of it lie within
    masks[2, 60:92, 20:56] = 1  # 5/9 of it lie within: not enough
    parts = Parts.build(compose_smoke("method=supervised", "augment=none"))
    for name in parts.dataset.split("train").ids:
        np.savez(tmp_path / f"{name}.npz", masks=masks.numpy())
    made = case(
        "method=semires", f"method.candidates={tmp_path}", f"method.match={match}",
        "augment.zoom.probability=0",
    )  # fmt: skip
    method, unlabeled = made.method, made.unlabeled
    pseudo = torch.full((3, 1, 96, 96), 0.1)
    pseudo[:, :, :, :40] = 0.9
    method.teach = lambda image, batch: pseudo
    losses = method.step(made.labeled, unlabeled, ALL)
    strong = method.views.perturb(method.views.weak(unlabeled), unlabeled)
    words = method.student.encode_text(unlabeled.text)
    logits = method.student(method.views.normalize(strong), words)
    target = (masks[0] if match == "iom" else masks[:2].amax(0)).expand_as(logits)
    weight = torch.where(target > 0, 1.1, 0.9)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, weight)
    torch.testing.assert_close(losses["loss_unsup"], expected / weight.mean())
    assert losses["matched"] == 1


def pools(parts):
    return parts.pool("train", [0]), parts.pool("train", [3, 4, 5], masks=False)


def test_missing_and_damaged_candidates_and_a_zoom_are_refused(case, folder):
    nowhere = Candidates(str(folder / "nowhere"), most=3)
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        nowhere.check(["a"])
    with pytest.raises(UserError, match=r"a zoomed view would not fit .*augment\.zoom"):
        case("method=semires", f"method.candidates={folder}")
    made = case("method=semires", f"method.candidates={folder}", "augment.zoom.probability=0")
    ids = made.parts.dataset.split("train").ids
    (folder / f"{ids[4]}.npz").unlink()
    with pytest.raises(UserError, match=r"1 of 3 training images have no candidate masks"):
        made.method.begin(*pools(made.parts))
    (folder / f"{ids[4]}.npz").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"cannot be read .*expected an array 'masks'"):
        Candidates(str(folder), most=3).batch([ids[4]], 8)


def test_the_teacher_stays_near_the_burn_in_from_its_first_step_on(case):
    made = case("method=semires", "method.momentum=0.75")
    method = made.method
    method.enter("all")
    weight = next(method.student.parameters())
    before = next(method.teacher.network.parameters()).clone()
    with torch.no_grad():
        weight += 1.0
    method.after_step(replace(ALL, step=0))
    after = next(method.teacher.network.parameters())
    torch.testing.assert_close(after, before + 0.25)
