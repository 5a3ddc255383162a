"""A published checkpoint goes in, gives the published outputs, and comes out unchanged."""

import pytest
import torch
from filled_checkpoints import same, state_dict
from mmi_unet_twin import Twin
from safetensors import safe_open
from safetensors.torch import save_file

import semimedref.model
from semimedref.cli import main
from semimedref.errors import UserError
from semimedref.model.published import catalog, imported
from semimedref.model.published.exporting import export_imported, export_network
from semimedref.model.published.loading import import_checkpoint, load

pytestmark = pytest.mark.slow

WORDS = "text_encoder.model.bert.embeddings.word_embeddings.weight"
DECODER = "text_encoder.model.cls.predictions.decoder.weight"


@pytest.fixture(scope="module")
def release():
    """MMI-UNet's state dict at its published size."""
    return state_dict("mmi_unet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, release):
    """A Lightning checkpoint of it, and what the command makes of that."""
    folder = tmp_path_factory.mktemp("mmi_unet")
    torch.save({"state_dict": {f"model.{k}": t for k, t in release.items()}}, folder / "in.ckpt")
    checkpoint, out = folder / "in.ckpt", folder / "ours.safetensors"
    words = [f"checkpoint={checkpoint}", "source=mmi_unet", f"out={out}"]
    assert main(["model", "import", *words]) == 0
    return folder


def inputs():
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(1, 1, 224, 224, generator=generator)
    ids = torch.randint(5, 30522, (1, 24), generator=generator)
    return image, ids, (torch.arange(24) < 15).long()[None]


@torch.no_grad()
def test_the_network_says_what_the_published_functions_say(folder, release):
    before = torch.get_rng_state()
    model = semimedref.model.load(folder / "ours.safetensors")
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training and not any(m.training for m in model.modules())
    found, expected = model(*inputs()), Twin(release)(*inputs())
    assert found.shape == (1, 1, 224, 224) and expected.std() > 0.05
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    image, ids, mask = inputs()
    assert torch.equal(model(image.expand(-1, 3, -1, -1), ids, attention_mask=mask), found)
    embedding = model.network.text_encoder.bert.get_input_embeddings()
    assert torch.equal(embedding.row, release[WORDS][embedding.unk])


def test_the_file_says_where_it_comes_from(folder):
    file = imported.read(folder / "ours.safetensors")
    assert file.origin.source == file.origin.model == "mmi_unet"
    assert file.origin.origin.startswith("nguyenpbui/MMI-UNet@")
    assert "scale=paper" in file.origin.overrides
    assert file.origin.checkpoint["name"] == "in.ckpt"
    assert len(file.origin.unused) == 43 and file.origin.tied == {DECODER: WORDS}
    with safe_open(folder / "ours.safetensors", "pt") as raw:
        names = set(raw.keys())
    assert len(names) == 612 and f"unused.{DECODER}" not in names
    assert {"unused.fusion4.linear2.weight", "fusion.3.norm_text.weight"} <= names


@pytest.mark.parametrize(("out", "prefix"), [("again.pth", ""), ("again.safetensors", "model.")])
def test_export_gives_back_every_tensor(folder, release, out, prefix):
    words = [f"model={folder / 'ours.safetensors'}", f"out={folder / out}", f"prefix={prefix}"]
    assert main(["model", "export", *words]) == 0
    if out.endswith(".pth"):
        found = torch.load(folder / out, weights_only=True)
    else:
        with safe_open(folder / out, "pt") as raw:
            found = {key: raw.get_tensor(key) for key in raw.keys()}  # noqa: SIM118 - no dict
    (folder / out).unlink()
    assert same(found, {prefix + key: tensor for key, tensor in release.items()})


def test_a_network_is_exported_with_and_without_what_it_never_uses(folder, release):
    ours, out = folder / "ours.safetensors", folder / "network.pth"
    state = imported.read(ours).tensors
    done = export_network(state, source="mmi_unet", out=out)
    found = torch.load(out, weights_only=True)
    assert len(done.absent) == 43 and len(found) == 570
    assert all(torch.equal(tensor, release[key]) for key, tensor in found.items())
    done = export_network(state, source="mmi_unet", out=out, unused_from=ours)
    assert not done.absent and same(torch.load(out, weights_only=True), release)
    out.unlink()
    state["head.out.bias"] = torch.zeros(2)
    with pytest.raises(UserError, match=r"no mmi_unet of the published size: 1 of 570 .*head\.out"):
        export_network(state, source="mmi_unet", out=out)


def test_a_raw_checkpoint_is_not_loaded_but_told_how_to_import(folder):
    with pytest.raises(UserError, match=r"checkpoint of mmi_unet .*model import .*source=mmi_unet"):
        load(folder / "in.ckpt")


def test_a_file_cannot_choose_its_classes(folder, tmp_path):
    """The overrides in a file are for people; loading reads those of the source."""
    file = imported.read(folder / "ours.safetensors")
    file.origin.overrides[:] = ["trusted_packages=[os]", "+model._target_=os.abort"]
    path = tmp_path / "changed.safetensors"
    imported.write(file, path)
    load(path)
    path.unlink()


def test_other_files_are_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors").write_bytes(b"nothing")
    for name in ("a", "b"):
        with pytest.raises(UserError, match=r"no file of `semimedref model import`"):
            load(tmp_path / f"{name}.safetensors")
    with pytest.raises(UserError, match="does not exist"):
        load(tmp_path / "c.safetensors")
    about = {"semimedref": '{"source": "mmi_unet", "model": "", "overrides": [], "origin": "", '
             '"format": 99}'}  # fmt: skip
    save_file({"a": torch.zeros(1)}, tmp_path / "d.safetensors", metadata=about)
    with pytest.raises(UserError, match="has format 99"):
        load(tmp_path / "d.safetensors")
    about = {"semimedref": about["semimedref"].replace("99", "1")}
    save_file({"a": torch.zeros(1)}, tmp_path / "e.safetensors", metadata=about)
    with pytest.raises(UserError, match="does not fit model=mmi_unet"):
        load(tmp_path / "e.safetensors")


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("safetensors.torch.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        imported.write_safetensors({"a": torch.zeros(1)}, tmp_path / "out" / "a.safetensors")
    assert not list((tmp_path / "out").iterdir())


def test_the_checkpoint_itself_is_not_overwritten(folder):
    with pytest.raises(UserError, match="is the checkpoint itself"):
        import_checkpoint(folder / "in.ckpt", source="mmi_unet", out=folder / "in.ckpt")


@pytest.mark.parametrize("name", [n for n in catalog.names() if n != "mmi_unet"])
def test_every_release_comes_out_unchanged(name, tmp_path):
    state = state_dict(name)
    half = next(k for k, t in state.items() if t.is_floating_point())
    state[half] = state[half].half()
    torch.save({"model": state}, tmp_path / "in.pth")
    import_checkpoint(tmp_path / "in.pth", source=name, out=tmp_path / "ours")
    export_imported(tmp_path / "ours", out=tmp_path / "out.pth")
    assert same(torch.load(tmp_path / "out.pth", weights_only=True), state)
    for file in tmp_path.iterdir():
        file.unlink()
