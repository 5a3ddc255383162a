from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.method.conftest import LATE
from tests.method.test_every_method import stop_after, tensors

from semimedref.errors import UserError
from semimedref.method.vlm_pretraining import match
from semimedref.model.vlm.vlm import Slow
from semimedref.run import Parts

pytestmark = pytest.mark.slow

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
    slow = method.teacher.network
    with torch.no_grad():
        told = Slow(slow.see(strong), slow.read(slow.encode_text(batch.text)))
    image = method.student.normalized(weak.image)
    expected = method.student.losses(image, text, slow, told)
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(losses[name], value)


LEARNS = ["text_encoder.frozen=false", "text_encoder.cache=false"]


@pytest.mark.parametrize("vlm", ["dusss", "amvlm"])
def test_a_text_encoder_that_learns_has_a_twin_that_reads(case, vlm):
    made = case("method=vlm_pretraining", f"vlm={vlm}", *LEARNS)
    method = made.method
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(method.step(made.labeled, None, LATE)["loss"])
        with torch.no_grad():
            for p in method.teacher.network.text_encoder.parameters():
                p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    assert not torch.allclose(*found)
    found[0].backward()
    grads = [p.grad is not None for p in method.student.text_encoder.parameters()]
    assert sum(grads) > len(grads) / 2


@pytest.mark.parametrize("vlm", ["dusss", "amvlm"])
def test_with_such_an_encoder_it_resumes_exactly_and_the_second_stage_starts_from_it(
    compose_smoke, tmp_path, vlm
):
    def make(name):
        (tmp_path / name).mkdir(exist_ok=True)
        cfg = compose_smoke("method=vlm_pretraining", f"vlm={vlm}", *LEARNS, "scale.epochs=2")
        return Parts.build(cfg).trainer(tmp_path / name, lambda: None)

    whole = make("whole")
    whole.fit()
    stop_after(make("again"), 7)
    again = make("again")
    again.fit()
    expected, ours = (dict(tensors(t.method.state_dict())) for t in (whole, again))
    assert expected.keys() == ours.keys()
    assert all(torch.equal(value, ours[key]) for key, value in expected.items())
    method = Parts.build(compose_smoke(f"method={vlm}", *LEARNS)).method
    method.start_from("vlm", whole.method.weights())
    state = method.vlm.state_dict()
    trained = whole.method.student.state_dict()
    assert any(key.startswith("text_encoder.") for key in trained)
    assert all(torch.equal(value, state[key]) for key, value in trained.items())
    assert not any(p.requires_grad for p in method.vlm.parameters())


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
