"""Learning curves of an experiment's finished runs, as a figure for a page.

python docs/results/curves.py qata_cpu OUT.png [OVERRIDE ...]      # e.g. dataset.root=FOLDER
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from semimedref.results.store import load_metrics
from semimedref.results.table import read_runs
from semimedref.sweep import expand


def main(name: str, out: str, *overrides: str) -> None:
    """Validation Dice after every epoch, one line a run."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for run in read_runs(expand([f"experiment={name}", *overrides])):
        rows = load_metrics(Path(run.folder))
        if len(rows) < 2 or rows[-1]["step"] == len(rows):  # an atlas does not learn
            continue
        steps = [row["step"] for row in rows]
        scores = [100 * row["val/dice"] for row in rows]
        (line,) = axes.plot(steps, scores, marker="o", ms=3, label=run.cell.row)
        axes.annotate(f"{scores[-1]:.1f}", (steps[-1], scores[-1]), xytext=(4, 0),
                      textcoords="offset points", color=line.get_color(), va="center")  # fmt: skip
    axes.set(xlabel="optimizer steps", ylabel="validation Dice, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(out, dpi=130)
    print(f"written to {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
