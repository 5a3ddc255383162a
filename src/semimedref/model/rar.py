"""RAR's network: words enter once, at the trunk's last map; one decoder.

Known from code that was released under the name "Retrieval-Augmented Representation for
Semi-Supervised Medical Image Segmentation", by the authors of TextMoE. Its parts are in
``rar_parts.py``; convolutions of the decoder start as He et al. (2015) say, there as torch does.

Published sizes give 37,884,338 trainable parameters. The release counts 37,887,434: with the
trunk's last norm (1,536), a norm beside the attention (1,536) and a block of one channel (24), none
of which it calls.
"""

from __future__ import annotations

from torch import Tensor

from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import dice
from semimedref.model.rar_parts import BottleneckFusion, Decoder, check_widths
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import check_multiple


class RARNet(Segmenter):
    """RAR's network on any four-level image encoder and any text encoder.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: exactly `max_tokens` tokens of a sentence.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        heads: heads of the attention to the words.
        loss: native (soft Dice) or shared (that of all networks).
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
        self.decoder = Decoder(image_encoder.widths)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        return self.decoder(self._fuse(image, text)[0])

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """Logits, and one feature of each image and of each sentence, both (B, C4).

        ``image`` is the mean of the last map with words mixed in, ``text`` that of the mixed words.
        """
        maps, words = self._fuse(image, text)
        extra = {"image": maps[-1].mean((2, 3)), "text": words.mean(1)}
        return Outputs(self.decoder(maps), extra)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The logits against the mask."""
        term = dice if self.loss == "native" else loss
        return term(outputs.logits, target)

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) with words mixed in."""
        return self._fuse(image, text)[0][-1]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="RAR's network")

    def _fuse(self, image: Tensor, text: TextFeatures) -> tuple[list[Tensor], Tensor]:
        """The trunk's maps, words mixed into the last; and the mixed words (B, L, C4)."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *maps, last = self.image_encoder(image)
        words = self.fusion.text(text.tokens)
        return [*maps, self.fusion.look(last, words)], words
