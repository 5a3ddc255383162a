"""Other names under which tensors of a release are found: saved by another version of a library."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Every way to write ConvNeXt's names -> timm's; the first group is where the trunk hangs.
_FORMS = (
    (r"(.*?)embeddings\.patch_embeddings\.(\w+)", r"stem.0.\2"),
    (r"(.*?)embeddings\.layernorm\.(\w+)", r"stem.1.\2"),
    (r"(.*?)encoder\.stages\.(\d)\.downsampling_layer\.(.+)", r"stages.\2.downsample.\3"),
    (r"(.*?)encoder\.stages\.(\d)\.layers\.(\d+)\.(.+)", r"stages.\2.blocks.\3.\4"),
    (r"(.*?)downsample_layers\.0\.(.+)", r"stem.\2"),
    (r"(.*?)downsample_layers\.(\d)\.(.+)", r"stages.\2.downsample.\3"),
    (r"(.*?)stages\.(\d)\.(\d+)\.(.+)", r"stages.\2.blocks.\3.\4"),
    (r"(.*?)(stem\.[01]\.\w+)", r"\2"),
    (r"(.*?)(stages\.\d\.(?:blocks|downsample)\.\d+\..+)", r"\2"),
)
_PARTS = (
    (r"\.dwconv\.", ".conv_dw."),
    (r"\.layernorm\.", ".norm."),
    (r"\.pwconv(\d)\.", r".mlp.fc\1."),
    (r"\.layer_scale_parameter$", ".gamma"),
)
_LAST_NORM = ("layernorm", "norm", "head.norm")  # of transformers, the first release and timm
_OLD = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def listed_names(found: Iterable[str], listed: Iterable[str]) -> dict[str, str]:
    """For names that a release does not have, the one that it has for the same tensor."""
    listed = set(listed)
    strange = [key for key in found if key not in listed]
    pairs = {key: new for key in strange if (new := _modern(key)) in listed}
    trunks = _trunks(listed)
    hangs: dict[str, str] = {}  # the trunk's prefix in the file -> in the release
    for key in strange:
        parsed = _parse(key)
        place = _place(parsed[0], trunks) if parsed else None
        if parsed and place is not None and parsed[1] in trunks[place]:
            pairs[key] = trunks[place][parsed[1]]
            hangs[parsed[0]] = place
    return pairs | _last_norms(strange, listed, hangs)


def _modern(key: str) -> str:
    for old, new in _OLD:
        key = key.replace(old, new)
    return key


def _parse(key: str) -> tuple[str, str] | None:
    """Where a trunk hangs and timm's name of its tensor; None for what is no ConvNeXt's."""
    for pattern, name in _FORMS:
        match = re.fullmatch(pattern, key)
        if match:
            inside = match.expand(name)
            for old, new in _PARTS:
                inside = re.sub(old, new, inside)
            return match[1], inside
    return None


def _trunks(listed: Iterable[str]) -> dict[str, dict[str, str]]:
    """The ConvNeXts of a release: published names by timm's, by where each hangs."""
    trunks: dict[str, dict[str, str]] = {}
    for key in listed:
        parsed = _parse(key)
        if parsed:
            trunks.setdefault(parsed[0], {})[parsed[1]] = key
    return {place: names for place, names in trunks.items() if "stem.0.weight" in names}


def _place(prefix: str, trunks: dict[str, dict[str, str]]) -> str | None:
    """The trunk of a release that is meant: the only one, or the one of the same first word."""
    if len(trunks) == 1:
        return next(iter(trunks))
    word = prefix.partition(".")[0]
    return next((place for place in trunks if place.partition(".")[0] == word), None)


def _last_norms(strange: Iterable[str], listed: set[str], hangs: dict[str, str]) -> dict[str, str]:
    """The norm before the trunk's classifier, which no network uses."""
    pairs = {}
    for prefix, place in hangs.items():
        names = [f"{place}{name}" for name in _LAST_NORM if f"{place}{name}.weight" in listed]
        for key in strange:
            owner, _, tensor = key.removeprefix(prefix).rpartition(".")
            if names and key.startswith(prefix) and owner in _LAST_NORM:
                pairs[key] = f"{names[0]}.{tensor}"
    return pairs
