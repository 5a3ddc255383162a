"""ConvNeXt-Tiny, the trunk of the published networks (27,818,592 parameters)."""

import re
from collections.abc import Mapping

from torch import Tensor, nn

from semimedref.model.encoders import weights as source
from semimedref.model.encoders.image import ImageEncoder
from semimedref.torchvision_shim import import_torchvision

# Names of the original release and of transformers -> names of timm; applied in this order.
_ORIGINAL = (
    (r"^downsample_layers\.0\.", "stem."),
    (r"^downsample_layers\.(\d)\.", r"stages.\1.downsample."),
    (r"^stages\.(\d)\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"\.dwconv\.", ".conv_dw."),
    (r"\.pwconv(\d)\.", r".mlp.fc\1."),
)
_TRANSFORMERS = (
    (r"^(?:encoder\.model\.|model\.|convnext\.)*(?=embeddings\.|encoder\.stages\.)", ""),
    (r"^embeddings\.patch_embeddings\.", "stem.0."),
    (r"^embeddings\.layernorm\.", "stem.1."),
    (r"^encoder\.stages\.(\d)\.downsampling_layer\.", r"stages.\1.downsample."),
    (r"^encoder\.stages\.(\d)\.layers\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"\.dwconv\.", ".conv_dw."),
    (r"\.layernorm\.", ".norm."),
    (r"\.pwconv(\d)\.", r".mlp.fc\1."),
    (r"\.layer_scale_parameter$", ".gamma"),
)


class ConvNeXtTiny(ImageEncoder):
    """ConvNeXt-Tiny without head and final norm, drop path 0 (Liu et al., CVPR 2022)."""

    def __init__(self, *, weights: str | None) -> None:
        """Build the trunk.

        Args:
            weights: "random", a file (timm, original or transformers names), or "hub:<timm id>".
        """
        path = source.resolve(
            weights,
            key="image_encoder.weights",
            example="/path/to/convnext_tiny_22k_224.pth",
            files=["model.safetensors"],
        )
        net = _timm_net()
        if path is None:
            _pytorch_default_init(net)
        else:
            given = timm_names(source.read(path))
            own = net.state_dict()
            source.check_fit(own, given, source=path)
            net.load_state_dict({key: given[key] for key in own})
        super().__init__(
            [nn.Sequential(net.stem, net.stages[0]), *net.stages[1:]],
            widths=(96, 192, 384, 768),
            channels=3,
        )


def timm_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the tensors of an original or transformers ConvNeXt to timm's names."""
    if any(key.startswith("downsample_layers.") for key in state):
        rules = _ORIGINAL
    elif any("embeddings.patch_embeddings" in key for key in state):
        rules = _TRANSFORMERS
    else:
        rules = ()
    renamed = {}
    for key, value in state.items():
        for pattern, replacement in rules:
            key = re.sub(pattern, replacement, key)
        renamed[key] = value
    return renamed


def _timm_net() -> nn.Module:
    import_torchvision()
    import timm

    net = timm.create_model("convnext_tiny", pretrained=False, drop_path_rate=0.0)
    net.head, net.norm_pre = nn.Identity(), nn.Identity()
    return net


def _pytorch_default_init(net: nn.Module) -> None:
    """As published: PyTorch's own initialization, not timm's truncated normal."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.reset_parameters()
