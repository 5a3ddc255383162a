from dataclasses import replace

import lavt_twin as twin
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from semimedref.errors import UserError
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.model.lavt import LAVT, two_class_cross_entropy
from semimedref.model.published.catalog import published_shapes
from semimedref.model.published.lavt import SOURCE, forward
from semimedref.model.segmenter import Outputs, TextFeatures
from semimedref.model.swin import Swin

TEXTS = ["Bilateral pulmonary infection, two infected areas, upper left lung", "lower right lung"]
SMALL_SWIN = {"width": 8, "depths": [2, 2, 6, 2], "heads": [1, 2, 4, 8], "drop_path": 0.3}


@pytest.fixture
def small(option):
    """A small LAVT; keyword arguments change it."""

    def build(image_encoder=None, text_encoder=None, **changes):
        settings = {
            "image_side": 96,
            "heads": 1,
            "dropout": 0.0,
            "normalization": "imagenet",
            "class_weights": [0.9, 1.1],
            "loss": "native",
        }
        return LAVT(
            image_encoder or option("image_encoder", "tiny"),
            text_encoder or option("text_encoder", "tiny", cache=False),
            **{**settings, **changes},
        )

    return build


def _swin(window=4, **changes) -> Swin:
    return Swin(**{**SMALL_SWIN, "window": window, "weights": "random", **changes})


def _features(batch, width=16) -> TextFeatures:
    return TextFeatures(
        tokens=torch.randn(batch, 24, width),
        mask=torch.arange(24) < torch.tensor([15, 7])[:batch, None],
        pooled=torch.randn(batch, width),
    )


