from semimedref.text.spans import conjoin, drop, edit, fuzz, phrases, remove
from semimedref.text.table import caption_of, captions, closure, edit_index, edits_of
from semimedref.text.vocabulary import LUNGS
from tests.text.reports import SGSEG

HEAD = "bilateral pulmonary infection, two infected areas"


def test_there_is_one_caption_for_each_of_the_63_labels():
    assert len(set(captions())) == 63
    assert caption_of([1, 0, 0, 0, 0, 1]) in captions()


def test_the_edits_of_a_caption_are_all_choices_for_its_phrases_and_itself_first():
    text = caption_of([1, 0, 0, 0, 0, 1])
    made = edits_of(text, "lungs")
    assert len(set(made)) == 9
    assert made[0] == text
    assert made[edit_index(["drop", "keep"])] == f"{HEAD}, [UNK_POS] and lower right lung."
    assert made[edit_index(["drop", "drop"])] == drop(text, "lungs")
    assert made[edit_index(["fuzz", "fuzz"])] == fuzz(text, "lungs")


def test_the_index_of_an_edit_finds_the_edited_sentence():
    text = caption_of([0, 1, 1, 1, 0, 0])
    made = edits_of(text, "lungs")
    for first in ("keep", "drop", "fuzz"):
        for second in ("keep", "drop", "fuzz"):
            wanted = edit(text, "lungs", (first, second))
            assert made[edit_index((first, second))] == wanted


def test_the_closure_holds_everything_that_mixing_editing_and_removing_can_reach():
    known = set(closure(captions(), "lungs", removed=True))
    for text in captions():
        for region in range(len(LUNGS.regions)):
            mixed = conjoin(text, [region], "lungs", SGSEG)
            assert {mixed, drop(mixed, "lungs"), remove(mixed, "lungs")} <= known
            assert edit(mixed, "lungs", ["fuzz"] * len(phrases(mixed, "lungs"))) in known
    # 63 captions; 14 one-sided ones drop or fuzz to 3 counts each; of the two-sided ones a kept
    # side fixes the count up to the number of regions of the other, both edited leave the count.
    assert len(closure(captions(), "lungs", removed=False)) == 63 + 2 * 3 + 4 * 7 * 3 + 4 * 5
    assert len(known) == 63 + 2 * 3 + 4 * 7 * 3 + 4 * 5 + 3 + 5


def test_every_sentence_of_a_closure_is_there_once():
    known = closure(captions(), "lungs", removed=True)
    assert len(known) == len(set(known))
