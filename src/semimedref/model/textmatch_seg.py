"""TextMatch's network: image and words prompt each other at every level of the decoder.

Li et al., "TextMatch: Using Text Prompts to Improve Semi-supervised Medical Image Segmentation",
MICCAI 2024. Neither official code nor the full text was at hand: sizes and order are those of a
third-party reproduction that cites the paper's equation numbers. This is the network and its loss;
``method=textmatch`` trains it with unlabeled images. Adapted: a position token may follow the
words, and the last decoder block updates no words, because nothing would read them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, position_code_2d
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import batch_dice_bce
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import check_multiple, to_map, to_tokens

_FFN = 4  # times the width


class TextMatchSeg(Segmenter):
    """TextMatch's network on any four-level image encoder and any text encoder.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: tokens in, (B, L, D) out.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        width: channels of the whole decoder, and of its words.
        heads: of every attention.
        embedding: dimensions of a pixel where it is compared with prototypes.
        position_code: add a 2-D code to visual tokens before they attend (not published).
        mask_padding: hide text padding from attention (not published).
        loss: native (cross-entropy, and Dice over the whole batch) or shared (that of all).
    """

    normalization = "imagenet"  # z-scores would undo the brightness of TextMatch's views

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        width: int,
        heads: int,
        embedding: int,
        position_code: bool,
        mask_padding: bool,
        loss: str,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        _check_sizes(width=width, heads=heads, embedding=embedding)
        check_choice("model.loss", loss, LOSSES)
        self.image_encoder, self.text_encoder = image_encoder, text_encoder
        self.width, self.mask_padding, self.loss = width, mask_padding, loss
        *finer, coarsest = image_encoder.widths
        self.text_in = nn.Linear(text_encoder.width, width)
        self.skips = nn.ModuleList(nn.Conv2d(c, width, 1) for c in finer)
        self.decoder = nn.ModuleList(
            BilateralPromptDecoder(
                coarsest if i == 0 else width,
                width,
                heads=heads,
                position_code=position_code,
                last=i == len(finer) - 1,
            )
            for i in range(len(finer))
        )
        self.head = _head(width, width // 2)
        self.embedding = nn.Conv2d(width, embedding, 1)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        return self._decode(image, text)[0]

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """Logits, and the ``embedding`` (B, D, H / 16, W / 16) of the image without its words."""
        logits, skip = self._decode(image, text)
        return Outputs(logits, {"embedding": self.embedding(skip)})

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """Cross-entropy and the Dice of the whole batch, or what all networks share."""
        term = batch_dice_bce if self.loss == "native" else loss
        return term(outputs.logits, target)

    def feature_width(self, kind: str) -> int:
        """Channels of the trunk's last map, or of the decoder."""
        return self.width if kind == "post_fusion" else self.image_encoder.widths[-1]

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the map (B, C, H / 16, W / 16) of the decoder's first block."""
        *_, skip, x = self.image_encoder(image)
        words, mask = self.text_in(text.tokens), self._of(text)
        return self.decoder[0](x, self.skips[-1](skip), words, mask)[0]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="TextMatch's network")

    def _decode(self, image: Tensor, text: TextFeatures) -> tuple[Tensor, Tensor]:
        """Logits (B, 1, H, W), and the aligned map (B, C, H / 16, W / 16) of the trunk."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *maps, x = self.image_encoder(image)
        skips = [align(finer) for align, finer in zip(self.skips, maps, strict=True)]
        coarse, words, mask = skips[-1], self.text_in(text.tokens), self._of(text)
        for block in self.decoder:
            x, words = block(x, skips.pop(), words, mask)
        return _resized(self.head(x), image), coarse

    def _of(self, text: TextFeatures) -> Tensor | None:
        return text.mask if self.mask_padding else None


class BilateralPromptDecoder(nn.Module):
    """BPD: a map reads the words while the words read the map; then the map meets its skip.

    Both look at what the other was before.
    """

    def __init__(
        self, inputs: int, width: int, *, heads: int, position_code: bool, last: bool
    ) -> None:
        super().__init__()
        self.position_code = position_code
        self.visual_in = nn.Conv2d(inputs, width, 1)
        self.text_in = nn.Linear(width, width)
        self.visual = PromptAttention(width, heads=heads)
        self.text = None if last else PromptAttention(width, heads=heads)
        self.conv1 = nn.Conv2d(2 * width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(
        self, x: Tensor, skip: Tensor, words: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the map (B, C, 2h, 2w) and the words (B, L, C), new unless it is the last block.

        Args:
            x: (B, inputs, h, w).
            skip: (B, C, 2h, 2w).
            words: (B, L, C).
            mask: (B, L), True = real token, or None to let padding take part.
        """
        small = self.visual_in(x)
        v, t = to_tokens(small), self.text_in(words)
        if self.position_code:
            v = v + position_code_2d(*small.shape[-2:], v.shape[-1], v.device)
        prompted = _resized(to_map(self.visual(v, t, mask), small), skip)
        y = F.gelu(self.conv1(torch.cat([prompted, skip], dim=1)))
        return F.gelu(self.conv2(y)), t if self.text is None else self.text(t, v, None)


class PromptAttention(nn.Module):
    """Pre-norm cross-attention and feed-forward; one norm serves both sides of the attention."""

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads=heads, dropout=0.0)
        self.ffn = nn.Sequential(
            nn.Linear(width, _FFN * width), nn.GELU(), nn.Linear(_FFN * width, width)
        )

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """Update tokens x (B, N, C) by memory (B, M, C) where mask (B, M) is True."""
        x = x + self.attention(self.norm1(x), self.norm1(memory), mask)
        return x + self.ffn(self.norm2(x))


def _head(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(width, hidden, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(hidden, hidden, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(hidden, 1, 1),
    )


def _resized(x: Tensor, like: Tensor) -> Tensor:
    return F.interpolate(x, size=like.shape[-2:], mode="bilinear", align_corners=False)


def _check_sizes(*, width: int, heads: int, embedding: int) -> None:
    if width < 4 or width % 4:
        raise UserError(f"model.width={width}: expected a multiple of 4, e.g. model.width=64")
    if heads < 1 or width % heads:
        raise UserError(
            f"model.heads={heads}: so many heads do not divide model.width={width}: set "
            "model.heads to a divisor of it"
        )
    if embedding < 1:
        raise UserError(f"model.embedding={embedding}: expected 1 dimension or more, e.g. 128")
