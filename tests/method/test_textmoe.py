from dataclasses import replace

import pytest
import torch
from tests.method.conftest import LATE, another_teacher

from semimedref.augment.frequency_exchange import frequency_exchange
from semimedref.errors import UserError

ALL, LABELED = replace(LATE, stage="all"), replace(LATE, stage="labeled")


def test_labeled_images_come_alone_and_the_teacher_waits(case):
    made = case("method=textmoe")
    method = made.method
    losses = method.step(made.labeled, made.unlabeled, LABELED)
    assert set(losses) == {"loss", "loss_sup"}
    before = {k: v.clone() for k, v in method.teacher.network.trainable_state().items()}
    with torch.no_grad():
        for p in method.student.parameters():
            p.add_(1)
    method.after_step(LABELED)
    waiting = method.teacher.network.trainable_state()
    assert all(torch.equal(value, waiting[key]) for key, value in before.items())
    method.enter("all")
    student, teacher = (method.network(n).trainable_state() for n in ("student", "teacher"))
    assert all(torch.equal(student[k], teacher[k]) for k in student)


def test_one_mean_over_masks_and_pseudo_masks_of_exchanged_images(case):
    made = case("method=textmoe")
    method, labeled, unlabeled = made.method, made.labeled, made.unlabeled
    another_teacher(made)
    losses = method.step(labeled, unlabeled, ALL)
    known, weak = method.views.labeled(labeled), method.views.weak(unlabeled)
    teacher = method.teacher.network
    words = teacher.encode_text(unlabeled.text)
    pseudo = (teacher(teacher.normalized(weak.image), words) > 0).float()
    image = torch.cat([known.image, method.student.normalized(weak.image)])
    numbers = torch.cat([labeled.uniform[:, -1], unlabeled.uniform[:, -1]]).tolist()
    donor = sorted(range(len(numbers)), key=numbers.__getitem__)
    mixed = torch.cat([
        frequency_exchange(image[i : i + 1], image[j : j + 1], cutoff=10 * 96 / 224,
                           kind="amplitude")
        for i, j in enumerate(donor)
    ])  # fmt: skip
    text = method.student.encode_text(
        method.student.prepare_text([*labeled.sentences, *unlabeled.sentences])
    )
    outputs = method.student.outputs(mixed, text)
    expected = method.student.objective(outputs, torch.cat([known.mask, pseudo]), method.loss)
    torch.testing.assert_close(losses["loss"], expected, rtol=1e-4, atol=1e-5)


def test_as_released_nothing_is_exchanged_and_the_teacher_normalizes_by_its_batch(case):
    made = case("method=textmoe", "method.as_released=true")
    method = made.method
    weak = method.views.weak(made.unlabeled).image
    image, donor = method.student.normalized(weak), torch.tensor([1, 2, 0])
    moved = [(m.exchanged(image, donor) - image).abs().max().item()
             for m in (method, case("method=textmoe").method)]  # fmt: skip
    assert moved[0] < 0.1 and moved[1] > 0.5, moved
    first = half(made.unlabeled)
    alone, together = method.teach(weak[:1], first), method.teach(weak, made.unlabeled)
    assert not torch.allclose(alone[0], together[0], atol=1e-6)
    assert not method.teacher.network.training
    calm = case("method=textmoe").method
    alone, together = calm.teach(weak[:1], first), calm.teach(weak, made.unlabeled)
    torch.testing.assert_close(alone[0], together[0])


def half(batch):
    text = batch.text
    return replace(batch, text=replace(text, rows=text.rows[:1]))


def test_an_unknown_exchange_is_refused(case):
    with pytest.raises(UserError, match="expected amplitude or shifted or unshifted"):
        case("method=textmoe", "method.exchange=phase")
