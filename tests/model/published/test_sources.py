"""Every source: its list of names, its rules and our network say the same."""

import json
from pathlib import Path

import pytest
import torch

import semimedref.model.published as package
from semimedref.errors import UserError
from semimedref.model.published import catalog
from semimedref.model.published.checkpoint import Checkpoint
from semimedref.model.published.matching import empty_network, match, released, shapes_of

pytestmark = pytest.mark.slow

every_source = pytest.mark.parametrize("name", catalog.names())


def empty(shapes):
    """A checkpoint whose tensors have shapes and no data."""
    tensors = {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}
    return Checkpoint(Path("release.pth"), tensors, "", {}, 0)


def test_every_list_of_names_has_its_module():
    listed = {file.stem for file in Path(package.__file__).parent.glob("keys/*.json")}
    assert "mmi_unet" in listed
    assert set(catalog.names()) == listed


@every_source
def test_the_list_names_the_release(name):
    text = Path(package.__file__).with_name("keys").joinpath(f"{name}.json").read_text()
    source = catalog.source_of(name)
    assert json.loads(text)["source"] == source.origin
    assert source.name == name
    assert len(text.splitlines()) == len(catalog.published_shapes(name)) + 2  # a line each


@every_source
def test_every_published_tensor_is_used_once_or_has_a_reason(name):
    source, listed = catalog.source_of(name), catalog.published_shapes(name)
    ours = source.translated(listed)
    assert len(set(ours.values())) == len(ours)
    assert all(source.reason(key) for key in listed if key not in ours)
    expected = shapes_of(released(empty_network(source).state_dict(), source))
    assert {new: listed[key] for key, new in ours.items()} == expected


@every_source
def test_a_release_fits_its_own_source_alone(name):
    listed = catalog.published_shapes(name)
    found = match(empty(listed), catalog.source_of(name))
    assert len(found.tensors) + len(found.unused) == len(listed)
    assert not found.renamed and not found.absent
    assert catalog.most_like(listed) == (name, len(listed))
    other = next(n for n in ("mmi_unet", "guide_decoder") if n != name)
    if other in catalog.names():
        with pytest.raises(UserError, match=rf"no checkpoint of source={other}.*source={name}$"):
            match(empty(listed), catalog.source_of(other))


@every_source
def test_unused_tensors_may_be_absent_and_used_ones_may_not(name):
    source, listed = catalog.source_of(name), catalog.published_shapes(name)
    used = {key: shape for key, shape in listed.items() if source.reason(key) is None}
    found = match(empty(used), source)
    assert found.absent == [key for key in listed if key not in used]
    first = next(iter(used))
    del used[first]
    with pytest.raises(UserError, match=rf"Tensors: 1 missing \({first}\)\."):
        match(empty(used), source)


def test_a_wrong_shape_and_a_stranger_are_named():
    listed = dict(catalog.published_shapes("mmi_unet"))
    listed["fusion1.ln_v.weight"] = (95,)
    listed["fusion9.ln_v.weight"] = (96,)
    with pytest.raises(UserError) as raised:
        match(empty(listed), catalog.source_of("mmi_unet"))
    text = str(raised.value)
    assert "1 unexpected (fusion9.ln_v.weight)" in text
    assert "1 of another shape (fusion1.ln_v.weight is (95,) instead of (96,))" in text
    assert "missing" not in text and "semimedref model describe model=mmi_unet" in text


def test_an_unknown_source_is_refused():
    with pytest.raises(UserError, match=r"source=mmi_unett is unknown: expected .*mmi_unet"):
        catalog.source_of("mmi_unett")


def timm(key):
    """MMI-UNet's trunk as timm writes it."""
    for old, new in (("downsample_layers.0.", "stem."), (".dwconv.", ".conv_dw."),
                     (".pwconv1.", ".mlp.fc1."), (".pwconv2.", ".mlp.fc2.")):  # fmt: skip
        key = key.replace(old, new)
    parts = key.split(".")
    if parts[0] == "downsample_layers":
        parts = ["stages", parts[1], "downsample", *parts[2:]]
    elif parts[0] == "stages" and "." in key:
        parts.insert(2, "blocks")
    return ".".join(parts)


def transformers(key):
    """MMI-UNet's trunk as transformers writes it, under encoder.model."""
    names = {"0.0": "patch_embeddings", "0.1": "layernorm"}
    parts = key.split(".")
    if key.startswith("downsample_layers.0."):
        return f"encoder.model.embeddings.{names['.'.join(parts[1:3])]}.{parts[3]}"
    if parts[0] == "downsample_layers":
        tail = ".".join(parts[2:])
        return f"encoder.model.encoder.stages.{parts[1]}.downsampling_layer.{tail}"
    if parts[0] == "stages":
        tail = ".".join(parts[3:]).replace("norm.", "layernorm.")
        tail = tail.replace("gamma", "layer_scale_parameter")
        return f"encoder.model.encoder.stages.{parts[1]}.layers.{parts[2]}.{tail}"
    return f"encoder.model.layernorm.{parts[1]}" if parts[0] == "norm" else key


def old_names(key):
    """LayerNorms as the first BERTs named theirs."""
    old = key.replace("LayerNorm.weight", "LayerNorm.gamma")
    return old.replace("LayerNorm.bias", "LayerNorm.beta")


@pytest.mark.parametrize(("spell", "changed"), [(timm, 178), (transformers, 180), (old_names, 54)])
def test_other_spellings_of_the_same_tensors_are_known(spell, changed):
    listed = catalog.published_shapes("mmi_unet")
    spelt = {spell(key): shape for key, shape in listed.items()}
    assert len(set(spelt) - set(listed)) == changed
    source = catalog.source_of("mmi_unet")
    found = match(empty(spelt), source)
    assert found.tensors.keys() == match(empty(listed), source).tensors.keys()
    assert found.renamed == {key: spell(key) for key in listed if spell(key) != key}


@pytest.mark.parametrize("name", [n for n in ("guide_decoder", "fmiseg") if n in catalog.names()])
def test_trunks_of_the_first_release_fit_where_transformers_wrote_them(name):
    listed = catalog.published_shapes(name)

    def spell(key):
        for old, new in ((".embeddings.patch_embeddings.", ".downsample_layers.0.0."),
                         (".model.embeddings.layernorm.", ".model.downsample_layers.0.1."),
                         (".model.encoder.stages.", ".model.stages."), (".layers.", "."),
                         (".layernorm.", ".norm."),
                         ("layer_scale_parameter", "gamma")):  # fmt: skip
            key = key.replace(old, new) if key.startswith("encoder") else key
        parts = key.split(".")
        if "downsampling_layer" in parts:
            parts[2:5] = ["downsample_layers", parts[3]]
        return ".".join(parts)

    spelt = {spell(key): shape for key, shape in listed.items()}
    assert len(set(spelt) - set(listed)) >= 180
    found = match(empty(spelt), catalog.source_of(name))
    assert found.renamed == {key: spell(key) for key in listed if spell(key) != key}
