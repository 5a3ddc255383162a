"""Patches are measured as plain loops would, and the strategies differ as they should."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from semimedref.analysis.mixing import (
    STRATEGIES,
    _no_text,
    _stream,
    _unnamed,
    analyze,
    build_views,
    measure,
    summarize,
)
from semimedref.analysis.regions import coarse_region, region_masks
from semimedref.errors import UserError
from semimedref.text.spans import phrases
from semimedref.text.vocabulary import LUNGS

pytestmark = pytest.mark.slow


@pytest.fixture
def subject(open_tiny):
    return open_tiny()


def true_masks(subject, batch):
    masks = subject.parts.dataset.split("train").masks
    chosen = torch.from_numpy(np.stack([masks[i] for i in batch.index]))[:, None].float()
    return F.avg_pool2d(chosen, 3, 1, 1)


def mixes(subject, name):
    """Every batch of a pass with the true masks, blurred, in the teacher's place."""
    views = build_views(subject.parts.cfg, STRATEGIES[name])
    stream = _stream(subject, draws=views.draws)
    for step in range(len(stream.pool) // stream.batch_size):
        batch = stream.batch(step)
        plan = views.plan(batch, _no_text).to("cpu")
        ready = replace(subject.ready(batch), plan=plan)
        probability = true_masks(subject, batch)
        mixed = views.strong(views.weak(ready), ready, probability)
        yield replace(batch, plan=plan), probability, mixed


def test_options_are_built_under_the_settings_of_the_run(subject):
    subject.parts.cfg.pseudo_label.threshold = 0.7
    for name, variant in zip(STRATEGIES, ("random", "pos", "prob", "hybrid"), strict=True):
        mixer = build_views(subject.parts.cfg, STRATEGIES[name]).mixer
        assert (mixer.variant, mixer.threshold) == (variant, 0.7)


@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_and_overlaps_agree_with_plain_loops(subject, name):
    batch, probability, mixed = next(mixes(subject, name))
    found = measure(mixed, probability, batch, vocabulary="lungs", unnamed=None)
    for i in range(len(batch)):
        j = int(batch.plan.donor[i])
        pixels = [(y, x) for y in range(96) for x in range(96) if mixed.patch[i, 0, y, x] > 0]
        assert found.tried[i] == bool(pixels)
        if not pixels:
            continue
        score = np.mean([float(probability[j, 0, y, x]) for y, x in pixels])
        named = [
            any(
                on and box.holds((y + 0.5) / 96, (x + 0.5) / 96)
                for on, box in zip(batch.position[j], LUNGS.boxes, strict=True)
            )
            for y, x in pixels
        ]
        assert found.score[i] == pytest.approx(score, abs=1e-5)
        assert found.named[i] == pytest.approx(np.mean(named), abs=1e-6)
        assert found.pasted[i] == (score >= 0.55)


def test_coarse_region_is_the_box_around_each_phrase():
    whole_side = coarse_region("upper lower left lung and middle right lung.", "lungs", 96, 96)
    assert whole_side[:, :48].all()
    assert whole_side[:, 48:].sum() == 32 * 48
    assert whole_side[32:64, 48:].all()


def joined(text):
    """Whether the levels of each phrase are neighbours, so that its box holds nothing else."""
    return all(
        max(p.regions) - min(p.regions) == len(p.regions) - 1 for p in phrases(text, "lungs")
    )


@pytest.mark.parametrize("name", ["T-PatchMix-pos", "T-PatchMix-hybrid"])
def test_a_patch_in_the_box_of_a_phrase_lies_in_the_named_regions(subject, name):
    seen = 0
    for batch, probability, mixed in mixes(subject, name):
        found = measure(mixed, probability, batch, vocabulary="lungs", unnamed=None)
        for i, j in enumerate(batch.plan.donor.tolist()):
            if found.tried[i] and joined(batch.sentences[j]):
                assert found.named[i] == pytest.approx(1, abs=1e-6)
                seen += 1
    assert seen > 50


def test_strategies_are_ordered_as_in_the_paper(subject):
    rows = {}
    for name in STRATEGIES:
        parts = [
            measure(mixed, probability, batch, vocabulary="lungs", unnamed=None)
            for batch, probability, mixed in mixes(subject, name)
        ]
        rows[name] = summarize(parts, knows_lesions=False)
    random, pos, prob, hybrid = rows.values()
    assert min(r["lesion_score"] for r in (prob, hybrid)) > 0.6 > 4 * random["lesion_score"]
    assert pos["lesion_score"] > random["lesion_score"]
    assert min(r["position_overlap"] for r in (pos, hybrid)) >= 0.99
    assert min(r["named_overlap"] for r in (pos, hybrid)) > 0.95
    assert random["named_overlap"] == pytest.approx(1 / 3, abs=0.1)
    assert random["gate_opens"] < pos["gate_opens"] < hybrid["gate_opens"]


def test_a_paste_is_ambiguous_when_an_added_region_holds_an_unnamed_lesion(subject):
    batch, probability, mixed = next(
        m for m in mixes(subject, "T-PatchMix-hybrid") if m[2].pasted.any()
    )
    nowhere = np.zeros((len(batch), 6), bool)
    found = measure(mixed, probability, batch, vocabulary="lungs", unnamed=nowhere)
    assert not found.ambiguous.any()
    found = measure(mixed, probability, batch, vocabulary="lungs", unnamed=~nowhere)
    for i in range(len(batch)):
        text = batch.plan.sentences[i][int(mixed.choice[i])]
        named = {r for p in phrases(text, "lungs") for r in p.regions}
        fresh = named - set(batch.position[i].nonzero().flatten().tolist())
        assert found.ambiguous[i] == (bool(mixed.pasted[i]) and bool(fresh))


def test_regions_are_boxes_of_the_vocabulary():
    masks = region_masks("lungs", 96, 96)
    assert masks.shape == (6, 96, 96) and (masks.sum(0) == 1).all()
    assert masks[0, 0, 0] and masks[5, 95, 95] and masks[2, 95, 0]


def test_unnamed_lesions_are_those_that_the_phantom_shows_and_does_not_name(subject):
    train = subject.parts.dataset.split("train")
    unnamed = _unnamed(subject)
    lesions = np.load(subject.parts.dataset.folder / "train_lesions.npy")
    pixels = ((lesions > 0) & ~(train.masks > 0)).sum((1, 2))
    assert not (unnamed & (train.positions > 0)).any()
    assert ((pixels > 0) == unnamed.any(1)).all()


def test_a_run_without_a_teacher_is_refused(open_tiny):
    with pytest.raises(UserError, match="teacher_student"):
        analyze(open_tiny("method=supervised"))
