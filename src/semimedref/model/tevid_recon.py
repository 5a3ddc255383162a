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

from torch import Tensor

from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import dice
from semimedref.model.rar_parts import BottleneckFusion, Decoder, check_widths
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import check_multiple


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
        check_widths(image_encoder.widths, heads=heads)
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
