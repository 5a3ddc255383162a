"""The numbers that keep a table honest: text gap, text-blind oracle and headroom."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from semimedref.results.store import Result
from semimedref.results.table import MIN_TEXT_GAP, Entry

FEW_LABELS = 0.02  # the supervised side of the headroom
MIN_HEADROOM = 0.08  # below it there is nothing for semi-supervision to win

# Two runs measure a headroom only if they differ in nothing but the labels (and the seed).
_CONTEXT = (
    "dataset",
    "model",
    "image_encoder",
    "text_encoder",
    "augment",
    "align",
    "scale",
    "preset",
    "trainer",
)


@dataclass(frozen=True)
class Headroom:
    """Validation Dice of a fully labeled supervised model minus that with 2 % of the labels."""

    full: float
    few: float
    runs_full: int
    runs_few: int
    equal_steps: bool

    @property
    def value(self) -> float:
        """What semi-supervision could win at most, as a fraction."""
        return self.full - self.few


def text_gap(entry: Entry) -> float | None:
    """Mean over seeds of Dice with true texts minus Dice with shuffled texts."""
    score = entry.scores.get("text_gap")
    return score.mean if score else None


def claims_text_gain(gap: float) -> bool:
    """Whether the gap is large enough to say that the model reads the text."""
    return gap >= MIN_TEXT_GAP


def headroom(results: Iterable[Result], extra: Iterable[Result] = ()) -> Headroom | None:
    """The headroom among supervised results, or None when one of its two sides is missing.

    ``extra`` may complete a side, but only for a setting that occurs in ``results``.
    """
    shown = list(results)
    settings = {_context(result) for result in shown}
    fitting = [result for result in extra if _context(result) in settings]
    groups: dict[str, tuple[list[Result], list[Result]]] = {}
    for result in {result["signature"]: result for result in [*shown, *fitting]}.values():
        fraction = label_fraction(result)
        if fraction is None or not is_supervised(result):
            continue
        full, few = groups.setdefault(_context(result), ([], []))
        if fraction >= 1:
            full.append(result)
        elif math.isclose(fraction, FEW_LABELS):
            few.append(result)
    for full, few in groups.values():
        if full and few:
            return Headroom(
                full=_validation_dice(full),
                few=_validation_dice(few),
                runs_full=len(full),
                runs_few=len(few),
                equal_steps=len({result.get("steps") for result in [*full, *few]}) == 1,
            )
    return None


def label_fraction(result: Result) -> float | None:
    """The labeled share of the training pool, as the configuration says."""
    ratio = result["config"].get("ratio")
    fraction = ratio.get("fraction") if isinstance(ratio, dict) else None
    return float(fraction) if isinstance(fraction, int | float) else None


def is_supervised(result: Result) -> bool:
    """Whether the run saw labeled images only."""
    method = result["config"].get("method")
    if not isinstance(method, dict):
        return method == "supervised"
    name = str(method.get("name") or method.get("_target_", ""))
    return name.rpartition(".")[2].lower() == "supervised"


def _validation_dice(results: list[Result]) -> float:
    return statistics.fmean(result["best"]["val/dice"] for result in results)


def _context(result: Result) -> str:
    return json.dumps([result["config"].get(key) for key in _CONTEXT], sort_keys=True, default=str)
