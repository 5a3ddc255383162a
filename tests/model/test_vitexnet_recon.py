import pytest
import torch
import torch.nn.functional as F
from made_up import randomize, size, words

from semimedref.errors import UserError
from semimedref.model.segmenter import TextFeatures
from semimedref.model.vitexnet_recon import DynamicConvolution, ViTexNetRecon

REPORTED = 36_467_935  # of the description's stand-in, without text encoder
UNUSED = 14_183_856 + 1_536  # Swin's last stage and final norm, which give none of the four maps


@pytest.fixture
def small(option):
    def build(**changes):
        trunk = option("image_encoder", "tiny", widths=[16, 24, 40, 64])
        settings = {"image_side": 96, "filters": 4, "mask_padding": False}
        return ViTexNetRecon(trunk, option("text_encoder", "tiny"), **{**settings, **changes})

    return build


def test_the_size_is_that_of_the_described_stand_in_without_what_nothing_reads(option):
    with torch.device("meta"):
        model = ViTexNetRecon(
            option("image_encoder", "hf_swin_tiny", weights="random"),
            option("text_encoder", "cxr_bert", weights="random"),
            image_side=224,
            filters=4,
            mask_padding=False,
        )
    assert sum(map(size, model.guides)) == 1_839_948
    assert [size(block) for block in model.decoder] == [5_162_496, 1_291_008, 322_944]
    assert size(model) - size(model.text_encoder) == REPORTED - UNUSED
    logits = model(torch.randn(1, 1, 224, 224, device="meta"), words(1, 768, device="meta"))
    assert logits.shape == (1, 1, 224, 224)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def _tgdc(x, words, m):
    """K convolutions one after the other, summed with the weights; twice."""
    b, c, h, w = x.shape
    pooled = F.linear(words, m.text_in.weight, m.text_in.bias).mean(1)
    first, _, second, _ = m.choice
    hidden = F.relu(F.linear(pooled, first.weight, first.bias))
    weights = F.softmax(F.linear(hidden, second.weight, second.bias), -1)
    tokens = x.reshape(b, c, h * w)
    y = tokens
    for _ in range(2):
        found = [F.conv1d(y, f.weight, f.bias, padding=1, groups=c) for f in m.filters]
        y = sum(weights[:, k, None, None] * found[k] for k in range(len(found)))
        y = F.layer_norm(y.permute(0, 2, 1), (c,), m.norm.weight, m.norm.bias, 1e-5) * m.scale
        y = y.permute(0, 2, 1)
    return (tokens + y).reshape(b, c, h, w)


def _up(x, skip, m):
    def norm(y, n):
        y = (y - n.running_mean[:, None, None]) / (n.running_var[:, None, None] + 1e-5).sqrt()
        return F.leaky_relu(y * n.weight[:, None, None] + n.bias[:, None, None], 0.01)

    y = torch.cat([F.conv_transpose2d(x, m.up.weight, stride=2), skip], 1)
    y = norm(F.conv2d(y, m.conv1.weight, padding=1), m.norm1)
    return norm(F.conv2d(y, m.conv2.weight, padding=1), m.norm2)


def _head(x, m):
    y = F.pixel_shuffle(F.conv2d(x, m.conv.weight, m.conv.bias, padding=1), 4)
    y = F.avg_pool2d(F.pad(y, (3, 0, 3, 0)), 4, stride=1)
    return F.conv2d(y, m.out.weight, m.out.bias)


def test_output_equals_an_independent_functional_twin(small):
    torch.manual_seed(0)
    model = small().eval()
    randomize(model)
    image, text = torch.randn(2, 1, 96, 96), words(2, 16)
    with torch.no_grad():
        f1, f2, f3, x = model.image_encoder(image)
        first = _tgdc(x, text.tokens, model.guides[0])
        torch.testing.assert_close(model.fused_features(image, text), first, atol=1e-5, rtol=1e-5)
        x = _up(first, f3, model.decoder[0])
        x = _up(_tgdc(x, text.tokens, model.guides[1]), f2, model.decoder[1])
        x = _up(_tgdc(x, text.tokens, model.guides[2]), f1, model.decoder[2])
        expected = _head(x, model.head)
        torch.testing.assert_close(model(image, text), expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1


def test_each_image_is_filtered_as_its_own_words_say():
    torch.manual_seed(0)
    guide = DynamicConvolution(8, 16, filters=4)
    x, words = torch.randn(2, 8, 3, 3), torch.randn(2, 24, 16) * 4
    both = guide(x, words, None)
    for i in range(2):
        torch.testing.assert_close(both[i : i + 1], guide(x[i : i + 1], words[i : i + 1], None))
    assert not torch.allclose(both[0], guide(x, words.flip(0), None)[0], atol=1e-3)


def test_padding_enters_the_mean_unless_it_is_masked(small):
    for mask_padding in (False, True):
        torch.manual_seed(0)
        model = small(mask_padding=mask_padding).eval()
        randomize(model)
        image, text = torch.randn(1, 1, 96, 96), words(1, 16)
        tokens = torch.where(text.mask[..., None], text.tokens, text.tokens + 3.0)
        other = TextFeatures(tokens=tokens, mask=text.mask, pooled=text.pooled)
        assert torch.equal(model(image, text), model(image, other)) == mask_padding


def test_what_does_not_fit_is_refused(small):
    with pytest.raises(UserError, match=r"100 px: .*scale.image_side=96 or scale.image_side=128"):
        small(image_side=100)
    with pytest.raises(UserError, match=r"model.filters=0: expected at least one"):
        small(filters=0)
