import json

import pytest

from semimedref.results.scrubbing import (
    numbers_of,
    scrubbed_result,
    scrubbed_run,
    signed_paths,
)

HASH = "sha256:" + "ab" * 32
CONFIG = {
    "dataset": {"name": "own", "root": "/home/ann/ct", "annotation": "my data/own.csv"},
    "ratio": {"fraction": 0.1},
    "seed": {"value": 0},
    "method": {
        "weights": "/srv/w/convnext.pt",
        "hub": "hub:org/name",
        "package": "package:gt_all/model",
        "axes": [{"removal": 0.5}],
        "said": "one infected area, upper left lung and/or lower left lung.",
    },
    "image_encoder": {"weights": "/srv/w/convnext.pt", "other": "/mnt/x/y.pt", "near": "~/z/w.pt"},
    "trainer": {},
    "tracking": {"uri": "http://ann:secret@node7:5000"},
    "run_root": "/scratch/ann/runs",
}
SIGNED = {
    "dataset": {"name": "own", "annotation": HASH},
    "method": {"weights": HASH, "hub": "hub:org/name", "package": "package:gt_all==0.1"},
}
RUN = {"name": "r", "signature": "s", "config": CONFIG, "signed": SIGNED, "created": 1.5}


def test_files_are_named_by_content_and_folders_and_servers_are_gone():
    clean = scrubbed_run(RUN)
    config = clean["config"]
    assert config["run_root"] == "multirun"
    assert config["dataset"] == {"name": "own", "root": None, "annotation": HASH}
    assert config["tracking"] == {"uri": None}
    assert config["image_encoder"] == {"weights": HASH, "other": "…/y.pt", "near": "…/w.pt"}
    assert config["method"] == {**CONFIG["method"], "weights": HASH}
    assert clean["signed"] == SIGNED and clean["created"] == 1.5
    text = json.dumps(clean, ensure_ascii=False)
    assert not [word for word in ("ann", "srv", "node7", "secret", "scratch") if word in
                text.replace("annotation", "")]  # fmt: skip


def test_scrubbing_twice_changes_nothing():
    once = scrubbed_run(RUN)
    assert scrubbed_run(once) == once


def test_a_result_keeps_its_numbers_and_loses_hosts_and_paths():
    result = {
        "status": "done",
        "config": CONFIG,
        "environment": {"torch": "2.13.0", "hostname": "node7", "platform": "Linux-6.1-x86_64"},
        "data": {
            "warnings": ["C:\\Users\\ann\\a.csv is odd"],
            "labeled": {"images": 9, "sha256": "x"},
        },
        "test": {"dice": 0.1 + 0.2, "text_gap": None},
    }
    clean = scrubbed_result(result, RUN)
    assert list(clean) == list(result)
    assert clean["test"] == result["test"]
    assert clean["environment"] == {**result["environment"], "hostname": None}
    assert clean["data"]["warnings"] == ["…/a.csv is odd"]
    assert clean["data"]["labeled"] == {"images": 9, "sha256": "x"}
    assert clean["config"] == scrubbed_run(RUN)["config"]


def test_the_hash_of_one_or_two_names_is_left_out():
    result = {"config": CONFIG, "data": {"labeled": {"images": 2, "sha256": "guessable"}}}
    assert scrubbed_result(result, RUN)["data"]["labeled"] == {"images": 2}


def test_a_path_that_is_signed_is_named():
    assert signed_paths(RUN) == []
    assert signed_paths({"signed": {"dataset": {"extra": "/data/x/y"}}}) == ["dataset.extra"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"dice": 0.5, "ci": [0.1, None], "stage 1": {"n": 3}}, "all"),
        (
            {"dice": 0.5, "text": "a sentence", "table": [["row", "Dice"], ["a", 0.5]]},
            {"dice": 0.5},
        ),
        ({"PACL": {"spearman": 0.9, "objective": "PACL"}}, {"PACL": {"spearman": 0.9}}),
        ({"cases": [{"scan1": 0.5}], "n": 1}, {"n": 1}),
        ({"cases": {"scan1": 0.5}}, None),
        ({"smith": 0.5}, None),
    ],
)
def test_numbers_leave_under_words_that_name_nobody(content, expected):
    found = numbers_of(content, but={"scan1", "smith"})
    assert found == (content if expected == "all" else expected)
