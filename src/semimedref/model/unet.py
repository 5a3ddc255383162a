"""The control without text: a U-Net on the image encoder of the other networks.

Its distance to a network that reads says what the sentences are worth.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.no_text import NoText
from semimedref.model.segmenter import Segmenter, TextFeatures

_STRIDE = 32  # of the last level


class UNet(Segmenter):
    """An image encoder of four levels, and a decoder with skips up to the image's own size.

    Args:
        image_encoder: the trunk, with strides 4, 8, 16 and 32.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        widths: channels of the decoder at strides 16, 8, 4, 2 and 1; the last two have no skip.
    """

    def __init__(
        self, image_encoder: ImageEncoder, *, image_side: int, widths: Sequence[int]
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        if len(widths) != len(image_encoder.widths) + 1:
            raise UserError(
                f"model.widths={list(widths)}: expected {len(image_encoder.widths) + 1} numbers of "
                "channels, at strides 16, 8, 4, 2 and 1"
            )
        self.image_encoder = image_encoder
        self.text_encoder = NoText()
        *skips, last = image_encoder.widths
        inputs = (last, *widths[:-1])
        sides = (*reversed(skips), 0, 0)
        self.decoder = nn.ModuleList(
            UNetBlock(before, after, skip=skip)
            for before, after, skip in zip(inputs, widths, sides, strict=True)
        )
        self.head = nn.Conv2d(widths[-1], 1, 1)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) to logits (B, 1, H, W); the text is not looked at."""
        del text
        for side in image.shape[-2:]:
            self.check_side(side)
        *skips, x = self.image_encoder(image)
        for block in self.decoder:
            x = block(x, skips.pop() if skips else None)
        return self.head(x)

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        if side >= _STRIDE and side % _STRIDE == 0:
            return
        below = side // _STRIDE * _STRIDE
        nearest = [str(s) for s in (below, below + _STRIDE) if s >= _STRIDE]
        raise UserError(
            f"the U-Net cannot take images of {side} px: expected a multiple of {_STRIDE}. "
            f"Set scale.image_side={' or scale.image_side='.join(nearest)}"
        )


class UNetBlock(nn.Module):
    """Transposed convolution x2, the skip map beside it, two 3x3 conv with BatchNorm and ReLU."""

    def __init__(self, inputs: int, outputs: int, *, skip: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv = nn.Sequential(
            *_conv(outputs + skip, outputs),
            *_conv(outputs, outputs),
        )

    def forward(self, x: Tensor, skip: Tensor | None) -> Tensor:
        """Enlarge x (B, inputs, h, w); the skip map is (B, skip, 2h, 2w), or None."""
        x = self.up(x)
        return self.conv(x if skip is None else torch.cat([x, skip], dim=1))


def _conv(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    norm = nn.BatchNorm2d(outputs)  # it has a shift of its own, so the convolution needs no bias
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm, nn.ReLU()
