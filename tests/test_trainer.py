import json
import math

import pytest
import torch

from semimedref.errors import UserError
from semimedref.learning_rate import learning_rate
from semimedref.run import Parts


@pytest.fixture
def make_trainer(compose_smoke, tmp_path):
    def make(*overrides):
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        return Parts.build(compose_smoke(*overrides)).trainer(folder, lambda: None)

    return make


def rows(trainer):
    return [json.loads(r) for r in (trainer.folder / "metrics.jsonl").read_text().splitlines()]


def test_the_papers_cosine_falls_once_an_epoch_to_half_its_way(make_trainer):
    paper = ["scale.lr=3e-4", "scale.min_lr=1e-6", "scale.warmup_epochs=0",
             "scale.cosine_epochs=200", "scale.lr_update=epoch", "scale.epochs=100"]  # fmt: skip
    trainer = make_trainer(*paper)
    n = trainer.steps_per_epoch
    assert trainer.learning_rate(0) == trainer.learning_rate(n - 1) == 3e-4
    expected = 1e-6 + (3e-4 - 1e-6) * (1 + math.cos(math.pi * 50 / 200)) / 2
    assert trainer.learning_rate(50 * n) == pytest.approx(expected)
    assert trainer.learning_rate(99 * n) == pytest.approx(1.53e-4, rel=0.02)


def test_warm_up_is_linear_and_the_cosine_ends_at_the_floor(make_trainer):
    trainer = make_trainer("scale.warmup_epochs=1", "scale.epochs=4", "scale.cosine_epochs=4")
    rates = [trainer.learning_rate(s) for s in range(20)]
    assert rates[:5] == pytest.approx([2e-3 * (i + 1) / 5 for i in range(5)])
    assert trainer.learning_rate(20) == pytest.approx(4e-5)


def test_poly_falls_each_step_to_nothing_with_the_power_of_lavt(make_trainer):
    trainer = make_trainer("trainer.lr_shape=poly", "scale.warmup_epochs=0", "scale.lr=5e-5",
                           "scale.min_lr=0", "scale.epochs=4")  # fmt: skip
    n = trainer.total_steps
    rates = [trainer.learning_rate(s) for s in range(n + 1)]
    assert rates == pytest.approx([5e-5 * (1 - s / n) ** 0.9 for s in range(n + 1)])


def test_restarts_begin_the_cosine_again_every_ten_epochs_as_lvit_does(make_trainer):
    trainer = make_trainer("trainer.lr_shape=restarts", "scale.warmup_epochs=0", "scale.lr=3e-4",
                           "scale.min_lr=1e-4", "scale.cosine_epochs=10", "scale.epochs=25",
                           "scale.lr_update=epoch")  # fmt: skip
    n = trainer.steps_per_epoch
    for epoch in range(25):
        expected = 1e-4 + 2e-4 * (1 + math.cos(math.pi * (epoch % 10) / 10)) / 2
        assert trainer.learning_rate(epoch * n) == pytest.approx(expected)


def test_restarts_keep_their_period_in_a_stage_of_half_the_epochs(make_trainer):
    trainer = make_trainer("trainer.lr_shape=restarts", "scale.warmup_epochs=0", "scale.lr=3e-4",
                           "scale.min_lr=1e-4", "scale.cosine_epochs=10", "scale.epochs=50",
                           "scale.lr_update=epoch")  # fmt: skip
    rates = [learning_rate(trainer.config, epoch * 5, 5, 0.5) for epoch in (0, 5, 9, 10, 24)]
    expected = [1e-4 + 1e-4 * (1 + math.cos(math.pi * e / 10)) for e in (0, 5, 9, 0, 4)]
    assert rates == pytest.approx(expected)


def test_adam_decays_no_weight_where_adamw_does(make_trainer):
    plain = make_trainer("trainer.optimizer=adam", "trainer.weight_decay=0")
    assert isinstance(plain.optimizer, torch.optim.Adam)
    assert not isinstance(plain.optimizer, torch.optim.AdamW)
    assert isinstance(make_trainer().optimizer, torch.optim.AdamW)


def test_supervised_rows_take_as_many_steps_as_semi_supervised_ones(make_trainer):
    semi = make_trainer("scale.steps_per_epoch=null", "ratio=15pct")
    supervised = make_trainer("scale.steps_per_epoch=null", "ratio=15pct", "method=supervised")
    native = make_trainer(
        "scale.steps_per_epoch=null", "ratio=15pct", "method=supervised", "trainer.steps=native"
    )
    assert semi.steps_per_epoch == supervised.steps_per_epoch == math.ceil(170 / 4)
    assert native.steps_per_epoch == math.ceil(30 / 4)


def test_training_stops_when_validation_no_longer_improves(make_trainer):
    trainer = make_trainer("scale.epochs=50", "scale.min_epochs=2", "scale.patience=2",
                           "trainer.min_change=1.0")  # fmt: skip
    trainer.fit()
    # The first epoch is better than nothing by more than 1.0; no later one is.
    assert len(rows(trainer)) == 3


