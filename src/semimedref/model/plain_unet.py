"""The U-Net that DuSSS and AMVLM train: five levels, transposed convolutions, no text.

Known from UCTransNet and LViT, whose authors compare with it; 14,751,873 parameters at width 64.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.model.encoders.no_text import NoText
from semimedref.model.losses import balanced_dice_bce
from semimedref.model.lvit_parts import ConvNorm, two_convs
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import check_multiple

_LEVELS = 4
_CHANNELS = 3  # a gray image is repeated, as published
_STRIDE = 1 << _LEVELS


class PlainUNet(Segmenter):
    """A U-Net from scratch; no text encoder is loaded.

    Args:
        image_side: pixels a side, a multiple of 16.
        width: channels at full resolution; deeper maps have 2, 4, 8 and 8 times as many.
        loss: native (half squared Dice, half balanced cross-entropy, as published) or shared.
    """

    normalization = "unit"

    def __init__(self, *, image_side: int, width: int, loss: str) -> None:
        super().__init__()
        self.check_side(image_side)
        check_choice("model.loss", loss, LOSSES)
        self.text_encoder = NoText()
        self.loss = loss
        widths = [width << level for level in range(_LEVELS)]
        self.stem = ConvNorm(_CHANNELS, width)
        self.down = nn.ModuleList(two_convs(a, b) for a, b in pairwise([*widths, widths[-1]]))
        self.decoder = nn.ModuleList(PlainUp(w, max(w // 2, width)) for w in widths[::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) or (B, 3, H, W) to logits (B, 1, H, W); no word is read."""
        del text
        *skips, x = self._maps(image)
        for block in self.decoder:
            x = block(x, skips.pop())
        return self.head(x)

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The published loss, or the shared one where asked for."""
        return (balanced_dice_bce if self.loss == "native" else loss)(outputs.logits, target)

    def feature_width(self, kind: str) -> int:
        """The deepest map's."""
        del kind
        return self.down[-1][-1].norm.num_features

    def image_features(self, image: Tensor) -> Tensor:
        """Return the deepest map (B, 8 * width, H / 16, W / 16)."""
        return self._maps(image)[-1]

    def encoder_parts(self) -> list[nn.Module]:
        """The convolutions before the deepest map."""
        return [self.stem, *self.down]

    def check_side(self, side: int) -> None:
        """Accept multiples of 16 from 32 on."""
        check_multiple(side, name="this U-Net", stride=_STRIDE)

    def _maps(self, image: Tensor) -> list[Tensor]:
        """Maps (B, C, h, w) of strides 1, 2, 4, 8 and 16."""
        for side in image.shape[-2:]:
            self.check_side(side)
        maps = [self.stem(image.expand(-1, _CHANNELS, -1, -1))]
        for convs in self.down:
            maps.append(convs(F.max_pool2d(maps[-1], 2)))
        return maps


class PlainUp(nn.Module):
    """Transposed convolution x2 of as many channels, the skip map before it, two convolutions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, inputs, 2, stride=2)
        self.convs = two_convs(2 * inputs, outputs)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, inputs, h, w) and skip (B, inputs, 2h, 2w)."""
        return self.convs(torch.cat([skip, self.up(x)], dim=1))
