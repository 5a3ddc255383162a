"""TeViD's network: one decoder for the target, one for the background. A RECONSTRUCTION.

Zeng et al., "Decoupling Target Semantics via Text-Anchored Visual Contrast for Semi-Supervised
Medical Image Segmentation", IEEE TIP 2026. Neither code nor full text was available. This is the
network alone, not the method that trains it with unlabeled images.

Known from the abstract: words guide a teacher and a student, and a dual decoder separates target
from background. All else is a choice, taken over from RAR, a sibling of the same authors:

- encoders: ConvNeXt-Tiny, which learns, and frozen CXR-BERT with 24 tokens;
- the words enter once, at the trunk's last map: one attention with 4 heads, norm after it, and a
  weight that starts at 1.421 (RAR holds it fixed in its second stage; here it always learns);
- token positions are mixed before, so padding takes part;
- both decoders have the form of RAR's one: three up blocks and the sub-pixel head; their
  convolutions have biases, which RAR's number of parameters implies;
- convolutions of the up blocks start as He et al. (2015) say, so that words reach the prediction
  before BatchNorm knows any statistics.

Published sizes give 44,994,987 trainable parameters: RAR's 37,887,434, less 3,096 that we take for
parts without use, and 7,110,649 of a second decoder. The prediction is that of the target decoder.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, SubPixelHead
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import dice
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import TokenMixing, check_multiple, coded, to_map, to_tokens

_FIRST_SCALE = 1.421  # of what the words say, before training


class TeViDRecon(Segmenter):
    """Reconstruction of TeViD's network on any four-level image encoder and any text encoder.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: exactly `max_tokens` tokens of a sentence.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        heads: heads of the attention to the words.
        loss: native (soft Dice) or shared (that of all networks), of both decoders.
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        heads: int,
        loss: str,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        _check_widths(image_encoder.widths, heads=heads)
        check_choice("model.loss", loss, LOSSES)
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.loss = loss
        self.fusion = BottleneckFusion(image_encoder.widths[-1], text_encoder, heads=heads)
        self.target = Decoder(image_encoder.widths)
        self.background = Decoder(image_encoder.widths)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W) of the target."""
        return self.target(self._fuse(image, text))

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """Logits of the target, and of the ``background`` (B, 1, H, W).

        Further outputs: target_map and background_map (B, C1, H / 4, W / 4), before either head.
        """
        maps = self._fuse(image, text)
        target, background = self.target.last_map(maps), self.background.last_map(maps)
        extra = {
            "background": self.background.head(background),
            "target_map": target,
            "background_map": background,
        }
        return Outputs(self.target.head(target), extra)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The target decoder against the mask, plus the background decoder against the rest."""
        term = dice if self.loss == "native" else loss
        return term(outputs.logits, target) + term(outputs.extra["background"], 1 - target)

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) with words mixed in."""
        return self._fuse(image, text)[-1]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="TeViD's reconstruction")

    def _fuse(self, image: Tensor, text: TextFeatures) -> list[Tensor]:
        """The trunk's maps, words mixed into the last."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *maps, last = self.image_encoder(image)
        return [*maps, self.fusion(last, text.tokens)]


class BottleneckFusion(nn.Module):
    """A map looks at mixed words once; a norm follows the attention, none comes before.

    A position token skips the mixing and is the last of the words.
    """

    def __init__(self, width: int, text_encoder: TextEncoder, *, heads: int) -> None:
        super().__init__()
        tokens = text_encoder.max_tokens
        self.text = TokenMixing(
            tokens=tokens, kept=tokens, text_width=text_encoder.width, width=width
        )
        self.attention = Attention(width, heads=heads, dropout=0.0)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.tensor(_FIRST_SCALE))

    def forward(self, visual: Tensor, words: Tensor) -> Tensor:
        """Update a map (B, C, h, w) by words (B, L, D), or by (B, L + 1, D) with a position."""
        t = self.text(words)
        told = self.attention(coded(to_tokens(visual)), coded(t), values=t)
        return visual + self.scale * to_map(self.norm(told), visual)


class Decoder(nn.Module):
    """Three up blocks and the sub-pixel head."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DoubleConvUp(width, finer) for width, finer in pairwise(widths[::-1])
        )
        self.head = SubPixelHead(widths[0])

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Map the maps of all levels, finest first, to logits (B, 1, H, W)."""
        return self.head(self.last_map(maps))

    def last_map(self, maps: list[Tensor]) -> Tensor:
        """The finest map (B, C1, H / 4, W / 4), before the head."""
        *skips, x = maps
        for block in self.blocks:
            x = block(x, skips.pop())
        return x


class DoubleConvUp(nn.Module):
    """Transposed convolution x2, the skip map after it, twice 3x3 conv, BatchNorm, ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv1 = nn.Conv2d(2 * outputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        for conv in (self.up, self.conv1, self.conv2):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, inputs, h, w) and skip (B, outputs, 2h, 2w)."""
        x = F.relu(self.norm1(self.conv1(torch.cat([self.up(x), skip], dim=1))))
        return F.relu(self.norm2(self.conv2(x)))


def _check_widths(widths: tuple[int, ...], *, heads: int) -> None:
    if heads < 1 or widths[-1] % heads:
        raise UserError(
            f"model.heads={heads}: so many heads do not divide the image encoder's last width "
            f"{widths[-1]}: set model.heads to a divisor of it"
        )
    if widths[0] % 4:
        raise UserError(
            f"the image encoder's first width {widths[0]} is no multiple of 4, which the sub-pixel "
            "head expects: choose other image_encoder.widths"
        )
