"""LViT against an independent functional twin that is written with the published names."""

import json
from pathlib import Path

import pytest
import torch
from lvit_twin import Twin
from made_up import size
from torch import nn

from semimedref.errors import UserError
from semimedref.model import published
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.lvit import LViT
from semimedref.model.published.lvit import SOURCE, forward
from semimedref.model.segmenter import TextFeatures

KEYS = Path(published.__file__).parent / "keys" / "lvit.json"


class Words(TextEncoder):
    """Says only how wide and how many words are."""

    def __init__(self, width, max_tokens):
        nn.Module.__init__(self)
        self.width, self.max_tokens, self.frozen = width, max_tokens, True

    def hidden_states(self, input_ids, mask):
        raise NotImplementedError


@pytest.fixture
def small():
    """A small LViT of 64 px; keyword arguments change it."""

    def build(width=16, words=(24, 10), **changes):
        settings = {"image_side": 64, "heads": 8, "dropout": 0.1, "loss": "native"}
        return LViT(Words(*words), width=width, **{**settings, **changes})

    return build


@pytest.fixture(scope="module")
def full():
    """The published size, without data."""
    with torch.device("meta"):
        return _full()


def _full() -> LViT:
    return LViT(Words(768, 10), image_side=224, width=64, heads=8, dropout=0.1, loss="native")


def _text(tokens: torch.Tensor) -> TextFeatures:
    return TextFeatures(tokens, torch.ones(tokens.shape[:2], dtype=torch.bool), tokens.mean(1))


def _randomize(model: nn.Module, seed: int = 0) -> nn.Module:
    """Numbers of ordinary size everywhere, behind which a slip could not hide."""
    g = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        spread = 0.4 if p.dim() == 1 else (2 / p[0].numel()) ** 0.5
        p.data = 0.3 * (p.dim() == 1) + spread * torch.randn(p.shape, generator=g)
    for name, tensor in model.state_dict().items():
        if name.endswith("position"):
            tensor.copy_(torch.randn(tensor.shape, generator=g))
        elif name.endswith("running_mean"):
            tensor.copy_(0.3 * torch.randn(tensor.shape, generator=g))
        elif name.endswith("running_var"):
            tensor.copy_(0.5 + torch.rand(tensor.shape, generator=g))
    return model


def _published_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """The network's tensors by their published names."""
    state = model.state_dict()
    names = SOURCE.translated(json.loads(KEYS.read_text())["tensors"])
    assert sorted(names.values()) == sorted(state)
    return {theirs: state[ours] for theirs, ours in names.items()}


def _agree(model, image, words, expected):
    text = _text(words)
    with torch.no_grad():
        *maps, deepest = model._maps(image)
        down = model._down(maps, text)
        found = [*maps, deepest, *down, *model._up(down), model(image, text)]
    wanted = [*expected["maps"], *expected["down"], *expected["up"], expected["out"]]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("side", "words"), [(64, (24, 10)), (96, (40, 7))])
def test_output_equals_an_independent_functional_twin(small, side, words):
    torch.manual_seed(1)
    model = _randomize(small(image_side=side, words=words)).eval()
    image, text = torch.rand(2, 3, side, side), torch.randn(2, words[1], words[0])
    expected = Twin(_published_state(model))(image, text)
    _agree(model, image, text, expected)
    assert expected["out"].std() > 0.2


def test_batch_statistics_are_those_of_the_published_order(small):
    torch.manual_seed(1)
    model = _randomize(small(dropout=0.0)).train()
    image, text = torch.rand(2, 3, 64, 64), torch.randn(2, 10, 24)
    expected = Twin(_published_state(model), training=True)(image, text)
    _agree(model, image, text, expected)


@pytest.mark.slow
def test_published_size_equals_the_twin():
    torch.manual_seed(0)
    model = _randomize(_full()).eval()
    image, words = torch.rand(1, 3, 224, 224), torch.randn(1, 10, 768)
    with torch.no_grad():
        expected = Twin(_published_state(model))(image, words)["out"]
        torch.testing.assert_close(forward(model, image, words), expected, atol=1e-4, rtol=1e-4)
    assert expected.std() > 0.2


