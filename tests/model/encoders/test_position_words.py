import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.encoders.position_words import PositionWords

BILATERAL = (
    "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung."
)


def test_a_sentence_becomes_its_position_label():
    reader = PositionWords("lungs")
    text = reader(reader.prepare([BILATERAL, "nothing is named"]))
    assert text.pooled.tolist() == [[1, 0, 0, 0, 0, 1], [0] * 6]
    assert text.pooled.dtype == torch.float32
    assert text.tokens.shape == (2, 6, 1) and text.mask.shape == (2, 6)


def test_other_words_for_the_same_places_are_the_same():
    reader = PositionWords("quadrants")
    a, b = reader.prepare(["One polyp in the top left region of the image.",
                           "the top left region of the image"]).input_ids.tolist()  # fmt: skip
    assert a == b == [1, 0, 0, 0, 0] and reader.width == 5


def test_no_sentence_gives_no_label():
    assert PositionWords("lungs").prepare([]).input_ids.shape == (0, 6)


def test_an_unknown_vocabulary_is_refused():
    with pytest.raises(UserError, match="unknown position vocabulary"):
        PositionWords("livers")
