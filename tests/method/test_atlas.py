import json

import numpy as np
import pytest
import torch
from tests.conftest import TIMES

from semimedref import checkpoint, metrics
from semimedref.config import compose, resolved
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.run import Parts, run

pytestmark = pytest.mark.slow

ATLAS = ("method=atlas", "trainer=atlas", "augment=none", "ratio=15pct")
TRIED = [0.1, 0.2, 0.3, 0.4]
FEW = (f"method.thresholds={TRIED}", "trainer.epochs=4", "trainer.min_epochs=4")


@pytest.fixture
def build(compose_smoke):
    return lambda *extra: Parts.build(compose_smoke(*ATLAS, *FEW, *extra))


@pytest.fixture
def make_trainer(build, tmp_path):
    def make(*extra, name="run"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return build(*extra).trainer(folder, lambda: None)

    return make


def rows(trainer):
    return [json.loads(r) for r in (trainer.folder / "metrics.jsonl").read_text().splitlines()]


def test_the_masks_of_the_labeled_pool_are_counted_and_no_others(make_trainer):
    trainer = make_trainer("model=mean_mask")
    pool = trainer.data.labeled.pool
    mean = pool.fetch(range(len(pool))).mask.float().mean(0)
    assert len(pool) == 30
    torch.testing.assert_close(trainer.method.student.means, mean)


def test_each_position_label_of_the_pool_is_in_the_text_atlas(make_trainer):
    trainer = make_trainer("model=text_atlas", "model.smoothing=0")
    pool, student = trainer.data.labeled.pool, trainer.method.student
    labels = pool.split.positions[list(pool.places)]
    assert np.unique(labels, axis=0).tolist() == student.labels.tolist()
    chosen = [i for i, q in enumerate(labels) if (q == student.labels[0].numpy()).all()]
    torch.testing.assert_close(student.means[0], pool.fetch(chosen).mask.float().mean(0)[0])


@pytest.mark.parametrize("model", ["text_atlas", "mean_mask"])
def test_validation_dice_chooses_the_threshold_of_the_mean(make_trainer, model):
    trainer = make_trainer(f"model={model}")
    best = trainer.fit()
    method, valid = trainer.method, trainer.valid
    method.student.threshold.fill_(0.5)  # from here on its output is the mean itself
    whole = valid.fetch(range(len(valid)))
    text = method.student.encode_text(method.prepare_text(whole.sentences))
    mean = method.student(whole.image.float(), text).sigmoid()
    dice = [metrics.summarize(metrics.counts(mean, whole.mask, threshold=t - 1e-6).numpy())["dice"]
            for t in TRIED]  # fmt: skip
    assert [r["val/dice"] for r in rows(trainer)] == pytest.approx(dice, abs=1e-6)
    assert [r["train/threshold"] for r in rows(trainer)] == TRIED
    assert best["epoch"] == 1 + int(np.argmax(dice)) and len(set(dice)) == 4
    kept = checkpoint.load(trainer.folder / "best.pt")["weights"]["student"]["threshold"]
    assert kept.item() == pytest.approx(TRIED[best["epoch"] - 1])


def test_fewer_epochs_than_thresholds_try_evenly_spread_ones(build):
    method = build("model=mean_mask", "method.thresholds=[.1,.2,.3,.4,.5,.6,.7,.8,.9]").method

    def tried(epochs):
        return [method.threshold(Progress(2 * e + 1, 2, 2 * epochs)) for e in range(epochs)]

    assert tried(9) == method.thresholds
    assert tried(4) == [0.2, 0.4, 0.6, 0.8]
    assert tried(1) == [0.5]
    assert tried(18) == [t for t in method.thresholds for _ in range(2)]


def test_its_trainer_tries_each_threshold_once_at_any_scale():
    trainers = []
    for scale in ("smoke", "cpu", "paper"):
        plain = resolved(compose([f"scale={scale}", *ATLAS[:3], "model=text_atlas"]))
        assert plain["trainer"]["epochs"] == len(plain["method"]["thresholds"])
        trainers.append(plain["trainer"])
    assert trainers[0] == trainers[1] == trainers[2]


def test_four_epochs_equal_two_plus_two(make_trainer):
    whole, first = make_trainer("model=text_atlas", name="whole"), make_trainer("model=text_atlas")
    whole.fit()
    for step in range(2):
        first._optimize(first.data[step])
        first._finish_epoch()
    second = make_trainer("model=text_atlas")
    second.fit()
    assert second.best == whole.best

    def plain(trainer):
        return [{k: v for k, v in r.items() if k not in TIMES} for r in rows(trainer)]

    assert plain(second) == plain(whole)
    a, b = (checkpoint.load(t.folder / "best.pt")["weights"]["student"] for t in (whole, second))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_a_run_is_tested_read_again_and_asked_with_other_words(compose_smoke, tmp_path):
    from semimedref import Predictor

    cfg = compose_smoke(*ATLAS, *FEW, "model=text_atlas")
    value = run(cfg)
    (file,) = (tmp_path / "multirun").glob("*/result.json")
    result = json.loads(file.read_text())
    assert "-text_atlas-atlas-" in file.parent.name
    assert result["best"]["val/dice"] == value == run(cfg)
    assert result["test"]["text_gap"] > 0.1
    assert result["parameters"] == {"total": 0, "trainable": 0}
    predictor = Predictor(file.parent, device="cpu")
    black, gray = np.zeros((96, 96), np.uint8), np.full((96, 96), 128, np.uint8)
    left = predictor(black, "one infected area, upper left lung.")
    right = predictor(black, "one infected area, lower right lung.")
    assert left.mask[:48, :48].any() and not left.mask[:, 48:].any()
    assert right.mask[48:, 48:].any() and not right.mask[:48].any()
    assert (predictor(gray, "one infected area, upper left lung.").mask == left.mask).all()


def test_the_trainer_of_other_methods_works_too(compose_smoke):
    assert run(compose_smoke("method=atlas", "model=mean_mask", "trainer.precision=fp16")) > 0


def test_the_mean_mask_has_no_text_gap(compose_smoke, tmp_path):
    run(compose_smoke(*ATLAS, *FEW, "model=mean_mask"))
    (file,) = (tmp_path / "multirun").glob("*/result.json")
    assert json.loads(file.read_text())["test"]["text_gap"] == 0.0


def test_a_network_that_has_to_be_trained_is_refused(build):
    with pytest.raises(UserError, match=r"MMIUNet has to be trained.*model=text_atlas"):
        build("model=mmi_unet")


@pytest.mark.parametrize("thresholds", ["[]", "[0.2,1.0]", "[0]"])
def test_impossible_thresholds_are_refused(build, thresholds):
    with pytest.raises(UserError, match=r"method\.thresholds="):
        build("model=mean_mask", f"method.thresholds={thresholds}")


def test_there_is_no_teacher(build):
    with pytest.raises(UserError, match="student only"):
        build("model=mean_mask").method.network("teacher")
