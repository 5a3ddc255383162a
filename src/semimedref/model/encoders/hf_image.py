"""Image encoders of Hugging Face with four levels: Swin, ConvNeXt, ResNet, RegNet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.hf_folder import from_folder, read_config
from semimedref.model.encoders.image import ImageEncoder
from semimedref.model.segmenter import check_choice
from semimedref.torchvision_shim import import_torchvision

_FILES = ["config.json", "model*.safetensors", "model.safetensors.index.json", "pytorch_model.bin"]
_EXAMPLE = "/path/to/swin-tiny-patch4-window7-224"
_MAPS = ("convnext", "convnextv2", "resnet", "regnet")  # stages that take and give (B, C, H, W)
_STATES = ("inputs", "outputs")


class HFImage(ImageEncoder):
    """A trunk of the transformers library, by its name on the hub or from a folder.

    Parts that give none of the four maps (head, final norm, and with `states: inputs` Swin's last
    stage) are not built into the encoder: they neither learn nor enter checkpoints.

    Args:
        weights: a folder (config.json and weights), "hub:<id>", or "random".
        architecture: `model_type` and further fields of its configuration, for random weights; a
            folder brings its own.
        states: of each stage its input or its output. A Swin's inputs are its hidden states 0 to 3
            (patch embedding, then what each stage hands on, already merged), what networks get
            that index `hidden_states`; other architectures have outputs alone.
    """

    def __init__(
        self, *, weights: str | None, architecture: Mapping[str, Any], states: str
    ) -> None:
        check_choice("image_encoder.states", states, _STATES)
        path = source.resolve(weights, key="image_encoder.weights", example=_EXAMPLE, files=_FILES)
        import_torchvision()
        from transformers import AutoConfig, AutoModel

        if path is None:
            config = AutoConfig.for_model(**architecture)
        else:
            config = read_config(path, key="image_encoder.weights")
        self._check(config.model_type, states)
        if path is None:
            net = AutoModel.from_config(config)
        else:
            net = from_folder(AutoModel, path, config)
        if config.model_type == "swin":
            levels = _swin_levels(net, states)
            widths = tuple(config.embed_dim * 2**i for i in range(len(config.depths)))
        else:
            stem = net.embedder if hasattr(net, "embedder") else net.embeddings
            first, *others = net.encoder.stages
            levels = [nn.Sequential(stem, first), *others]
            widths = tuple(config.hidden_sizes)
        super().__init__(levels, widths=widths, channels=config.num_channels)

    @staticmethod
    def _check(kind: str, states: str) -> None:
        known = ("swin", *_MAPS)
        if kind not in known:
            raise UserError(
                f"image_encoder.weights holds a {kind}: expected one of {', '.join(known)}, whose "
                "stages have strides 4, 8, 16 and 32. Many others are there as image_encoder=timm"
            )
        if kind != "swin" and states == "inputs":
            raise UserError(
                f"image_encoder.states=inputs: the inputs of a {kind}'s stages do not have strides "
                "4, 8, 16 and 32. Set image_encoder.states=outputs"
            )


def _swin_levels(net: nn.Module, states: str) -> list[nn.Module]:
    stages = list(net.encoder.layers)
    merging = [stage.downsample for stage in stages[:-1]]
    blocks = [stage.blocks for stage in stages]
    if states == "inputs":
        pairs = zip(blocks[:-1], merging, strict=True)
        return [SwinStem(net.embeddings), *(SwinLevel(b, after=m) for b, m in pairs)]
    first = nn.Sequential(SwinStem(net.embeddings), SwinLevel(blocks[0]))
    others = zip(merging, blocks[1:], strict=True)
    return [first, *(SwinLevel(b, before=m) for m, b in others)]


class SwinStem(nn.Module):
    """Patch embedding: images (B, 3, H, W) to a map (B, C, H / 4, W / 4)."""

    def __init__(self, embeddings: nn.Module) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, image: Tensor) -> Tensor:
        """Embed patches; absolute positions, where a Swin has them, are interpolated."""
        tokens, size = self.embeddings(image, interpolate_pos_encoding=True)
        return tokens.transpose(1, 2).unflatten(2, size)


class SwinLevel(nn.Module):
    """Blocks of a Swin stage with the merging of patches before or after them, on maps."""

    def __init__(
        self,
        blocks: nn.ModuleList,
        *,
        before: nn.Module | None = None,
        after: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.before, self.blocks, self.after = before, blocks, after

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, h, w) to (B, C, h, w), or to (B, 2C, h / 2, w / 2) with a merging."""
        size, tokens = tuple(x.shape[-2:]), x.flatten(2).transpose(1, 2)
        if self.before is not None:
            tokens, size = self.before(tokens, size), _half(size)
        for block in self.blocks:
            # A map below the window is padded to it; transformers would shrink the window, whose
            # table of relative positions then does not fit.
            tokens = block(tokens, size, always_partition=min(size) < block.window_size)[0]
        if self.after is not None:
            tokens, size = self.after(tokens, size), _half(size)
        return tokens.transpose(1, 2).unflatten(2, size)


def _half(size: tuple[int, int]) -> tuple[int, int]:
    return (size[0] + 1) // 2, (size[1] + 1) // 2
