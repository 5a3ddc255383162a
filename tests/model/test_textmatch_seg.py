import math

import pytest
import torch
import torch.nn.functional as F
from made_up import randomize, size, words

from semimedref.config import build, compose
from semimedref.errors import UserError
from semimedref.model.losses import batch_dice, batch_dice_bce
from semimedref.model.segmenter import Outputs
from semimedref.model.textmatch_seg import TextMatchSeg

SIZES = {
    "width": 16,
    "heads": 4,
    "embedding": 6,
    "position_code": False,
    "mask_padding": False,
    "loss": "native",
}
UNREAD = 3_152_384  # the last block's update of the words, which nothing reads


@pytest.fixture
def small(option):
    """A small network; keyword arguments change it."""

    def make(widths=(16, 24, 40, 64), groups=4, **changes):
        settings = {"image_side": 96, **SIZES, **changes}
        trunk = option("image_encoder", "tiny", widths=list(widths), groups=groups)
        return TextMatchSeg(trunk, option("text_encoder", "tiny", cache=False), **settings)

    return make


@pytest.fixture(scope="module")
def published():
    """The network at the paper's scale, without data."""
    weights = ["image_encoder.weights=random", "text_encoder.weights=random"]
    with torch.device("meta"):
        return build(compose(["scale=paper", "model=textmatch_seg", *weights]), "model")


def test_with_the_unread_update_all_published_parameters_are_there(published):
    first, second, last = published.decoder
    assert size(published.image_encoder) == 27_818_592
    assert size(published.text_in) == 393_728
    assert [size(conv) for conv in published.skips] == [49_664, 98_816, 197_120]
    assert size(first.visual) == size(first.text) == UNREAD
    assert [size(block) for block in (first, second)] == [14_040_064, 13_908_992]
    assert last.text is None and size(last) == 13_908_992 - UNREAD
    assert size(published.head) == 1_770_241 and size(published.embedding) == 65_664
    trainable = sum(p.numel() for p in published.parameters() if p.requires_grad)
    assert trainable + UNREAD == 72_251_873


def test_every_trainable_parameter_receives_a_gradient(published):
    image = torch.randn(2, 1, 256, 256, device="meta")
    outputs = published.outputs(image, words(2, 768, device="meta"))
    assert outputs.logits.shape == (2, 1, 256, 256)
    assert outputs.extra["embedding"].shape == (2, 128, 16, 16)
    (outputs.logits.sum() + outputs.extra["embedding"].sum()).backward()
    assert all(p.grad is not None for p in published.parameters() if p.requires_grad)


def _norm(w, key, x):
    spread = x.var(-1, unbiased=False, keepdim=True)
    x = (x - x.mean(-1, keepdim=True)) / (spread + 1e-5).sqrt()
    return x * w[f"{key}.weight"] + w[f"{key}.bias"]


def _gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


def _linear(w, key, x):
    return x @ w[f"{key}.weight"].T + w[f"{key}.bias"]


def _conv(w, key, x):
    weight = w[f"{key}.weight"]
    return F.conv2d(x, weight, w[f"{key}.bias"], padding=weight.shape[-1] // 2)


def _attend(w, key, x, memory, *, heads, mask=None):
    """One block, head by head."""
    q, m = _norm(w, f"{key}.norm1", x), _norm(w, f"{key}.norm1", memory)
    weights = w[f"{key}.attention.in_proj_weight"].chunk(3)
    biases = w[f"{key}.attention.in_proj_bias"].chunk(3)
    q, k, v = (t @ a.T + b for t, a, b in zip((q, m, m), weights, biases, strict=True))
    found, n = [], x.shape[-1] // heads
    for h in range(heads):
        one = slice(h * n, (h + 1) * n)
        scores = q[..., one] @ k[..., one].transpose(1, 2) / math.sqrt(n)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None], -torch.inf)
        found.append(scores.softmax(-1) @ v[..., one])
    x = x + _linear(w, f"{key}.attention.out_proj", torch.cat(found, -1))
    hidden = _gelu(_linear(w, f"{key}.ffn.0", _norm(w, f"{key}.norm2", x)))
    return x + _linear(w, f"{key}.ffn.2", hidden)


def _up(x, like):
    return F.interpolate(x, like.shape[-2:], mode="bilinear", align_corners=False)


