import json
import logging
import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.method.conftest import LATE, another_teacher, could_learn

from semimedref import checkpoint
from semimedref.config import resolved, run_name
from semimedref.errors import UserError
from semimedref.model.losses import dice
from semimedref.model.segmenter import Outputs
from semimedref.run import Parts, run

pytestmark = pytest.mark.slow

FIRST, ALL = (replace(LATE, stage=name) for name in ("labeled", "all"))
SHORT = ["method=rar", "scale.epochs=2", "scale.cosine_epochs=2"]
RELEASED = "method.as_released=true"


def outputs_of(network, batch, method):
    image = network.normalized(method.views.weak(batch).image)
    return network.outputs(image, network.encode_text(batch.text))


def test_the_whole_loss_of_both_kinds_of_images(case):
    made = case("method=rar", "method.weight_unsup=0.7", "method.weight_contrast=0.3")
    method = made.method
    another_teacher(made)
    losses = made.method.step(made.labeled, made.unlabeled, ALL)
    known, others = (outputs_of(method.student, b, method) for b in (made.labeled, made.unlabeled))
    taught = outputs_of(method.teacher.network, made.unlabeled, method)
    pseudo = (taught.logits.sigmoid() > 0.5).float()
    torch.testing.assert_close(losses["loss_sup"], dice(known.logits, made.labeled.mask))
    torch.testing.assert_close(losses["loss_unsup"], dice(others.logits, pseudo))
    image, text = (F.normalize(others.extra[k], dim=-1) for k in ("image", "text"))
    cross, own = method.bank.contrasts(image, text, nearest=5, temperature=0.07)
    torch.testing.assert_close(losses["loss_cross"], cross)
    torch.testing.assert_close(losses["loss_image"], own)
    total = losses["loss_sup"] + 0.7 * losses["loss_unsup"] + 0.3 * (cross + own)
    torch.testing.assert_close(losses["loss"], total)


@pytest.mark.parametrize("progress", [FIRST, ALL])
def test_the_bank_holds_the_labeled_images_of_both_stages(case, progress):
    made = case("method=rar")
    method = made.method
    assert not method.bank.seen.any()
    method.step(made.labeled, made.unlabeled, progress)
    known = outputs_of(method.student, made.labeled, method)
    assert method.bank.seen.tolist() == [True] * 3
    for name in ("image", "text"):
        expected = F.normalize(known.extra[name], dim=-1)
        torch.testing.assert_close(getattr(method.bank, name), expected, atol=1e-5, rtol=1e-4)


def test_labeled_images_alone_come_first(case):
    made = case("method=rar")
    assert set(made.method.step(made.labeled, made.unlabeled, FIRST)) == {"loss", "loss_sup"}
    assert set(made.method.step(made.labeled, None, ALL)) == {"loss", "loss_sup"}


def test_a_contrast_reaches_the_student_and_not_the_teacher(case):
    made = case("method=rar", "method.weight_unsup=0")
    method = made.method
    teacher = could_learn(method.teacher.network)
    losses = method.step(made.labeled, made.unlabeled, ALL)
    (losses["loss_cross"] + losses["loss_image"]).backward()
    assert any(p.grad.abs().max() > 0 for p in method.student.image_encoder.parameters())
    assert all(p.grad is None for p in method.student.decoder.parameters())
    assert all(p.grad is None for p in teacher.parameters())


@pytest.mark.parametrize(("progress", "learns"), [(FIRST, True), (ALL, False)])
def test_the_weight_of_the_words_is_fixed_in_the_second_stage(case, progress, learns):
    made = case("method=rar")
    made.method.plan(made.unlabeled, progress)
    made.method.step(made.labeled, made.unlabeled, progress)["loss"].backward()
    assert (made.method.student.fusion.scale.grad is not None) == learns


def test_the_best_weights_of_a_stage_come_with_their_bank(case, compose_smoke):
    made = case("method=rar")
    method = made.method
    method.step(made.labeled, made.unlabeled, FIRST)
    best = deepcopy(method.weights())
    with torch.no_grad():
        method.student.fusion.norm.weight.add_(1)
    method.step(made.labeled, made.unlabeled, FIRST)
    assert not torch.equal(method.bank.image, best["bank"]["image"])
    method.load_weights(best)
    assert torch.equal(method.bank.image, best["bank"]["image"])
    other = Parts.build(compose_smoke("method=rar")).method  # as for a test: it began with no pool
    other.load_weights(best)
    assert torch.equal(other.bank.text, best["bank"]["text"]) and other.bank.seen.all()


