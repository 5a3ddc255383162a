"""Attention weights are those of the block, and enrichment is a ratio of shares."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from semimedref.analysis.attention import (
    attention_weights,
    captured,
    enrichment,
    summarize,
    token_masks,
)
from semimedref.analysis.words import read_words
from semimedref.model.blocks import Attention
from semimedref.model.encoders.tokenizer import WordHash, WordPieces

SENTENCE = "unilateral pulmonary infection, one infected area, lower left lung."


@pytest.fixture
def block():
    torch.manual_seed(0)
    return Attention(12, heads=3, dropout=0.5).eval()


def call():
    torch.manual_seed(1)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    return torch.randn(2, 5, 12), torch.randn(2, 7, 12), mask


@pytest.mark.parametrize("masked", [False, True])
def test_weights_equal_those_of_torchs_multi_head_attention(block, masked):
    x, memory, mask = call()
    _, expected = F.multi_head_attention_forward(
        x.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1), 12, 3,
        block.in_proj_weight, block.in_proj_bias, None, None, False, 0.0,
        block.out_proj.weight, block.out_proj.bias, training=False,
        key_padding_mask=~mask if masked else None, average_attn_weights=False,
    )  # fmt: skip
    found = attention_weights(block, x, memory, mask if masked else None)
    torch.testing.assert_close(found, expected)


def test_weights_times_values_give_the_blocks_output(block):
    x, memory, mask = call()
    values = F.linear(memory, block.in_proj_weight[24:], block.in_proj_bias[24:])
    values = values.unflatten(-1, (3, 4)).transpose(1, 2)
    mixed = (attention_weights(block, x, memory, mask) @ values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(block.out_proj(mixed), block(x, memory, mask))


def test_capturing_changes_no_output_and_leaves_no_hook(block):
    x, memory, mask = call()
    with torch.no_grad():
        plain = block(x, memory, mask)
        with captured([block]) as found:
            assert torch.equal(block(x, memory, mask), plain)
        expected = attention_weights(block, x, memory, mask).mean((1, 2))
        assert torch.equal(found[0], expected)
        kept = found[0].clone()
        block(2 * x, memory, mask)
    assert torch.equal(found[0], kept) and not block._forward_hooks
    torch.testing.assert_close(found[0].sum(1), torch.ones(2))


def test_enrichment_by_hand():
    # Tokens: [CLS], a, b, left, [SEP], padding. On a, b, left: 0.1, 0.1, 0.3 of 0.5.
    attention = np.array([[0.2, 0.1, 0.1, 0.3, 0.1, 0.2]])
    report = np.array([[False, True, True, True, False, False]])
    positional = np.array([[False, False, False, True, False, False]])
    share, tokens = enrichment(attention, positional, report)
    assert share == pytest.approx([0.6]) and tokens == pytest.approx([1 / 3])


def test_uniform_attention_is_not_enriched_and_stages_count_alike():
    report = np.ones((2, 4), dtype=bool)
    positional = np.array([[1, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    uniform = np.full((2, 4), 0.25)
    on_first = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    # A stage with twice the mass on the sentence counts no more than another.
    numbers, _ = summarize([uniform, 2 * uniform, on_first], positional, report, ["a", "b"])
    stages = {name: row["enrichment"] for name, row in numbers["stages"].items()}
    # On the first token: 1 / 0.25 and 1 / 0.5; deep: (0.25 + 1) / 2 / 0.25 and (0.5 + 1) / 2 / 0.5.
    assert stages == pytest.approx(
        {"stage 1": 1.0, "stage 2": 1.0, "stage 3": 3.0, "deep stages": 2.0}
    )


def test_images_without_positional_words_are_left_out():
    report = np.ones((2, 4), dtype=bool)
    positional = np.array([[1, 0, 0, 0], [0, 0, 0, 0]], dtype=bool)
    numbers, _ = summarize([np.full((2, 4), 0.25)] * 2, positional, report, ["a", "b"])
    assert numbers["images_with_positional_words"] == 1
    assert numbers["stages"]["stage 1"]["enrichment"] == pytest.approx(1.0)


HASH = WordHash(1000, unk_pos="special")


def words_of(text, tokenizer=HASH, vocabulary="lungs"):
    return read_words(text, vocabulary, tokenizer.tokens(text))


def test_words_are_matched_to_hashed_tokens():
    ids = HASH(SENTENCE, 24)
    words = words_of(SENTENCE)
    assert [w.text for w in words if w.positional] == ["lower", "left"]
    assert [i for w in words for i in w.tokens] == list(range(1, len(ids) - 1))
    for word in words:
        assert [ids[i] for i in word.tokens] == HASH(word.text, 24)[1:-1]


@pytest.fixture
def pieces(tmp_path):
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "pulmon", "##ary", "low", "##er",
               "left", "lung", ",", ".", "in", "##fect", "##ion"]  # fmt: skip
    (tmp_path / "vocab.txt").write_text("\n".join(entries))
    return WordPieces(tmp_path, vocabulary=100, unk_pos="special")


def test_words_are_matched_to_word_pieces(pieces):
    words = words_of("Pulmonary infection, lower left lung.", pieces)
    found = {w.text: (w.tokens, w.positional) for w in words}
    assert found["Pulmonary"] == ((1, 2), False)
    assert found["lower"] == ((7, 8), True)
    assert found["left"] == ((9,), True)
    assert found["lung"] == ((10,), False)


def test_words_that_are_not_read_are_left_out(pieces):
    text = "Pulmonary infection, lower left lung."
    tokens = pieces.tokens(text)  # [CLS] pulmon ##ary in ##fect ##ion , low ...
    words = read_words(text, "lungs", [*tokens[:8], tokens[-1]])
    assert words[-1].text == "lower" and words[-1].tokens == (7,)


def test_the_vocabulary_decides_what_is_positional():
    words = words_of("The mass is in the top left region of the image.", HASH, "quadrants")
    assert [w.text for w in words if w.positional] == ["top", "left"]


def test_token_masks_mark_words_only():
    positional, report = token_masks([words_of(SENTENCE)], 24)
    assert report.sum() == 12 and not report[0, 0] and not report[0, 13:].any()
    assert positional.sum() == 2 and (positional <= report).all()
