"""Every option composes, every class exists, every key is a parameter; names and signatures."""

import copy
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from semimedref import config
from semimedref.config import build, compose, config_dir, resolved, run_name, signature, signed
from semimedref.errors import UserError

pytestmark = pytest.mark.slow

ROOT = config_dir()
OPTIONS = sorted(
    (str(f.parent.relative_to(ROOT)), f.stem)
    for f in ROOT.rglob("*.yaml")
    if f.parent != ROOT and f.parent.name not in ("experiment", "parts")  # parts: named by options
)


def nodes_with_target(node):
    if isinstance(node, dict):
        if "_target_" in node:
            yield node
        for value in node.values():
            yield from nodes_with_target(value)
    elif isinstance(node, list):
        for value in node:
            yield from nodes_with_target(value)


def locate(target):
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("group", "option"), [o for o in OPTIONS if o[0].startswith("hydra")])
def test_every_option_of_hydra_composes(group, option):
    parent = ["hydra/sweeper=search"] if group.startswith("hydra/sweeper/") else []
    compose([*parent, f"{group}={option}"])


@pytest.mark.parametrize(("group", "option"), [o for o in OPTIONS if not o[0].startswith("hydra")])
def test_every_option_composes_its_target_exists_and_its_keys_are_its_parameters(group, option):
    plain = resolved(compose([f"{group}={option}"]))
    for node in nodes_with_target(plain[group.split("/")[0]]):
        parameters = inspect.signature(locate(node["_target_"])).parameters
        taken = {
            n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        needed = {n for n in taken if parameters[n].default is inspect.Parameter.empty}
        keys = set(node) - {"_target_", "_partial_"}
        assert keys <= taken, f"{node['_target_']} has no parameter {keys - taken}"
        assert node.get("_partial_") or needed <= keys, f"{node['_target_']} needs {needed - keys}"


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.yaml")), ids=lambda f: f.stem)
def test_every_file_opens_with_what_it_is_and_the_command(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("# @package")]
    head = "\n".join(lines[:3])
    assert lines[0].startswith("# ")
    assert "semimedref " in head


def test_the_whole_default_configuration_is_known_to_the_trainer():
    from semimedref.trainer_config import TrainerConfig

    TrainerConfig(**resolved(compose([]))["trainer"])


def test_the_scale_chooses_the_encoders_and_a_user_can_choose_others():
    plain = resolved(compose(["scale=paper"]))
    assert plain["image_encoder"]["_target_"].endswith("ConvNeXtTiny")
    assert plain["text_encoder"]["width"] == 768
    plain = resolved(compose(["scale=paper", "image_encoder=tiny"]))
    assert plain["image_encoder"]["_target_"].endswith("SmallConv")


def test_paper_scale_has_the_papers_numbers():
    plain = resolved(compose(["scale=paper"]))
    trainer, method = plain["trainer"], plain["method"]
    assert (trainer["lr"], trainer["weight_decay"], trainer["batch_size"]) == (3e-4, 1e-2, 32)
    assert (trainer["epochs"], trainer["min_epochs"], trainer["patience"]) == (100, 20, 30)
    assert method["schedule"]["burn_in"] == 5 and method["schedule"]["ramp"] == 15
    assert method["schedule"]["momentum_ramp"] == 20 and method["weight_unlabeled"] == 0.3
    assert (method["momentum_start"], method["momentum_end"]) == (0.99, 0.999)
    assert method["pseudo_label"]["threshold"] == 0.55
    assert plain["scale"]["image_side"] == 224


def test_a_file_is_read_again_once_it_has_changed(tmp_path):
    option = tmp_path / "seed" / "own.yaml"
    option.parent.mkdir()
    seen = []
    for number in (5, 5, 6):
        option.write_text(f"value: {number}\n")
        cfg = compose(["seed=own"], config_dirs=[str(tmp_path)])
        seen.append(cfg.seed.value)
        cfg.seed.value = 9  # belongs to one caller
    assert seen == [5, 5, 6]


def test_machine_keys_do_not_change_the_signature(tmp_path):
    base = signature(resolved(compose([])))
    for override in (
        "hardware.workers=3", "hardware.threads=1", "run_root=elsewhere", "tracking=off",
        f"dataset.root={tmp_path}", "row=x", "experiment_name=y", "only=1",
    ):  # fmt: skip
        assert signature(resolved(compose([override]))) == base, override


@pytest.mark.parametrize(
    "override",
    ["seed=s1", "ratio=5pct", "trainer.lr=1e-3", "pseudo_label.threshold=0.6", "augment=none",
     "scale.epochs=13", "dataset.sha256=other", "image_encoder.depth=3", "ratio.split_seed=1",
     "preset=release", "trainer.precision=bf16"],
)  # fmt: skip
def test_what_decides_the_result_changes_the_signature(override):
    assert signature(resolved(compose([override]))) != signature(resolved(compose([])))


def test_parts_that_a_method_does_not_use_do_not_split_its_runs():
    plain = [
        resolved(compose(["method=supervised", f"pseudo_label={p}"])) for p in ("hard", "soft")
    ]
    assert signature(plain[0]) == signature(plain[1])


def test_strong_views_do_not_split_supervised_runs():
    plain = [resolved(compose(["method=supervised", f"augment={a}"])) for a in ("none", "spc")]
    assert signature(plain[0]) == signature(plain[1])


def test_weights_are_signed_by_content_and_not_by_path(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in ("a", "b"):
        (tmp_path / folder / "net.pth").write_bytes(b"weights")

    def sign(path):
        return signature(resolved(compose(["image_encoder=convnext_tiny",
                                           f"image_encoder.weights={path}"])))  # fmt: skip

    config.file_identity.cache_clear()
    same = sign(tmp_path / "a" / "net.pth"), sign(tmp_path / "b" / "net.pth")
    (tmp_path / "b" / "net.pth").write_bytes(b"others")
    config.file_identity.cache_clear()
    assert same[0] == same[1] != sign(tmp_path / "b" / "net.pth")


def test_a_key_added_later_does_not_orphan_old_runs(monkeypatch):
    plain = resolved(compose([]))
    newer = copy.deepcopy(plain)
    newer["method"]["new_switch"] = "as before"
    history = {"versions": {}, "training": 1, "added_keys": {"method.new_switch": "as before"}}
    monkeypatch.setattr(config, "_history", lambda: history)
    assert signature(newer) == signature(plain)
    newer["method"]["new_switch"] = "new"
    assert signature(newer) != signature(plain)


@pytest.mark.parametrize("augment", ["none", "cutmix", "posaug", "semi_medref"])
@pytest.mark.parametrize("method", ["supervised", "teacher_student"])
def test_a_run_from_before_the_added_keys_can_still_be_built(method, augment):
    options = ["scale=smoke", f"method={method}", f"augment={augment}", "align=pacl"]
    plain = resolved(compose(options))
    older = copy.deepcopy(plain)
    for path in config._history()["added_keys"]:
        *groups, key = path.split(".")
        node = older
        for group in groups:
            node = node.get(group) or {}
        node.pop(key, None)
    assert older != plain
    assert config.with_added_keys(older)["method"] == plain["method"]
    assert config.with_added_keys(older)["trainer"] == plain["trainer"]


def test_a_component_with_a_new_version_gets_new_runs(monkeypatch):
    plain = resolved(compose([]))
    before = signature(plain)
    zoom = "semimedref.augment.image.Zoom"
    monkeypatch.setattr(
        config, "_history", lambda: {"versions": {zoom: 2}, "training": 1, "added_keys": {}}
    )
    assert signature(plain) != before


def test_the_history_names_classes_that_exist():
    file = Path(config.__file__).parent / "signature_history.yaml"
    history = yaml.safe_load(file.read_text())
    for target in history["versions"]:
        locate(target)


def test_a_run_is_named_so_that_a_person_can_read_it():
    plain = resolved(compose(["ratio.fraction=0.03", "seed.value=7"]))
    assert run_name(plain) == f"phantom-3pct-mmi_unet-teacher_student-s7-{signature(plain)}"


def test_nulls_are_not_signed():
    assert "patience" not in signed(resolved(compose([])))["trainer"]


def test_only_ours_and_trusted_classes_are_built():
    cfg = compose(["+dataset.evil._target_=os.getcwd"])
    with pytest.raises(UserError, match="trusted_packages"):
        build(cfg, "dataset")


def test_a_users_own_backbone_from_another_package_needs_no_fork(tmp_path, smoke):
    package = tmp_path / "my_lab"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text(
        "from semimedref.model.mmi_unet import MMIUNet\n"
        "class MyNet(MMIUNet):\n"
        "    def forward(self, image, text):\n"
        "        return super().forward(image, text) * 2\n"
    )
    option = yaml.safe_load((ROOT / "model" / "mmi_unet.yaml").read_text())
    option["_target_"] = "my_lab.net.MyNet"
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "my_net.yaml").write_text(yaml.safe_dump(option))
    command = [
        sys.executable, "-m", "semimedref.cli", "train", "--config-dir", str(tmp_path / "conf"),
        *smoke, "model=my_net", "trusted_packages=[my_lab]", "scale.epochs=1",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("multirun/*/result.json")
    assert "-net-teacher_student-" in result.parent.name
    untrusted = subprocess.run(
        [*(c for c in command if "trusted" not in c), "seed.value=3"],
        capture_output=True, text=True, env=env,
    )  # fmt: skip
    assert untrusted.returncode == 2 and "trusted_packages" in untrusted.stderr
