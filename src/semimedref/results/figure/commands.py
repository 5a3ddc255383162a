"""``semimedref figures``: every figure of an experiment that its finished runs can give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from semimedref.errors import UserError

if TYPE_CHECKING:
    from semimedref.results.figure.contract import Figure
    from semimedref.results.runs import Run
    from semimedref.results.table import Table
    from semimedref.sweep import Experiment

KINDS = (
    "label_efficiency", "sensitivity", "rows", "qualitative", "mixing_examples", "similarity",
    "interventions", "attention",
)  # fmt: skip
_SPLITS = ("valid", "test", "train")


@dataclass(frozen=True)
class Asked:
    """What a figure may need to know."""

    experiment: Experiment
    table: Table
    split: str
    overrides: tuple[str, ...]  # of the runs' configurations on this machine


def figures_command(args: Sequence[str]) -> int:
    """``semimedref figures experiment=NAME [kind=KIND,KIND] [split=test]``.

    What cannot be drawn is named in one line, with the command that is missing.
    """
    from semimedref.only import expand_whole
    from semimedref.results.table import build_table

    kinds, split, rest = _options(args)
    if not any(arg.startswith("experiment=") for arg in rest):
        raise UserError(
            "found no experiment, expected one: `semimedref figures experiment=quickstart`"
        )
    experiment = expand_whole("figures", list(rest))
    if experiment.search is not None:
        from semimedref.search.report import figures_command as search_figures

        return search_figures(experiment.search)
    table = build_table(experiment)
    dotted = tuple(arg for arg in rest if arg.startswith(("dataset.", "hardware.")))
    asked = Asked(experiment, table, split, dotted)
    folder, written, skipped = table.run_root / "tables", 0, []
    for kind in kinds:
        try:
            figure = _BUILDERS[kind](asked)
        except UserError as error:
            skipped.append(f"{kind}: {error}")
            continue
        paths = figure.write(folder, f"{table.name}-{kind}")
        written += 1
        endings = ",".join(path.suffix[1:] for path in paths)
        print(f"{kind}: {folder / f'{table.name}-{kind}'}.{{{endings}}}")
    if not written:
        raise UserError("no figure could be drawn. " + "; ".join(skipped))
    for line in skipped:
        print(f"skipped {line}")
    return 0


def _options(args: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Kinds, split of the analyses, and the words for the experiment."""
    own = dict(arg.split("=", 1) for arg in args if arg.startswith(("kind=", "split=")))
    kinds = [kind for kind in own.get("kind", "").split(",") if kind] or list(KINDS)
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"kind={kind} is unknown: expected {', '.join(KINDS)}")
    split = own.get("split", "valid")
    if split not in _SPLITS:
        raise UserError(f"split={split} is unknown: expected {', '.join(_SPLITS)}")
    return kinds, split, [arg for arg in args if not arg.startswith(("kind=", "split="))]


def _label_efficiency(asked: Asked) -> Figure:
    from semimedref.results.figure.label_efficiency import label_efficiency

    return label_efficiency(asked.table)


def _sensitivity(asked: Asked) -> Figure:
    from semimedref.results.figure.sensitivity import default_signatures, sensitivity

    return sensitivity(asked.table, partial(default_signatures, asked.experiment))


def _rows(asked: Asked) -> Figure:
    from semimedref.results.figure.rows import rows

    return rows(asked.table)


def _qualitative(asked: Asked) -> Figure:
    from semimedref.results.figure.qualitative import qualitative

    return qualitative(asked.table, asked.overrides)


def _mixing_examples(asked: Asked) -> Figure:
    from semimedref.results.figure.mixing_examples import mixing_examples

    return mixing_examples(asked.table, asked.overrides)


def _similarity(asked: Asked) -> Figure:
    from semimedref.results.figure.measured import gather
    from semimedref.results.figure.similarity import similarity

    def aligned(run: Run) -> bool:
        align = run.cell.config["method"].get("align")
        return isinstance(align, dict) and "_target_" in align

    return similarity(
        gather(asked.table, "alignment", key="histogram", split=asked.split, asked=aligned)
    )


def _interventions(asked: Asked) -> Figure:
    from semimedref.results.figure.interventions import interventions
    from semimedref.results.figure.measured import gather

    return interventions(
        gather(asked.table, "interventions", key="interventions", split=asked.split, asked=_any)
    )


def _attention(asked: Asked) -> Figure:
    from semimedref.results.figure.attention import attention
    from semimedref.results.figure.measured import gather

    return attention(gather(asked.table, "attention", key="stages", split=asked.split, asked=_any))


def _any(run: Run) -> bool:
    del run
    return True


_BUILDERS: dict[str, Callable[[Asked], Figure]] = {
    "label_efficiency": _label_efficiency,
    "sensitivity": _sensitivity,
    "rows": _rows,
    "qualitative": _qualitative,
    "mixing_examples": _mixing_examples,
    "similarity": _similarity,
    "interventions": _interventions,
    "attention": _attention,
}
