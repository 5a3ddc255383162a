"""LAVT: words are mixed in between the stages of a vision transformer (CVPR 2022).

Yang et al., "LAVT: Language-Aware Vision Transformer for Referring Image Segmentation".
Re-implemented from its description. Adapted to the contract: the trunk may be any image encoder,
the logit of the lesion is the difference of the two published classes (its sigmoid is their
softmax), and a position token may follow the words. The published network is

    scale=paper model=lavt image_encoder=swin_base text_encoder=bert text_encoder.frozen=false

in which BERT's layers 0 to 9 learn, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.intensity import NORMALIZATIONS
from semimedref.model.encoders.bert import BertText
from semimedref.model.encoders.image import ImageEncoder, require_levels
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.pwam import PWAM, LanguageGate
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.swin import Swin

_STRIDE = 32  # of the last map
_SWIN_STEP = 4  # Swin fills up windows and odd maps, so whole patches are enough
_FIXED_LAYERS = 2  # the last ones of a BERT that learns
_EPS = 1e-5


class LAVT(Segmenter):
    """LAVT on any four-level image encoder and any text encoder.

    Args:
        image_encoder: the trunk, into which the words are mixed.
        text_encoder: tokens in, (B, L, D) out; of a BERT with `frozen: false` all layers but the
            last two learn, and the embeddings stay as they are.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        heads: of the attention to the words; they must divide every width of the image encoder.
        dropout: rate after both activations of a fusion unit.
        normalization: what is done to gray values in [0, 1]: imagenet, z_score or unit.
        class_weights: of background and lesion in the native loss.
        loss: native (weighted cross-entropy of two classes) or shared (that of all networks).
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        heads: int,
        dropout: float,
        normalization: str,
        class_weights: Sequence[float],
        loss: str,
    ) -> None:
        super().__init__()
        check_choice("model.normalization", normalization, list(NORMALIZATIONS))
        check_choice("model.loss", loss, LOSSES)
        if len(class_weights) != 2 or min(class_weights) < 0 or not sum(class_weights):
            raise UserError(
                f"model.class_weights={list(class_weights)}: expected two weights, of background "
                "and lesion, e.g. [0.9, 1.1]"
            )
        require_levels(image_encoder, "LAVT")
        widths = image_encoder.widths
        _check_widths(widths, heads=heads)
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.check_side(image_side)
        self.normalization, self.loss = normalization, loss
        self.class_weights = tuple(class_weights)
        self.fusion = nn.ModuleList(
            PWAM(c, text_encoder.width, heads=heads, dropout=dropout) for c in widths
        )
        self.norms = nn.ModuleList(nn.LayerNorm(c, eps=_EPS) for c in widths)
        # What the last gate would let through goes nowhere.
        self.gates = nn.ModuleList(LanguageGate(c) for c in widths[:-1])
        self.decoder = TopDown(widths)
        _fix_ends(text_encoder)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1 or 3, H, W) and text to logits (B, 1, H, W)."""
        return _lesion(self._classes(image, text))

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """Logits of the lesion, and of background and lesion (B, 2, H, W) as "classes"."""
        classes = self._classes(image, text)
        return Outputs(_lesion(classes), {"classes": classes})

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """Weighted cross-entropy of two classes, or the shared loss where asked for."""
        if self.loss == "shared":
            return loss(outputs.logits, target)
        return two_class_cross_entropy(outputs.extra["classes"], target, self.class_weights)

    def _classes(self, image: Tensor, text: TextFeatures) -> Tensor:
        for side in image.shape[-2:]:
            self.check_side(side)
        classes = self.decoder(self._fuse(image, text))
        return F.interpolate(classes, image.shape[-2:], mode="bilinear", align_corners=True)

    def _fuse(self, image: Tensor, text: TextFeatures) -> list[Tensor]:
        """What the words add at every level: maps (B, C, h, w), normalized."""
        x = self.image_encoder.adapt(image)
        maps: list[Tensor] = []
        for number, level in enumerate(self.image_encoder.levels):
            x = level(x)
            size = x.shape[-2:]
            # (B, N, C); on other memory layouts a Linear rounds as it likes.
            tokens = x.permute(0, 2, 3, 1).flatten(1, 2).contiguous()
            found = self.fusion[number](tokens, text.tokens, text.mask)
            maps.append(_to_map(self.norms[number](found), size))
            if number < len(self.gates):
                x = _to_map(tokens + self.gates[number](found), size)
        return maps

    def image_features(self, image: Tensor) -> Tensor:
        """Return the last map (B, C4, H / 32, W / 32) of a text-free pass through the trunk."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return what the words add at the last level, (B, C4, H / 32, W / 32)."""
        return self._fuse(image, text)[-1]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """As published: norms and position scores of the trunk are not decayed.

        "Trunk" is everything before the decoder. A norm is known by its class, since not every
        image encoder calls it one; for Swin these are the published names.
        """
        parts = (self.image_encoder, self.fusion, self.norms, self.gates)
        plain = {id(p) for part in parts for p in _without_decay(part)}
        learning = [p for p in self.parameters() if p.requires_grad]
        return [
            {"params": [p for p in learning if id(p) not in plain]},
            {"params": [p for p in learning if id(p) in plain], "weight_decay": 0.0},
        ]

    def encoder_parts(self) -> list[nn.Module]:
        """The levels of the trunk, run one by one."""
        return list(self.image_encoder.levels)  # fused maps go back into the trunk

    def check_side(self, side: int) -> None:
        """Accept multiples of 32 from 64 on; with Swin, multiples of 4 from 36 on.

        The last map must have more than one place, or nothing is left by its instance norm.
        """
        step = _SWIN_STEP if isinstance(self.image_encoder, Swin) else _STRIDE
        smallest = _STRIDE + step
        if side >= smallest and side % step == 0:
            return
        below = side // step * step
        nearest = [str(s) for s in (below, below + step) if s >= smallest] or [str(smallest)]
        raise UserError(
            f"LAVT cannot take images of {side} px: with this image encoder it expects a multiple "
            f"of {step} from {smallest} on. "
            f"Set scale.image_side={' or scale.image_side='.join(nearest)}"
        )