def _spread(model: nn.Module) -> None:
    """Values of ordinary size everywhere, so that a slip cannot hide behind small ones."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    for p in model.parameters():
        if p.dim() == 1:
            nn.init.normal_(p, mean=0.5, std=0.5)
        else:
            nn.init.normal_(p, std=max(0.1, p[0].numel() ** -0.5))


@torch.no_grad()
@pytest.mark.parametrize(("side", "window"), [(128, 4), (112, 5)])  # 112: padded windows, 7 -> 4
def test_it_computes_what_the_published_names_describe(small, side, window):
    """By way of the mapping, so that two tensors of one shape cannot be taken for each other."""
    torch.manual_seed(0)
    model = small(_swin(window), image_side=side).eval().double()
    _spread(model)
    own = model.state_dict()
    names = SOURCE.translated(k for k in published_shapes("lavt") if k[:13] != "text_encoder.")
    s = {theirs: own[ours] for theirs, ours in names.items()}
    image, text = torch.randn(2, 3, side, side).double(), _features(2)
    text = replace(text, tokens=text.tokens.double())
    classes, maps = twin.lavt(image, text.tokens, text.mask, s, heads=[1, 2, 4, 8], window=window)
    for found, expected in zip(model._fuse(image, text), maps, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    outputs = model.outputs(image, text)
    found = outputs.extra["classes"]
    assert found.shape == (2, 2, side, side)
    torch.testing.assert_close(found, classes, atol=1e-9, rtol=1e-9)
    assert classes.std() > 0.1
    assert torch.equal(outputs.logits, found[:, 1:] - found[:, :1])
    torch.testing.assert_close(outputs.logits.sigmoid(), found.softmax(1)[:, 1:])


def test_scores_of_several_heads_are_divided_by_the_root_of_the_whole_width(small):
    torch.manual_seed(0)
    unit = small(heads=2).fusion[0]
    x, text = torch.randn(2, 9, 8), _features(2)
    found = unit(x, text.tokens, text.mask)
    q = F.instance_norm(unit.query(x).mT).mT
    k, v = unit.key(text.tokens), unit.value(text.tokens)
    read = []
    for half in (slice(0, 4), slice(4, 8)):
        scores = q[..., half] @ k[..., half].mT / 8**0.5
        scores = scores.masked_fill(~text.mask[:, None], -torch.inf)
        read.append(scores.softmax(-1) @ v[..., half])
    read = F.instance_norm(unit.out(torch.cat(read, -1)).mT).mT
    expected = F.gelu(unit.joint(F.gelu(unit.visual(x)) * read))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_published_forward_gives_two_classes(small):
    model = small(_swin()).eval()
    text = model.prepare_text(TEXTS)
    image = torch.randn(2, 3, 96, 96)
    classes = forward(model, image, text.input_ids, text.attention_mask.long())
    assert classes.shape == (2, 2, 96, 96)
    logits = model(image, model.encode_text(text))
    assert torch.equal(logits, classes[:, 1:] - classes[:, :1])


def test_native_loss_is_the_weighted_cross_entropy_of_two_classes():
    torch.manual_seed(0)
    classes, target = torch.randn(2, 2, 5, 5), (torch.rand(2, 1, 5, 5) > 0.7).float()
    expected = F.cross_entropy(classes, target[:, 0].long(), weight=torch.tensor([0.9, 1.1]))
    torch.testing.assert_close(two_class_cross_entropy(classes, target, (0.9, 1.1)), expected)
    soft = torch.full((1, 1, 1, 1), 0.25)  # one pixel with p(lesion) = 0.8
    logits = torch.tensor([0.2, 0.8]).log()[None, :, None, None]
    expected = -(0.9 * 0.75 * torch.tensor(0.2).log() + 1.1 * 0.25 * torch.tensor(0.8).log())
    found = two_class_cross_entropy(logits, soft, (0.9, 1.1))
    torch.testing.assert_close(found, expected / (0.9 * 0.75 + 1.1 * 0.25))


def test_objective_is_native_or_shared(small):
    shared = SegmentationLoss(cross_entropy=True, smooth=1e-5)
    classes, target = torch.randn(2, 2, 8, 8), (torch.rand(2, 1, 8, 8) > 0.7).float()
    outputs = Outputs(classes[:, 1:] - classes[:, :1], {"classes": classes})
    native = small().objective(outputs, target, shared)
    assert torch.equal(native, two_class_cross_entropy(classes, target, (0.9, 1.1)))
    found = small(loss="shared").objective(outputs, target, shared)
    assert torch.equal(found, shared(outputs.logits, target))


def test_norms_and_position_scores_of_the_trunk_are_not_decayed(small):
    model = small(_swin())
    decayed, plain = model.parameter_groups()
    assert "weight_decay" not in decayed and plain["weight_decay"] == 0
    names = {id(p): name for name, p in model.named_parameters()}
    found = {names[id(p)] for p in plain["params"]}
    words = ("norm", "relative_position_bias_table")
    parts = ("image_encoder.", "norms.", "fusion.", "gates.")
    expected = {
        name
        for name in names.values()
        if name.startswith(parts) and any(word in name for word in words)
    }
    assert found == expected and len(found) == 12 * 5 + 4 * 2 + 4 * 2
    learning = {id(p) for p in model.parameters() if p.requires_grad}
    assert {id(p) for group in (decayed, plain) for p in group["params"]} == learning
    assert len(decayed["params"]) + len(plain["params"]) == len(learning)


def test_a_trunk_whose_norms_have_no_name_is_not_decayed_there_either(small):
    _, plain = small().parameter_groups()
    assert len(plain["params"]) == 5 * 2 + 4 * 2  # GroupNorm of five convolutions, LayerNorm


def _bert(option, **changes):
    sizes = {"layers": 4, "width": 16, "heads": 2, "ffn_width": 32, "vocabulary": 64}
    return option("text_encoder", "bert", weights="random", **sizes, **changes)


def test_of_a_bert_that_learns_the_ends_stay_fixed(small, option):
    model = small(text_encoder=_bert(option, frozen=False))
    fixed = {n for n, p in model.text_encoder.named_parameters() if not p.requires_grad}
    learning = {n for n, p in model.text_encoder.named_parameters() if p.requires_grad}
    assert {name.split(".layer.")[1][0] for name in learning} == {"0", "1"}
    assert {n.split(".layer.")[1][0] for n in fixed if ".layer." in n} == {"2", "3"}
    assert any("embeddings" in name for name in fixed)
    assert not any("embeddings" in name for name in learning)
    text = model.encode_text(model.prepare_text(TEXTS), dropout=True)
    model(torch.randn(2, 3, 96, 96), text).square().sum().backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())
    groups = [p for group in model.parameter_groups() for p in group["params"]]
    assert len(groups) == sum(p.requires_grad for p in model.parameters())


def test_a_frozen_bert_stays_frozen(small, option):
    model = small(text_encoder=_bert(option))
    assert not any(p.requires_grad for p in model.text_encoder.parameters())


@pytest.mark.parametrize(
    ("trunk", "side", "nearest"),
    [
        (None, 32, "image_side=64$"),
        (None, 100, "image_side=96 or scale.image_side=128$"),
        (None, 240, "image_side=224 or scale.image_side=256$"),
        (_swin, 32, "image_side=36$"),
        (_swin, 225, "image_side=224 or scale.image_side=228$"),
    ],
)
def test_impossible_side_is_refused_with_the_nearest_ones(small, trunk, side, nearest):
    with pytest.raises(UserError, match=f"cannot take images of {side} px.*{nearest}"):
        small(trunk and trunk(), image_side=side)
    with pytest.raises(UserError, match=nearest):
        small(trunk and trunk())(torch.zeros(1, 3, side, 96), _features(1))


@torch.no_grad()
@pytest.mark.parametrize("side", [36, 100, 240])
def test_swin_takes_whole_patches(small, side):
    model = small(_swin(window=7), image_side=side).eval()
    assert model(torch.randn(1, 3, side, side), _features(1)).shape == (1, 1, side, side)


@torch.no_grad()
def test_images_need_not_be_square(small):
    for trunk in (None, _swin()):
        model = small(trunk).eval()
        assert model(torch.randn(2, 3, 64, 96), _features(2)).shape == (2, 1, 64, 96)


def test_a_trunk_for_gray_images_gets_the_mean_of_the_colors(small):
    model, image = small().eval(), torch.rand(2, 1, 96, 96)
    colors = model.normalized(image)
    assert colors.shape == (2, 3, 96, 96)
    assert torch.equal(model.image_encoder.adapt(colors), colors.mean(1, keepdim=True))
    assert small(_swin()).image_encoder.adapt(colors) is colors
    assert small(normalization="z_score").normalized(image).shape == (2, 1, 96, 96)


@torch.no_grad()
def test_features_for_pacl_are_those_without_words_and_the_last_fused_map(small):
    model = small(_swin()).eval()
    image, text = torch.randn(2, 3, 96, 96), _features(2)
    assert torch.equal(model.image_features(image), model.image_encoder(image)[-1])
    assert torch.equal(model.fused_features(image, text), model._fuse(image, text)[-1])
    assert model.image_features(image).shape == model.fused_features(image, text).shape


def test_impossible_settings_are_refused(small):
    with pytest.raises(UserError, match=r"3 attention heads do not divide .* width 8 .*heads"):
        small(heads=3)
    with pytest.raises(UserError, match=r"model\.loss=dice is unknown: expected native or shared"):
        small(loss="dice")
    with pytest.raises(UserError, match=r"model\.normalization=gray is unknown"):
        small(normalization="gray")
    with pytest.raises(UserError, match=r"class_weights=\[1.0\]: expected two weights"):
        small(class_weights=[1.0])
