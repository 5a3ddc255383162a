"""MMI-UNet: image and text update each other at every level of the trunk (MICCAI 2024).

Bui, Le and Choo, "Visual-Textual Matching Attention for Lesion Segmentation in Chest Images".
Re-implemented from its description; the output is logits.
"""

from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import (
    Attention,
    SubPixelHead,
    UpBlock,
    feed_forward,
    position_code_2d,
)
from semimedref.model.encoders.image import ImageEncoder, require_levels
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.segmenter import Outputs, Segmenter, TextFeatures

_STRIDE = 32  # of the last level
_STEP = 2 * _STRIDE  # sides that work are this far apart
_SMALLEST = 3 * _STRIDE


class MMIUNet(Segmenter):
    """MMI-UNet on any four-level image encoder and any text encoder.

    Args:
        image_encoder: the trunk.
        text_encoder: tokens in, (B, L, D) out.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        heads: attention heads at every level.
        ffn_width: hidden width of the feed-forward parts at every level.
        dropout: rate inside the fusion blocks.
        position_code: add a 2-D sinusoidal code to visual tokens (not in the published net).
        mask_padding: hide text padding from attention (not in the published net).
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        heads: int,
        ffn_width: int,
        dropout: float,
        position_code: bool,
        mask_padding: bool,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        require_levels(image_encoder, "MMI-UNet")
        widths = image_encoder.widths
        _check_widths(widths, heads=heads)
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.mask_padding = mask_padding
        self.fusion = nn.ModuleList(
            ImageTextMatching(
                width,
                text_encoder.width,
                heads=heads,
                ffn_width=ffn_width,
                dropout=dropout,
                position_code=position_code,
                last=level == len(widths) - 1,
            )
            for level, width in enumerate(widths)
        )
        self.decoder = nn.ModuleList(
            UpBlock(widths[level], widths[level - 1]) for level in range(len(widths) - 1, 0, -1)
        )
        self.head = SubPixelHead(widths[0])

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        for side in image.shape[-2:]:
            self.check_side(side)
        return self._decode(self._fuse(image, text))

    def outputs_and_maps(
        self, image: Tensor, text: TextFeatures, *, masks: int
    ) -> tuple[Outputs, Tensor]:
        """Outputs of the first images and the last map of all, in one pass through the trunk."""
        skips = self._fuse(image, text)
        return Outputs(self._decode([skip[:masks] for skip in skips])), skips[-1]

    def _decode(self, skips: list[Tensor]) -> Tensor:
        """Logits from the fused maps."""
        *skips, x = skips
        for block in self.decoder:
            x = block(x, skips.pop())
        return self.head(x)

    def _fuse(self, image: Tensor, text: TextFeatures) -> list[Tensor]:
        """The map of every level, text mixed in."""
        mask = text.mask if self.mask_padding else None
        x, tokens = self.image_encoder.adapt(image), text.tokens
        skips: list[Tensor] = []
        for level, fusion in zip(self.image_encoder.levels, self.fusion, strict=True):
            x = level(x)
            fused, updated = fusion(x, tokens, mask)
            skips.append(fused)
            x = fused + x  # fused already holds x: the next level sees 2x + update
            if updated is not None:
                tokens = text.tokens + updated
        return skips

    def image_features(self, image: Tensor) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) of a text-free pass through the trunk."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) with text mixed in."""
        return self._fuse(image, text)[-1]

    def encoder_parts(self) -> list[nn.Module]:
        """The levels of the trunk, run one by one."""
        return list(self.image_encoder.levels)  # fused maps go back into the trunk

    def check_side(self, side: int) -> None:
        """Accept 96, 160, 224, 288, ...: the last map must have an odd side above 1."""
        if side >= _SMALLEST and (side - _SMALLEST) % _STEP == 0:
            return
        below = _SMALLEST + (side - _SMALLEST) // _STEP * _STEP
        nearest = [str(s) for s in (below, below + _STEP) if s >= _SMALLEST] or [str(_SMALLEST)]
        raise UserError(
            f"MMI-UNet cannot take images of {side} px: expected an odd multiple of {_STRIDE} from "
            f"{_SMALLEST} on. Set scale.image_side={' or scale.image_side='.join(nearest)}"
        )


class ImageTextMatching(nn.Module):
    """ITM: visual tokens at half resolution and text tokens read each other.

    The last level has no use for updated text, so it has no text branch. Its map has an odd side:
    the last row and column are not seen when zooming in and get no update when zooming out.
    """

    def __init__(
        self,
        width: int,
        text_width: int,
        *,
        heads: int,
        ffn_width: int,
        dropout: float,
        position_code: bool,
        last: bool,
    ) -> None:
        super().__init__()
        self.position_code = position_code
        self.zoom_in = nn.Conv2d(width, width, 2, stride=2, bias=False)
        self.zoom_out = nn.ConvTranspose2d(
            width, width, 2, stride=2, bias=False, output_padding=int(last)
        )
        self.text_in = nn.Linear(text_width, width)
        self.norm_visual, self.norm_text = nn.LayerNorm(width), nn.LayerNorm(width)
        sizes = {"heads": heads, "ffn_width": ffn_width, "dropout": dropout}
        self.visual = Interactor(width, **sizes)
        self.text = None if last else Interactor(width, **sizes)
        self.text_out = None if last else nn.Linear(width, text_width)
        self._initialize()

    def forward(
        self, visual: Tensor, text: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the updated map (B, C, H, W) and text (B, L, D), None at the last level.

        Args:
            visual: (B, C, H, W).
            text: (B, L, D).
            mask: (B, L), True = real token, or None to let padding take part.
        """
        small = self.zoom_in(visual)
        height, width = small.shape[-2:]
        v = self.norm_visual(small.flatten(2).transpose(1, 2))  # (B, N, C)
        if self.position_code:
            v = v + position_code_2d(height, width, v.shape[-1], v.device)
        t = self.norm_text(self.text_in(text))  # (B, L, C)
        update = self.visual(v, memory=t, memory_mask=mask)
        update = update.transpose(1, 2).unflatten(2, (height, width))
        fused = visual + self.zoom_out(update)
        if self.text is None or self.text_out is None:
            return fused, None
        return fused, text + self.text_out(self.text(t, memory=v, mask=mask))

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)
        for zoom in (self.zoom_in, self.zoom_out):
            nn.init.kaiming_normal_(zoom.weight, mode="fan_out", nonlinearity="relu")


class Interactor(nn.Module):
    """A post-norm transformer decoder layer without positions."""

    def __init__(self, width: int, *, heads: int, ffn_width: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = Attention(width, heads=heads, dropout=dropout)
        self.cross_attention = Attention(width, heads=heads, dropout=dropout)
        self.ffn = feed_forward(width, ffn_width, dropout=dropout)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Update tokens x (B, N, C) by themselves, then by memory (B, M, C)."""
        x = self.norm1(x + self.dropout(self.self_attention(x, x, mask)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, memory_mask)))
        return self.norm3(x + self.dropout(self.ffn(x)))


def _check_widths(widths: tuple[int, ...], *, heads: int) -> None:
    bad = [width for width in widths if width % heads]
    if bad:
        raise UserError(
            f"{heads} attention heads do not divide the image encoder's width {bad[0]} "
            f"(widths {', '.join(map(str, widths))}): set scale.fusion_heads to a common divisor"
        )
    bad = [width for width in widths if width % 4]
    if bad:
        raise UserError(
            f"the image encoder's width {bad[0]} is no multiple of 4, which the sub-pixel head and "
            "the position code expect: choose other image_encoder.widths"
        )
