"""How large the benchmarks are: ``FULL`` for numbers, ``TINY`` to see that they run."""

from __future__ import annotations

from dataclasses import dataclass

_MACHINE = ("tracking=off", "hardware=cpu", "hardware.threads=1")
_FAST = ("hardware=fast", "hardware.device=cpu", "hardware.threads=1")
_RANDOM = ("image_encoder.weights=random", "text_encoder.weights=random")
PAPER = "paper's shapes"  # the label of the step whose batch is ``paper_batch``


@dataclass(frozen=True)
class Size:
    """Every number of a benchmark run."""

    repeats: int
    least_repeats: int
    budget: float  # seconds of one comparison: slow ones get fewer repeats, but never too few
    seconds: float  # of one repeat, at least: short calls are repeated inside
    cpu: tuple[str, ...]  # overrides of the CPU-scale configuration
    networks: dict[str, tuple[str, ...]]  # overrides by label, for the EMA update
    batch: int
    files: int  # images among which batches are drawn
    side: int  # pixels of images that come from files
    index: int  # images of the loader whose memory is measured
    patients: int  # of the resampled test set
    replicates: int
    sweeps: tuple[tuple[str, ...], ...]  # overrides of the expanded experiments
    stored: tuple[int, int, int]  # rows, columns and seeds of a table whose runs are all finished
    stored_patients: int  # of their test set, four images each
    steps: dict[str, tuple[str, ...]]  # overrides by label, for the whole step
    tracked: int  # epochs that are mirrored
    paper_batch: int  # labeled images of the step at the paper's shapes, and as many unlabeled


FULL = Size(
    repeats=9,
    least_repeats=3,
    budget=6.0,
    seconds=0.05,
    cpu=("dataset=phantom", "scale=cpu", *_MACHINE),
    networks={
        "ConvNeXt-T size": ("scale=paper", *_RANDOM, *_MACHINE),
        "CPU size": ("scale=cpu", *_MACHINE),
    },
    batch=16,
    files=256,
    side=224,
    index=100_000,
    patients=474,
    replicates=2000,
    sweeps=(
        ("experiment=quickstart",),
        ("experiment=quickstart", "seed=s0,s1,s42"),
    ),
    stored=(5, 100, 10),
    stored_patients=60,
    steps={
        "CPU scale": ("dataset=phantom", "scale=cpu", *_MACHINE),
        PAPER: ("dataset=phantom", "scale=paper", *_RANDOM, *_MACHINE),
        "CPU scale, fast": ("dataset=phantom", "scale=cpu", *_MACHINE, *_FAST),
        f"{PAPER}, fast": ("dataset=phantom", "scale=paper", *_RANDOM, *_MACHINE, *_FAST),
    },
    tracked=50,
    paper_batch=4,
)

TINY = Size(
    repeats=1,
    least_repeats=1,
    budget=0.0,
    seconds=0.0,
    cpu=("dataset=phantom_tiny", "scale=smoke", *_MACHINE),
    networks={"smoke size": ("dataset=phantom_tiny", "scale=smoke", *_MACHINE)},
    batch=4,
    files=8,
    side=96,
    index=500,
    patients=6,
    replicates=20,
    sweeps=(("experiment=phantom_headroom", "ratio=2pct"),),
    stored=(2, 2, 2),
    stored_patients=6,
    steps={"smoke size": ("dataset=phantom_tiny", "scale=smoke", *_MACHINE)},
    tracked=3,
    paper_batch=2,
)
