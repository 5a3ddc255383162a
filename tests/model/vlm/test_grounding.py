import pytest
import torch
import torch.nn.functional as F

from semimedref.model.vlm.grounding import GroundingDecoder, gumbel_mask, of_own, similarity
from semimedref.model.vlm.text_mask import TextMask


def test_at_first_the_decoder_only_enlarges():
    patches = torch.randn(2, 6, 3, 3, generator=torch.Generator().manual_seed(0))
    found = GroundingDecoder(6)(patches)
    expected = F.normalize(patches, dim=1).repeat_interleave(4, 2).repeat_interleave(4, 3)
    torch.testing.assert_close(found, expected)


def test_similarity_is_of_every_sentence_and_own_ones_are_on_the_diagonal():
    features = torch.randn(3, 4, 2, 2, generator=torch.Generator().manual_seed(0))
    sentences = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    maps = similarity(features, sentences)
    assert maps.shape == (3, 3, 2, 2)
    mine = of_own(maps)
    for b in range(3):
        expected = (features[b] * sentences[b][:, None, None]).sum(0)
        torch.testing.assert_close(mine[b, 0], expected)


def test_a_hard_mask_is_drawn_by_its_probability_and_passes_gradients():
    torch.manual_seed(0)
    logits = torch.full((40_000,), 1.0, requires_grad=True)
    mask = gumbel_mask(logits)
    assert set(mask.unique().tolist()) <= {0.0, 1.0}
    assert mask.mean().item() == pytest.approx(1 / (1 + 2.718281828**-1), abs=0.01)
    mask.sum().backward()
    assert (logits.grad > 0).all()


def test_frozen_patches_with_channels_last_have_a_gradient():
    """On a CPU the gradient of group norm crashes for this layout; the decoder avoids it."""
    patches = F.normalize(torch.randn(4, 36, 8), dim=-1).mT.unflatten(2, (6, 6))
    masks = TextMask(
        8, temperature=0.07, soft_share=0.7, steepness=10, center=0.25, as_released=False
    )
    mask, contrast = masks(patches, F.normalize(torch.randn(4, 8), dim=-1), 24)
    (mask.mean() + contrast).backward()
    assert all(p.grad is not None for p in masks.parameters())
