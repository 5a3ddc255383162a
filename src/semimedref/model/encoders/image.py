"""The contract of image encoders: four levels that can be run one by one."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from semimedref.errors import UserError


class ImageEncoder(nn.Module):
    """A pyramid of four levels with strides 4, 8, 16 and 32.

    Networks that feed fused maps back into the trunk run `levels[i]` themselves.

    Attributes:
        widths: channels of the four levels.
        levels: level 0 is stem + stage 1, level i is downsampler + stage i + 1; none where a
            network can only be run as a whole.
        channels: channels that level 0 expects; gray images are repeated by `adapt`.
    """

    widths: tuple[int, ...]
    channels: int

    def __init__(self, levels: list[nn.Module], *, widths: tuple[int, ...], channels: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(levels)
        self.widths = widths
        self.channels = channels

    @property
    def sliceable(self) -> bool:
        """Whether the levels can be run one by one."""
        return len(self.levels) > 0

    def adapt(self, image: Tensor) -> Tensor:
        """Repeat a gray image (B, 1, H, W) if level 0 expects more channels, or mean colors."""
        if image.shape[1] == self.channels:
            return image
        if image.shape[1] > self.channels:
            return image.mean(1, keepdim=True)
        return image.expand(-1, self.channels, -1, -1)

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the maps (B, widths[i], H / stride, W / stride) of all levels."""
        maps = []
        x = self.adapt(image)
        for level in self.levels:
            x = level(x)
            maps.append(x)
        return maps

    @contextmanager
    def unremembered(self) -> Iterator[None]:
        """Run passes whose batch statistics must not enter the running ones.

        A pass without text has other activations than those of training and testing; what batch
        norm remembered of it would be wrong for both.
        """
        norms = [m for m in self.modules() if isinstance(m, _BatchNorm)]
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def require_levels(encoder: ImageEncoder, who: str) -> None:
    """Refuse an encoder that can only be run as a whole where `who` runs its levels one by one."""
    if not encoder.sliceable:
        raise UserError(
            f"{who} runs the image encoder level by level, and this one can only be run as a "
            "whole. Choose another image_encoder, for example image_encoder=convnext_tiny, or a "
            "model that feeds nothing back into the trunk, such as model=guide_decoder"
        )
