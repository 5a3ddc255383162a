"""Any network of timm as an image encoder, by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor, nn

from semimedref.errors import UserError
from semimedref.model.encoders import weights as source
from semimedref.model.encoders.convnext import timm_names
from semimedref.model.encoders.image import ImageEncoder
from semimedref.torchvision_shim import import_torchvision

STRIDES = (4, 8, 16, 32)
_STEM = ("conv_stem", "bn1", "act1")  # of EfficientNet's kin; in some, bn1 has an activation
_BLOCK = re.compile(r"blocks\.(\d+)")


class TimmEncoder(ImageEncoder):
    """The maps of a timm network at strides 4, 8, 16 and 32 (`features_only` of timm).

    Networks that timm runs module by module (ConvNeXt, ResNet, EfficientNet, Swin, most others)
    have four levels. Of the others (HRNet, for example) only `forward` can be used.

    Args:
        name: as in `timm.list_models()`.
        weights: "random" (timm's own initialization), a file or folder with timm's names, or
            "hub:<id>". ConvNeXt files may have the original or transformers names.
        image_side: pixels a side, at which the network is tried out.
    """

    def __init__(self, *, name: str, weights: str | None, image_side: int) -> None:
        path = source.resolve(
            weights,
            key="image_encoder.weights",
            example=f"/path/to/{name}.safetensors",
            files=["model.safetensors", "pytorch_model.bin"],
        )
        net = _features(name)
        if path is not None:
            _load(net, path, name=name)
        flat = getattr(net, "output_fmt", "NCHW") == "NHWC"
        super().__init__(_levels(net, flat=flat), widths=_widths(net), channels=3)
        # What cannot be run level by level stays whole; its maps are asked for all at once.
        self.whole = None if self.sliceable else net
        self._flat = flat
        self._try_out(name, image_side)

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the maps (B, widths[i], H / stride, W / stride) of all levels."""
        if self.whole is None:
            return super().forward(image)
        maps = self.whole(self.adapt(image))
        return [x.permute(0, 3, 1, 2) if self._flat else x for x in maps]

    @torch.no_grad()
    def _try_out(self, name: str, side: int) -> None:
        """What a network says of its strides need not hold at every side."""
        weight = next(self.parameters())
        image = torch.zeros(1, 3, side, side, device=weight.device)
        expected = [(c, side // s, side // s) for c, s in zip(self.widths, STRIDES, strict=True)]
        training = self.training
        try:
            found = [tuple(x.shape[1:]) for x in self.eval()(image)]
        except (AssertionError, RuntimeError, ValueError) as error:
            raise UserError(
                f"image_encoder.name={name} cannot take images of {side} px ({error}). "
                f"{_other_side(name)}"
            ) from error
        finally:
            self.train(training)
        if found != expected:
            raise UserError(
                f"image_encoder.name={name}: images of {side} px give maps (C, H, W) of {found}, "
                f"expected {expected}. {_other_side(name)}"
            )


def _features(name: str) -> nn.Module:
    """A network that gives its maps at the four strides."""
    import_torchvision()
    import timm

    if ":" in name or not timm.is_model(name):
        near = get_close_matches(name, timm.list_models(), n=4)
        hint = f", for example {', '.join(near)}" if near else ""
        raise UserError(
            f"image_encoder.name={name} is no network of timm: expected a name of "
            f"timm.list_models(){hint}"
        )
    try:
        with torch.device("meta"):  # only asked what it has
            strides = _create(name).feature_info.reduction()
    except (RuntimeError, AssertionError, AttributeError, KeyError) as error:
        raise UserError(
            f"image_encoder.name={name}: timm gives no maps of this network ({error}). Expected "
            "one with features_only, such as convnext_tiny, resnet34 or efficientnet_b0"
        ) from error
    if any(strides.count(s) != 1 for s in STRIDES):
        raise UserError(
            f"image_encoder.name={name} has maps at strides {', '.join(map(str, strides))}: "
            f"expected {', '.join(map(str, STRIDES))}, as convnext_tiny, resnet34 or "
            "efficientnet_b0 have"
        )
    return _create(name, out_indices=tuple(strides.index(s) for s in STRIDES))


def _create(name: str, **options: tuple[int, ...]) -> nn.Module:
    import timm

    try:  # a Swin takes other sides than its own only if it is told to
        return timm.create_model(name, features_only=True, strict_img_size=False, **options)
    except TypeError:
        return timm.create_model(name, features_only=True, **options)


def _other_side(name: str) -> str:
    """What to do where a network does not fit the images."""
    import timm

    known = timm.get_pretrained_cfg(name)
    own = f", or the side that it was made for: scale.image_side={known.input_size[-1]}"
    return f"Choose another network{own if known else ''}"


def _widths(net: nn.Module) -> tuple[int, ...]:
    return tuple(net.feature_info.channels())


def _levels(net: nn.Module, *, flat: bool) -> list[nn.Module]:
    """Consecutive parts between the maps, or none where timm does not run part after part."""
    from timm.models import FeatureListNet
    from timm.models.efficientnet import EfficientNetFeatures
    from timm.models.mobilenetv3 import MobileNetV3Features

    if isinstance(net, FeatureListNet):
        parts, ends = list(net.items()), set(net.return_layers)
    elif isinstance(net, EfficientNetFeatures | MobileNetV3Features):
        ends = {info["module"] for info in net.feature_info.get_dicts()}
        if not all(_BLOCK.fullmatch(end) for end in ends):
            return []
        blocks = ((f"blocks.{i}", block) for i, block in enumerate(net.blocks))
        stem = ((part, getattr(net, part)) for part in _STEM if hasattr(net, part))
        parts = [*stem, *blocks]
    else:
        return []
    levels: list[nn.Module] = []
    part: list[nn.Module] = []
    for name, module in parts:
        part.append(module)
        if name in ends:
            levels.append(_Flat(part, image=not levels) if flat else nn.Sequential(*part))
            part = []
    return levels


class _Flat(nn.Sequential):
    """Modules that work on (B, H, W, C); maps come and go as (B, C, H, W)."""

    def __init__(self, modules: list[nn.Module], *, image: bool) -> None:
        super().__init__(*modules)
        self.image = image  # the first level gets an image, which has its channels in front

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if self.image else x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def _load(net: nn.Module, path: Path, *, name: str) -> None:
    """Load a file of the whole network: heads are left out, names are those before flattening."""
    given = source.read(path)
    given = timm_names(given) if name.startswith("convnext") else given
    own = net.state_dict()
    names = {key: _before_flattening(key, given) for key in own}
    found = {key: given[names[key]] for key in own if names[key] in given}
    source.check_fit(own, found, source=path)
    net.load_state_dict(found)


def _before_flattening(key: str, given: Mapping[str, Tensor]) -> str:
    """The name in a file: `stages_0.x` of `features_only` is `stages.0.x` of the network."""
    first, dot, rest = key.removeprefix("body.").partition(".")
    places = [i for i, sign in enumerate(first) if sign == "_"]
    names = [first, *(f"{first[:i]}.{first[i + 1 :]}" for i in places)]
    return next((n + dot + rest for n in names if n + dot + rest in given), key)
