"""Mixing examples: recipient, donor, patch, mixed image, pseudo-mask and sentence before, after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.results.figure import cases, panels, scores
from semimedref.results.figure.contract import Cell, Figure
from semimedref.results.runs import Run
from semimedref.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from semimedref.analysis.mixes import Mix

_HEADS = ("recipient", "donor", "mixed image", "pseudo-mask before", "pseudo-mask after")


def mixing_examples(table: Table, overrides: Sequence[str] = ()) -> Figure:
    """Pastes of the last finished row that has a teacher.

    Args:
        table: whose runs are looked through.
        overrides: of the run's configuration on this machine.
    """
    from semimedref.analysis.mixes import pasted
    from semimedref.analysis.subject import Subject

    run = teacher_run(table)
    shown = [f"overlays={run.cell.config['overlays']}", *overrides]
    subject = Subject.open(run.folder, split="valid", weights="teacher", overrides=shown)
    if not subject.parts.may_show():
        raise UserError(
            f"images of {subject.parts.cfg.dataset.name} are of patients or overlays=never: add "
            "overlays=always to draw them"
        )
    found = pasted(subject)
    if not found:
        raise UserError(
            f"the teacher of {run.folder.name} is nowhere sure enough for a patch to pass the "
            "lesion gate: train longer, e.g. with scale=cpu"
        )
    return draw_mixes(choose(found), of=len(found), name=run.cell.row, source=run.folder.name)


def teacher_run(table: Table) -> Run:
    """The first finished seed of the last row with a teacher."""
    scores.require_results(table)
    finished = [entry.done[0] for entry in scores.plain(table.entries)]
    runs = [run for run in finished if has_teacher(run)]
    if not runs:
        raise UserError(
            f"no finished row of {table.name} has a teacher: expected one with "
            "method=teacher_student"
        )
    return runs[-1]


def has_teacher(run: Run) -> bool:
    """Whether the run's method mixes with a teacher: it has views and a pseudo-label."""
    return "pseudo_label" in run.cell.config["method"]


def choose(found: Sequence[Mix]) -> list[Mix]:
    """The mixes at the quantiles of the lesion score, ties by id, each once."""
    order = sorted(found, key=lambda mix: (mix.score, mix.recipient_id, mix.donor_id))
    places = dict.fromkeys(cases.at_quantile(q, len(order)) for q in cases.QUANTILES)
    return [order[at] for at in places]


def draw_mixes(mixes: Sequence[Mix], *, of: int, name: str, source: str) -> Figure:
    """The figure of chosen mixes."""
    lines: list[list[Cell]] = [
        ["recipient", "donor", "lesion score", "patch (left, top, right, bottom)",
         "pseudo-mask pixels before", "after", "sentence before", "donor's sentence",
         "sentence after"]
    ]  # fmt: skip
    for m in mixes:
        pixels = [int(m.pseudo_before.sum()), int(m.pseudo_after.sum())]
        box = " ".join(map(str, m.box))
        texts = [m.before, m.given, m.after]
        lines.append([m.recipient_id, m.donor_id, round(m.score, 5), box, *pixels, *texts])
    return Figure(
        title="Mixing examples",
        caption=(
            f"T-PatchMix-hybrid with the teacher of {name}: recipient with its sentence, donor "
            "with its own and the lesion score r of the patch, mixed image with the mixed "
            "sentence, which gains the whole phrase that the patch came from (the patch is "
            "framed; without jitter and blur), and pseudo-mask before and after (yellow: "
            f"pseudo-masks have no truth). {len(mixes)} of the {of} patches that "
            "pass the lesion gate in one pass over the unlabeled training images, chosen by a "
            "rule: those at the 10 %, 50 % and 90 % quantiles of the lesion score r, ties by id."
        ),
        table=lines,
        sources=[source],
        draw=partial(_draw, mixes),
    )


def _draw(mixes: Sequence[Mix]) -> Canvas:
    lines = []
    for m in mixes:
        lines.append([
            panels.Picture(m.recipient, box=m.box, foot=m.before),
            panels.Picture(m.donor, box=m.box, foot=f"{m.given} (r={m.score:.2f})"),
            panels.Picture(m.mixed, box=m.box, foot=m.after),
            panels.Picture(m.recipient, None, m.pseudo_before),
            panels.Picture(m.mixed, None, m.pseudo_after),
        ])  # fmt: skip
    return panels.grid(_HEADS, lines, legend=False)
