"""The predictions of a table's finished runs, image by image, with position and error kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semimedref.config import is_synthetic
from semimedref.error_kind import kind_of_image
from semimedref.results import reading, render, store
from semimedref.results.runs import Run
from semimedref.results.table import Entry, Table


@dataclass(frozen=True)
class Prediction:
    """What one run made of one test image."""

    row: str
    column: str
    seed: str
    line: int  # in per_image.csv, as an editor counts
    image: str  # its id, or its line where it shows a patient
    patient: int  # counted anew from 1
    dice: float
    position: str  # regions by name, empty where none is known
    error: str  # as the filters show it: with what the masks say, where the run wrote pictures
    counted: str  # by the counts alone, so that every image of a run is judged by one rule
    overlay: store.Overlay | None


def of_table(table: Table) -> list[list[Prediction]]:
    """One list for every finished run that wrote its counts, in table order."""
    return [
        of_run(entry, run)
        for entry in table.entries
        for run in entry.done
        if entry.plain and not entry.problems and (run.folder / "per_image.csv").is_file()
    ]


def of_run(entry: Entry, run: Run) -> list[Prediction]:
    """The predictions of one run in the order of its file."""
    frame = store.load_per_image(run.folder)
    overlays = {o.id: o for o in store.load_overlays(run.folder) if o.path.is_file()}
    patients = {name: number for number, name in enumerate(dict.fromkeys(frame["patient"]), 1)}
    domain = reading.domain_of(run.cell)
    column = ", ".join(render.pretty(value) for value in entry.column)
    open_names = is_synthetic(run.cell.config)  # else names stay on the machine
    found = []
    for line, image in enumerate(frame.to_dict("records"), start=2):
        if domain and image.get("domain") != domain:
            continue
        overlay, counted = overlays.get(image["id"]), kind_of_image(image)
        found.append(
            Prediction(
                row=entry.row,
                column=column,
                seed=run.seed,
                line=line,
                image=image["id"] if open_names or overlay else f"line {line}",
                patient=patients[image["patient"]],
                dice=float(image["dice"]),
                position=image.get("position") or (overlay.position if overlay else ""),
                error=(overlay.error if overlay else "") or counted,
                counted=counted,
                overlay=overlay,
            )
        )
    return found


def spread(predictions: Sequence[Prediction], number: int) -> list[Prediction]:
    """Some predictions evenly over the order of Dice, both ends among them, in that order."""
    ordered = sorted(predictions, key=lambda one: (one.dice, one.line))
    if len(ordered) <= number:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(i * last / (number - 1))] for i in range(number)]
