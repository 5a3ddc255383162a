from dataclasses import replace

import pytest
import torch

from semimedref.errors import UserError
from semimedref.evaluate import prepare
from semimedref.method.schedule import Progress
from semimedref.run import Parts

BURN_IN, AFTER = Progress(0, 5, 20), Progress(19, 5, 20)


@pytest.fixture
def parts(compose_smoke):
    return Parts.build(compose_smoke("dataset=phantom_tiny"))


def batches(parts, n=2):
    import numpy as np

    u = np.random.default_rng(0).random((n, parts.method.draws), dtype=np.float32)
    labeled = parts.pool("train", list(range(n))).fetch(range(n), u)
    unlabeled = parts.pool("train", list(range(n, 2 * n)), masks=False).fetch(range(n), u)
    return (prepare(parts.method, b, parts.hardware) for b in (labeled, unlabeled))


def test_burn_in_sees_labeled_images_only(parts):
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, BURN_IN)
    assert set(losses) == {"loss", "loss_sup"}


def test_equation_total_adds_the_weighted_unlabeled_loss(parts):
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, AFTER)
    assert parts.method.lambda_u(AFTER) == pytest.approx(0.3)
    torch.testing.assert_close(losses["loss"], losses["loss_sup"] + 0.3 * losses["loss_unsup"])


def test_equation_unsup_is_dicece_of_the_strong_view_against_the_teachers_mask(parts):
    method = parts.method
    labeled, unlabeled = batches(parts)
    method.train(False)  # without dropout and batch statistics the pass can be repeated
    losses = method.step(labeled, unlabeled, AFTER)
    weak = method.views.weak(unlabeled)
    target = (method.teach(weak.image, unlabeled) >= 0.55).float()
    from semimedref.augment.image import standardize

    strong = method.views.strong(weak, unlabeled)
    logits = method.student(standardize(strong.image), method.student.encode_text(unlabeled.text))
    torch.testing.assert_close(losses["loss_unsup"], method.loss(logits, target))


def test_teacher_never_receives_gradient(parts):
    labeled, unlabeled = batches(parts)
    parts.method.step(labeled, unlabeled, AFTER)["loss"].backward()
    assert all(p.grad is None for p in parts.method.teacher.network.parameters())
    assert any(p.grad is not None for p in parts.method.student.parameters())


def test_unlabeled_masks_play_no_part(parts):
    labeled, unlabeled = batches(parts)
    with_mask = replace(unlabeled, mask=torch.ones_like(unlabeled.image))
    parts.method.train(False)
    a = parts.method.step(labeled, unlabeled, AFTER)["loss"]
    b = parts.method.step(labeled, with_mask, AFTER)["loss"]
    assert torch.equal(a, b)


def test_prediction_ignores_augmentation_and_can_use_either_network(parts):
    labeled, _ = batches(parts)
    parts.method.train(False)
    student = parts.method.predict(labeled, weights="student")
    assert torch.equal(student, parts.method.predict(labeled, weights="teacher"))
    with torch.no_grad():
        for p in parts.method.student.parameters():
            p.add_(0.1)
    assert not torch.equal(student, parts.method.predict(labeled, weights="student"))
    assert torch.equal(student, parts.method.predict(labeled, weights="teacher"))


def test_an_unknown_network_is_refused(parts):
    labeled, _ = batches(parts)
    with pytest.raises(UserError, match="student or teacher"):
        parts.method.predict(labeled, weights="pupil")


def test_state_comes_back_whole(parts, compose_smoke):
    labeled, unlabeled = batches(parts)
    parts.method.step(labeled, unlabeled, AFTER)["loss"].backward()
    with torch.no_grad():
        for p in parts.method.student.parameters():
            if p.grad is not None:
                p.sub_(p.grad)
    parts.method.after_step(AFTER)
    other = Parts.build(compose_smoke("seed.value=9")).method
    other.load_state_dict(parts.method.state_dict())
    for which in ("student", "teacher"):
        a, b = parts.method.weights()[which], other.weights()[which]
        assert all(torch.equal(a[k], b[k]) for k in a)