def test_published_size_has_the_published_parameter_counts(full):
    assert size(full) == 39_933_345 - 10_025_312 == 29_908_033
    assert size(full.stem) == 3 * 64 * 9 + 64 + 128
    assert [size(b) for b in full.down] == [221_952, 886_272, 3_542_016, 4_721_664]
    assert [size(c) for c in full.text] == [1_180_160, 393_472, 98_432, 24_640]
    assert size(full.text_tokens) == 196 * 10 * 3 + 3 * 196
    patches = [c * c * k * k + c + 196 * c for c, k in ((64, 16), (128, 8), (256, 4), (512, 2))]
    assert [size(e) for e in full.embeddings] == patches
    blocks = [12 * c * c + 13 * c for c in (64, 128, 256, 512)]
    for branch in (full.down_blocks, full.up_blocks):
        assert [size(b) for b in branch] == blocks
    assert [size(c) for c in full.down_convs] == [24_768, 98_688, 393_984]
    assert [size(c) for c in full.up_convs] == [24_768, 98_688, 393_984]
    assert [size(r) for r in full.reconstruct] == [c * c + 3 * c for c in (64, 128, 256, 512)]
    plam = 3 * 6 + 6 + 6 + 1
    assert [size(d.attention) for d in full.decoder] == [
        2 * c * c + plam for c in (512, 256, 128, 64)
    ]
    assert size(full.head) == 65


def test_every_parameter_receives_a_gradient(full):
    words = _text(torch.randn(2, 10, 768, device="meta"))
    logits = full(torch.rand(2, 1, 224, 224, device="meta"), words)
    assert logits.shape == (2, 1, 224, 224)
    logits.sum().backward()
    assert sum(p.numel() for p in full.parameters() if p.grad is not None) == 29_908_033


def test_gray_images_are_three_equal_channels(small):
    model, image = _randomize(small()).eval(), torch.rand(1, 1, 64, 64)
    words = _text(torch.randn(1, 10, 24))
    assert torch.equal(model(image, words), model(image.repeat(1, 3, 1, 1), words))
    assert torch.equal(model.normalized(image), image)


def test_initialization_is_the_published_one(small):
    torch.manual_seed(0)
    model = small(width=64)
    block, bound = model.down_blocks[0], 64**-0.5
    for tensor in (block.attention.in_proj_weight, block.attention.in_proj_bias):
        assert 0.9 * bound < tensor.abs().max() <= bound
    wide = (6 / (64 + 256)) ** 0.5
    assert 0.99 * wide < block.mlp[0].weight.abs().max() <= wide
    assert 0 < block.mlp[3].bias.abs().max() < 1e-5
    assert not model.embeddings[0].position.any()


def test_words_reach_the_fused_map_and_never_the_image_map(small):
    model = _randomize(small()).eval()
    image = torch.rand(2, 1, 64, 64)
    one, two = (_text(torch.randn(2, 10, 24)) for _ in range(2))
    before = model.image_features(image)
    a, b = model.fused_features(image, one), model.fused_features(image, two)
    assert before.shape == a.shape == (2, 128, 4, 4)
    assert model.feature_width("pre_fusion") == model.feature_width("post_fusion") == 128
    assert (a - b).abs().max() > 1e-4
    *maps, _ = model._maps(image)
    deepest = model._up(model._down(maps, one))[-1]
    assert torch.equal(a.flatten(2).mT, deepest)


@pytest.mark.parametrize(
    ("side", "nearest"),
    [(16, "image_side=32"), (100, "image_side=96 or scale.image_side=112"), (0, "image_side=32")],
)
def test_sides_between_multiples_of_16_are_refused(small, side, nearest):
    with pytest.raises(UserError, match=f"images of {side} px.*{nearest}$"):
        small(image_side=side)


def test_a_built_network_takes_its_own_side_alone(small):
    model = small()
    model.check_side(64)
    with pytest.raises(UserError, match=r"images of 80 px.*scale\.image_side=64$"):
        model(torch.zeros(1, 1, 64, 80), _text(torch.zeros(1, 10, 24)))


def test_another_number_of_words_is_refused(small):
    with pytest.raises(UserError, match=r"11 tokens.*exactly 10.*max_tokens=11"):
        small()(torch.zeros(1, 1, 64, 64), _text(torch.zeros(1, 11, 24)))


def test_heads_that_do_not_divide_the_width_and_unknown_losses_are_refused(small):
    with pytest.raises(UserError, match=r"model\.width=12: 8 attention heads"):
        small(width=12)
    with pytest.raises(UserError, match=r"model\.loss=dice is unknown: expected native or shared"):
        small(loss="dice")
