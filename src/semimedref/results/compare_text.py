"""A comparison as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence

from semimedref.results.compare import Compared, Difference
from semimedref.results.grid import grid
from semimedref.results.measures import Measure
from semimedref.results.significance import Interval


def terminal(found: Compared) -> str:
    """Two tables: the methods, and the first minus each other one."""
    measures = list(dict.fromkeys(estimate.measure for estimate in found.estimates))
    several = len(found.sides[0].frames) > 1
    drawn = "seeds and patients" if several else "patients"
    extra = ["over seeds, too"] if several else []
    tests = [
        ["difference", "", "a − b", "95 % CI", *extra, "p", "p Holm"],
        *(_difference(d, several) for d in found.differences),
    ]
    lines = [
        f"{found.images} images of {found.patients} patients"
        + (f", {len(found.sides[0].frames)} seeds each (means over seeds)" if several else ""),
        *(
            line
            for start in range(0, len(measures), 2)
            for line in (*_methods(found, measures[start : start + 2]), "")
        ),
        f"95 % CI: percentile bootstrap over {drawn}, {found.resampling.bootstrap:,} replicates",
        "",
        *grid(tests, left=2),
        f"95 % CI: patients drawn; p: patients swapped, two-sided, "
        f"{found.resampling.randomization:,} replicates; Holm over "
        f"{_tests(len(found.differences))}",
        *(f"note: {note}" for note in found.notes),
    ]
    return "\n".join(lines) + "\n"


def as_json(found: Compared) -> str:
    """Everything as numbers, fractions as fractions."""
    content = {
        "images": found.images,
        "patients": found.patients,
        "methods": {side.name: list(side.sources) for side in found.sides},
        "bootstrap": found.resampling.bootstrap,
        "randomization": found.resampling.randomization,
        "seed": found.resampling.seed,
        "scores": [
            {"method": e.method, "metric": e.measure.name, "value": _json(e.value),
             "ci": [_json(v) for v in e.ci]}
            for e in found.estimates
        ],
        "differences": [
            {"a": d.a, "b": d.b, "metric": d.measure.name, "difference": _json(d.test.difference),
             "ci": [_json(d.test.ci_low), _json(d.test.ci_high)],
             "ci_hierarchical": d.test.hierarchical and [_json(v) for v in d.test.hierarchical],
             "p": d.test.p, "p_holm": d.p_holm}
            for d in found.differences
        ],
        "notes": list(found.notes),
    }  # fmt: skip
    return json.dumps(content, indent=1) + "\n"


def as_csv(found: Compared) -> str:
    """One line for each score and for each difference."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["a", "b", "metric", "value", "ci_low", "ci_high",
         "hierarchical_low", "hierarchical_high", "p", "p_holm"]
    )  # fmt: skip
    for e in found.estimates:
        writer.writerow([e.method, "", e.measure.name, e.value, *e.ci, "", "", "", ""])
    for d in found.differences:
        t = d.test
        writer.writerow(
            [d.a, d.b, d.measure.name, t.difference, t.ci_low, t.ci_high,
             *(t.hierarchical or ("", "")), t.p, d.p_holm]
        )  # fmt: skip
    return text.getvalue()


def score(measure: Measure, value: float, *, sign: str = "") -> str:
    """A score or a difference: fractions in percent, others as they are."""
    return "–" if math.isnan(value) else f"{value * (100 if measure.percent else 1):{sign}.2f}"


def bounds(measure: Measure, ci: Interval, *, sign: str = "") -> str:
    """An interval."""
    return f"[{', '.join(score(measure, value, sign=sign) for value in ci)}]"


def probability(p: float) -> str:
    """A p value to three digits: 2.00e-05, 0.0312."""
    return f"{p:.2e}" if p < 0.001 else f"{p:.3f}"


def _methods(found: Compared, measures: Sequence[Measure]) -> list[str]:
    """Two scores of every method side by side: more would not fit in a line."""
    head = ["method", *(part for m in measures for part in (_unit(m), "95 % CI"))]
    rows: dict[str, list[str]] = {side.name: [side.name] for side in found.sides}
    for estimate in found.estimates:
        if estimate.measure in measures:
            measure = estimate.measure
            rows[estimate.method] += [score(measure, estimate.value), bounds(measure, estimate.ci)]
    return grid([head, *rows.values()])


def _difference(difference: Difference, several: bool) -> list[str]:
    measure, test = difference.measure, difference.test
    ci = bounds(measure, (test.ci_low, test.ci_high), sign="+")
    wide = [bounds(measure, test.hierarchical, sign="+") if test.hierarchical else "–"]
    return [
        f"{difference.a} − {difference.b}",
        measure.label,
        score(measure, test.difference, sign="+"),
        ci,
        *(wide if several else []),
        probability(test.p),
        probability(difference.p_holm),
    ]


def _unit(measure: Measure) -> str:
    return f"{measure.label} %" if measure.percent else measure.label


def _json(value: float) -> float | None:
    return None if math.isnan(value) else value


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
