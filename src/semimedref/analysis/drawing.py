"""Figures of the analyses, with matplotlib and without its global state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from semimedref.analysis.words import Word

_BLUE, _ORANGE, _GREEN, _GRAY = "#1f6fb2", "#d9730d", "#2e9d5b", "#8a919a"
_DPI = 150


def interventions(numbers: dict[str, Any], path: Path) -> None:
    """Bars of Dice drop and inconsistency, with intervals."""
    rows = numbers["interventions"]
    figure, axes = _figure(1, 2, width=9, height=3.2)
    for ax, key, title, color in (
        (axes[0], "drop_per_image", "Dice drop, mean over images", _BLUE),
        (axes[1], "inconsistency", "prediction inconsistency", _ORANGE),
    ):
        values = [100 * row[key] for row in rows.values()]
        ends = [[100 * end for end in row[f"{key}_ci"]] for row in rows.values()]
        _bars(ax, list(rows), values, ends, color=color)
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_ylabel("percent")
    _save(figure, path)


def readings(
    *,
    image: np.ndarray,
    truth: np.ndarray,
    predictions: dict[str, np.ndarray],
    texts: dict[str, str],
    path: Path,
) -> None:
    """One image with the mask that each sentence gives."""
    import textwrap

    from semimedref.results.figures import overlay

    gray = np.clip(np.round(image), 0, 255).astype(np.uint8)
    figure, axes = _figure(1, len(predictions) + 1, width=2.4 * (len(predictions) + 1), height=3.4)
    panels = {"truth": overlay(gray, truth, truth)}
    panels |= {name: overlay(gray, truth, mask) for name, mask in predictions.items()}
    for ax, (name, pixels) in zip(axes, panels.items(), strict=True):
        ax.imshow(pixels)
        ax.set_title(name, fontsize=9)
        ax.set_axis_off()
        below = "\n".join(textwrap.wrap(texts.get(name, ""), 34))
        ax.text(0.5, -0.04, below, fontsize=6, ha="center", va="top", transform=ax.transAxes)
    _save(figure, path)


def swap(
    numbers: dict[str, Any],
    named: Sequence[str],
    before: np.ndarray,
    after: np.ndarray,
    path: Path,
) -> None:
    """Where the mass is: share on the right with the sentence and with the swapped one."""
    figure, (ax,) = _figure(1, 1, width=4.4, height=4.2)
    shares = [m[:, 1] / np.maximum(m.sum(1), 1) for m in (before, after)]
    known = (before.sum(1) > 0) & (after.sum(1) > 0)
    for side, color in (("left", _BLUE), ("right", _ORANGE)):
        chosen = known & (np.array(named) == side)
        xy = [100 * share[chosen] for share in shares]
        ax.scatter(*xy, s=14, alpha=0.5, color=color, label=f"sentence says {side}", linewidths=0)
    ax.axhline(50, color=_GRAY, lw=0.8)
    ax.axvline(50, color=_GRAY, lw=0.8)
    ax.set(xlabel="mass on the image's right, sentence (%)", ylabel="… swapped sentence (%)",
           xlim=(-3, 103), ylim=(-3, 103))  # fmt: skip
    ax.set_title(f"{100 * numbers['crosses']:.1f} % of {numbers['cases']} cross the midline",
                 fontsize=10, loc="left")  # fmt: skip
    ax.legend(fontsize=8, frameon=False, loc="center")
    _save(figure, path)


def attention(
    numbers: dict[str, Any], example: tuple[Sequence[Word], np.ndarray] | None, path: Path
) -> None:
    """Enrichment of every stage; below, where each stage looks in one sentence."""
    figure, axes = _figure(2 if example else 1, 1, width=8, height=5.6 if example else 3)
    rows = numbers["stages"]
    values = [row["enrichment"] for row in rows.values()]
    _bars(axes[0], list(rows), values, [row["enrichment_ci"] for row in rows.values()], color=_BLUE)
    axes[0].axhline(1, color=_GRAY, lw=0.8, ls="--")
    axes[0].set_title("attention share over token share of positional words", fontsize=10,
                      loc="left")  # fmt: skip
    if example:
        words, heat = example
        ax = axes[1]
        shown = ax.imshow(heat, cmap="Blues", vmin=0, aspect="auto")
        ax.set_xticks(range(len(words)), [w.text for w in words], rotation=60, fontsize=8)
        for tick, word in zip(ax.get_xticklabels(), words, strict=True):
            tick.set_color(_ORANGE if word.positional else "black")
        ax.set_yticks(range(len(heat)), [f"stage {k + 1}" for k in range(len(heat))], fontsize=8)
        figure.colorbar(shown, ax=ax, label="share of attention")
    _save(figure, path)


def alignment(runs: Sequence[tuple[str, dict[str, np.ndarray]]], path: Path) -> None:
    """Distributions of similarity by overlap, one panel a run."""
    figure, axes = _figure(1, len(runs), width=3.6 * len(runs) + 0.6, height=3.6)
    for ax, (name, values) in zip(axes, runs, strict=True):
        drawn = ax.violinplot(list(values.values()), showmeans=True, showextrema=False)
        for body, color in zip(drawn["bodies"], (_GREEN, "#e3b505", "#c23b22"), strict=True):
            body.set(facecolor=color, alpha=0.6)
        ax.set_xticks(range(1, len(values) + 1), list(values))
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_ylim(-1.05, 1.05)
    axes[0].set_ylabel("cosine similarity")
    _save(figure, path)


def mixing(numbers: dict[str, dict[str, Any]], path: Path) -> None:
    """Lesion score and position overlap of the strategies, side by side."""
    figure, (ax,) = _figure(1, 1, width=6.4, height=3.2)
    at = np.arange(len(numbers))
    for shift, key, color in ((-0.2, "lesion_score", _ORANGE), (0.2, "position_overlap", _BLUE)):
        values = [100 * (row[key] or 0.0) for row in numbers.values()]
        drawn = ax.bar(at + shift, values, 0.38, color=color, label=key.replace("_", " "))
        ax.bar_label(drawn, fmt="%.1f", fontsize=8)
    ax.set_xticks(at, list(numbers), fontsize=9)
    ax.set(ylabel="percent", ylim=(0, 112))
    ax.legend(fontsize=8, frameon=False, loc="upper left")
    _save(figure, path)


def _bars(
    ax: Axes, names: list[str], values: list[float], ends: Sequence[Sequence[float]], *, color: str
) -> None:
    reach = np.array([[v - low, high - v] for v, (low, high) in zip(values, ends, strict=True)])
    ax.bar(names, values, 0.6, color=color, yerr=np.clip(reach, 0, None).T, capsize=4)
    ax.tick_params(axis="x", labelsize=8)


def _figure(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(rows * columns)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=_DPI)