class TopDown(nn.Module):
    """The decoder: from the last map up, joined by one map after the other."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        hidden = widths[-1] // 2
        inputs = (widths[-1], *([hidden] * (len(widths) - 2)))
        self.blocks = nn.ModuleList(
            nn.Sequential(*_conv(below + skip, hidden), *_conv(hidden, hidden))
            for below, skip in zip(inputs, widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(hidden, 2, 1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Turn maps, the finest first, into two classes (B, 2, h, w) at the size of the first."""
        *skips, x = maps
        for block in self.blocks:
            skip = skips.pop()
            x = F.interpolate(x, skip.shape[-2:], mode="bilinear", align_corners=True)
            x = block(torch.cat([x, skip], dim=1))
        return self.head(x)


def two_class_cross_entropy(classes: Tensor, target: Tensor, weights: Sequence[float]) -> Tensor:
    """Weighted mean of the cross-entropy; of a soft target, its expected value.

    Args:
        classes: logits (B, 2, H, W) of background and lesion.
        target: (B, 1, H, W) in [0, 1].
        weights: of background and lesion.
    """
    target = target.float()
    share = torch.cat([(1 - target) * weights[0], target * weights[1]], dim=1)
    return -(share * classes.float().log_softmax(1)).sum() / share.sum()


def _lesion(classes: Tensor) -> Tensor:
    return classes[:, 1:] - classes[:, :1]


def _to_map(tokens: Tensor, size: Sequence[int]) -> Tensor:
    return tokens.unflatten(1, tuple(size)).permute(0, 3, 1, 2)


def _conv(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return conv, nn.BatchNorm2d(outputs, eps=_EPS), nn.ReLU()


def _without_decay(part: nn.Module) -> list[nn.Parameter]:
    norms = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm)
    found = [p for m in part.modules() if isinstance(m, norms) for p in m.parameters()]
    words = ("norm", "absolute_pos_embed", "relative_position_bias_table")
    return found + [p for name, p in part.named_parameters() if any(w in name for w in words)]


def _fix_ends(text_encoder: nn.Module) -> None:
    """Of a BERT that learns, keep the embeddings and the last two layers as they are."""
    if isinstance(text_encoder, BertText) and not text_encoder.frozen:
        text_encoder.bert.embeddings.requires_grad_(False)
        text_encoder.bert.encoder.layer[-_FIXED_LAYERS:].requires_grad_(False)


def _check_widths(widths: Sequence[int], *, heads: int) -> None:
    bad = [width for width in widths if width % heads]
    if bad:
        raise UserError(
            f"{heads} attention heads do not divide the image encoder's width {bad[0]} "
            f"(widths {', '.join(map(str, widths))}): set model.heads to a common divisor"
        )
