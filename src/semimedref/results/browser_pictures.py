"""The pictures of the prediction browser: overlays that the runs wrote, with their captions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape

from semimedref.results import render, store
from semimedref.results.browser_data import Prediction
from semimedref.results.figures import FALSE_NEGATIVE, FALSE_POSITIVE, TRUE_POSITIVE
from semimedref.results.pictures import data_uri
from semimedref.results.runs import Run
from semimedref.results.table import Entry

# What a page shows of every run before it shows more of any.
_KINDS = ("median", "worst", "best", "fixed", "quartile")
_PICTURES_IN_STRIP = 3  # image, truth, prediction

LEGEND = "<ul class=legend>{}</ul>".format(
    "".join(
        f'<li><span class="key square" style="background:rgb{color}"></span>{name}</li>'
        for name, color in (
            ("true positive", TRUE_POSITIVE),
            ("false positive", FALSE_POSITIVE),
            ("false negative", FALSE_NEGATIVE),
        )
    )
)


@dataclass(frozen=True)
class Shown:
    """One overlay on the page."""

    entry: Entry
    run: Run
    overlay: store.Overlay

    @property
    def row(self) -> str:
        """The label of its table row."""
        return self.entry.row

    @property
    def column(self) -> str:
        """The value of its table column, for the eye."""
        return ", ".join(render.pretty(value) for value in self.entry.column)

    @property
    def seed(self) -> str:
        """The seed of its run."""
        return self.run.seed

    def described(self, known: Mapping[tuple[str, str, str, str], Prediction]) -> Shown:
        """With position and error from the run's counts, where its index has none."""
        found = known.get((self.row, self.column, self.seed, self.overlay.id))
        if found is None:
            return self
        overlay = replace(self.overlay, position=found.position, error=found.error)
        return replace(self, overlay=overlay)

    @property
    def position(self) -> str:
        """The regions that its sentence names."""
        return self.overlay.position

    @property
    def error(self) -> str:
        """Its kind of error, empty for runs that did not write it."""
        return self.overlay.error


def pictures_of(entry: Entry, run: Run) -> list[Shown]:
    """The overlays of a run: one of each kind, then the second of each kind."""
    ranked = []
    seen: dict[str, int] = {}
    for overlay in store.load_overlays(run.folder):
        if overlay.path.is_file():
            seen[overlay.kind] = seen.get(overlay.kind, 0) + 1
            kind = _KINDS.index(overlay.kind) if overlay.kind in _KINDS else len(_KINDS)
            ranked.append((seen[overlay.kind], kind, Shown(entry, run, overlay)))
    return [shown for *_, shown in sorted(ranked, key=lambda one: one[:2])]


def figure(shown: Shown) -> str:
    """The picture with its sentence, and what the filters ask for."""
    overlay = shown.overlay
    score = render.percent(overlay.dice, 1)
    source, width, height = data_uri(overlay.path)
    alt = (
        f"Image, truth and prediction of {shown.row} for the sentence: {overlay.text} Dice {score}."
    )
    bare = abs(width / height - _PICTURES_IN_STRIP) < 0.15  # three squares and two seams
    heads = "<div class=heads><b>image</b><b>truth</b><b>prediction</b></div>" if bare else ""
    facts = {"row": shown.row, "column": shown.column, "seed": shown.seed, "dice": score}
    facts |= {"position": shown.position, "error": shown.error}
    data = " ".join(f'data-{name}="{escape(value)}"' for name, value in facts.items())
    where = ", ".join(filter(None, (shown.row, shown.column, shown.seed)))
    error = f" · {escape(shown.error)}" if shown.error else ""
    return (
        f'<figure {data}>{heads}<img loading=lazy width={width} height={height} alt="{escape(alt)}"'
        f' src="{source}"><figcaption><q>{escape(overlay.text)}</q><span class=meta>'
        f"{escape(where)} · {escape(overlay.kind)} case · Dice {score}{error} · "
        f"<span class=mono>{escape(overlay.id)}</span></span></figcaption></figure>\n"
    )