def _twin(w, maps, tokens, image, *, heads, mask=None):
    """The specification's data flow: the map of each block, logits, embedding."""
    *skips, x = maps
    skips = [_conv(w, f"skips.{i}", skip) for i, skip in enumerate(skips)]
    embedding, text, found = _conv(w, "embedding", skips[-1]), _linear(w, "text_in", tokens), []
    for i in range(3):
        key, skip = f"decoder.{i}", skips[2 - i]
        small = _conv(w, f"{key}.visual_in", x)
        b, c, height, width = small.shape
        v, t = small.reshape(b, c, -1).transpose(1, 2), _linear(w, f"{key}.text_in", text)
        seen = _attend(w, f"{key}.visual", v, t, heads=heads, mask=mask)
        if i < 2:
            text = _attend(w, f"{key}.text", t, v, heads=heads)
        x = _up(seen.transpose(1, 2).reshape(b, c, height, width), skip)
        x = _gelu(_conv(w, f"{key}.conv1", torch.cat([x, skip], 1)))
        x = _gelu(_conv(w, f"{key}.conv2", x))
        found.append(x)
    y = _gelu(_conv(w, "head.2", _gelu(_conv(w, "head.0", x))))
    return [*found, _up(_conv(w, "head.4", y), image)], embedding


@pytest.mark.parametrize(
    ("side", "tokens", "padding"), [(96, 24, False), (96, 25, True), (64, 24, True)]
)
@torch.no_grad()
def test_maps_logits_and_embedding_equal_those_of_a_functional_twin(small, side, tokens, padding):
    torch.manual_seed(0)
    model = small(image_side=side, mask_padding=padding).eval()
    randomize(model)
    for p in (p for part in (model.decoder, model.head) for p in part.parameters() if p.dim() > 1):
        p.mul_(2)  # so that maps and words are seen in the logits
    image, text = torch.randn(2, 1, side, side), words(2, 16, tokens)
    mask = text.mask if padding else None
    maps = model.image_encoder(image)
    expected, embedding = _twin(model.state_dict(), maps, text.tokens, image, heads=4, mask=mask)
    found = []
    for block in model.decoder:
        block.register_forward_hook(lambda _, __, result: found.append(result[0]))
    outputs = model.outputs(image, text)
    for ours, theirs in zip([*found, outputs.logits], expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(outputs.extra["embedding"], embedding, atol=1e-5, rtol=1e-5)
    assert expected[-1].std() > 0.05
    assert outputs.extra["embedding"].shape[-1] == side // 16
    torch.testing.assert_close(model.fused_features(image, text), expected[0], atol=1e-4, rtol=1e-4)
    assert torch.equal(model.image_features(image), maps[-1])
    assert model.feature_width("pre_fusion") == 64 and model.feature_width("post_fusion") == 16


@torch.no_grad()
def test_with_a_position_code_equal_pixels_read_different_things(small):
    torch.manual_seed(0)
    block = small(position_code=True).decoder[0].eval()
    plain = small().decoder[0].eval()
    plain.load_state_dict(block.state_dict())
    flat, skip, text = torch.ones(1, 64, 3, 3), torch.zeros(1, 16, 6, 6), torch.randn(1, 5, 16)
    seen = []
    for one in (block, plain):
        one.visual.register_forward_hook(lambda _, __, result: seen.append(result))
        one(flat, skip, text, None)
    assert seen[0].std(1).max() > 0.1 and seen[1].std(1).max() < 1e-5


def test_the_loss_is_cross_entropy_and_the_dice_of_the_whole_batch(small):
    logits = torch.tensor([0.0, 0.0, math.log(3), math.log(3)]).reshape(2, 1, 1, 2)
    target = torch.tensor([1.0, 0.0, 1.0, 1.0]).reshape(2, 1, 1, 2)
    # p: 1/2, 1/2, 3/4, 3/4; overlap 2, sizes 5/2 and 3
    overlap = 1 - 4 / 5.5
    entropy = (2 * math.log(2) + 2 * math.log(4 / 3)) / 4
    assert batch_dice(logits, target).item() == pytest.approx(overlap, abs=1e-5)
    assert batch_dice_bce(logits, target).item() == pytest.approx(entropy + overlap, abs=1e-5)
    native = small().objective(Outputs(logits), target, None)
    assert native.item() == pytest.approx(entropy + overlap, abs=1e-5)
    shared = small(loss="shared").objective(Outputs(logits), target, lambda x, t: t.sum())
    assert shared.item() == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, r"model\.heads=5: .*model\.width=16"),
        ({"heads": 0}, r"model\.heads=0"),
        ({"width": 18, "heads": 1}, r"model\.width=18: expected a multiple of 4"),
        ({"embedding": 0}, r"model\.embedding=0: expected 1"),
        ({"loss": "dice"}, r"model\.loss=dice is unknown"),
        ({"image_side": 100}, r"100 px.*scale\.image_side=96 or scale\.image_side=128"),
    ],
)
def test_settings_that_do_not_fit_are_refused(small, changes, message):
    with pytest.raises(UserError, match=message):
        small(**changes)
