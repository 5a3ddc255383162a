"""Interventions change what they say they change, and the scores are those of plain loops."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from semimedref.analysis.interventions import (
    CONTROL,
    ORIGINAL,
    analyze,
    arms,
    mask_other_words,
    positional_words,
    summarize,
)
from semimedref.metrics import dice
from semimedref.text.position import parse
from semimedref.text.vocabulary import UNK_POS

ONE = "unilateral pulmonary infection, one infected area, lower left lung."
TWO = "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."


def test_the_four_interventions_of_a_sentence():
    made = {name: edit(ONE, "image-1") for name, edit in arms("lungs").items()}
    head = "unilateral pulmonary infection, one infected area"
    assert made["mask"] == f"{head}, {UNK_POS}."
    assert made["fuzz"] == f"{head}, a region of the lung."
    assert made["remove"] == f"{head}."
    assert made[CONTROL].endswith("lower left lung.") and made[CONTROL].count(UNK_POS) == 3


@pytest.mark.parametrize("text", [ONE, TWO])
def test_the_control_masks_as_many_other_words_and_keeps_the_position(text):
    masked = mask_other_words(text, "lungs", key="image-7")
    assert masked.count(UNK_POS) == positional_words(text, "lungs")
    assert parse(masked, "lungs") == parse(text, "lungs")
    assert len(re.findall(r"\w+", masked)) == len(re.findall(r"\w+", text))


def test_the_control_is_the_same_at_every_call_and_differs_between_images():
    made = [mask_other_words(TWO, "lungs", key=f"image-{k}") for k in range(20)]
    assert made == [mask_other_words(TWO, "lungs", key=f"image-{k}") for k in range(20)]
    assert len(set(made)) > 1


def test_a_sentence_with_few_other_words_loses_all_of_them():
    masked = mask_other_words("infection, upper left lung.", "lungs", key="a")
    assert masked == f"{UNK_POS}, upper left lung."


def test_scores_agree_with_plain_loops():
    rng = np.random.default_rng(0)
    tables = {k: rng.integers(0, 9, (5, 3)).astype(float) for k in (ORIGINAL, "mask")}
    overlap = {"mask": rng.integers(0, 9, (5, 3)).astype(float)}
    found = summarize(tables, overlap, ["a", "a", "b", "c", "c"])
    row = found["interventions"]["mask"]
    one = [dice(*map(int, r)) for r in tables[ORIGINAL]]
    other = [dice(*map(int, r)) for r in tables["mask"]]
    assert found["dice_per_image"] == pytest.approx(sum(one) / 5)
    assert row["drop_per_image"] == pytest.approx((sum(one) - sum(other)) / 5)
    change = [1 - dice(*map(int, r)) for r in overlap["mask"]]
    assert row["inconsistency"] == pytest.approx(sum(change) / 5)
    whole = [dice(*map(int, tables[k].sum(0))) for k in (ORIGINAL, "mask")]
    assert row["drop"] == pytest.approx(whole[0] - whole[1])
    low, high = row["inconsistency_ci"]
    assert low <= row["inconsistency"] <= high


def test_a_reader_of_positions_loses_all_without_them_and_nothing_by_the_control(
    open_tiny, monkeypatch
):
    subject = open_tiny()
    truth = {}
    for _, batch in subject.batches(""):
        truth |= {(i, tuple(parse(t, "lungs"))): m for i, t, m in zip(
            batch.index.tolist(), batch.sentences, batch.mask, strict=True)}  # fmt: skip

    def read(self, batch, sentences=None):
        keys = [
            (i, tuple(parse(t, "lungs")))
            for i, t in zip(batch.index.tolist(), sentences or batch.sentences, strict=True)
        ]
        return torch.stack([truth.get(k, torch.zeros(1, 96, 96)) > 0 for k in keys])

    monkeypatch.setattr(type(subject), "predict", read)
    numbers = analyze(subject).numbers
    rows = numbers["interventions"]
    assert numbers["dice"] == 1.0
    for name in ("mask", "fuzz", "remove"):
        assert rows[name]["drop"] == rows[name]["inconsistency"] == 1.0
    assert rows[CONTROL]["drop"] == rows[CONTROL]["inconsistency"] == 0.0


def test_pictures_of_patients_are_written_only_when_asked(open_tiny):
    subject = open_tiny()
    assert not analyze(subject).pictures  # overlays=never
    subject.parts.cfg.overlays = "synthetic"
    assert set(analyze(subject).pictures) == {"example"}
    subject.parts.dataset.synthetic = False
    assert not analyze(replace(subject)).pictures
