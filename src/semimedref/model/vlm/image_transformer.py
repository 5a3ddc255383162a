"""A vision transformer over square patches (timm's), as the image encoder of a VLM."""

from __future__ import annotations

from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.segmenter import check_choice
from semimedref.torchvision_shim import import_torchvision

STEMS = ("linear", "conv")
_CHANNELS = 3  # a gray image is repeated


class ImageTransformer(nn.Module):
    """Gray images to one vector for the whole and one for each patch.

    Args:
        image_side: pixels a side, a multiple of the patch's.
        patch: pixels of a patch's side.
        width: of a token.
        depth: transformer blocks.
        heads: attention heads; they must divide the width.
        stem: how a patch becomes a token: ``linear`` (published), or ``conv``, small convolutions
            with which a transformer learns in hundreds of steps instead of thousands.
        weights: "random", or a file, folder or "hub:<id>" with timm's names (DeiT, ViT).
    """

    def __init__(
        self,
        *,
        image_side: int,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        stem: str,
        weights: str | None,
    ) -> None:
        super().__init__()
        check_choice("vlm.image_encoder.stem", stem, STEMS)
        self.image_side, self.width = image_side, width
        if patch < 1 or image_side % patch:
            raise UserError(
                f"vlm.image_encoder.patch={patch} does not divide images of {image_side} px: "
                "expected a divisor of scale.image_side"
            )
        if heads < 1 or width % heads:
            raise UserError(
                f"vlm.image_encoder.heads={heads} does not divide vlm.image_encoder.width={width}"
            )
        self.grid = image_side // patch
        path = source.resolve(
            weights,
            key="vlm.image_encoder.weights",
            example="/path/to/deit_base_patch16_224.safetensors",
            files=["model.safetensors", "pytorch_model.bin"],
        )
        import_torchvision()
        from timm.models.vision_transformer import VisionTransformer

        self.net = VisionTransformer(
            img_size=image_side,
            patch_size=patch,
            in_chans=_CHANNELS,
            num_classes=0,
            embed_dim=width,
            depth=depth,
            num_heads=heads,
        )
        if stem == "conv":
            self.net.patch_embed.proj = conv_stem(_CHANNELS, width, patch=patch)
        if path is not None:
            given, own = source.read(path), self.net.state_dict()
            source.check_fit(own, given, source=path)
            self.net.load_state_dict({key: given[key] for key in own})

    def forward(self, image: Tensor) -> Tensor:
        """Map (B, 1, H, W) to tokens (B, 1 + grid^2, width), the whole image first."""
        return self.net.forward_features(image.expand(-1, _CHANNELS, -1, -1))

    def check_side(self, side: int) -> None:
        """Accept the side that the network is built for: positions of patches are learned."""
        if side != self.image_side:
            raise UserError(
                f"this transformer cannot take images of {side} px: it has learned positions for "
                f"{self.image_side} px. Set scale.image_side={self.image_side}"
            )


def conv_stem(inputs: int, width: int, *, patch: int) -> nn.Sequential:
    """3x3 convolutions with BatchNorm and ReLU whose strides multiply to the patch's side."""
    strides = _factors(patch)
    widths = [max(8, width >> (len(strides) - 1 - i)) for i in range(len(strides))]
    parts: list[nn.Module] = []
    for stride, outputs in zip(strides, widths, strict=True):
        conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        parts += [conv, nn.BatchNorm2d(outputs), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*parts, nn.Conv2d(inputs, width, 1))


def _factors(number: int) -> list[int]:
    """Prime factors, the smallest first."""
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found
