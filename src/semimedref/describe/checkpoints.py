"""``semimedref model import`` and ``semimedref model export``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.options import RUN_ROOT, overrides, parse, run_folder

if TYPE_CHECKING:
    from torch import Tensor

    from semimedref.model.published.exporting import Exported
    from semimedref.model.published.loading import Report

_SHOWN = 3  # names that are printed of a long list


def import_command(args: Sequence[str]) -> int:
    """Map a published state dict to ours and write it as one file."""
    given = parse(
        args, command="model import", required=("checkpoint", "source", "out"), optional={}
    )
    from semimedref.model.published.loading import import_checkpoint

    report = import_checkpoint(given["checkpoint"], source=given["source"], out=given["out"])
    for line in _import_lines(report, given["out"]):
        print(line)
    return 0


def export_command(args: Sequence[str]) -> int:
    """Write an imported file, or a run's network, under its published names."""
    given = parse(
        args,
        command="model export",
        required=("out",),
        optional={"model": "", "run": "", "weights": "student", "source": "", "prefix": "",
                  "unused_from": "", "run_root": RUN_ROOT},
        overrides=True,
    )  # fmt: skip
    if bool(given["model"]) == bool(given["run"]):
        raise UserError("model export: expected model=IMPORTED_FILE or run=RUN, one of them")
    from semimedref.model.published.exporting import export_imported, export_network

    if given["model"]:
        _refuse(given, "source", "unused_from")
        done = export_imported(given["model"], out=given["out"], prefix=given["prefix"])
    else:
        if not given["source"]:
            raise UserError("model export: source= is missing: under whose names, e.g. mmi_unet")
        done = export_network(
            _run_state(given, overrides(args)),
            source=given["source"],
            out=given["out"],
            prefix=given["prefix"],
            unused_from=given["unused_from"] or None,
        )
    for line in _export_lines(done, given["out"]):
        print(line)
    return 0


def _run_state(given: dict[str, str], changes: list[str]) -> dict[str, Tensor]:
    """All weights of a run's network, frozen ones too."""
    from semimedref.predictor import Predictor

    folder = run_folder(given["run"], given["run_root"])
    predictor = Predictor(folder, weights=given["weights"], device="cpu", overrides=changes)
    return predictor.method.network(given["weights"]).state_dict()


def _refuse(given: dict[str, str], *keys: str) -> None:
    for key in keys:
        if given[key]:
            raise UserError(f"model export: {key}= goes with run=, an imported file knows its own")


def _import_lines(report: Report, out: str) -> list[str]:
    match, found = report.match, report.checkpoint
    lines = [
        f"{found.path.name} is {report.source.name} ({report.source.origin})",
        f"mapped: {len(match.tensors)} tensors, {match.parameters:,} parameters",
        f"unused: {len(match.unused)} tensors, kept for export",
    ]
    lines += [f"  {n:4d}  {reason}" for reason, n in Counter(match.reasons.values()).most_common()]
    if match.absent:
        lines.append(f"not in the file, and not needed: {_some(match.absent)}")
    if found.prefix:
        lines.append(f"note: all names began with '{found.prefix}', which was taken off")
    if match.renamed:
        old, new = next((f, key) for key, f in match.renamed.items())
        lines.append(f"note: {len(match.renamed)} tensors have other names, e.g. {old} for {new}")
    if found.dtypes:
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(found.dtypes.values()).items())
        lines.append(f"note: {kinds} tensors were made float32")
    if found.rounded:
        lines.append(f"note: {found.rounded} float64 tensors were rounded to float32")
    lines.append(f"written to {out}; load it: semimedref.model.load({out!r})")
    return lines


def _export_lines(done: Exported, out: str) -> list[str]:
    lines = [f"{done.tensors} tensors with the names of {done.source.origin} in {out}"]
    if done.absent:
        reasons = Counter(done.source.reason(key) or "unknown" for key in done.absent)
        told = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common())
        lines.append(
            f"not written: {len(done.absent)} tensors that the network does not have ({told}), "
            f"e.g. {_some(done.absent)}; unused_from=IMPORTED_FILE adds them"
        )
    return lines


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
