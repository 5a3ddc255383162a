"""A reconstruction in the style of MG-UNet (Ding, Li and Wang, MICCAI 2025): words are remembered.

This is not the published network, of which only the abstract is public. Known and kept: a learnable
memory bank takes up what the sentences say while training; a memory-guided decoder retrieves what
is relevant to the image; no text is needed afterwards; about 30.5 million parameters without the
text encoder (a third party's table).

Chosen here, all of it: ConvNeXt-Tiny as trunk with a light decoder of one width, which meets that
number. The bank is M vectors, and each decoder stage lets its pixels read them by cross-attention.
While training, the sentence is written into a copy of the bank by cross-attention, and the same
decoder reads the copy too. Both predictions are compared with the mask, and what is read of the
bank is drawn to what is read of the copy, which gets no gradient from it: so the bank learns what
the sentences of such images would have told. The prediction itself never reads the words.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, SubPixelHead, feed_forward
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.segmenter import Loss, Outputs, Segmenter, TextFeatures
from semimedref.model.text_mixing import check_multiple, to_map, to_tokens

_GROUPS = 8  # of GroupNorm: two passes a step would blur the running statistics of batch norm


class MGUNetRecon(Segmenter):
    """A U-Net whose decoder reads a bank that sentences have filled, on any encoders.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: tokens in, (B, L, D) out; used while training alone.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        width: d, channels of the decoder and of the bank.
        entries: M, vectors of the bank.
        heads: of every attention.
        dropout: rate inside the attentions and feed-forward parts.
        mask_padding: hide text padding from attention.
        align_weight: of the distance between what is read of the bank and of its written copy.
    """

    takes_position_token = False  # at a test nothing is read, so a token could guide nothing

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        width: int,
        entries: int,
        heads: int,
        dropout: float,
        mask_padding: bool,
        align_weight: float,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        if width % _GROUPS or width % heads or entries < 1:
            raise UserError(
                f"model.width={width}, model.heads={heads}, model.entries={entries}: expected a "
                f"width that {_GROUPS} and the number of heads divide, and at least one entry"
            )
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.mask_padding, self.align_weight = mask_padding, align_weight
        self.narrow = nn.ModuleList(nn.Conv2d(c, width, 1) for c in image_encoder.widths)
        self.bank = nn.Parameter(torch.randn(entries, width))
        self.text_in = nn.Sequential(nn.Linear(text_encoder.width, width), nn.LayerNorm(width))
        self.write = Attention(width, heads=heads, dropout=dropout)
        stages = range(len(image_encoder.widths) - 1)
        self.reads = nn.ModuleList(MemoryRead(width, heads=heads, dropout=dropout) for _ in stages)
        self.ups = nn.ModuleList(JoinBlock(width) for _ in stages)
        self.head = SubPixelHead(width)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) to logits (B, 1, H, W); the text is not looked at."""
        del text
        return self._decode(self._maps(image), self._plain(len(image)))[0]

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """The logits and, while training, what the sentences add.

        Extra outputs: told (B, 1, H, W), logits with the written copy of the bank; image_read and
        text_read (B, stages, d), what pixels read on average of the bank and of its copy.
        """
        maps = self._maps(image)
        logits, image_read = self._decode(maps, self._plain(len(image)))
        if not self.training:
            return Outputs(logits)
        told, text_read = self._decode(maps, self._written(text))
        return Outputs(logits, {"told": told, "image_read": image_read, "text_read": text_read})

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """The loss of both predictions, and one minus the cosine of what they have read."""
        found = loss(outputs.logits, target)
        if "told" not in outputs.extra:
            return found
        image_read, text_read = outputs.extra["image_read"], outputs.extra["text_read"]
        apart = 1 - F.cosine_similarity(image_read.float(), text_read.float().detach(), dim=-1)
        return found + loss(outputs.extra["told"], target) + self.align_weight * apart.mean()

    def feature_width(self, kind: str) -> int:
        """Channels of `image_features` (``pre_fusion``) or `fused_features` (``post_fusion``)."""
        return self.image_encoder.widths[-1] if kind == "pre_fusion" else self.bank.shape[1]

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the last map (B, d, H / 32, W / 32) after it has read the written bank."""
        return self.reads[0](self._maps(image)[-1], self._written(text))[0]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="MG-UNet (reconstruction)")

    def _maps(self, image: Tensor) -> list[Tensor]:
        """The trunk's maps, all of them d wide."""
        for side in image.shape[-2:]:
            self.check_side(side)
        return [f(x) for f, x in zip(self.narrow, self.image_encoder(image), strict=True)]

    def _plain(self, images: int) -> Tensor:
        """The bank for B images (B, M, d)."""
        return self.bank.expand(images, -1, -1)

    def _written(self, text: TextFeatures) -> Tensor:
        """A copy of the bank for each sentence (B, M, d), with what it says."""
        bank = self._plain(len(text.tokens))
        mask = text.mask if self.mask_padding else None
        return bank + self.write(bank, self.text_in(text.tokens), mask)

    def _decode(self, maps: list[Tensor], bank: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, 1, H, W), and what was read at each stage (B, stages, d)."""
        *skips, x = maps
        found = []
        for read, up in zip(self.reads, self.ups, strict=True):
            x, told = read(x, bank)
            found.append(told)
            x = up(x, skips.pop())
        return self.head(x), torch.stack(found, dim=1)


class MemoryRead(nn.Module):
    """Pixels of a map query the bank; what they find is added, then a feed-forward part."""

    def __init__(self, width: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads=heads, dropout=dropout)
        self.ffn = feed_forward(width, 2 * width, dropout=dropout)

    def forward(self, x: Tensor, bank: Tensor) -> tuple[Tensor, Tensor]:
        """Return the map (B, d, h, w) with what it read of bank (B, M, d), and its mean (B, d)."""
        tokens = to_tokens(x)
        found = self.attention(self.norm1(tokens), bank)
        tokens = tokens + found
        return to_map(tokens + self.ffn(self.norm2(tokens)), x), found.mean(1)


class JoinBlock(nn.Module):
    """Bilinear x2, the skip map beside it, twice 3x3 conv, GroupNorm, ReLU; one width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = nn.Sequential(*_conv(2 * width, width), *_conv(width, width))

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Join x (B, d, h, w) and skip (B, d, 2h, 2w)."""
        x = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
        return self.convs(torch.cat([x, skip], dim=1))


def _conv(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return conv, nn.GroupNorm(_GROUPS, outputs), nn.ReLU()