def test_the_second_stage_begins_with_the_bank_of_the_best_epoch(compose_smoke, tmp_path):
    cfg = compose_smoke(*SHORT, "scale.epochs=4", "scale.cosine_epochs=4")
    trainer = Parts.build(cfg).trainer(tmp_path, lambda: None)
    scores = iter([0.9, 0.1, 0.2, 0.3])  # the first epoch of the first stage is the best
    trainer.method.summarize = lambda table: {"dice": next(scores)}
    last, entered = [], []
    trainer.on_epoch = lambda: last.append(deepcopy(trainer.method.bank.state_dict()))
    real = trainer.method.enter

    def enter(stage):
        entered.append(deepcopy(trainer.method.bank.state_dict()))
        real(stage)

    trainer.method.enter = enter
    trainer.fit()
    assert len(entered) == 1
    assert all(torch.equal(entered[0][name], value) for name, value in last[0].items())
    assert not torch.equal(entered[0]["image"], last[1]["image"])
    kept = checkpoint.load(tmp_path / "best.pt")["weights"]["bank"]
    assert torch.equal(kept["image"], last[3]["image"])


def test_as_released_features_are_divided_by_the_length_of_the_whole_matrix(case):
    extra = {"image": torch.tensor([[3.0, 0], [0, 4]]), "text": torch.tensor([[6.0, 0], [8, 0]])}
    outputs = Outputs(torch.zeros(2, 1, 1, 1), extra)
    image, text = case("method=rar").method.features(outputs)
    assert image.tolist() == [[1, 0], [0, 1]] and text.tolist() == [[1, 0], [1, 0]]
    image, text = case("method=rar", RELEASED).method.features(outputs)
    torch.testing.assert_close(image, torch.tensor([[0.6, 0], [0, 0.8]]))
    torch.testing.assert_close(text, torch.tensor([[0.6, 0], [0.8, 0]]))


def test_as_released_the_matrix_holds_both_kinds_of_images(case):
    made = case("method=rar", RELEASED)
    method = made.method
    method.step(made.labeled, made.unlabeled, ALL)
    known, others = (outputs_of(method.student, b, method) for b in (made.labeled, made.unlabeled))
    length = torch.cat([known.extra["image"], others.extra["image"]]).norm()
    expected = known.extra["image"] / length
    torch.testing.assert_close(method.bank.image, expected, atol=1e-5, rtol=1e-4)


def test_as_released_the_teacher_uses_the_statistics_of_its_batch(case):
    made = case("method=rar", RELEASED)
    network, image = made.method.teacher.network, made.unlabeled.image
    found = made.method.teach(image, made.unlabeled)
    assert not network.training
    quiet = case("method=rar").method.teach(image, made.unlabeled)
    assert not torch.allclose(found, quiet)


@pytest.mark.parametrize(("released", "asked"), [([], "valid"), ([RELEASED], "test")])
def test_epochs_are_chosen_by_the_validation_split_unless_as_released(
    compose_smoke, tmp_path, caplog, released, asked
):
    cfg = compose_smoke(*SHORT, *released)
    parts = Parts.build(cfg)
    seen, real = [], parts.dataset.split

    def split(name):
        seen.append(name)
        return real(name)

    parts.dataset.split = split
    with caplog.at_level(logging.WARNING):
        trainer = parts.trainer(tmp_path, lambda: None)
    assert set(seen) == {"train", asked}
    assert trainer.valid.split.ids == real(asked).ids
    assert ("chosen by the test set" in caplog.text) == (asked == "test")


def test_a_released_run_says_that_the_test_set_chose_its_epoch(compose_smoke, tmp_path):
    cfg = compose_smoke(*SHORT, RELEASED, f"run_root={tmp_path}")
    value = run(cfg)
    (folder,) = (path.parent for path in Path(tmp_path).glob("*/result.json"))
    result = json.loads((folder / "result.json").read_text())
    assert result["selected_on"] == "test"
    assert result["best"]["val/dice"] == pytest.approx(result["test"]["dice"], abs=1e-6)
    assert math.isnan(value)  # nothing that a sweeper could tune on


def test_a_search_refuses_a_run_whose_epoch_the_test_set_chooses(compose_smoke):
    cfg = compose_smoke(*SHORT, RELEASED, "study=s-1")
    folder = Path(cfg.run_root) / run_name(resolved(cfg)) / "studies"
    folder.mkdir(parents=True)
    note = {"study": "s-1", "trials": [0], "objective": "val/dice", "limits": {}}
    (folder / "s-1.json").write_text(json.dumps(note))
    with pytest.raises(UserError, match="chooses its epochs on the test set"):
        run(cfg)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=mmi_unet"], r"MMIUNet has not: choose model=rar"),
        (["text_encoder.frozen=false", "text_encoder.cache=false"], r"text_encoder\.frozen=true"),
        (["method.nearest=0"], r"method\.nearest=5"),
        (["method.temperature=0"], r"method\.temperature=0\.07"),
        (["method.bank_momentum=1"], r"method\.bank_momentum=0\.99"),
    ],
)
def test_what_does_not_fit_is_refused(case, overrides, message):
    with pytest.raises(UserError, match=message):
        case("method=rar", *overrides)
