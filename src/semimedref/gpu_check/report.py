"""The report of a GPU check: JSON for us, Markdown for people, without names or paths."""

from __future__ import annotations

import getpass
import json
import math
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from semimedref import __version__
from semimedref.environment import git_commit
from semimedref.files import write_atomic
from semimedref.gpu_check.checks import CHECKS
from semimedref.gpu_check.processes import Outcome
from semimedref.results.scrubbing import scrubbed_run

SEND = "Send us this file and the .json beside it: attach both to an issue of the project."
_FORMAT = 1  # of the JSON; raised when a reader must know
_SHORT = 2  # letters: a name of one may be a word of any sentence
_SPEED = {  # heading of a column -> how a step's values fill it
    "ms a step": lambda v: f"{1000 * v['step_seconds']:,.1f}",
    "images/s": lambda v: f"{v['images_per_second']:,.1f}",
    "peak GB": lambda v: f"{v['allocated_bytes'] / 1024**3:.2f}",
    "TFLOP a step": lambda v: f"{v['flop_per_step'] / 1e12:.3g}",
    "TFLOP/s": lambda v: f"{v['tflops']:.3g}",
}


def write(
    folder: Path,
    outcomes: Sequence[Outcome],
    settings: Mapping[str, Any],
    *,
    part: Sequence[str] = (),
) -> Path:
    """Write both files, again after every check; returns the Markdown file.

    ``part`` names the checks that were asked for: some of them must not replace a whole report.
    """
    content = {
        "format": _FORMAT,
        "version": __version__,
        "git_commit": git_commit(),
        "date": date.today().isoformat(),
        "device": settings["device"],
        "state": state(outcomes),
        "checks": [outcome.plain() for outcome in outcomes],
        "settings": {key: value for key, value in settings.items() if key != "out"},
    }
    clean = scrubbed(content)
    stem = "-".join([_slug(device_name(outcomes)), str(content["date"]), *part])
    write_atomic(folder / f"{stem}.json", json.dumps(clean, indent=1) + "\n")
    write_atomic(folder / f"{stem}.md", markdown(clean))
    return folder / f"{stem}.md"


def state(outcomes: Sequence[Outcome]) -> str:
    """Failed if any check failed."""
    return "failed" if any(outcome.state == "failed" for outcome in outcomes) else "ok"


def device_name(outcomes: Sequence[Outcome]) -> str:
    """What the machine check called the GPU."""
    seen = [f.values for o in outcomes if o.name == "machine" for f in o.findings]
    named = [str(v.get("gpu", v.get("processor"))) for v in seen if "processor" in v]
    return named[0] if named else "gpu"


def scrubbed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without paths, addresses, and the names of this machine and its user."""
    names = [socket.gethostname(), socket.gethostname().partition(".")[0]]
    with suppress(OSError, KeyError):  # a user without a name
        names.append(getpass.getuser())
    long = sorted({re.escape(n) for n in names if len(n) >= _SHORT}, key=len, reverse=True)
    words = re.compile(rf"\b({'|'.join(long)})\b") if long else None
    return _without(scrubbed_run(content), words)


def markdown(report: Mapping[str, Any]) -> str:
    """The report for a person."""
    lines = [
        f"# GPU check: {report['state']}",
        "",
        f"{report['date']}, semimedref {report['version']} ({report['git_commit']}), "
        f"device {report['device']}.",
        SEND,
        "",
        "| check | state | seconds | found |",
        "|---|---|---|---|",
    ]
    for check in report["checks"]:
        for place, finding in enumerate(check["findings"]):
            name, seconds = (check["name"], check["seconds"]) if place == 0 else ("", "")
            shown = "FAILED" if finding["state"] == "failed" else finding["state"]
            lines.append(f"| {name} | {shown} | {seconds} | {_cell(finding)} |")
    return "\n".join([*lines, *_speed(report), *_questions(report), ""])


def _speed(report: Mapping[str, Any]) -> list[str]:
    """The ladder's rows as a table, with the number that a cost estimate asks for."""
    rows = [
        (finding["subject"], finding["values"])
        for check in report["checks"]
        for finding in check["findings"]
        if "step_seconds" in finding["values"]
    ]
    if not rows:
        return []
    head = ["row", "batch", *_SPEED]
    body = [
        [label, f"{v['batch_size']} + {v['batch_size']}", *(show(v) for show in _SPEED.values())]
        for label, v in rows
    ]
    table = [head, ["---"] * len(head), *body]
    lines = [f"| {' | '.join(row)} |" for row in table]
    return ["", "## Speed", "", *lines, "", _estimate([values for _, values in rows])]


def _estimate(steps: Sequence[Mapping[str, Any]]) -> str:
    """The last step in each precision is the whole method: its speed is what a plan can use."""
    reached = {step["precision"]: step["tflops"] for step in steps}
    keys = " ".join(f"gpu.peak_tflops.{name}={value:.3g}" for name, value in reached.items())
    return f"What an experiment costs on this GPU: `semimedref plan experiment=main gpu=own {keys}`"


def _questions(report: Mapping[str, Any]) -> list[str]:
    ran = [check["name"] for check in report["checks"]]
    return ["", "## What each check asks", "", *(f"- {n}: {CHECKS[n][1]}" for n in ran)]


def _cell(finding: Mapping[str, Any]) -> str:
    parts = [finding["subject"], finding["found"]]
    parts += [f"expected {finding['expected']}"] if finding["expected"] else []
    text = "; ".join(part for part in (*parts, finding["advice"]) if part)
    return " ".join(text.split()).replace("|", "\\|")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]


def _without(node: Any, words: re.Pattern[str] | None) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(node, dict):
        return {key: _without(value, words) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_without(value, words) for value in node]
    if isinstance(node, float) and not math.isfinite(node):
        return str(node)  # JSON has no infinity
    return words.sub("…", node) if words and isinstance(node, str) else node
