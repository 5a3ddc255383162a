"""The vision-language model of AMVLM: words attend to patches, patches to words (TMI 2025).

Pan et al., "AMVLM: Alignment-Multiplicity Aware Vision-Language Model for Semi-Supervised Medical
Image Segmentation". Re-implemented from its description; docs/methods/amvlm.md says what is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from semimedref.model.encoders.text import TextEncoder
from semimedref.model.reader import TextFeatures
from semimedref.model.vlm.contrast import identity_contrast, local_contrast, symmetric
from semimedref.model.vlm.gaussian import GaussianHead, wasserstein
from semimedref.model.vlm.image_transformer import ImageTransformer
from semimedref.model.vlm.vlm import VLM, Embedded, Slow, check_heads, unit

_GAUSSIANS = ("image", "attended_image", "other_image", "text", "attended_text")
_NEVER = -1e4  # score of a part that does not exist
_LEAST = 1e-6


class AMVLM(VLM):
    """Similarity supervision across modalities, coarse-fine contrast within each.

    L = L_ori + w_global L_global + w_local L_local + w_intra L_intra

    Args:
        image_encoder: a transformer over patches.
        text_encoder: of the sentences.
        summary: what stands for a sentence: ``first`` token or ``mean`` of its words.
        space: D, of the common space.
        hidden: between the two layers that lead there.
        heads: of the Gaussians' attention.
        dropout: in the Gaussians' heads.
        temperature: tau.
        distance_scale: by which a Wasserstein distance is divided.
        offset: of the scores that are made of it.
        weight_global: of words and patches against what they attend to.
        weight_local: of patches against all sentences, words against all images.
        weight_intra: of the contrasts within a modality.
        as_released: distances of equal places for all pairs, log deviations instead of
            deviations, and one head for both kinds of attended parts.
    """

    def __init__(
        self,
        image_encoder: ImageTransformer,
        text_encoder: TextEncoder,
        *,
        summary: str,
        space: int,
        hidden: int,
        heads: int,
        dropout: float,
        temperature: float,
        distance_scale: float,
        offset: float,
        weight_global: float,
        weight_local: float,
        weight_intra: float,
        as_released: bool,
    ) -> None:
        super().__init__(image_encoder, text_encoder, summary=summary)
        check_heads(space, heads, key="vlm.space")
        widths = {"image": image_encoder.width, "text": text_encoder.width}
        self.to_whole = nn.ModuleDict(
            {k: Projection(w, hidden=hidden, space=space) for k, w in widths.items()}
        )
        self.to_parts = nn.ModuleDict(
            {k: Projection(w, hidden=hidden, space=space) for k, w in widths.items()}
        )
        self.gaussian = nn.ModuleDict(
            {k: GaussianHead(space, heads=heads, dropout=dropout) for k in _GAUSSIANS}
        )
        self.temperature = temperature
        self.distance_scale, self.offset = distance_scale, offset
        self.weights = weight_global, weight_local, weight_intra
        self.as_released = as_released

    def embed(self, tokens: Tensor, kind: str, valid: Tensor) -> Embedded:
        """Tokens of an encoder in the common space."""
        whole = unit(self.to_whole[kind](tokens[:, :1])[:, 0])
        parts = unit(self.to_parts[kind](tokens[:, 1:]))
        return Embedded(whole, parts, torch.cat([whole[:, None], parts], 1), valid, parts)

    def losses(self, image: Tensor, text: TextFeatures, slow: VLM, told: Slow) -> dict[str, Tensor]:
        """The whole loss and its four parts."""
        del slow
        seen, words = self.see(image), self.read(text)
        ori = symmetric(seen.whole @ words.whole.mT / self.temperature)
        across = (self._attended(seen, words, "image") + self._attended(words, seen, "text")) / 2
        local = self.against_wholes(seen, words.whole) + self.against_wholes(words, seen.whole)
        intra = self._intra(told, seen, words)
        w_global, w_local, w_intra = self.weights
        return {
            "loss": ori + w_global * across + w_local * local + w_intra * intra,
            "loss_ori": ori,
            "loss_global": across,
            "loss_local": local,
            "loss_intra": intra,
        }

    def _attended(self, parts: Embedded, others: Embedded, kind: str) -> Tensor:
        """CSS of one side: a part belongs to what it attends to in the other modality."""
        scores = parts.parts @ others.parts.mT / self.temperature  # (B, N, M)
        share = scores.masked_fill(~others.valid[:, None], _NEVER).softmax(2)
        attended = unit(share @ others.parts)
        matched = parts.parts @ attended.mT / self.temperature
        second = "attended_text" if self.as_released else f"attended_{kind}"
        first, second = self._doubt(parts.parts, kind), self._doubt(attended, second)
        distance, of_means = wasserstein(*first, *second)
        if self.as_released:  # every row has the distances of equal places
            distance, of_means = (
                x.diagonal(dim1=1, dim2=2)[:, None].expand_as(x) for x in (distance, of_means)
            )
        return identity_contrast(constrain(matched, distance, of_means), parts.valid)

    def against_wholes(self, parts: Embedded, wholes: Tensor) -> Tensor:
        """Which sample a part belongs to; parts that tell little apart weigh more."""
        scores = parts.parts @ wholes.mT / self.temperature  # (B, N, B)
        each = -scores.log_softmax(2).diagonal(dim1=0, dim2=2).mT  # (B, N)
        weight = part_weights(scores.detach(), parts.valid)
        return (each * weight).sum() / parts.valid.sum().clamp(min=1)

    def _intra(self, told: Slow, seen: Embedded, words: Embedded) -> Tensor:
        """Gaussians of another view and of sentences; drawn parts against wholes."""
        view = self._doubt(told.image.tokens, "other_image")
        said = self._doubt(words.tokens, "text")
        distance, _ = wasserstein(view[0][:, 0], view[1][:, 0], said[0][:, 0], said[1][:, 0])
        across = symmetric((self.offset - distance / self.distance_scale) / self.temperature)
        noise = torch.randn((), device=distance.device)
        drawn = [unit(mean[:, 1:] + noise * deviation[:, 1:]) for mean, deviation in (view, said)]
        within = [
            local_contrast(whole, part, valid, temperature=self.temperature)
            for whole, part, valid in (
                (seen.whole, drawn[0], seen.valid),
                (told.text.whole, drawn[1], words.valid),
            )
        ]
        return (across + within[0] + within[1]) / 3

    def _doubt(self, tokens: Tensor, kind: str) -> tuple[Tensor, Tensor]:
        mean, deviation = self.gaussian[kind](tokens)
        return mean, deviation if self.as_released else deviation.exp()


class Projection(nn.Module):
    """Two linear layers with BatchNorm, the last one without weights of its own (MGCA's)."""

    def __init__(self, width: int, *, hidden: int, space: int) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Linear(width, hidden), nn.BatchNorm1d(hidden)
        self.second = nn.Linear(hidden, space)
        self.norm2 = nn.BatchNorm1d(space, affine=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map (B, N, width) to (B, N, space); statistics are of all tokens of the batch."""
        x = self.norm1(self.first(tokens).flatten(0, 1)).relu()
        return self.norm2(self.second(x)).unflatten(0, tokens.shape[:2])


def constrain(scores: Tensor, distance: Tensor, of_means: Tensor) -> Tensor:
    """S' = 1 - (1 - S) sigmoid(U / M): a similarity counts as far as the distance is of means."""
    return 1 - (1 - scores) * (distance / of_means.clamp(min=_LEAST)).sigmoid()


def part_weights(scores: Tensor, valid: Tensor) -> Tensor:
    """Weights (B, N) in [0, 1] of parts with scores (B, N, B) against all samples.

    One over the variance of a part's scores, as a share of its sample's; the smallest becomes 0 and
    the largest 1. Parts that do not exist weigh nothing.
    """
    variance = scores.var(2, unbiased=False).clamp(min=_LEAST)
    share = variance / (variance * valid).sum(1, keepdim=True).clamp(min=_LEAST)
    inverse = 1 / share
    low = inverse.masked_fill(~valid, torch.inf).amin(1, keepdim=True)
    high = inverse.masked_fill(~valid, -torch.inf).amax(1, keepdim=True)
    return torch.where(valid, (inverse - low) / (high - low).clamp(min=_LEAST), 0.0)
