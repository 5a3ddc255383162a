"""Parts that GuideDecoder and FMISeg share: mixed words, coded tokens, the two-conv up block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import position_code_1d
from semimedref.model.encoders.image import ImageEncoder

STRIDE = 32  # of the image encoder's last level


class TokenMixing(nn.Module):
    """Words of one decoder level: a few learned mixtures of all word positions, C wide.

    A 1x1 convolution takes the token positions as its channels, so the number of tokens is fixed.
    A position token of ISPG may follow the words. It has no place among them: it skips the mixing,
    goes through the rest on its own and is the last token of the result.

    Args:
        tokens: L, words of a sentence with padding.
        kept: L', mixtures.
        text_width: D, features of a word.
        width: C, features of the level's map.
    """

    def __init__(self, *, tokens: int, kept: int, text_width: int, width: int) -> None:
        super().__init__()
        self.tokens, self.kept = tokens, kept
        self.mix = nn.Conv1d(tokens, kept, 1)
        self.linear = nn.Linear(text_width, width)

    def forward(self, text: Tensor) -> Tensor:
        """Map words (B, L, D) to (B, L', C), or (B, L + 1, D) to (B, L' + 1, C)."""
        found = text.shape[1]
        if found not in (self.tokens, self.tokens + 1):
            raise UserError(
                f"a text of {found} tokens: this network mixes exactly {self.tokens}, which may be "
                f"followed by one position token. Set text_encoder.max_tokens={found} for a "
                "network that is built anew"
            )
        words, position = text[:, : self.tokens], text[:, self.tokens :]
        mixed = torch.cat([self.mix(words), position], dim=1)
        return F.leaky_relu(self.linear(F.gelu(mixed)), 0.01)


def coded(tokens: Tensor) -> Tensor:
    """Add the 1-D sinusoidal code to tokens (B, N, C); maps are read in raster order.

    Published networks look it up in a table of 5000 rows, which ends at images of 544 px.
    """
    return tokens + position_code_1d(tokens.shape[1], tokens.shape[2], tokens.device)


class PositionCode(nn.Module):
    """Adds the 1-D sinusoidal code to tokens, or what a checkpoint has in its place.

    Published networks keep the code as a table among their weights. `table` (N, C) is set where an
    imported one is another; it is in no checkpoint of ours.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", None, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens (B, N, C) with the code of their places."""
        length, channels = tokens.shape[1:]
        if self.table is None:
            return coded(tokens)
        code = self.table[:length]
        if len(code) < length:  # beyond its end the code goes on as it is computed
            code = torch.cat([code, position_code_1d(length, channels, tokens.device)[len(code) :]])
        return tokens + code

    def take(self, table: Tensor) -> None:
        """Use a published table (1, N, C), unless it is the sinusoidal code to the last bit.

        Sines of large places differ between machines; the weights were trained on this table.
        """
        table = table[0].float()
        usual = position_code_1d(*table.shape, table.device)
        self.table = None if torch.equal(table, usual) else table


class TwoConvUpBlock(nn.Module):
    """Transposed convolution x2, the skip map after it, twice 3x3 conv, BatchNorm, LeakyReLU.

    No convolution has a bias. Known from UNETR (Hatamizadeh et al., WACV 2022).
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2, bias=False)
        self.conv1 = nn.Conv2d(2 * outputs, outputs, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, inputs, h, w) and skip (B, outputs, 2h, 2w)."""
        x = self.conv1(torch.cat([self.up(x), skip], dim=1))
        x = self.conv2(F.leaky_relu(self.norm1(x), 0.01))
        return F.leaky_relu(self.norm2(x), 0.01)


def to_tokens(x: Tensor) -> Tensor:
    """Read a map (B, C, h, w) as tokens (B, h * w, C)."""
    return x.flatten(2).transpose(1, 2)


def to_map(tokens: Tensor, like: Tensor) -> Tensor:
    """Put tokens (B, h * w, C) back to where those of `like` (B, C, h, w) came from."""
    return tokens.transpose(1, 2).unflatten(2, like.shape[-2:])


def check_sizes(image_encoder: ImageEncoder, *, heads: dict[str, int], kept: Sequence[int]) -> None:
    """Refuse widths, heads and numbers of kept tokens that do not go together.

    Args:
        image_encoder: every level but the first has a guided map.
        heads: attention heads by the key that sets them.
        kept: mixtures of words at strides 32, 16 and 8.
    """
    first, *guided = image_encoder.widths
    if len(kept) != len(guided) or min(kept) < 1:
        raise UserError(
            f"model.kept_tokens={list(kept)}: expected {len(guided)} numbers of tokens above 0, at "
            "strides 32, 16 and 8"
        )
    for key, number in heads.items():
        bad = [width for width in guided if number < 1 or width % number]
        if bad:
            raise UserError(
                f"{key}={number}: so many heads do not divide the image encoder's width {bad[0]} "
                f"(widths {', '.join(map(str, guided))}): set {key} to a common divisor"
            )
    if first % 4:
        raise UserError(
            f"the image encoder's first width {first} is no multiple of 4, which the sub-pixel "
            "head expects: choose other image_encoder.widths"
        )


def check_multiple(side: int, *, name: str, stride: int = STRIDE) -> None:
    """Refuse sides that are no multiple of the deepest map's stride."""
    if side >= stride and side % stride == 0:
        return
    below = side // stride * stride
    nearest = [str(s) for s in (below, below + stride) if s >= stride]
    raise UserError(
        f"{name} cannot take images of {side} px: expected a multiple of {stride}. "
        f"Set scale.image_side={' or scale.image_side='.join(nearest)}"
    )
