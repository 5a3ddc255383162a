"""Whether the mass follows the words: hand-made predictors that do, and that do not."""

import numpy as np
import pytest
import torch

from semimedref.analysis.swap import analyze, named_side, side_masses, summarize

LEFT = "unilateral pulmonary infection, one infected area, lower left lung."
BOTH = "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."


def test_a_case_is_unilateral_by_its_vocabulary():
    assert named_side(LEFT, "lungs") == "left"
    assert named_side(LEFT.replace("left", "right"), "lungs") == "right"
    assert named_side(BOTH, "lungs") is None
    assert named_side("The mass is in the top right region of the image.", "quadrants") == "right"
    assert named_side("The mass is in the center of the image.", "quadrants") is None


def test_a_sentence_whose_swap_does_not_change_the_side_is_no_case():
    # "lefft" is read as left, but only the exact word is exchanged.
    assert named_side(LEFT.replace("left", "lefft"), "lungs") is None


def test_masses_are_counted_on_each_half():
    masks = np.zeros((2, 6, 6), bool)
    masks[0, 2, :4] = True
    masks[1, :, 5] = True
    assert side_masses(masks, "lungs").tolist() == [[3, 1], [0, 6]]


def test_shares_by_hand():
    sides = ["left", "left", "right", "right", "left"]
    before = np.array([[9, 1], [9, 1], [0, 5], [6, 2], [3, 3]])
    after = np.array([[2, 8], [9, 1], [0, 0], [2, 6], [0, 4]])
    # 1 crosses and follows, 2 stays, 3 vanishes, 4 crosses the wrong way, 5 began half and half.
    found = summarize(sides, before, after, list("abcde"))
    assert found["crosses"] == pytest.approx(2 / 5) and found["follows"] == pytest.approx(1 / 5)
    assert found["on_named_side"] == pytest.approx(3 / 5)
    assert found["on_named_side_swapped"] == pytest.approx(2 / 5)
    assert found["empty"] == 0 and found["empty_swapped"] == pytest.approx(1 / 5)


@pytest.mark.parametrize(("reads", "expected"), [(True, 1.0), (False, 0.0)])
def test_a_predictor_that_reads_crosses_and_one_that_does_not_stays(
    open_tiny, monkeypatch, reads, expected
):
    subject = open_tiny()

    def predict(self, batch, sentences=None):
        masks = torch.zeros(len(batch), 1, 96, 96, dtype=torch.bool)
        for mask, text in zip(masks, sentences or batch.sentences, strict=True):
            half = slice(0, 48) if "left" in text or not reads else slice(48, 96)
            mask[..., half] = True
        return masks

    monkeypatch.setattr(type(subject), "predict", predict)
    finding = analyze(subject)
    unilateral = sum(t.startswith("unilateral") for t in subject.pool.split.texts)
    assert finding.numbers["cases"] == unilateral == len(finding.cases) - 1
    assert finding.numbers["crosses"] == expected
