"""The two presets: the fields of the authors' code, and what each makes of a configuration."""

import re

import pytest

from semimedref.config import compose, config_dir, resolved
from semimedref.results.commands import diff_command

# Every row of the comparison of paper and published code: field, paper, release.
FIELDS = [
    ("text_source", "sgseg", "sgseg"),
    ("bare_side_label", "none", "all_levels"),
    ("transpose", False, True),
    ("labeled_count_qata", "round", "round"),
    ("labeled_count_mosmed", "floor", "floor"),
    ("jitter_space", "unit", "z_score"),
    ("labeled_view", "weak", "weak"),
    ("posaug_unit", "phrase", "phrase"),
    ("posaug_edit", 0.5, 0.5),
    ("posaug_rho", 0.5, 0.5),
    ("posaug_token", "special", "plain"),
    ("posaug_when", "after_mixing", "before_mixing"),
    ("mix_variant", "hybrid", "pos"),
    ("mix_probability", 1.0, 0.08),
    ("mix_patch", 16, 16),
    ("mix_subset", "any", "any"),
    ("mix_edge", 0, 0),
    ("mix_region_from", "donor", "receiver"),
    ("mix_conflict", "sides", "first_phrases"),
    ("gate_image", True, False),
    ("unmixed_threshold", "delta", 0.5),
    ("mix_update_count", True, False),
    ("self_pairs", False, True),
    ("student_passes", "joint", "joint"),
    ("unsure", 0.0, 0.0),
    ("momentum_update", "step", "epoch"),
    ("cross_entropy", True, False),
    ("pacl_nested", False, True),
    ("pacl_unlabeled_view", "weak", "weak"),
    ("pacl_image_feature", "pre_fusion", "post_fusion"),
    ("pacl_image_layers", 1, 1),
    ("pacl_text_layers", 2, 2),
    ("pacl_start", "burn_in", "first_step"),
    ("text_dropout", True, True),
    ("ramp_update", "step", "epoch"),
    ("labeled_sampler", "cycle", "replacement"),
    ("ispg_contrast_projector", False, True),
    ("ispg_zero_route", "no_token", "constant_token"),
    ("ispg_removal_key", "image_id", "report_text"),
    ("posmed_domains", 4, 6),
    ("posmed_batch", 32, 24),
]


@pytest.mark.parametrize(("column", "preset"), [(1, "paper"), (2, "release")])
def test_a_preset_is_exactly_the_flat_set_of_fields(column, preset):
    found = resolved(compose([f"preset={preset}"]))["preset"]
    assert found == {row[0]: row[column] for row in FIELDS}


def test_diff_of_the_presets_prints_exactly_the_fields_that_differ(capsys):
    import json

    assert diff_command(["preset=paper", "preset=release"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["key", "preset=paper", "preset=release"]
    printed = {key: (a, b) for key, a, b in (line.split() for line in lines)}
    assert printed == {
        f"preset.{field}": (json.dumps(paper), json.dumps(release))
        for field, paper, release in FIELDS
        if paper != release
    }


def test_every_field_is_read_by_an_option_and_every_reference_is_a_field():
    texts = [f.read_text() for f in config_dir().rglob("*.yaml")]
    read = {name for text in texts for name in re.findall(r"\$\{preset\.(\w+)\}", text)}
    assert read == {row[0] for row in FIELDS}


def test_a_preset_writes_into_no_other_group():
    written = [compose([f"preset={name}", "augment=semi_medref", "align=pacl"]) for name in
               ("paper", "release")]  # fmt: skip
    from omegaconf import OmegaConf

    plain = [OmegaConf.to_container(cfg, resolve=False) for cfg in written]
    for cfg in plain:
        cfg.pop("hydra")
        cfg.pop("preset")
    assert plain[0] == plain[1]


@pytest.mark.parametrize("preset", ["paper", "release"])
@pytest.mark.parametrize(
    "options",
    [
        ("augment=none",),
        ("augment=semi_medref", "align=pacl"),
        ("augment=none", "method=supervised"),
    ],
    ids=" ".join,
)
def test_a_few_steps_train_under_both_presets(compose_smoke, tmp_path, preset, options):
    import math

    from semimedref.run import Parts

    cfg = compose_smoke(f"preset={preset}", *options, "scale.steps_per_epoch=2")
    trainer = Parts.build(cfg).trainer(tmp_path, lambda: None)
    for step in range(6):  # burn-in is epoch 0; the release skips epoch 1 too
        trainer._optimize(trainer.data[step])
    assert all(math.isfinite(float(value)) for value in trainer.sums.values())
    unlabeled = {"paper": 4, "release": 2}[preset] if "method=supervised" not in options else 0
    assert trainer.counts.get("loss_unsup", 0) == unlabeled


def test_the_presets_ispg_trains_a_few_steps_too(compose_smoke, tmp_path):
    from semimedref.run import Parts

    cfg = compose_smoke("preset=release", "method=ispg", "augment=semi_medref", "align=pacl")
    trainer = Parts.build(cfg).trainer(tmp_path, lambda: None)
    for step in (0, 5, 10):  # burn-in, the skipped epoch, both branches
        trainer.step = step
        trainer._optimize(trainer.data[step])
    assert trainer.counts["loss_unsup"] == 1 and trainer.counts["loss_position_sup"] == 3
