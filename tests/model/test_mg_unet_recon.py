import pytest
import torch
from made_up import size, words
from torch import nn

from semimedref.errors import UserError
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.model.mg_unet_recon import MGUNetRecon
from semimedref.model.segmenter import Outputs

SHARED = SegmentationLoss(cross_entropy=True, smooth=1e-5)


@pytest.fixture
def small(option):
    def build(**changes):
        torch.manual_seed(0)
        settings = {
            "image_side": 96,
            "width": 16,
            "entries": 6,
            "heads": 2,
            "dropout": 0.0,
            "mask_padding": True,
            "align_weight": 0.1,
        }
        encoders = option("image_encoder", "tiny"), option("text_encoder", "tiny")
        return MGUNetRecon(*encoders, **{**settings, **changes})

    return build


def test_the_size_is_near_the_reported_30_5_million(option):
    with torch.device("meta"):
        model = MGUNetRecon(
            option("image_encoder", "convnext_tiny", weights="random"),
            option("text_encoder", "cxr_bert", weights="random"),
            image_side=224,
            width=128,
            entries=64,
            heads=8,
            dropout=0.1,
            mask_padding=False,
            align_weight=0.1,
        )
    assert size(model.image_encoder) == 27_818_592
    found = size(model) - size(model.text_encoder)
    assert found == 30_492_801
    assert found / 1e6 == pytest.approx(30.5, abs=0.05)
    outputs = model(torch.randn(1, 1, 224, 224, device="meta"), words(1, 768, device="meta"))
    assert outputs.shape == (1, 1, 224, 224)


def test_it_takes_no_position_token(small):
    assert not small().takes_position_token


@torch.no_grad()
def test_what_is_predicted_does_not_depend_on_the_words(small):
    image, one, two = torch.randn(2, 1, 96, 96), words(2, 16), words(2, 16)
    for mode in (True, False):
        model = small().train(mode)
        assert torch.equal(model(image, one), model(image, two))
    assert not model.outputs(image, one).extra


@torch.no_grad()
def test_words_are_read_while_training(small):
    model = small().train()
    image, one, two = torch.randn(2, 1, 96, 96), words(2, 16), words(2, 16)
    a, b = model.outputs(image, one), model.outputs(image, two)
    torch.testing.assert_close(a.logits, model(image, one))
    assert torch.equal(a.logits, b.logits)
    assert torch.equal(a.extra["image_read"], b.extra["image_read"])
    assert a.extra["image_read"].shape == a.extra["text_read"].shape == (2, 3, 16)
    for key in ("told", "text_read"):
        assert (a.extra[key] - b.extra[key]).abs().max() > 1e-4


def test_the_loss_is_that_of_both_predictions_and_of_what_was_read(small):
    model = small(align_weight=0.5)
    target = (torch.rand(1, 1, 96, 96) > 0.7).float()
    logits, told = torch.randn(2, 1, 1, 96, 96).unbind(0)
    image_read = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    text_read = torch.tensor([[[0.0, 2.0], [3.0, 0.0]]])  # at right angles, then the same way
    extra = {"told": told, "image_read": image_read, "text_read": text_read}
    found = model.objective(Outputs(logits, extra), target, SHARED)
    expected = SHARED(logits, target) + SHARED(told, target) + 0.5 * (1 + 0) / 2
    torch.testing.assert_close(found, expected)
    plain = model.objective(Outputs(logits), target, SHARED)
    torch.testing.assert_close(plain, SHARED(logits, target))


def test_the_bank_is_drawn_to_what_the_words_say_and_not_the_words_to_the_bank(small):
    model = small().train()
    outputs = model.outputs(torch.randn(2, 1, 96, 96), words(2, 16))

    def nothing(logits, target):
        return 0.0 * logits.sum()

    model.objective(outputs, torch.zeros(2, 1, 96, 96), nothing).backward()
    assert model.bank.grad.abs().max() > 0
    assert model.write.out_proj.weight.grad.abs().max() == 0
    assert model.text_in[0].weight.grad.abs().max() == 0


def test_training_brings_what_is_read_of_the_bank_near_to_what_words_add(small):
    model = small(align_weight=1.0).train()
    image, text = torch.randn(4, 1, 64, 64), words(4, 16)
    target = (torch.rand(4, 1, 64, 64) > 0.7).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    apart = []
    for _ in range(12):
        outputs = model.outputs(image, text)
        reads = outputs.extra["image_read"], outputs.extra["text_read"]
        apart.append(1 - nn.functional.cosine_similarity(*reads, dim=-1).mean().item())
        optimizer.zero_grad()
        model.objective(outputs, target, SHARED).backward()
        optimizer.step()
    assert apart[-1] < 0.5 * apart[0]


@torch.no_grad()
def test_pacl_gets_maps_before_and_after_the_words(small):
    model = small().eval()
    image, one, two = torch.randn(2, 1, 96, 96), words(2, 16), words(2, 16)
    before, after = model.image_features(image), model.fused_features(image, one)
    assert before.shape == (2, model.feature_width("pre_fusion"), 3, 3)
    assert after.shape == (2, model.feature_width("post_fusion"), 3, 3)
    assert (after - model.fused_features(image, two)).abs().max() > 1e-5


def test_what_does_not_fit_is_refused(small):
    with pytest.raises(UserError, match=r"100 px: .*scale.image_side=96 or scale.image_side=128"):
        small(image_side=100)
    with pytest.raises(UserError, match=r"model.width=20, model.heads=2.*: expected a width"):
        small(width=20)
