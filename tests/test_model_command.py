"""``semimedref model``: list, describe, and the words of import and export."""

import json
import os

import pytest
import torch
import yaml

from semimedref.cli import main
from semimedref.config import config_dir
from semimedref.describe.listing import KINDS, options
from semimedref.model.published import catalog

pytestmark = pytest.mark.slow


def fails(capsys, *words):
    """The one line of a refusal."""
    assert main(["model", *words]) == 2
    return capsys.readouterr().err


def described(tmp_path, *words):
    assert main(["model", "describe", *words, f"out={tmp_path / 'd.json'}"]) == 0
    return json.loads((tmp_path / "d.json").read_text())


def test_every_option_is_listed_with_its_kind_and_first_line(capsys):
    assert main(["model", "list"]) == 0
    shown = capsys.readouterr().out
    found = {option.name: option for option in options()}
    assert set(found) == {file.stem for file in (config_dir() / "model").glob("*.yaml")}
    for option in found.values():
        assert option.kind in KINDS and option.about
        assert f"  {option.name} " in shown and option.about in shown
    assert found["mmi_unet"].kind == "exact" and found["mmi_unet"].sources == ("mmi_unet",)
    for control in ("unet", "mean_mask", "text_atlas"):
        assert found[control].kind == "control"
    assert all(found[name].kind == "exact" for name in catalog.names())
    assert {n for n, o in found.items() if o.kind == "native"} == {
        "plain_unet",
        "rar",
        "textmatch_seg",
    }
    assert not any(option.kind == "own" for option in found.values())


def test_options_of_another_folder_are_listed(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    option = tmp_path / "model" / "mine.yaml"
    option.write_text("# A network of my own.\n" + yaml.safe_dump({"_target_": "my_lab.Mine"}))
    assert main(["model", "list", "--config-dir", str(tmp_path)]) == 0
    assert "mine" in capsys.readouterr().out


def test_the_published_size_is_described_without_any_file(tmp_path):
    found = described(tmp_path, "model=mmi_unet")
    assert found["total"]["parameters"] == 158_363_865
    assert found["total"]["trainable"] == found["total"]["with_gradient"] == 49_472_217
    parts = {part["name"]: part for part in found["parts"]}
    assert parts["image_encoder"]["parameters"] == 27_818_592
    assert parts["text_encoder"]["with_gradient"] == 0
    assert sum(part["flops"] for part in parts.values()) == found["total"]["flops"]
    # 2 x 2.04 G multiplications of BERT on 24 tokens, measured on the published network
    assert parts["text_encoder"]["flops"] == pytest.approx(2 * 2.04e9, rel=0.01)
    assert found["inputs"]["image_side"] == 224 and found["inputs"]["tokens"] == 24
    assert found["inputs"]["normalization"] == "z_score"
    assert 4 < found["memory"] / 2**30 < 8 and found["batch"] == 32
    assert found["checkpoints"][0]["used"] == 570 and found["uncounted"] is None
    fusion = next(block for block in found["tree"] if block["name"] == "fusion")
    assert [block["parameters"] for block in fusion["blocks"]][:1] == [422_176]
    assert not fusion["blocks"][0]["blocks"]


def test_a_small_scale_is_described_in_words(capsys):
    words = ["model=mmi_unet", "scale=smoke", "dataset=phantom_tiny", "depth=1"]
    assert main(["model", "describe", *words]) == 0
    shown = capsys.readouterr().out
    for word in ("kind: exact", "get gradient", "GFLOPs of one image", "loss:", "blocks:",
                 "published checkpoint: nguyenpbui/MMI-UNet@", "Re-implemented"):  # fmt: skip
        assert word in shown
    assert shown.rstrip().splitlines()[-1].startswith("  head (SubPixelHead)")


def test_controls_are_described(tmp_path):
    words = ["scale=smoke", "dataset=phantom_tiny"]
    unet = described(tmp_path, "model=unet", *words)
    assert unet["kind"] == "control" and unet["inputs"]["tokens"] == 0
    assert unet["total"]["with_gradient"] == unet["total"]["parameters"] > 0
    for name in ("mean_mask", "text_atlas"):
        found = described(tmp_path, f"model={name}", *words)
        assert found["total"]["parameters"] == 0 and found["memory"] is None


def test_bad_words_are_one_clear_line(capsys, tmp_path):
    assert "expected one of list, describe, import, export" in fails(capsys)
    assert "'describ' was given" in fails(capsys, "describ")
    assert "model=NAME is missing" in fails(capsys, "describe")
    assert "model=mmi_unett is unknown" in fails(capsys, "describe", "model=mmi_unett")
    assert "depth=x" in fails(capsys, "describe", "model=unet", "depth=x")
    assert "source= is missing" in fails(capsys, "import", "checkpoint=a.pth", "out=b")
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pth")
    given = [f"checkpoint={tmp_path / 'a.pth'}", f"out={tmp_path / 'b'}"]
    assert "source=nets is unknown" in fails(capsys, "import", *given, "source=nets")
    shown = fails(capsys, "import", *given, "source=mmi_unet")
    # 570 without the counters of three batch norms, which a file may lack
    assert "567 missing (" in shown and "1 unexpected (a)" in shown
    assert not (tmp_path / "b").exists()
    assert "model=IMPORTED_FILE or run=RUN" in fails(capsys, "export", "out=b")
    assert "source= is missing" in fails(capsys, "export", "out=b", "run=r")
    shown = fails(capsys, "export", "out=b", "model=m", "unused_from=u")
    assert "unused_from= goes with run=" in shown
    assert "names no run" in fails(capsys, "export", "out=b", "run=r", "source=mmi_unet",
                                   f"run_root={tmp_path}")  # fmt: skip


class Malicious:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path, capsys):
    torch.save({"state_dict": {}, "hyper": Malicious(tmp_path / "ran")}, tmp_path / "evil.ckpt")
    given = [f"checkpoint={tmp_path / 'evil.ckpt'}", f"out={tmp_path / 'b'}", "source=mmi_unet"]
    assert "needs code to be read" in fails(capsys, "import", *given)
    assert {file.name for file in tmp_path.iterdir()} == {"evil.ckpt"}


def test_a_run_of_another_size_is_not_exported(smoke, tmp_path, capsys):
    assert main(["train", *smoke, "method=supervised", "augment=none", "trainer.epochs=1"]) == 0
    capsys.readouterr()
    run = next((tmp_path / "multirun").glob("*/run.json")).parent
    shown = fails(capsys, "export", f"run={run}", "source=mmi_unet", f"out={tmp_path / 'b.pth'}")
    assert "no mmi_unet of the published size" in shown and "scale=paper" in shown
    assert not (tmp_path / "b.pth").exists()
