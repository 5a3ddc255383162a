"""The paper's table "Final hyperparameters", row by row, against the composed configuration."""

import pytest

from semimedref.config import compose, resolved

# (category, row, printed value, {key: value of our configuration}, what was decided differently)
ROWS = [
    ("Architecture", "Image/text encoders", "ConvNeXt-Tiny / CXR-BERT", {
        "method.model.image_encoder._target_": "semimedref.model.encoders.convnext.ConvNeXtTiny",
        "method.model.text_encoder.weights": "hub:microsoft/BiomedVLP-CXR-BERT-specialized",
    }, None),
    ("Architecture", "Contrastive projection dimension", "768", {"method.align.width": 768}, None),
    ("Optimization", "Effective training batch / validation batch", "32 / 8", {
        "trainer.batch_size": 32,
        "trainer.accumulate": 1,
        "hardware.eval_batch_size": 32,
    }, "the validation batch belongs to the machine: scores do not depend on it"),
    ("Optimization", "Precision", "FP32", {"trainer.precision": "fp32"}, None),
    ("Optimization", "Optimizer and initial learning rate", "AdamW, 3e-4",
     {"trainer.lr": 3e-4}, None),
    ("Optimization", "Weight decay and Adam coefficients", "1e-2; (0.9, 0.999)",
     {"trainer.weight_decay": 1e-2}, None),
    ("Optimization", "Learning-rate schedule", "cosine, T_max = 200, minimum 1e-6", {
        "trainer.cosine_epochs": 200,
        "trainer.min_lr": 1e-6,
        "trainer.warmup_epochs": 0,
        "trainer.lr_update": "epoch",
    }, None),
    ("Optimization", "Epoch range and early stopping",
     "20-100; patience 30, min. change 1e-3", {
        "trainer.min_epochs": 20,
        "trainer.epochs": 100,
        "trainer.patience": 30,
        "trainer.min_change": 1e-3,
    }, None),
    ("Teacher-student", "Burn-in / unsupervised ramp-up", "5 / 15 epochs", {
        "method.schedule.unit": "epochs",
        "method.schedule.burn_in": 5,
        "method.schedule.ramp": 15,
    }, None),
    ("Teacher-student", "Maximum unlabeled segmentation weight", "0.3",
     {"method.weight_unlabeled": 0.3}, None),
    ("Teacher-student", "Hard pseudo-mask threshold", "0.55", {
        "method.pseudo_label._target_": "semimedref.pseudo_label.hard.Hard",
        "method.pseudo_label.threshold": 0.55,
        "method.views.mixer.threshold": 0.55,
        "method.mixed_threshold": 0.5,
    }, "a mixed pseudo-mask is cut at 0.5, as its equation says"),
    ("Teacher-student", "EMA momentum", "0.99 -> 0.999 over 20 epochs; final 0.999", {
        "method.momentum_start": 0.99,
        "method.momentum_end": 0.999,
        "method.schedule.momentum_ramp": 20,
    }, "0.99 during burn-in; the 20 epochs begin after it"),
    ("Teacher-student", "Labeled/unlabeled loader combination", "maximum-size cycling", {
        "trainer.labeled_sampler": "cycle",
        "trainer.steps_per_epoch": None,
        "trainer.steps": "matched",
    }, None),
    ("Cross-modal training", "PosAug probability", "0.5", {
        "method.views.words.edit": 0.5,
        "method.views.words.rho": 0.5,
        "method.views.words.unit": "phrase",
    }, "for each phrase; an edit drops with rho = 0.5, else it fuzzes"),
    ("Cross-modal training", "T-PatchMix block", "16x16", {
        "method.views.mixer.patch": 16,
        "method.views.mixer.reference_side": 224,
        "method.views.mixer.variant": "hybrid",
        "method.views.mixer.probability": 1.0,
    }, "one square of 16 pixels at any offset, not a grid"),
    ("Cross-modal training", "PACL temperature tau", "0.07",
     {"method.align.temperature": 0.07}, None),
    ("Cross-modal training", "Supervised PACL weight", "0.02",
     {"method.align.weight_labeled": 0.02}, None),
    ("Cross-modal training", "Unsupervised PACL weight", "0.10",
     {"method.align.weight_unlabeled": 0.10}, None),
]  # fmt: skip


@pytest.fixture(scope="module")
def plain():
    return resolved(
        compose(["scale=paper", "preset=paper", "method=teacher_student", "augment=semi_medref",
                 "align=pacl"])
    )  # fmt: skip


def at(plain, key):
    for name in key.split("."):
        plain = plain[name]
    return plain


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_configuration_has_the_papers_value(plain, row):
    _, _, _, expected, _ = row
    assert {key: at(plain, key) for key in expected} == expected


def test_the_table_has_the_papers_eighteen_rows_in_four_categories():
    assert len(ROWS) == 18
    categories = list(dict.fromkeys(row[0] for row in ROWS))
    assert [sum(row[0] == c for row in ROWS) for c in categories] == [2, 6, 5, 5]


def test_the_optimizer_is_adamw_with_the_papers_coefficients(compose_smoke, tmp_path):
    import torch

    from semimedref.run import Parts

    optimizer = Parts.build(compose_smoke()).trainer(tmp_path, lambda: None).optimizer
    assert isinstance(optimizer, torch.optim.AdamW)
    assert optimizer.defaults["betas"] == (0.9, 0.999)
    assert optimizer.defaults["weight_decay"] == 1e-2


def test_the_views_have_the_numbers_of_the_papers_text(plain):
    views = plain["method"]["views"]
    assert views["jitter"] | {"_target_": ""} == {
        "_target_": "", "probability": 0.8, "brightness": 0.2, "contrast": 0.2,
    }  # fmt: skip
    assert views["blur"] | {"_target_": ""} == {
        "_target_": "", "probability": 0.5, "kernel": 7, "low": 0.1, "high": 2.0,
    }  # fmt: skip
    assert (views["zoom"]["probability"], views["zoom"]["low"], views["zoom"]["high"]) == (
        0.1, 0.95, 1.2,
    )  # fmt: skip
    assert plain["scale"]["image_side"] == 224
    assert plain["method"]["model"]["text_encoder"]["max_tokens"] == 24
