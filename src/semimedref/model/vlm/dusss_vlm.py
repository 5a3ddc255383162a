"""The vision-language model of DuSSS: similarities that know how sure they are (AAAI 2025).

Pan et al., "DuSSS: Dual Semantic Similarity-Supervised Vision-Language Model for Semi-Supervised
Medical Image Segmentation". Re-implemented from its description; docs/methods/dusss.md says what
is exact.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.reader import TextFeatures
from semimedref.model.vlm.contrast import (
    LearnedTemperature,
    parts_contrast,
    pooled_scores,
    symmetric,
)
from semimedref.model.vlm.gaussian import GaussianHead, wasserstein
from semimedref.model.vlm.grounding import GroundingDecoder, gumbel_mask, of_own, similarity
from semimedref.model.vlm.image_transformer import ImageTransformer
from semimedref.model.vlm.vlm import VLM, Embedded, Slow, all_there, check_heads, unit

_FIRST_SCALE, _FIRST_SHIFT = 10.0, -2.5  # of a similarity before it becomes a mask
_TERMS = 6  # of the contrast, which is their mean
_LEAST = 1e-6  # of a mean distance


class DuSSSVLM(VLM):
    """Dual contrastive learning, semantic similarity supervision, and masks of sentences.

    L = (L_i2t + L_t2i + L_i2i + L_t2t + w_local (L_i-local + L_t-local)) / 6
        + w_mask (L_feature + L_image)

    Args:
        image_encoder: a transformer over patches.
        text_encoder: of the sentences.
        summary: what stands for a sentence: ``first`` token or ``mean`` of its words.
        space: D, of the common space.
        heads: of the Gaussians' attention.
        dropout: in the Gaussians' heads.
        temperature: tau of every contrast; learned, but fixed in the terms of the masks.
        distance_scale: by which a Wasserstein distance is divided; None: by the batch's mean, so
            that no Gaussian gains by being unsure of everything.
        offset: added to that uncertainty.
        slope: of the semantic distance beside it.
        pooled_patches: into how many squares a side patches are averaged for the local contrast.
        words: how many parts a sentence has here, its first ones; the text encoder reads them all.
        weight_local: of both local contrasts.
        weight_mask: of both terms of the masks.
        as_released: plain cosines without a temperature, so that no Gaussian ever learns.
    """

    def __init__(
        self,
        image_encoder: ImageTransformer,
        text_encoder: TextEncoder,
        *,
        summary: str,
        space: int,
        heads: int,
        dropout: float,
        temperature: float,
        distance_scale: float | None,
        offset: float,
        slope: float,
        pooled_patches: int,
        words: int,
        weight_local: float,
        weight_mask: float,
        as_released: bool,
    ) -> None:
        super().__init__(image_encoder, text_encoder, summary=summary)
        check_heads(space, heads, key="vlm.space")
        if words < 1:
            raise UserError(f"vlm.words={words}: a sentence has at least one part. Set vlm.words=9")
        widths = {"image": image_encoder.width, "text": text_encoder.width}
        self.to_whole = nn.ModuleDict({k: nn.Linear(w, space) for k, w in widths.items()})
        self.to_tokens = nn.ModuleDict({k: nn.Linear(w, space) for k, w in widths.items()})
        self.gaussian = nn.ModuleDict(
            {k: GaussianHead(space, heads=heads, dropout=dropout) for k in widths}
        )
        self.decoder = GroundingDecoder(space)
        self.mask_scale = nn.Parameter(torch.tensor(_FIRST_SCALE))
        self.mask_shift = nn.Parameter(torch.tensor(_FIRST_SHIFT))
        self.temperature, self.mask_temperature = LearnedTemperature(temperature), temperature
        self.distance_scale, self.offset, self.slope = distance_scale, offset, slope
        self.pooled_patches, self.words = pooled_patches, words
        self.weight_local, self.weight_mask = weight_local, weight_mask
        self.as_released = as_released

    def embed(self, tokens: Tensor, kind: str, valid: Tensor) -> Embedded:
        """Tokens of an encoder in the common space."""
        projected = self.to_tokens[kind](tokens)
        compared = unit(self.to_whole[kind](tokens))
        parts = unit(projected[:, 1:])
        return Embedded(compared[:, 0], parts, projected, valid, compared[:, 1:])

    def read(self, text: TextFeatures) -> Embedded:
        """Sentences in the common space, cut to their first parts once they are read."""
        kept = 1 + self.words
        tokens = self.sentence_tokens(text)[:, :kept]
        return self.embed(tokens, "text", text.mask[:, 1:kept])

    def losses(self, image: Tensor, text: TextFeatures, slow: VLM, told: Slow) -> dict[str, Tensor]:
        """The whole loss, its contrast, whose other side is the twin's, and its masks."""
        seen, words = self.see(image), self.read(text)
        across = symmetric(self.scores(seen, told.text, "image", "text"))
        across = across + symmetric(self.scores(words, told.image, "text", "image"))
        within = symmetric(self.scores(seen, told.image, "image", "image"))
        within = within + symmetric(self.scores(words, told.text, "text", "text"))
        patches = pool_patches(told.image.local, self.pooled_patches)
        local = parts_contrast(
            seen.whole, patches, all_there(patches), temperature=self.temperature()
        ) + parts_contrast(
            words.whole, told.text.local, told.text.valid, temperature=self.temperature()
        )
        contrast = (across + within + self.weight_local * local) / _TERMS
        masks = self._mask_losses(image, seen, words, slow)
        return {
            "loss": contrast + self.weight_mask * masks,
            "loss_contrast": contrast,
            "loss_mask": masks,
        }

    def scores(self, a: Embedded, b: Embedded, kind_a: str, kind_b: str) -> Tensor:
        """What a cross-entropy gets for every pair (B, B): similarities that know their doubt."""
        cosine = a.whole @ b.whole.mT
        if self.as_released:
            return cosine
        first, second = (self._doubt(x, kind) for x, kind in ((a, kind_a), (b, kind_b)))
        distance, _ = wasserstein(*first, *second)
        scale = (
            distance.mean().clamp(min=_LEAST)
            if self.distance_scale is None
            else self.distance_scale
        )
        modulated = modulate(cosine, distance / scale, offset=self.offset, slope=self.slope)
        return modulated / self.temperature()

    def _doubt(self, x: Embedded, kind: str) -> tuple[Tensor, Tensor]:
        """Mean and deviation (B, D) of whole images or sentences."""
        mean, deviation = self.gaussian[kind](x.tokens)
        return mean[:, 0], deviation[:, 0].exp()

    def _mask_losses(self, image: Tensor, seen: Embedded, words: Embedded, slow: VLM) -> Tensor:
        """What sentences show of images fits them, as features and as an image cut out."""
        grid = self.image_encoder.grid
        features = self.decoder(seen.tokens[:, 1:].mT.unflatten(2, (grid, grid)))
        logits = self.mask_scale * similarity(features, words.whole) + self.mask_shift
        shown = pooled_scores(features, logits.sigmoid(), words.whole)
        mask = F.interpolate(gumbel_mask(of_own(logits)), image.shape[-2:], mode="nearest")
        cut_out = slow.see(image * mask).whole
        by_image = words.whole @ cut_out.mT
        return symmetric(shown / self.mask_temperature) + symmetric(
            by_image / self.mask_temperature
        )


def modulate(cosine: Tensor, doubt: Tensor, *, offset: float, slope: float) -> Tensor:
    """1 - (1 - cos) exp(-(d_unc + offset) / (slope d_sem)), d_sem = |a - b|^2 = 2 - 2 cos."""
    semantic = (2 - 2 * cosine).clamp(min=1e-6)
    return 1 - (1 - cosine) * torch.exp(-(doubt + offset) / (slope * semantic))


def pool_patches(parts: Tensor, side: int) -> Tensor:
    """Patches (B, n^2, D) averaged to (B, side^2, D)."""
    n = round(parts.shape[1] ** 0.5)
    maps = parts.mT.unflatten(2, (n, n))
    return F.adaptive_avg_pool2d(maps, min(side, n)).flatten(2).mT
