import json

import numpy as np
import pytest
import torch

from semimedref import checkpoint
from semimedref.errors import UserError
from semimedref.evaluate import measure_pool, prepare
from semimedref.intensity import standardize
from semimedref.method.schedule import Progress
from semimedref.run import Parts

pytestmark = pytest.mark.slow

STUDY = ("method=position_predictor", "trainer=position_predictor", "augment=none", "ratio=15pct")
FIRST, LATER = Progress(0, 5, 50), Progress(25, 5, 50)  # later: after five epochs of five steps


@pytest.fixture
def build(compose_smoke):
    return lambda *extra: Parts.build(compose_smoke(*STUDY, *extra))


@pytest.fixture
def trained(compose_smoke, tmp_path):
    """A run folder whose trunk can be taken over."""
    method = Parts.build(compose_smoke("method=supervised", "seed.value=3")).method
    folder = tmp_path / "trained"
    folder.mkdir()
    checkpoint.save({"weights": method.weights()}, folder / "best.pt")
    return folder, method


def labeled(parts, n=4):
    u = np.random.default_rng(0).random((n, parts.method.draws), dtype=np.float32)
    return prepare(parts.method, parts.pool("train").fetch(range(n), u), parts.hardware)


def test_the_loss_weighs_positives_by_their_rarity_in_the_labeled_pool(build, tmp_path):
    parts = build()
    pool = parts.trainer(tmp_path, lambda: None).data.labeled.pool
    q = pool.split.positions[list(pool.places)].astype(float)
    by_hand = np.clip((len(q) - q.sum(0)) / q.sum(0), 0.25, 4.0)
    method, batch = parts.method, labeled(parts)
    torch.testing.assert_close(method.positive_weight, torch.tensor(by_hand, dtype=torch.float32))
    loss = method.train(False).step(batch, None, FIRST)["loss"]
    logits = method.student(standardize(method.views.weak(batch).image))
    p, weight = logits.sigmoid(), method.positive_weight
    expected = -(weight * batch.position * p.log() + (1 - batch.position) * (1 - p).log())
    torch.testing.assert_close(loss, expected.mean(), rtol=1e-4, atol=1e-6)


def test_a_trunk_of_its_own_learns_as_a_whole_from_the_first_step(build):
    parts = build()
    parts.method.train().step(labeled(parts), None, FIRST)["loss"].backward()
    assert all(p.grad is not None for p in parts.method.student.parameters())
    assert [g["lr_scale"] for g in parts.method.parameter_groups()] == [1.0, 1.0]


def test_a_trunk_that_was_taken_over_waits_and_is_then_tuned_at_its_end(build, trained):
    folder, source = trained
    parts = build(f"method.trunk={folder}")
    method = parts.method.train()
    trunk = method.student.image_encoder
    for a, b in zip(trunk.parameters(), source.student.image_encoder.parameters(), strict=True):
        assert torch.equal(a, b)
    method.step(labeled(parts), None, FIRST)["loss"].backward()
    assert all(p.grad is None for p in trunk.parameters())
    assert all(p.grad is not None for p in method.student.head.parameters())
    method.step(labeled(parts), None, LATER)["loss"].backward()
    assert [any(p.grad is not None for p in level.parameters()) for level in trunk.levels] == [
        False, False, True, True,
    ]  # fmt: skip
    assert [g["lr_scale"] for g in method.parameter_groups()] == [1.0, 0.1]
    assert (method.values(FIRST), method.values(LATER)) == (
        {"kept_levels": 4.0},
        {"kept_levels": 2.0},
    )


