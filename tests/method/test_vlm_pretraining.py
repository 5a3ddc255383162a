from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.method.conftest import LATE

from semimedref.errors import UserError
from semimedref.method.vlm_pretraining import match

VLM = ["method=vlm_pretraining", "vlm=dusss"]


def test_match_by_hand():
    images = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    sentences = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    # Own scores 1, 0, 0. Image 0: equal to 2 of 3, above 1. Image 1: equal to 2, below 1. Image 2:
    # equal to 1, below 2.
    assert match(images, sentences) == pytest.approx((2 / 3 + 1 / 3 + 1 / 6) / 3)
    assert match(np.eye(4), np.eye(4)) == pytest.approx((3 + 0.5) / 4)
    assert match(np.ones((3, 1)), np.ones((3, 1))) == 0.5


@pytest.mark.parametrize("vlm", ["dusss", "amvlm"])
def test_a_step_compares_weak_views_with_the_twins_strong_ones(case, vlm):
    made = case("method=vlm_pretraining", f"vlm={vlm}")
    method, batch = made.method, made.labeled
    torch.manual_seed(0)
    losses = method.step(replace(batch, mask=None), None, LATE)
    weak = method.views.weak(batch)
    strong = method.views.normalized(method.views.perturb(weak, batch))
    assert not torch.allclose(strong, method.student.normalized(weak.image))
    torch.manual_seed(0)
    text = method.student.encode_text(method.student.prepare_text(batch.sentences))
    expected = method.student.losses(
        method.student.normalized(weak.image), strong, text, method.teacher.network
    )
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(losses[name], value)


def test_the_twin_follows_at_its_momentum(case):
    method = case(*VLM, "method.momentum=0.75").method
    before = {k: v.clone() for k, v in method.teacher.network.trainable_state().items()}
    with torch.no_grad():
        for p in method.student.parameters():
            p.add_(1) if p.requires_grad else None
    method.after_step(LATE)
    after, student = method.teacher.network.trainable_state(), method.student.trainable_state()
    for key, value in before.items():
        if not value.is_floating_point():  # a counter of batches
            continue
        torch.testing.assert_close(after[key], 0.75 * value + 0.25 * student[key])


def test_scores_need_no_mask_and_no_certain_batch(case):
    made = case(*VLM)
    method, batch = made.method, replace(made.labeled, mask=None)
    table = method.measure(batch, threshold=0.5, weights="student", route=None)
    seen = method.student.see(method.student.normalized(batch.image)).whole.detach()
    words = method.student.read(method.student.encode_text(batch.text)).whole.detach()
    torch.testing.assert_close(table, torch.cat([seen, words], 1))
    assert method.summarize(table.numpy())["match"] == match(seen.numpy(), words.numpy())


def test_it_has_neither_masks_nor_a_teacher_to_ask(case):
    made = case(*VLM)
    with pytest.raises(UserError, match="predicts no mask"):
        made.method.predict(made.labeled, weights="student")
    with pytest.raises(UserError, match="student only"):
        made.method.measure(made.labeled, threshold=0.5, weights="teacher", route=None)


def test_patches_and_sides_that_do_not_fit(case):
    with pytest.raises(UserError, match=r"patch=13 does not divide images of 96 px"):
        case(*VLM, "vlm.image_encoder.patch=13")
    with pytest.raises(UserError, match=r"vlm.space=9: 2 attention heads do not divide it"):
        case(*VLM, "vlm.space=9")
    with pytest.raises(UserError, match=r"vlm.summary=last is unknown: expected first or mean"):
        case(*VLM, "vlm.summary=last")
