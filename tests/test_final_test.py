"""The test set is opened once: counts, mask scores and summary come from the same predictions."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from semimedref.config import build, resolved, signature
from semimedref.final_test import measure_masks
from semimedref.folder import RunFolder
from semimedref.mask_scores import COLUMNS, MaskScores
from semimedref.run import Parts, run

SHORT = ("scale.epochs=1", "scale.steps_per_epoch=1", "method=supervised", "augment=none",
         "overlays=never")  # fmt: skip


def test_per_image_scores_give_the_scores_of_the_result(compose_smoke):
    cfg = compose_smoke(*SHORT)
    run(cfg)
    (folder,) = (p.parent for p in Path(cfg.run_root).glob("*/result.json"))
    with (folder / "per_image.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0])[-6:] == ("dice", *COLUMNS)
    table = np.array([[float(row[c] or "nan") for c in COLUMNS] for row in rows])
    test = json.loads((folder / "result.json").read_text(), parse_constant=pytest.fail)["test"]
    for name, value in MaskScores.summarize(table).items():
        assert test[name] == (None if np.isnan(value) else pytest.approx(value, abs=1e-6)), name
    assert test["nsd_tolerance"] == cfg.scores.tolerance
    lesions = [row["lesions"] for row in rows]
    assert all(n.isdigit() for n in lesions) and set(lesions) != {"0"}


def test_one_prediction_gives_the_counts_of_the_plain_measure(compose_smoke):
    cfg = compose_smoke(*SHORT)
    parts = Parts.build(cfg)
    counts, shapes = measure_masks(parts, parts.pool("test"), build(cfg, "scores"))
    assert counts.tolist() == parts.counts("test").tolist()
    assert shapes.shape == (len(counts), len(COLUMNS))
    empty = counts[:, :2].sum(1) == 0  # nothing predicted, in images that all have a lesion
    assert np.isnan(shapes[:, 1]).tolist() == empty.tolist()


def test_how_masks_are_scored_does_not_change_which_run_it_is(compose_smoke):
    plain, other = (resolved(compose_smoke(*SHORT, *extra)) for extra in (
        (), ("scores.tolerance=0.02", "statistics.bootstrap=10")))  # fmt: skip
    assert signature(plain) == signature(other)


def test_a_table_has_whole_numbers_fractions_and_empty_cells(tmp_path):
    RunFolder(tmp_path).write_per_image(
        {"id": ["a", "b"], "patient": ["p", "q"]},
        np.array([[1, 2, 1], [0, 0, 4]]),
        extra={"nsd": np.array([0.25, 0.0]), "hd95": np.array([1.5, np.nan])},
    )
    assert (tmp_path / "per_image.csv").read_text() == (
        "id,patient,tp,fp,fn,dice,nsd,hd95\na,p,1,2,1,0.400000,0.250000,1.500000\n"
        "b,q,0,0,4,0.000000,0,\n"
    )
