import numpy as np

from semimedref.augment.posaug import PosAug
from semimedref.augment.text_strong import TextStrong
from semimedref.text.position import parse

TEXT = "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."


def posaug(unit="phrase"):
    return PosAug(unit=unit, edit=0.5, rho=0.5, vocabulary="lungs")


def test_posaug_keeps_drops_or_fuzzes_each_phrase_by_its_own_numbers():
    u = np.zeros(PosAug.draws)
    u[0:4] = 0.4, 0.4, 0.9, 0.0  # the first phrase is dropped, the second kept
    assert posaug()(TEXT, u) == TEXT.replace("upper left lung", "[UNK_POS]")
    u[0:4] = 0.6, 0.4, 0.4, 0.6  # the first is kept, the second fuzzed
    assert posaug()(TEXT, u) == TEXT.replace("lower right lung", "a region of the lung")


def test_posaug_keeps_half_of_the_phrases_and_drops_and_fuzzes_a_quarter_each():
    rng = np.random.default_rng(0)
    texts = [posaug()(TEXT, rng.random(PosAug.draws)) for _ in range(4000)]
    kept = np.mean([sum(parse(t, "lungs")) for t in texts]) / 2
    dropped = np.mean([t.count("[UNK_POS]") for t in texts]) / 2
    assert abs(kept - 0.5) < 0.02 and abs(dropped - 0.25) < 0.02


def test_posaug_can_edit_all_phrases_of_a_sentence_alike():
    u = np.zeros(PosAug.draws)
    u[0:4] = 0.4, 0.4, 0.9, 0.0  # on its own, the second phrase would be kept
    whole = TEXT.replace("upper left lung", "[UNK_POS]").replace("lower right lung", "[UNK_POS]")
    assert posaug("sentence")(TEXT, u) == whole


def test_posaug_leaves_a_sentence_without_positions_alone():
    text = "No pulmonary infection, zero infected areas."
    assert posaug()(text, np.zeros(PosAug.draws)) == text


def test_text_strong_edits_any_word():
    tool = TextStrong(synonym=0.1, delete=0.1)
    assert tool(TEXT, np.full(TextStrong.draws, 0.5)) == TEXT
    assert "left lung" not in tool("upper left lung.", np.full(TextStrong.draws, 0.15))
    u = np.full(TextStrong.draws, 0.5)
    u[1] = 0.05
    assert tool("upper left lung.", u) == "upper lung."
