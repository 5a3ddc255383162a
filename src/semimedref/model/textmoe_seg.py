"""TextMoE-Seg: two experts share every convolution of the decoder and read the words (MICCAI 2025).

Zeng et al., "Exploring Text-Enhanced Mixture-of-Experts for Semi-supervised Medical Image
Segmentation with Composite Data" (TextMoE). Re-implemented from its description: the network and
its loss, not the method that trains it with unlabeled images. Adapted to the contract: the output
is logits, three channels that mean the same are averaged to one, and a position token may follow
the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.blocks import Attention, SubPixelHead
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.encoders.text import TextEncoder
from semimedref.model.losses import channel_dice_ce
from semimedref.model.segmenter import LOSSES, Loss, Outputs, Segmenter, TextFeatures, check_choice
from semimedref.model.text_mixing import PositionCode, check_multiple, to_map, to_tokens

_EXPERTS = 2  # the difference loss compares one with the other
_INDICATORS = 2  # kinds of images: X-ray and CT
_CHANNELS = 3  # copies of one mask
_FIRST_SCALE = 1.421  # of what the words say, before training


class TextMoESeg(Segmenter):
    """TextMoE-Seg on any four-level image encoder and any text encoder.

    It was published with three channels that are all compared with the same mask. The contract's
    one logit is their mean; `channels` returns all three. Padding takes part, as published.

    Args:
        image_encoder: the trunk, which sees no words.
        text_encoder: tokens in, (B, L, D) out.
        image_side: pixels a side, checked here so that a run fails before its data is read.
        heads: heads of the attention to the words.
        dataset: name of the data set that the images are from.
        indicators: 0 (X-ray) or 1 (CT) by data set, for the gates; others count as 0.
        difference_weight: of the similarity of the experts, which the loss holds down.
        loss: native (Dice and cross-entropy of the three channels) or shared (that of all
            networks, of their mean); the similarity of the experts is added to either.
    """

    def __init__(
        self,
        image_encoder: ImageEncoder,
        text_encoder: TextEncoder,
        *,
        image_side: int,
        heads: int,
        dataset: str,
        indicators: Mapping[str, int],
        difference_weight: float,
        loss: str,
    ) -> None:
        super().__init__()
        self.check_side(image_side)
        _check_sizes(image_encoder.widths, heads=heads, indicators=indicators)
        check_choice("model.loss", loss, LOSSES)
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.indicator = indicators.get(dataset, 0)
        self.difference_weight = difference_weight
        self.loss = loss
        widths = image_encoder.widths[::-1]
        self.decoder = nn.ModuleList(
            MoEUpBlock(width, finer, text_encoder.width, heads=heads)
            for width, finer in pairwise(widths)
        )
        self.head = ChannelHead(widths[-1], _CHANNELS)

    def forward(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Map images (B, 1, H, W) and text to logits (B, 1, H, W)."""
        return self.channels(image, text).mean(1, keepdim=True)

    def channels(
        self, image: Tensor, text: TextFeatures, dataset_id: Tensor | None = None
    ) -> Tensor:
        """Logits (B, 3, H, W) of all channels.

        Args:
            image: (B, 1, H, W).
            text: of B sentences.
            dataset_id: (B,) indicator of each image; None: that of the configured data set.
        """
        return self._decode(image, text, dataset_id)[0]

    def outputs(self, image: Tensor, text: TextFeatures) -> Outputs:
        """Logits, all ``channels`` (B, 3, H, W) and the ``similarity`` (B,) of the experts."""
        channels, pairs = self._decode(image, text)
        similarity = torch.stack([similarity_of_experts(pair) for pair in pairs]).mean(0)
        return Outputs(
            channels.mean(1, keepdim=True), {"channels": channels, "similarity": similarity}
        )

    def objective(self, outputs: Outputs, target: Tensor, loss: Loss) -> Tensor:
        """Segmentation loss and the difference loss, which keeps the experts apart."""
        if self.loss == "native":
            found = channel_dice_ce(outputs.extra["channels"], target)
        else:
            found = loss(outputs.logits, target)
        return found + self.difference_weight * outputs.extra["similarity"].float().mean()

    def feature_width(self, kind: str) -> int:
        """Channels of the trunk's last map, or of the first map that has met the words."""
        return self.image_encoder.widths[-2 if kind == "post_fusion" else -1]

    def image_features(self, image: Tensor) -> Tensor:
        """Return the trunk's last map (B, C4, H / 32, W / 32)."""
        with self.image_encoder.unremembered():
            return self.image_encoder(image)[-1]

    def fused_features(self, image: Tensor, text: TextFeatures) -> Tensor:
        """Return the map (B, C3, H / 16, W / 16) of the decoder's first block."""
        *_, skip, x = self.image_encoder(image)
        return self.decoder[0](x, skip, text.tokens, self._indicators(len(image), x))[0]

    def check_side(self, side: int) -> None:
        """Accept multiples of 32."""
        check_multiple(side, name="TextMoE-Seg")

    def _decode(
        self, image: Tensor, text: TextFeatures, dataset_id: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits (B, 3, H, W), and what the experts of each convolution say."""
        for side in image.shape[-2:]:
            self.check_side(side)
        *skips, x = self.image_encoder(image)
        indicators = self._indicators(len(image), x, dataset_id)
        pairs: list[Tensor] = []
        for block in self.decoder:
            x, more = block(x, skips.pop(), text.tokens, indicators)
            pairs += more
        return self.head(x), pairs

    def _indicators(self, batch: int, like: Tensor, dataset_id: Tensor | None = None) -> Tensor:
        """One-hot rows (B, 2)."""
        kinds = torch.arange(_INDICATORS, device=like.device)
        if dataset_id is None:
            return (kinds == self.indicator).to(like.dtype).expand(batch, -1)
        return (dataset_id[:, None] == kinds).to(like.dtype)


class MoEUpBlock(nn.Module):
    """Transposed convolution x2, the skip map after it, twice experts, BatchNorm, ReLU."""

    def __init__(self, inputs: int, outputs: int, text_width: int, *, heads: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv1 = MoEConv(2 * outputs, outputs, text_width, heads=heads)
        self.conv2 = MoEConv(outputs, outputs, text_width, heads=heads)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(
        self, x: Tensor, skip: Tensor, words: Tensor, indicators: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Join x (B, inputs, h, w) and skip (B, outputs, 2h, 2w); both experts' maps come along."""
        x, first = self.conv1(torch.cat([self.up(x), skip], dim=1), words, indicators)
        x, second = self.conv2(F.relu(self.norm1(x)), words, indicators)
        return F.relu(self.norm2(x)), [first, second]


class MoEConv(nn.Module):
    """A convolution by two experts, which a gate mixes for each image; both always run.

    The gate sees the mean of the map and the kind of image, not the words. The words as the experts
    read them and their `scale` are shared.
    """

    def __init__(self, inputs: int, outputs: int, text_width: int, *, heads: int) -> None:
        super().__init__()
        self.text = nn.Sequential(
            nn.Linear(text_width, outputs), nn.GELU(), nn.LayerNorm(outputs), nn.LeakyReLU(0.1)
        )
        self.gate = nn.Linear(inputs + _INDICATORS, _EXPERTS)
        self.experts = nn.ModuleList(Expert(inputs, outputs, heads=heads) for _ in range(_EXPERTS))
        self.scale = nn.Parameter(torch.tensor(_FIRST_SCALE))
        self.text_code = PositionCode()

    def forward(self, x: Tensor, words: Tensor, indicators: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed map (B, outputs, h, w) and both experts' (B, 2, outputs, h, w).

        Args:
            x: (B, inputs, h, w).
            words: (B, L, D); a position token may be the last of them.
            indicators: (B, 2), one-hot.
        """
        shares = self.gate(torch.cat([x.mean((2, 3)), indicators], dim=1)).softmax(1)
        t = self.text_code(self.text(words))
        pair = torch.stack([expert(x, t, self.scale) for expert in self.experts], dim=1)
        return (shares[:, :, None, None, None] * pair).sum(1), pair


class Expert(nn.Module):
    """A 3x3 convolution whose result, with a code of its places, looks at the words."""

    def __init__(self, inputs: int, outputs: int, *, heads: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm = nn.LayerNorm(outputs)
        self.attention = Attention(outputs, heads=heads, dropout=0.0)
        self.place_code = PositionCode()

    def forward(self, x: Tensor, words: Tensor, scale: Tensor) -> Tensor:
        """Map x (B, inputs, h, w) and words (B, L, outputs) to (B, outputs, h, w)."""
        seen = self.conv(x)
        places = self.place_code(to_tokens(seen))  # the code stays in the result
        told = self.attention(self.norm(places), words)
        return to_map(places + scale * told, seen)


class ChannelHead(SubPixelHead):
    """The sub-pixel head with several logits."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__(inputs)
        self.out = nn.Conv2d(self.out.in_channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs, h, w) to logits (B, channels, 4h, 4w); the 1x1 conv comes first."""
        mix = self.out.weight.flatten(1)  # (channels, hidden)
        weight = self.conv.weight.unflatten(0, (mix.shape[1], -1))  # (hidden, 16, inputs, 3, 3)
        kernel = torch.einsum("oh,hsijk->osijk", mix, weight).flatten(0, 1)
        bias = (mix @ self.conv.bias.unflatten(0, (mix.shape[1], -1))).flatten()
        x = F.pixel_shuffle(F.conv2d(x, kernel, bias, padding=1), self.scale)
        before = self.scale - 1  # padded on the left and on the top only
        x = F.avg_pool2d(F.pad(x, (before, 0, before, 0)), self.scale, stride=1)
        return x + self.out.bias[:, None, None]


def similarity_of_experts(pair: Tensor) -> Tensor:
    """Cosine (B,) of two experts' maps (B, 2, C, h, w): of their rows, averaged, as published."""
    return F.cosine_similarity(pair[:, 0].float(), pair[:, 1].float(), dim=-1).mean((1, 2))


def _check_sizes(widths: tuple[int, ...], *, heads: int, indicators: Mapping[str, int]) -> None:
    bad = [width for width in widths[:-1] if heads < 1 or width % heads]
    if bad:
        raise UserError(
            f"model.heads={heads}: so many heads do not divide the image encoder's width {bad[0]} "
            f"(widths {', '.join(map(str, widths[:-1]))}): set model.heads to a common divisor"
        )
    if widths[0] % 4:
        raise UserError(
            f"the image encoder's first width {widths[0]} is no multiple of 4, which the sub-pixel "
            "head expects: choose other image_encoder.widths"
        )
    for name, indicator in indicators.items():
        if indicator not in range(_INDICATORS):
            raise UserError(f"model.indicators.{name}={indicator}: expected 0 (X-ray) or 1 (CT)")
