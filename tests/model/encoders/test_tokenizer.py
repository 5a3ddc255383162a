import zlib

import pytest

from semimedref.errors import UserError
from semimedref.model.encoders.tokenizer import word_hash, word_pieces

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "left", "lung", "up", "##per", ",", "lower"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    return tmp_path


def test_word_hash_is_the_documented_one():
    ids = word_hash(100)("Left lung, left", 24)
    left, lung, comma = (5 + zlib.crc32(w) % 95 for w in (b"left", b"lung", b","))
    assert ids == [2, left, lung, comma, left, 3]


def test_word_hash_cuts_words_and_keeps_the_end():
    ids = word_hash(100)("a b c d e", 4)
    assert len(ids) == 4 and ids[0] == 2 and ids[-1] == 3


def test_word_pieces_lower_case_and_split(folder):
    tokenize = word_pieces(folder, vocabulary=11)
    assert tokenize("Upper LEFT lung, nodule", 24) == [2, 7, 8, 5, 6, 9, 1, 3]


def test_word_pieces_cut_before_the_end_token(folder):
    assert word_pieces(folder, vocabulary=11)("upper left lung", 4) == [2, 7, 8, 3]


def test_tokenizer_json_alone_gives_the_same_ids(folder, tmp_path_factory):
    from tokenizers import BertWordPieceTokenizer

    other = tmp_path_factory.mktemp("json")
    whole = BertWordPieceTokenizer(str(folder / "vocab.txt"))
    whole.enable_padding(length=128)
    whole.save(str(other / "tokenizer.json"))
    one, two = (word_pieces(place, vocabulary=11) for place in (folder, other))
    assert one("upper left lung", 24) == two("upper left lung", 24)


def test_tokenizer_larger_than_the_embedding_is_refused(folder):
    with pytest.raises(UserError, match=r"has 11 entries, text_encoder.vocabulary is 10"):
        word_pieces(folder, vocabulary=10)


def test_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds no tokenizer: expected vocab.txt"):
        word_pieces(tmp_path, vocabulary=10)
