import zlib

import pytest

from semimedref.errors import UserError
from semimedref.model.encoders.tokenizer import UNK, WordHash, WordPieces

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, "left", "lung", "up", "##per", ",", "lower"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    return tmp_path


def test_word_hash_is_the_documented_one():
    ids = WordHash(100, unk_pos="special")("Left lung, left", 24)
    left, lung, comma = (5 + zlib.crc32(w) % 95 for w in (b"left", b"lung", b","))
    assert ids == [2, left, lung, comma, left, 3]


def test_word_hash_cuts_words_and_keeps_the_end():
    ids = WordHash(100, unk_pos="special")("a b c d e", 4)
    assert len(ids) == 4 and ids[0] == 2 and ids[-1] == 3


def test_word_pieces_lower_case_and_split(folder):
    tokenize = WordPieces(folder, vocabulary=11, unk_pos="special")
    assert tokenize("Upper LEFT lung, nodule", 24) == [2, 7, 8, 5, 6, 9, 1, 3]


def test_word_pieces_cut_before_the_end_token(folder):
    assert WordPieces(folder, vocabulary=11, unk_pos="special")("upper left lung", 4) == [
        2,
        7,
        8,
        3,
    ]


def test_tokenizer_json_alone_gives_the_same_ids(folder, tmp_path_factory):
    from tokenizers import BertWordPieceTokenizer

    other = tmp_path_factory.mktemp("json")
    whole = BertWordPieceTokenizer(str(folder / "vocab.txt"))
    whole.enable_padding(length=128)
    whole.save(str(other / "tokenizer.json"))
    one, two = (WordPieces(place, vocabulary=11, unk_pos="special") for place in (folder, other))
    assert one("upper left lung", 24) == two("upper left lung", 24)


def test_tokenizer_larger_than_the_embedding_is_refused(folder):
    with pytest.raises(UserError, match=r"has 11 entries, text_encoder.vocabulary is 10"):
        WordPieces(folder, vocabulary=10, unk_pos="special")


def test_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"holds no tokenizer: expected vocab.txt"):
        WordPieces(tmp_path, vocabulary=10, unk_pos="special")


SENTENCE = "left lung, [UNK_POS] and upper [UNK_POS]."


def test_unk_pos_is_one_token_after_the_rows_of_the_embedding_also_between_signs(folder):
    hashed = WordHash(100, unk_pos="special")(SENTENCE, 24)
    assert [k for k, i in enumerate(hashed) if i == 100] == [4, 7] and len(hashed) == 10
    assert WordHash(100, unk_pos="special")(",[UNK_POS].", 24)[2] == 100
    ids = WordPieces(folder, vocabulary=20, unk_pos="special")(SENTENCE, 24)
    assert ids == [2, 5, 6, 9, 20, UNK, 7, 8, 20, UNK, 3]


def test_plain_unk_pos_is_read_as_letters_and_signs(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[", "un", "##k", "_", "pos", "]"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    ids = WordPieces(tmp_path, vocabulary=11, unk_pos="plain")("[UNK_POS]", 24)
    assert [pieces[i] for i in ids[1:-1]] == ["[", "un", "##k", "_", "pos", "]"]
    words = WordHash(100, unk_pos="plain")("[UNK_POS]", 24)
    assert words == WordHash(100, unk_pos="special")("[ unk_pos ]", 24)


def test_sentences_without_the_token_are_read_alike_with_and_without_it(folder):
    text = "Upper LEFT lung, [unk] nodule [UNK] [unk_pos"
    for make in (
        lambda kind: WordHash(100, unk_pos=kind),
        lambda kind: WordPieces(folder, vocabulary=11, unk_pos=kind),
    ):
        assert make("special")(text, 24) == make("plain")(text, 24)


def test_tokens_know_their_characters(folder):
    for tokenizer in (
        WordHash(100, unk_pos="special"),
        WordPieces(folder, vocabulary=11, unk_pos="special"),
    ):
        tokens = tokenizer.tokens(SENTENCE)[1:-1]
        read = [SENTENCE[t.start : t.end] for t in tokens]
        assert "".join(read) == SENTENCE.replace(" ", "") and "[UNK_POS]" in read


def test_unknown_kind_of_unk_pos_is_refused():
    with pytest.raises(UserError, match="special or plain"):
        WordHash(100, unk_pos="token")
