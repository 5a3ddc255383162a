"""Several stages in one run: their lengths, what passes from one to the next, and resuming."""

import json

import pytest
import torch

from semimedref import checkpoint
from semimedref.errors import UserError
from semimedref.folder import RunFolder
from semimedref.method.teacher_student import TeacherStudent
from semimedref.run import Parts
from semimedref.stages import Stages
from tests.conftest import TIMES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("shares", "epochs", "lengths"),
    [
        ((), 7, (7,)),
        ((0.35, 0.65), 16, (6, 10)),
        ((1, 1), 400, (200, 200)),
        ((0.01, 0.99), 4, (1, 3)),
        ((0.99, 0.005, 0.005), 4, (2, 1, 1)),
    ],
)
def test_a_stage_has_its_share_and_at_least_an_epoch(shares, epochs, lengths):
    stages = Stages({str(i): share for i, share in enumerate(shares)}, epochs)
    assert stages.lengths == lengths


def test_shares_that_cannot_be_meant():
    with pytest.raises(UserError, match=r"shares \[0, 1\] .*expected shares above 0"):
        Stages({"first": 0, "second": 1}, 4)
    with pytest.raises(UserError, match="an epoch for each stage"):
        Stages({"first": 1, "second": 1}, 1)


@pytest.fixture
def staged(compose_smoke, tmp_path, monkeypatch):
    """Trainers of a method with two stages of two epochs; every folder is a run."""
    monkeypatch.setattr(TeacherStudent, "stages", {"labeled": 0.5, "all": 0.5})

    def make(name, *overrides):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return Parts.build(compose_smoke(*overrides)).trainer(folder, lambda: None)

    return make


def test_the_next_stage_begins_with_the_best_weights_and_a_new_optimizer(staged, monkeypatch):
    entered = []

    def enter(method, stage):
        weights = checkpoint.load(trainer.folder / "best.pt")["weights"]
        same = [torch.equal(v, weights["student"][k])
                for k, v in method.student.trainable_state().items()]  # fmt: skip
        entered.append((stage, trainer.step, all(same)))

    monkeypatch.setattr(TeacherStudent, "enter", enter)
    trainer = staged("run")
    seen = []
    real = trainer._forward
    trainer._forward = lambda *x: seen.append((x[2], len(trainer.optimizer.state))) or real(*x)
    trainer.fit()
    assert entered == [("all", 10, True)]
    assert [(p.step, p.total_steps, p.stage) for p, _ in seen] == [
        *((i, 10, "labeled") for i in range(10)), *((i, 10, "all") for i in range(10)),
    ]  # fmt: skip
    assert seen[9][1] > 0 and seen[10][1] == 0


def test_each_stage_has_the_whole_curve_of_the_learning_rate(staged):
    trainer = staged("run", "scale.warmup_epochs=0.4")
    first = [trainer.learning_rate(step) for step in range(10)]
    assert first[0] == pytest.approx(2e-3) and first[-1] < 2e-4  # one step of warm-up in ten
    trainer.stages.advance(2)
    assert [trainer.learning_rate(step) for step in range(10, 20)] == pytest.approx(first)


def test_a_stage_that_gets_no_better_ends_early_and_the_next_has_its_own_best(staged, monkeypatch):
    overrides = ["scale.epochs=8", "scale.min_epochs=1", "scale.patience=1"]
    trainer = staged("run", *overrides)
    scores = iter([0.5, 0.4, 0.1, 0.2, 0.2])
    monkeypatch.setattr(trainer, "evaluate", lambda pool: ({}, None))
    monkeypatch.setattr("semimedref.trainer.scores_of", lambda *_: {"dice": next(scores)})
    assert trainer.fit() == {"epoch": 4, "val/dice": 0.2}
    assert trainer.stages.start == 2 and trainer.step == 5 * trainer.steps_per_epoch


def test_the_time_of_a_step_is_the_median_over_the_last_stage(staged):
    trainer = staged("run")
    trainer.fit()
    folder = RunFolder(trainer.folder)
    rows = [json.loads(row) for row in (folder.path / "metrics.jsonl").read_text().splitlines()]
    times = [row["step_seconds"] for row in rows]
    assert len(times) == 4 and trainer.stages.start == 2
    assert 0 < sum(times) * trainer.steps_per_epoch < rows[-1]["seconds"] + 0.01
    assert folder.step_seconds(after=2) == pytest.approx((times[2] + times[3]) / 2)
    assert folder.step_seconds(after=4) is None


class KilledError(Exception):
    pass


def end(trainer):
    rows = [json.loads(r) for r in (trainer.folder / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in row.items() if k not in TIMES} for row in rows]
    return rows, trainer.method.state_dict()


def assert_same_end(a, b):
    assert a[0] == b[0]
    for network, weights in a[1].items():
        for name, value in weights.items():
            assert torch.equal(value, b[1][network][name]), name


@pytest.mark.parametrize("at", [4, 17])
def test_resumed_in_either_stage_and_between_them_it_ends_with_the_same_bits(staged, at):
    whole = staged("whole")
    whole.fit()
    first = staged("again")
    real = first._optimize

    def optimize(batches):
        if first.step == at:
            raise KilledError
        real(batches)
        first._save()

    first._optimize = optimize
    with pytest.raises(KilledError):
        first.fit()
    again = staged("again")
    again.fit()
    assert_same_end(end(whole), end(again))


def test_killed_between_the_end_of_a_stage_and_the_next_it_ends_with_the_same_bits(staged):
    whole = staged("whole")
    whole.fit()
    first = staged("again")

    def die():
        raise KilledError

    first._is_over = lambda: False if first.step < 10 else die()
    with pytest.raises(KilledError):
        first.fit()
    assert checkpoint.load(first.folder / "last.pt")["stage"] == {"number": 0, "start": 0}
    again = staged("again")
    again.fit()
    assert_same_end(end(whole), end(again))
