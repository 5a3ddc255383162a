import pytest
import torch

from semimedref.model.mean_mask import MeanMask

MASKS = torch.tensor([[[1, 0], [0, 0]], [[1, 1], [0, 0]], [[0, 0], [0, 1]], [[1, 1], [0, 0]]])
LABELS = torch.eye(6)[:4]


@pytest.fixture
def mean_mask():
    model = MeanMask(image_side=2, smoothing=0.0)
    model.collect([(MASKS[:3, None], LABELS[:3]), (MASKS[3:, None], LABELS[3:])])
    return model


def ask(model, *sentences):
    text = model.encode_text(model.prepare_text(sentences))
    return model(torch.randn(len(sentences), 1, 2, 2), text)


def test_it_is_the_mean_of_all_masks_whatever_is_said_and_seen(mean_mask):
    logits = ask(mean_mask, "upper left lung", "lower right lung", "")
    assert logits.shape == (3, 1, 2, 2)
    for one in logits:
        expected = torch.tensor([[[3 / 4, 1 / 2], [0, 1 / 4]]])
        torch.testing.assert_close(one.sigmoid(), expected, atol=2e-6, rtol=0)


def test_the_threshold_decides_which_pixels_are_foreground(mean_mask):
    for threshold, pixels in ((0.1, 3), (0.4, 2), (0.6, 1), (0.8, 0)):
        mean_mask.threshold.fill_(threshold)
        assert int((ask(mean_mask, "").sigmoid() >= 0.5).sum()) == pixels


def test_a_checkpoint_brings_the_mean(mean_mask):
    fresh = MeanMask(image_side=2, smoothing=0.0)
    fresh.load_trainable_state(mean_mask.trainable_state())
    assert torch.equal(ask(fresh, "x"), ask(mean_mask, "x"))
