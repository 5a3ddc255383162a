"""A small convolutional encoder that trains from scratch on a CPU."""

from collections.abc import Sequence

from torch import nn

from semimedref.errors import UserError
from semimedref.model.encoders.image import ImageEncoder


class SmallConv(ImageEncoder):
    """Plain 3x3 convolutions with GroupNorm and GELU; gray images in, no pre-training."""

    def __init__(self, widths: Sequence[int], *, depth: int, groups: int) -> None:
        """Build four levels.

        Args:
            widths: channels at strides 4, 8, 16 and 32.
            depth: convolutions a level, the first one of stride 2.
            groups: groups of each GroupNorm.
        """
        if len(widths) != 4 or any(width % (2 * groups) for width in widths):
            raise UserError(
                f"image_encoder.widths={list(widths)}: expected four widths that are multiples "
                f"of {2 * groups} (two times image_encoder.groups)"
            )
        stem = _conv(1, widths[0] // 2, groups=groups, stride=2)
        inputs = (widths[0] // 2, *widths[:-1])
        levels = [
            nn.Sequential(
                _conv(before, after, groups=groups, stride=2),
                *(_conv(after, after, groups=groups, stride=1) for _ in range(depth - 1)),
            )
            for before, after in zip(inputs, widths, strict=True)
        ]
        levels[0] = nn.Sequential(stem, levels[0])
        super().__init__(levels, widths=tuple(widths), channels=1)


def _conv(inputs: int, outputs: int, *, groups: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(groups, outputs),
        nn.GELU(),
    )
