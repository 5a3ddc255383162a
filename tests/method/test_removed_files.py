"""Masks of unlabeled images and all files of the test split are removed: methods still train.

One method of each kind; tests/method/test_every_method.py hides the masks of the phantom from all.
"""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image
from tests.method.test_every_method import METHODS

from semimedref.config import build
from semimedref.errors import UserError
from semimedref.run import Parts

pytestmark = pytest.mark.slow

SIDE = 48
PLACES = ("upper left lung", "lower left lung", "middle right lung", "lower right lung")
COUNTS = {"train": 16, "valid": 3, "test": 3}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A data set of files; every image has a mask."""
    monkeypatch.setenv("SEMIMEDREF_CACHE", str(tmp_path / "cache"))
    rows, rng = [], np.random.default_rng(0)
    for split, number in COUNTS.items():
        for i in range(number):
            name, place = f"{split}_{i}.png", PLACES[i % 4]
            for kind, high in (("image", 256), ("mask", 2)):
                (tmp_path / kind).mkdir(exist_ok=True)
                pixels = rng.integers(0, high, (SIDE, SIDE), dtype=np.uint8)
                Image.fromarray(pixels * (255 if high == 2 else 1)).save(tmp_path / kind / name)
            text = f"unilateral pulmonary infection, one infected area, {place}."
            rows.append([f"image/{name}", f"mask/{name}", text, split, f"{split}{i}"])
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "mask", "text", "split", "patient"], *rows])
    return tmp_path / "table.csv"


def remove(files):
    for file in files:
        file.unlink() if file.is_file() else shutil.rmtree(file)
    return len(files)


@pytest.mark.parametrize("method", ["supervised", "teacher_student", "rar", "vlm_pretraining"])
def test_it_trains_without_the_files_that_it_may_not_see(compose_smoke, table, tmp_path, method):
    words = [f"method={method}", *METHODS[method], "dataset=own", f"dataset.annotation={table}",
             "dataset.vocabulary=lungs", "ratio.fraction=0.25", "scale.epochs=2",
             "scale.schedule.burn_in=0"]  # fmt: skip
    cfg = compose_smoke(*words)
    dataset = build(cfg, "dataset")
    labeled, _ = dataset.labeled_places(fraction=0.25, split_seed=cfg.ratio.split_seed)
    known = {dataset.found.split("train")[i].mask.name for i in labeled}
    parts = Parts.build(cfg)
    known = known if parts.method.reads_masks else set()
    others = [f for f in (table.parent / "mask").glob("train_*") if f.name not in known]
    assert remove(others) == (12 if known else 16)
    folder = tmp_path / "run"
    folder.mkdir()
    trainer = parts.trainer(folder, lambda: None)  # looks whether all data are whole
    assert remove([*table.parent.glob("*/test_*"), *(tmp_path / "cache").glob("**/own-test*")]) >= 7
    del parts.dataset._open["test"]
    trainer.fit()
    assert (folder / "best.pt").exists()
    with pytest.raises((UserError, FileNotFoundError)):  # the test split is really gone
        parts.counts("test")
