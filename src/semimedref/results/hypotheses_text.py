"""A family of tests as text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from semimedref.results.compare_text import bounds, probability, score
from semimedref.results.grid import grid
from semimedref.results.hypotheses import Family, Hypothesis
from semimedref.results.wording import metric
from semimedref.results.wording import option as pretty


def terminal(family: Family) -> str:
    """The table as in the paper: difference in points with its interval, p after Holm."""
    lines = [family.title, ""]
    if family.hypotheses:
        left = len(family.columns) + 2
        lines += [*grid(_table(family), left=left), "", note(family)]
    lines += [f"paper: {line}" for line in _reported(family)]
    lines += [f"not tested: {line}" for line in family.untested]
    return "\n".join(lines) + "\n"


def markdown(family: Family) -> str:
    """The same as a Markdown table."""
    lines = [f"# {family.title}: significance", ""]
    if family.hypotheses:
        head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in _table(family)]
        rule = ["---", *("---:" for _ in head[1:])]
        lines += [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
        lines += ["", note(family)]
    lines += ["", *(f"- Paper: {line}" for line in _reported(family))] if family.reported else []
    lines += ["", *(f"- Not tested: {line}" for line in family.untested)] if family.untested else []
    return "\n".join(lines) + "\n"


def as_csv(family: Family) -> str:
    """One line for each hypothesis, in percentage points."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["row", "reference", *family.columns, "metric", "delta_pp", "ci_low", "ci_high",
         "hierarchical_low", "hierarchical_high", "p", "p_holm", "seeds", "images", "patients"]
    )  # fmt: skip
    for h in family.hypotheses:
        test = h.test
        points = [100 * v for v in (test.difference, test.ci_low, test.ci_high)]
        wide = [100 * v for v in test.hierarchical] if test.hierarchical else ["", ""]
        writer.writerow(
            [h.row, h.reference, *h.column, h.measure.name, *points, *wide, test.p, h.p_holm,
             " ".join(h.seeds), h.images, h.patients]
        )  # fmt: skip
    return text.getvalue()


def as_json(family: Family) -> str:
    """Everything as numbers, differences as fractions."""
    content = {
        "experiment": family.name,
        "bootstrap": family.resampling.bootstrap,
        "randomization": family.resampling.randomization,
        "seed": family.resampling.seed,
        "hypotheses": [_plain(family, h) for h in family.hypotheses],
        "reported": [asdict(test) for test in family.reported],
        "untested": list(family.untested),
    }
    return json.dumps(content, indent=1) + "\n"


def note(family: Family) -> str:
    """How the numbers were made."""
    first, often = family.hypotheses[0], family.resampling
    several = len(first.seeds) > 1
    what = "means over the seeds" if several else "one pair of checkpoints, seed"
    return (
        f"{what} {', '.join(first.seeds)}; {first.images} images of {first.patients} patients. "
        f"Δ in percentage points of the whole set; CI: {often.bootstrap:,} bootstrap replicates of "
        f"patients, unadjusted{'; second CI: seeds drawn, too' if several else ''}. p: "
        f"{often.randomization:,} paired swaps of patients, two-sided, Holm over all planned tests "
        "of a column, finished or not. It is about these trained models on other patients, not "
        "about training again."
    )


def _table(family: Family) -> Sequence[Sequence[str]]:
    several = any(h.test.hierarchical for h in family.hypotheses)
    extra = ["95 % CI, seeds too"] if several else []
    head = ["comparison", *family.columns, "metric", "Δ, pp", "95 % CI", *extra, "p", "p Holm"]
    return [head, *(_row(h, several) for h in family.hypotheses)]


def _row(h: Hypothesis, several: bool) -> list[str]:
    test = h.test
    wide = [bounds(h.measure, test.hierarchical, sign="+") if test.hierarchical else "–"]
    return [
        f"{h.row} − {h.reference}",
        *(pretty(value) for value in h.column),
        h.measure.label,
        score(h.measure, test.difference, sign="+"),
        bounds(h.measure, (test.ci_low, test.ci_high), sign="+"),
        *(wide if several else []),
        probability(test.p),
        probability(h.p_holm),
    ]


def _reported(family: Family) -> list[str]:
    """What the paper reports for the same pairs, one line each."""
    return [
        f"{', '.join([f'{r.row} − {r.reference}', *map(pretty, r.column)])}, {metric(r.metric)}: "
        f"{r.points:+.2f} [{r.ci[0]:+.2f}, {r.ci[1]:+.2f}], p Holm {probability(r.p_holm)}"
        for r in family.reported
    ]


def _plain(family: Family, h: Hypothesis) -> dict[str, object]:
    return {
        "row": h.row,
        "reference": h.reference,
        "column": dict(zip(family.columns, h.column, strict=True)),
        "metric": h.measure.name,
        "difference": h.test.difference,
        "ci": [h.test.ci_low, h.test.ci_high],
        "ci_hierarchical": h.test.hierarchical and list(h.test.hierarchical),
        "p": h.test.p,
        "p_holm": h.p_holm,
        "seeds": list(h.seeds),
        "images": h.images,
        "patients": h.patients,
    }
