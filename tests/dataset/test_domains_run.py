"""A run over several domains, from PosMed's files to the result."""

import csv
import json
from pathlib import Path

import pytest
from posmed_tree import build

from semimedref.config import compose, resolved
from semimedref.run import Parts, run

NAMES = ("brain_mri", "breast_ultrasound", "polyp_endoscopy", "skin_dermoscopy")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return build(tmp_path_factory.mktemp("posmed"))


@pytest.fixture
def small(compose_smoke, root):
    own = ("dataset=posmed", f"dataset.root={root}", "dataset.domain_counts=null",
           "dataset.batch_size=4", "scale.epochs=2", "scale.min_epochs=1",
           "scale.steps_per_epoch=2", "ratio.fraction=0.5")  # fmt: skip
    return lambda *extra: compose_smoke(*own, *extra)


def test_the_best_epoch_has_the_best_macro_dice_and_the_result_has_every_domain(small):
    cfg = small("augment=semi_medref", "align=pacl")
    score = run(cfg)
    (folder,) = (p.parent for p in Path(cfg.run_root).glob("*/result.json"))
    result = json.loads((folder / "result.json").read_text())
    test, best = result["test"], result["best"]
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert score == best["val/dice_macro"] == max(row["val/dice_macro"] for row in epochs)
    assert best["val/dice"] == epochs[best["epoch"] - 1]["val/dice"]
    own = [test[f"domain/{name}/dice"] for name in NAMES]
    assert test["dice_macro"] == pytest.approx(sum(own) / 4)
    rows = list(csv.DictReader((folder / "per_image.csv").open()))
    names = ["id", "patient", "domain", "position", "tp", "fp", "fn", "dice"]
    assert list(rows[0])[: len(names)] == names
    assert {row["domain"] for row in rows} == set(NAMES)
    skin = [row for row in rows if row["domain"] == "skin_dermoscopy"]
    tp, fp, fn = (sum(int(row[k]) for row in skin) for k in ("tp", "fp", "fn"))
    assert test["domain/skin_dermoscopy/dice"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert test["domain/skin_dermoscopy/miou"] == pytest.approx(tp / (tp + fp + fn))


def test_both_streams_of_a_step_are_balanced(small, tmp_path):
    trainer = Parts.build(small()).trainer(tmp_path, lambda: None)
    ((labeled, unlabeled),) = trainer.data[3]
    domains = trainer.data.labeled.pool.split.domains
    for batch in (labeled, unlabeled):
        assert sorted(domains[i] for i in batch.index.tolist()) == sorted(NAMES)
    assert unlabeled.mask is None


def test_a_run_of_one_kind_has_no_domains_in_its_files(compose_smoke):
    cfg = compose_smoke("scale.epochs=1", "scale.steps_per_epoch=1", "method=supervised",
                        "augment=none", "overlays=never")  # fmt: skip
    run(cfg)
    (folder,) = (p.parent for p in Path(cfg.run_root).glob("*/result.json"))
    test = json.loads((folder / "result.json").read_text())["test"]
    assert not [key for key in test if key.startswith("domain/") or key.endswith("_macro")]
    head = (folder / "per_image.csv").read_text().splitlines()[0]
    assert head.startswith("id,patient,position,tp,fp,fn,dice")


@pytest.mark.parametrize(("preset", "domains", "batch"), [("paper", 4, 32), ("release", 6, 24)])
def test_posmed_brings_its_own_batch_and_length_of_sentences(preset, domains, batch):
    plain = resolved(compose(["dataset=posmed", "scale=paper", f"preset={preset}"]))
    assert plain["dataset"]["domains"] == domains and plain["trainer"]["batch_size"] == batch
    assert plain["method"]["model"]["text_encoder"]["max_tokens"] == 48
    plain = resolved(compose(["dataset=phantom", "scale=paper", f"preset={preset}"]))
    assert plain["trainer"]["batch_size"] == plain["scale"]["batch_size"] == 32
    assert plain["method"]["model"]["text_encoder"]["max_tokens"] == 24
