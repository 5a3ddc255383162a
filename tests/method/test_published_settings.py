"""Rival methods at ``scale=paper``: the settings they were published with, as far as known."""

import pytest
from omegaconf import OmegaConf

from semimedref.config import compose, config_dir, resolved, signature
from semimedref.needs import needed

WORDS = ["text_encoder.weights=random", "image_encoder.weights=random"]  # none are needed here
ADAM = {"optimizer": "adam", "lr": 3e-4, "weight_decay": 0.0}
RESTARTS = {"lr_shape": "restarts", "min_lr": 1e-4, "cosine_epochs": 10}
VLM = {"epochs": 100, "patience": 50, "min_change": 0.0, "batch_size": 16}
TEXTMOE = {"optimizer": "adamw", "lr": 3e-4, "weight_decay": 0.01, "lr_shape": "cosine",
           "min_lr": 1e-6, "epochs": 400, "cosine_epochs": 400, "min_epochs": 20, "patience": 20,
           "min_change": 0.0, "batch_size": 16}  # fmt: skip
TRAINERS = {
    "textmoe": TEXTMOE,
    "rar": TEXTMOE,
    "tevid_recon": TEXTMOE,
    "semires": {"optimizer": "adamw", "lr": 5e-5, "weight_decay": 0.01, "lr_shape": "poly",
                "lr_power": 0.9, "min_lr": 0.0, "epochs": 80, "patience": 5,
                "min_change": 0.0, "batch_size": 12},
    "lvit_epi": ADAM | RESTARTS | {"batch_size": 24, "patience": 50, "min_change": 0.0},
    "textmatch": ADAM | {"min_lr": 3e-4, "batch_size": 8},
    "dusss": ADAM | RESTARTS | VLM,
    "amvlm": ADAM | RESTARTS | VLM,
}  # fmt: skip
METHODS = {
    "textmoe": {"momentum": 0.99, "cutoff": 10},
    "rar": {"momentum": 0.99, "weight_unsup": 1.0, "weight_contrast": 0.05, "nearest": 5,
            "temperature": 0.07, "bank_momentum": 0.99},
    "tevid_recon": {"momentum": 0.99, "temperature": 0.07},
    "semires": {"momentum": 0.9996, "iom_threshold": 0.5, "cpi_threshold": 0.7,
                "class_weights": [0.9, 1.1]},
    "lvit_epi": {"beta": 0.99, "weight_lv": 0.1},
    "textmatch": {"momentum": 0.99, "teacher_views": 3, "weight_reg": 0.1, "weight_pl": 0.1,
                  "weight_cl": 0.1, "temperature": 0.9, "prototype_momentum": 0.9},
    "dusss": {"momentum": 0.99, "weight_text": 0.5},
    "amvlm": {"momentum": 0.99, "weight_text": 0.0},
    "unimatch": {"threshold": 0.95, "feature_dropout": 0.5, "weight_strong": 0.25,
                 "weight_dropped": 0.5},
    "fixmatch": {"threshold": 0.95, "weight_unlabeled": 1.0},
    "cps": {"weight_unlabeled": 1.5, "ramp": 0.0},
    "mean_teacher": {"momentum": 0.99},
}  # fmt: skip


def at_paper_scale(method):
    return resolved(compose([f"method={method}", "scale=paper"]))


@pytest.mark.parametrize("method", METHODS)
def test_a_rival_has_its_published_settings(method):
    plain = at_paper_scale(method)
    for part, expected in (("trainer", TRAINERS.get(method, {})), ("method", METHODS[method])):
        assert {key: plain[part][key] for key in expected} == expected


@pytest.mark.parametrize("method", ["dusss", "amvlm"])
def test_its_pre_training_has_them_too(method):
    trainer = at_paper_scale(method)["needs"]["vlm"]["trainer"]
    published = {"optimizer": "adam", "lr": 3e-5, "min_lr": 3e-5, "batch_size": 32, "epochs": 100}
    assert {key: trainer[key] for key in published} == published


@pytest.mark.parametrize("name", ["dusss", "amvlm"])
def test_the_pre_training_that_a_method_needs_is_the_one_that_its_page_names(name):
    ((_, other),) = needed(compose([f"method={name}", "scale=paper", *WORDS]))
    alone = ["method=vlm_pretraining", f"vlm={name}", "trainer=vlm_pretraining", "ratio=100pct"]
    assert signature(resolved(other)) == signature(
        resolved(compose([*alone, "scale=paper", *WORDS]))
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("LAVT", {"text_encoder.dropout": False, "text_encoder.max_tokens": 20}),
        ("TextMatch", {"model.mask_padding": True, "text_encoder.max_tokens": 64}),
        ("DuSSS", {"vlm.words": 9, "text_encoder.max_tokens": 64}),  # cut once it is read
    ],
)
def test_rows_of_table_1_read_as_published(row, expected):
    file = OmegaConf.load(config_dir() / "experiment" / "main.yaml")
    words = [f"{key}={value}" for key, value in file.hydra.sweeper.rows[row].items()]
    cfg = compose(["dataset=qata_cov19", "scale=paper", *words])
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


def test_dusss_compares_more_words_at_other_scales_where_no_encoder_learns():
    for scale in ("cpu", "smoke"):
        assert resolved(compose(["method=dusss", f"scale={scale}"]))["vlm"]["words"] == 24


def test_another_network_keeps_the_optimizer_of_semires():
    trainer = resolved(compose(["method=semires", "model=mmi_unet", "scale=paper"]))["trainer"]
    assert {key: trainer[key] for key in TRAINERS["semires"]} == TRAINERS["semires"]


def test_lvit_has_its_published_size_at_the_scale_of_the_paper_alone():
    for scale, width, words in (("paper", 64, 10), ("cpu", 16, 24), ("smoke", 16, 24)):
        plain = resolved(compose(["method=lvit_epi", f"scale={scale}"]))
        assert plain["model"]["width"] == width
        assert plain["text_encoder"]["max_tokens"] == words