def test_early_stop_survives_a_restart(make_trainer):
    options = ("scale.epochs=50", "scale.min_epochs=2", "scale.patience=2", "trainer.min_change=1")
    make_trainer(*options).fit()
    again = make_trainer(*options)
    again.fit()
    assert len(rows(again)) == 3


def test_the_best_epoch_by_validation_dice_is_kept(make_trainer):
    from semimedref import checkpoint

    trainer = make_trainer("scale.epochs=5")
    best = trainer.fit()
    scores = [r["val/dice"] for r in rows(trainer)]
    assert best["val/dice"] == max(scores)
    assert checkpoint.load(trainer.folder / "best.pt")["epoch"] == 1 + scores.index(max(scores))


def test_the_loop_cannot_reach_the_test_set(make_trainer, monkeypatch):
    from semimedref.dataset.phantom import Phantom

    real = Phantom.split

    def guarded(self, name):
        assert name != "test", "the test set was opened during training"
        return real(self, name)

    monkeypatch.setattr(Phantom, "split", guarded)
    make_trainer("scale.epochs=1").fit()


def test_accumulated_micro_batches_add_up_to_the_mean_gradient(make_trainer):
    trainer = make_trainer("method=supervised", "trainer.accumulate=2", "trainer.lr=0",
                           "scale.fusion_dropout=0", "scale.clip_norm=null")  # fmt: skip
    micro = trainer.data[0]
    assert len(micro) == 2
    trainer._optimize(micro)
    learns = trainer.optimizer.param_groups[0]["params"]
    summed = [p.grad.clone() for p in learns]
    from semimedref.evaluate import prepare

    trainer.optimizer.zero_grad()
    trainer.method.train()
    for labeled, _ in micro:
        batch = prepare(trainer.method, labeled, trainer.hardware)
        (trainer.method.step(batch, None, trainer.progress)["loss"] / 2).backward()
    for a, b in zip(summed, learns, strict=True):
        torch.testing.assert_close(a, b.grad, rtol=1e-3, atol=1e-6)


def test_a_loss_that_is_not_finite_ends_the_run_with_advice(make_trainer):
    with pytest.raises(UserError, match=r"trainer\.lr"):
        make_trainer("trainer.lr=1e30", "scale.clip_norm=null", "scale.epochs=2").fit()


def test_bf16_runs_and_is_near_fp32(make_trainer):
    losses = {}
    for precision in ("fp32", "bf16"):
        trainer = make_trainer(f"trainer.precision={precision}", "method=supervised")
        trainer._optimize(trainer.data[0])
        losses[precision] = float(trainer.sums["loss"])
    assert losses["fp32"] != losses["bf16"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)


def test_native_steps_shorten_supervised_epochs_only(make_trainer):
    semi = make_trainer("scale.steps_per_epoch=null", "ratio=15pct", "trainer.steps=native")
    assert semi.steps_per_epoch == math.ceil(170 / 4)


def test_losses_are_averaged_over_the_steps_that_had_them(make_trainer):
    late = ["scale.epochs=2", "scale.schedule.burn_in=0.8", "scale.schedule.ramp=0"]
    trainer = make_trainer(*late)
    trainer.fit()  # 10 steps, the last 2 with a teacher
    first, second = rows(trainer)
    assert "train/loss_unsup" not in first
    assert 0.7 < second["train/loss_unsup"] < 3


def test_a_broken_loss_never_reaches_a_checkpoint(make_trainer):
    trainer = make_trainer("trainer.lr=1e30", "scale.clip_norm=null", "hardware.save_seconds=0")
    with pytest.raises(UserError, match="not finite"):
        trainer.fit()
    from semimedref import checkpoint

    path = trainer.folder / "last.pt"
    if path.exists():
        state = checkpoint.load(path)
        assert all(math.isfinite(float(v)) for v in state["sums"].values())


def test_a_method_sees_the_pools_before_training(make_trainer, monkeypatch):
    from semimedref.method.supervised import Supervised

    seen = []
    monkeypatch.setattr(Supervised, "begin", lambda self, *pools: seen.extend(pools))
    trainer = make_trainer("method=supervised", "ratio=15pct")
    assert seen[0] is trainer.data.labeled.pool
    assert len(seen[0]) == 30 and seen[0].masks
    assert len(seen[1]) == 170 and not seen[1].masks


def test_a_lost_gradient_is_an_error_where_something_should_learn(make_trainer):
    trainer = make_trainer("method=supervised")
    real = trainer._forward
    trainer._forward = lambda *x: {k: v.detach() for k, v in real(*x).items()}
    with pytest.raises(RuntimeError, match="require grad"):
        trainer._optimize(trainer.data[0])
