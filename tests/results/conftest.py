"""A factory of fake run folders, written exactly as a run writes them."""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from semimedref.sweep import Cell, Experiment

Counts = list[tuple[str, str, int, int, int]]  # id, patient, tp, fp, fn
FEW = {"bootstrap": 2000, "randomization": 500, "seed": 0, "locked": "s42"}
IMAGES: Counts = [("i0", "p0", 30, 10, 10), ("i1", "p0", 20, 0, 20), ("i2", "p1", 50, 30, 0)]


def make_config(method="supervised", fraction=0.02, seed=0, **extra):
    return {
        "method": {"_target_": f"semimedref.method.{method}.{method.title().replace('_', '')}"},
        "ratio": {"fraction": fraction},
        "seed": {"value": seed},
        "dataset": {"name": "phantom"},
        **extra,
    }


def global_dice(images: Counts) -> float:
    tp, fp, fn = (sum(image[i] for image in images) for i in (2, 3, 4))
    return 2 * tp / (2 * tp + fp + fn)


@dataclass
class Lab:
    """An experiment in a temporary folder; ``cell`` adds a cell, ``finish`` writes its result."""

    root: Path
    name: str = "quickstart"
    title: str = "Quickstart on the phantom"
    columns: list = field(default_factory=lambda: ["ratio"])
    cells: list = field(default_factory=list)
    metrics: list = field(default_factory=lambda: ["dice", "miou"])
    options: dict = field(default_factory=dict)  # further fields of the experiment
    statistics: dict = field(default_factory=lambda: dict(FEW))

    @property
    def experiment(self):
        return Experiment(
            self.name, self.title, self.columns, "seed", self.metrics, self.root, self.cells,
            statistics=self.statistics, **self.options,
        )  # fmt: skip

    @staticmethod
    def config(method, fraction=0.02):
        return make_config(method, fraction)

    def cell(self, row="Baseline", ratio="2pct", seed="s0", config=None, evaluation=None, **point):
        signature = f"{len(self.cells):012x}"
        cell = Cell(
            row=row,
            point={"ratio": ratio, "seed": seed, **point},
            overrides=(f"ratio={ratio}", f"seed={seed}", f"row={row}"),
            config=make_config() if config is None else config,
            signature=signature,
            name=f"phantom-{ratio}-{seed}-{signature}",
            evaluation=evaluation or {},
        )
        self.cells.append(cell)
        return cell

    def folder(self, cell) -> Path:
        folder = self.root / cell.name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def start(self, cell, val_dice=()):
        folder = self.folder(cell)
        run = {"signature": cell.signature, "name": cell.name, "config": cell.config}
        (folder / "run.json").write_text(json.dumps(run))
        rows = [{"epoch": e, "step": 50 * e, "val/dice": v} for e, v in enumerate(val_dice, 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder

    def finish(self, cell, images: Counts = IMAGES, val_dice=(0.2, 0.5), result=None, **test):
        folder = self.start(cell, val_dice)
        with (folder / "per_image.csv").open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["id", "patient", "tp", "fp", "fn", "dice"])
            writer.writerows([*image, global_dice([image])] for image in images)
        dice = global_dice(images)
        scores = {
            "dice": dice,
            "miou": dice / (2 - dice),
            "dice_per_image": 0.5,
            "dice_shuffled": 0.3,
            "text_gap": dice - 0.3,
            "images": len(images),
            "patients": len({image[1] for image in images}),
            "dice_text_blind_oracle": 0.585,
        }
        made = self._result(cell, scores | test) | (result or {})
        (folder / "result.json").write_text(json.dumps(made))
        return folder

    def _result(self, cell, scores):
        return {
            "status": "done",
            "signature": cell.signature,
            "name": cell.name,
            "config": cell.config,
            "experiment": self.name,
            "row": cell.row,
            "version": "0.1.0",
            "git_commit": "0123456789abcdef",
            "environment": {"python": "3.11", "torch": "2.13.0"},
            "precision": {"tf32": False, "amp": None},
            "device": "cpu",
            "wall_seconds": 61.4,
            "peak_memory_bytes": 512 * 2**20,
            "parameters": {"total": 1_500_000, "trainable": 1_100_000},
            "epochs": 20,
            "steps": 1000,
            "best": {"epoch": 18, "val/dice": 0.75},
            "test": scores,
            "finished": 1_700_000_000.0,
        }


@pytest.fixture
def lab(tmp_path) -> Lab:
    return Lab(tmp_path / "multirun")


@pytest.fixture
def expanded(lab, monkeypatch):
    """Commands look the experiment up with ``semimedref.sweep.expand``: give them the lab's."""
    calls = []

    def expand(overrides):
        calls.append(overrides)
        return lab.experiment

    monkeypatch.setattr("semimedref.sweep.expand", expand)
    return calls
