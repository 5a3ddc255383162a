import pytest
import torch

from semimedref.config import build
from semimedref.method.teacher import Teacher


@pytest.fixture
def student(compose_smoke):
    torch.manual_seed(0)
    return build(compose_smoke(), "model")


def test_the_teacher_starts_as_the_student_and_owns_its_weights(student):
    teacher = Teacher(student).network
    for (name, a), b in zip(student.named_parameters(), teacher.parameters(), strict=True):
        assert torch.equal(a, b)
        if a.requires_grad:
            assert a is not b, name


def test_equation_ema_by_hand(student):
    teacher = Teacher(student)
    name, weight = next((n, p) for n, p in student.named_parameters() if p.requires_grad)
    before = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
    teacher.follow(student, momentum=0.9)
    after = dict(teacher.network.named_parameters())[name]
    torch.testing.assert_close(after, 0.9 * before + 0.1 * (before + 1))


def test_float_buffers_follow_and_integer_buffers_are_copied(student):
    teacher = Teacher(student)
    buffers = dict(student.named_buffers())
    mean = next(n for n in buffers if n.endswith("running_mean"))
    count = next(n for n in buffers if n.endswith("num_batches_tracked"))
    buffers[mean].fill_(1.0)
    buffers[count].fill_(7)
    teacher.follow(student, momentum=0.75)
    followed = dict(teacher.network.named_buffers())
    assert followed[mean].unique().tolist() == [0.25]
    assert int(followed[count]) == 7


def test_the_teacher_is_in_eval_mode_and_never_asks_for_a_gradient(student):
    network = Teacher(student.train()).network
    assert not any(m.training for m in network.modules())
    assert not any(p.requires_grad for p in network.parameters())
