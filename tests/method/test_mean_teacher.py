import math

import pytest
import torch

from semimedref.method.mean_teacher import squared_difference
from semimedref.method.schedule import Progress
from semimedref.method.semi_supervised import gaussian_ramp


def test_squared_difference_by_hand():
    logits = torch.tensor([0.0, math.log(3)])  # 0.5 and 0.75
    probability = torch.tensor([0.9, 0.25])
    assert squared_difference(logits, probability).item() == pytest.approx((0.16 + 0.25) / 2)


@pytest.mark.parametrize(("step", "value"), [(0, math.exp(-5)), (20, math.exp(-1.25)), (40, 1.0)])
def test_the_ramp_by_hand(step, value):
    assert gaussian_ramp(Progress(step, 10, 100), 0.4) == pytest.approx(value)
    assert gaussian_ramp(Progress(step, 10, 100), 0.0) == 1.0


def test_the_student_agrees_with_the_teacher_on_another_view(case):
    made = case("method=mean_teacher", "method.weight_unlabeled=2.5")
    method, unlabeled = made.method, made.unlabeled
    losses = made.step()
    weak = method.views.weak(unlabeled)
    probability = method.teach(weak.image, unlabeled)
    strong = method.views.normalize(method.views.perturb(weak, unlabeled))
    logits = method.student(strong, method.student.encode_text(unlabeled.text))
    expected = (logits.sigmoid() - probability).square().mean()
    torch.testing.assert_close(losses["loss_unsup"], expected)
    torch.testing.assert_close(losses["loss"], losses["loss_sup"] + 2.5 * losses["loss_unsup"])


def test_the_teacher_begins_as_the_student_and_gets_slower(case):
    made = case("method=mean_teacher")
    method = made.method
    with torch.no_grad():
        for p in method.student.parameters():
            p.add_(0.1)
    method.after_step(Progress(0, 5, 20))
    student, teacher = (method.network(n).trainable_state() for n in ("student", "teacher"))
    assert all(torch.equal(student[key], teacher[key]) for key in student)
    moments = [method.momentum(Progress(s, 5, 2000)) for s in (1, 9, 99, 1000)]
    assert moments == pytest.approx([0.5, 0.9, 0.99, 0.99])
