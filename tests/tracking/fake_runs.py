"""Run folders without a training, and a small command line to mirror them from processes.

python fake_runs.py mirror FOLDER URI    write a run epoch by epoch and mirror it, as a trainer does
python fake_runs.py sync ROOT URI        what `semimedref sync` does
"""

import fcntl
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from omegaconf import OmegaConf
from PIL import Image

from semimedref.files import write_atomic

CONF = Path(__file__).parents[2] / "conf" / "tracking"
CREATED = 1_700_000_000.0  # all times are given, so that a test can name them


def config(root, *, option="mlflow", experiment_name=None, **tracking):
    """The resolved configuration of a run under `root`, from the shipped YAML."""
    node = OmegaConf.create({"run_root": str(root), "experiment_name": experiment_name})
    node.tracking = OmegaConf.merge(OmegaConf.load(CONF / f"{option}.yaml"), tracking)
    return OmegaConf.to_container(node, resolve=True) | {
        "dataset": {"_target_": "semimedref.dataset.phantom.Phantom", "name": "phantom"},
        "ratio": {"fraction": 0.02},
        "seed": {"value": 42},
        "method": {
            "_target_": "semimedref.method.teacher_student.TeacherStudent",
            "momentum_end": 0.99,
            "model": {"_target_": "semimedref.model.mmi_unet.MMIUNet", "widths": [8, 16]},
        },
    }


def signature_of(number):
    return f"{number:012x}"


def start_run(root, number, cfg, *, row=None):
    """`run.json` of run `number`; returns the folder."""
    name = f"phantom-2pct-mmi_unet-teacher_student-s42-{signature_of(number)}"
    folder = Path(root) / name
    folder.mkdir(parents=True)
    signed = {key: cfg[key] for key in ("dataset", "ratio", "seed", "method")}
    run = {"signature": signature_of(number), "name": name, "config": cfg, "signed": signed}
    run |= {"experiment": cfg["experiment_name"], "row": row, "created": CREATED}
    write_atomic(folder / "run.json", json.dumps(run))
    return folder


def epoch_row(epoch, *, time=None):
    at = CREATED + 10 * epoch if time is None else time
    row = {"epoch": epoch, "step": 50 * epoch, "time": at, "seconds": at - CREATED, "lr": 0.1}
    return row | {"train/loss": 1 / epoch, "val/dice": 1 - 1 / (epoch + 1)}


def write_epochs(folder, epochs, **kwargs):
    """Append the rows of these epochs."""
    with (folder / "metrics.jsonl").open("a") as file:
        for epoch in epochs:
            file.write(json.dumps(epoch_row(epoch, **kwargs)) + "\n")


def finish(folder, epochs, *, dice=0.75):
    """`result.json`."""
    result = {"status": "done", "steps": 50 * epochs, "epochs": epochs, "git_commit": "c0ffee"}
    result |= {"wall_seconds": 12.5, "peak_memory_bytes": 1000, "finished": CREATED + 1000}
    result |= {"parameters": {"total": 30, "trainable": 20}, "best": {"epoch": 2, "val/dice": 0.5}}
    result |= {"test": {"dice": dice, "images": 600, "dice_text_blind_oracle": None}}
    write_atomic(folder / "result.json", json.dumps(result))  # as a run does: a mirror reads it


def write_overlays(folder):
    """Two overlays and their index."""
    overlays = folder / "overlays"
    overlays.mkdir()
    index = []
    for kind, gray in (("median", 100), ("worst", 200)):
        Image.new("L", (8, 8), gray).save(overlays / f"{kind}-case.png")
        index.append({"id": "x", "text": "t", "dice": 0.5, "file": f"{kind}-case.png"})
        index[-1]["kind"] = kind
    (overlays / "index.json").write_text(json.dumps(index))


@contextmanager
def training(folder):
    """Hold the run's lock, as the process does that trains it."""
    with (folder / ".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        fcntl.flock(handle, fcntl.LOCK_UN)


def mirror_a_run(root, uri, number, epochs):
    from semimedref.tracking import open_mirror

    cfg = config(root, experiment_name="quickstart", uri=uri, close_seconds=240)
    folder = start_run(root, number, cfg, row="Teacher-student")
    mirror = open_mirror(folder, cfg)
    with training(folder):
        for epoch in range(1, epochs + 1):
            write_epochs(folder, [epoch])
            mirror.notify()
            time.sleep(0.02)
        finish(folder, epochs)
        return 0 if mirror.close() else 1


def sync_all(root, uri):
    from semimedref.tracking.commands import sync

    return sync(config(root, uri=uri), [])


if __name__ == "__main__":
    command, root, uri, *numbers = sys.argv[1:]
    if command == "mirror":
        sys.exit(mirror_a_run(root, uri, *map(int, numbers)))
    sys.exit(sync_all(root, uri))
