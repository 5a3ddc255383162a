"""Figures of analyses: their tables hold what was measured, bars and curves differ in gray."""

import matplotlib
import numpy as np
import pytest

from semimedref.analysis.alignment import distributions
from semimedref.results.figure import style
from semimedref.results.figure.attention import attention
from semimedref.results.figure.bars import _broken
from semimedref.results.figure.interventions import interventions
from semimedref.results.figure.measured import Measured
from semimedref.results.figure.mixing import mixing
from semimedref.results.figure.panels import Picture, grid
from semimedref.results.figure.similarity import OVERLAPS, similarity


def drawn(figure):
    with matplotlib.rc_context(style.RC):
        return figure.draw()


def records(figure):
    head, *lines = figure.table
    return [dict(zip(head, line, strict=True)) for line in lines]


def aligned(name, spread):
    rng = np.random.default_rng(len(name))
    centers = zip(OVERLAPS, (spread, 0.0, -spread), strict=True)
    values = {kind: rng.normal(at, 0.15, 500).clip(-1, 1) for kind, at in centers}
    means = {kind: float(v.mean()) for kind, v in values.items()}
    numbers = {"images": 40, "means": means, "pairs": dict.fromkeys(OVERLAPS, 500),
               "ordered_queries": 0.5, "spearman": 0.4} | distributions(values)  # fmt: skip
    return Measured(name, numbers, f"run-{name}")


def intervened(name, drop):
    row = {"drop_per_image": drop, "drop_per_image_ci": (drop - 0.02, drop + 0.03),
           "inconsistency": 2 * drop, "inconsistency_ci": (drop, 3 * drop)}  # fmt: skip
    arms = dict.fromkeys(("mask", "fuzz", "remove", "non-position"), row)
    return Measured(name, {"images": 40, "patients": 20, "interventions": arms}, f"run-{name}")


def attentive(name):
    row = {"enrichment": 1.5, "enrichment_ci": (1.4, 1.6), "attention_share": 0.3,
           "token_share": 0.2}  # fmt: skip
    words = ["lower", "left", "lung", "."]
    example = {"words": words, "positional": [True, True, False, False],
               "heat": [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]}  # fmt: skip
    numbers = {"images_with_positional_words": 9, "example": example,
               "stages": dict.fromkeys(("stage 1", "stage 2", "deep stages"), row)}  # fmt: skip
    return Measured(name, numbers, f"run-{name}")


def test_similarity_lists_means_and_percentiles_of_every_kind_and_run():
    runs = [aligned("CLIP", 0.1), aligned("PACL", 0.4)]
    figure = similarity(runs)
    assert [(r["run"], r["overlap"]) for r in records(figure)] == [
        (m.name, kind) for m in runs for kind in OVERLAPS
    ]
    for record, m in zip(records(figure)[::3], runs, strict=True):
        assert record["mean"] == pytest.approx(m.numbers["means"]["same"], abs=1e-5)
        assert record["median"] == pytest.approx(m.numbers["percentiles"]["same"][2], abs=1e-5)
    assert figure.sources == ["run-CLIP", "run-PACL"]


def test_curves_of_overlaps_are_densities_and_differ_in_gray():
    first = drawn(similarity([aligned("PACL", 0.4)])).axes[0]
    curves = [line for line in first.lines if not line.get_label().startswith("_")]
    assert len({(c.get_linestyle(), c.get_marker()) for c in curves}) == 3
    for curve in curves:
        x, y = curve.get_data()
        assert (y * (x[1] - x[0])).sum() == pytest.approx(1, abs=1e-6)


def test_bars_of_runs_differ_in_gray_and_are_as_high_as_the_table_says():
    figure = interventions([intervened("CLIP", 0.05), intervened("PACL", 0.1)])
    ax = drawn(figure).axes[0]
    hatches = {container[0].get_hatch() for container in ax.containers}
    assert len(hatches) == 2
    heights = [bar.get_height() for container in ax.containers for bar in container]
    assert heights == pytest.approx([r["Dice drop"] for r in records(figure)])
    assert records(figure)[0]["Dice drop, CI low"] == pytest.approx(3)


def test_attention_shows_words_only_where_they_may_be_shown():
    one = attentive("Ours")
    figure = attention([one])
    assert len(drawn(figure).axes) == 3  # bars, words, scale of gray
    assert "Below" in figure.caption
    del one.numbers["example"]
    figure = attention([one, attentive("Other")][:1])
    assert len(drawn(figure).axes) == 1 and "Below" not in figure.caption
    assert records(figure)[0]["attention, %"] == 30


def test_mixing_lists_what_is_unknown_as_empty():
    row = {"samples": 9, "lesion_score": 0.5, "position_overlap": 1.0, "named_overlap": 0.9,
           "gate_opens": None, "pasted": 0.0, "ambiguous": None}  # fmt: skip
    figure = mixing({"Random PatchMix": row}, name="Ours", source="run")
    assert records(figure)[0]["gate opens, %"] is None
    assert records(figure)[0]["lesion score, %"] == 50


def test_a_name_that_is_too_wide_breaks_after_its_hyphen():
    assert _broken("T-PatchMix-hybrid", 0.8) == ["T-PatchMix-", "hybrid"]
    assert _broken("mask", 0.8) == ["mask"]


def test_cells_of_panels_do_not_overlap():
    image = np.zeros((8, 8), np.uint8)
    truth = np.eye(8, dtype=bool)
    line = ["a long sentence " * 8, Picture(image), Picture(image, truth, ~truth, foot="12.3")]
    with matplotlib.rc_context(style.RC):
        canvas = grid(["report", "image", "Ours"], [line, line], legend=True)
        renderer = canvas._get_renderer()
        boxes = [ax.get_window_extent(renderer) for ax in canvas.axes]
        boxes += [text.get_window_extent(renderer) for text in canvas.texts]
    whole = canvas.bbox
    for i, one in enumerate(boxes):
        assert whole.x0 <= one.x0 and one.x1 <= whole.x1 and whole.y0 <= one.y0
        for other in boxes[i + 1 :]:
            assert min(one.x1, other.x1) - max(one.x0, other.x0) < 1.5 or (
                min(one.y1, other.y1) - max(one.y0, other.y0) < 1.5
            )