def test_a_waiting_trunk_is_not_even_decayed(build, trained, tmp_path):
    trainer = build(f"method.trunk={trained[0]}").trainer(tmp_path, lambda: None)
    before = [p.clone() for p in trainer.method.student.image_encoder.parameters()]
    trainer._optimize(trainer.data[0])
    after = trainer.method.student.image_encoder.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_trunk_is_signed_by_its_weights_and_not_by_its_folder(compose_smoke, trained, tmp_path):
    from semimedref import config

    folder, _ = trained
    other = tmp_path / "moved"
    other.mkdir()
    (other / "best.pt").write_bytes((folder / "best.pt").read_bytes())
    (other / "result.json").write_text("{}")

    def sign(trunk):
        config.file_identity.cache_clear()
        return config.signature(config.resolved(compose_smoke(*STUDY, f"method.trunk={trunk}")))

    same = sign(folder) == sign(other)
    (other / "best.pt").write_bytes(b"others")
    assert same and sign(folder) != sign(other) and sign(folder) != sign("null")


def test_a_trunk_that_does_not_fit_is_refused(build, trained):
    with pytest.raises(UserError, match="same image_encoder"):
        build(f"method.trunk={trained[0]}", "image_encoder.depth=2")
    with pytest.raises(UserError, match="no checkpoint"):
        build("method.trunk=/nowhere")


def test_scores_are_those_of_probabilities_and_labels(build):
    parts = build()
    table = np.array([[0.9, 0.2, 1, 0], [0.4, 0.7, 0, 1], [0.6, 0.1, 0, 0]])
    scores = parts.method.summarize(table)
    assert scores == {"map": 1.0, "auroc": 1.0, "f1": pytest.approx((2 / 3 + 1) / 2)}


def test_measuring_does_not_depend_on_the_batch_size(build):
    tables = [
        measure_pool(p.method, p.pool("valid"), p.hardware, threshold=0.5)
        for p in (build(), build("hardware.eval_batch_size=5"))
    ]
    assert tables[0].shape == (24, 12)
    np.testing.assert_allclose(*tables, atol=1e-6)


def test_four_steps_equal_two_plus_two(build, trained, tmp_path):
    def trainer(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        made = build(f"method.trunk={trained[0]}", "method.head_epochs=0.2")  # one step
        return made.trainer(folder, lambda: None)

    whole, first = trainer("whole"), trainer("cut")
    for step in range(4):
        whole._optimize(whole.data[step])
    for step in range(2):
        first._optimize(first.data[step])
    first._save()
    second = trainer("cut")
    second._resume()
    for step in range(2, 4):
        second._optimize(second.data[step])
    for name, value in whole.method.weights()["student"].items():
        assert torch.equal(value, second.method.weights()["student"][name]), name


def test_a_run_is_selected_by_map_and_tested_without_masks(compose_smoke, tmp_path):
    from semimedref.run import run

    cfg = compose_smoke(*STUDY, "scale.position_epochs=2", "position_predictor=region_queries")
    value = run(cfg)
    (file,) = (tmp_path / "multirun").glob("*/result.json")
    result = json.loads(file.read_text())
    rows = [json.loads(r) for r in (file.parent / "metrics.jsonl").read_text().splitlines()]
    assert value == result["best"]["val/map"] == max(r["val/map"] for r in rows)
    assert {"map", "auroc", "f1", "params", "gflops"} <= set(result["test"])
    assert "-region_queries-position_predictor-" in file.parent.name
    assert not (file.parent / "per_image.csv").exists()
    assert run(cfg) == value  # finished: nothing to do


def test_a_predictor_has_no_masks_no_teacher_and_no_routes(build):
    from semimedref.evaluate import predict_pool

    parts = build()
    with pytest.raises(UserError, match="no masks"):
        predict_pool(parts.method, parts.pool("valid"), [0], parts.hardware)
    with pytest.raises(UserError, match="teacher"):
        parts.method.predict(labeled(parts), weights="teacher")
    with pytest.raises(UserError, match="method=ispg"):
        parts.method.predict(labeled(parts), weights="student", route="zero")


def test_unlabeled_images_play_no_part(build):
    parts = build()
    batch = labeled(parts)
    a, b = (parts.method.train(False).step(batch, other, FIRST)["loss"] for other in (None, batch))
    assert torch.equal(a, b)
