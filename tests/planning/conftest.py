"""Plans with costs that can be worked out by hand."""

import json

import pytest

from semimedref.planning import plan as planning
from semimedref.planning.count import MethodFacts, Pass, StepCount
from semimedref.planning.counts import counts_key

# On the GPU below a step takes 36 s and an image of an evaluation 3.6 s.
GPU = ["gpu=own", "gpu.peak_tflops.fp32=1", "gpu.memory_gib=8", "gpu.launch_us=0", "gpu.at_once=2"]
EPOCH = ["trainer.epochs=4", "trainer.steps_per_epoch=25", "overlays=never"]


class RoundCounts:
    """Round numbers in place of real counts."""

    def __init__(self, config):
        self.key = counts_key(config)

    def step(self, stage):
        return StepCount(flops=36e12, kernels=0, memory=3 * 2**30)

    def facts(self):
        return MethodFacts(
            validation=Pass(3.6e12, 0),
            test=Pass(7.2e12, 0),
            best_bytes=int(2e9),
            last_bytes=int(5e9),
            weights_bytes=2**30,
            trainable=10,
            pretrained_bytes=int(3e8),
            segments=True,
            selects_on="valid",
        )


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The words of a small experiment with round costs, in a folder of its own."""
    monkeypatch.setattr(planning, "Counts", RoundCounts)
    size = ["scale=smoke", "dataset=phantom_tiny"]
    return ["experiment=quickstart", *size, *EPOCH, *GPU, f"run_root={tmp_path / 'runs'}"]


@pytest.fixture
def finish():
    """Write what a finished or an interrupted run leaves."""

    def write(experiment, cell, *, done):
        folder = experiment.run_root / cell.name
        folder.mkdir(parents=True)
        if done:
            result = {"status": "done", "config": cell.config, "test": {"dice": 0.5}}
            (folder / "result.json").write_text(json.dumps(result))
        else:
            (folder / "last.pt").write_bytes(b"")
            rows = [json.dumps({"epoch": e, "step": 25 * e}) + "\n" for e in (1, 2, 3)]
            (folder / "metrics.jsonl").write_text("".join(rows))

    return write
