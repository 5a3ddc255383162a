"""Reports for the property tests: written as the data sets write, and damaged as typists do."""

from __future__ import annotations

import string

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from semimedref.text.caption import NUMBERS, lung_caption
from semimedref.text.spans import Writing
from semimedref.text.vocabulary import LUNGS, QUADRANTS

SGSEG = Writing(count="regions", cap=None, always_plural=False, whole=None)
LVIT = Writing(count="increment", cap=None, always_plural=False, whole="all")
MOSMED_PLUS = Writing(count="increment", cap=9, always_plural=True, whole="all")

quick = settings(
    max_examples=100,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)

positions = st.lists(st.sampled_from((0, 1)), min_size=6, max_size=6).filter(any)
lung_phrases = st.builds(
    lambda side, levels: tuple(i for i in levels if LUNGS.cells[i].side == side),
    st.sampled_from(LUNGS.sides),
    st.sets(st.integers(0, 5), min_size=1).map(sorted),
).filter(bool)
captions = positions.map(lung_caption)


@st.composite
def lvit_reports(draw):
    """A report that counts lesions and says "all" for three levels."""
    position = draw(positions)
    marked = LUNGS.indices(position)
    word = "Bilateral" if len({LUNGS.cells[i].side for i in marked}) == 2 else "Unilateral"
    n = draw(st.integers(1, 6))
    phrase = LUNGS.phrase(marked, draw(st.sampled_from(("all", None))))
    area = "area" if n == 1 else "areas"
    return f"{word} pulmonary infection, {NUMBERS[n]} infected {area}, {phrase}."


@st.composite
def mosmed_reports(draw):
    """A report with one level a side, or none: then the side is an empty slot or not named."""
    levels = st.sampled_from(("upper ", "middle ", "lower ", "all "))
    n = NUMBERS[draw(st.integers(1, 9))]
    kind = draw(st.sampled_from(("both", "left", "right", "none")))
    if kind == "none":
        return "No pulmonary infection, zero infected areas."
    right = f"{draw(levels)}right lung"
    if kind == "right":
        return f"Unilateral pulmonary infection, {n} infected areas, left lung and {right}."
    left = f"{draw(levels)}left lung"
    if kind == "left":
        return f"Unilateral pulmonary infection, {n} infected areas, {left}."
    stop = draw(st.sampled_from((".", "..")))
    return f"Bilateral pulmonary infection, {n} infected areas, {left} and {right}{stop}"


@st.composite
def misspelt(draw, reports):
    """A report and the same one with at most one edit in every word."""
    report = draw(reports)
    words = [draw(_typo(word)) for word in report.split(" ")]
    return report, " ".join(words)


@st.composite
def _typo(draw, word):
    core = word.rstrip(",.")
    tail = word[len(core) :]
    if not core:
        return word
    at = draw(st.integers(0, len(core) - 1))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    how = draw(st.sampled_from(("none", "delete", "insert", "exchange", "swap")))
    if how == "delete":
        core = core[:at] + core[at + 1 :]
    elif how == "insert":
        core = core[:at] + letter + core[at:]
    elif how == "exchange":
        core = core[:at] + letter + core[at + 1 :]
    elif how == "swap" and at + 1 < len(core):
        core = core[:at] + core[at + 1] + core[at] + core[at + 2 :]
    return core + tail


@st.composite
def glued(draw, reports):
    """A report and the same one with some of the spaces gone, or doubled, after the count."""
    report = draw(reports)
    head, place = report.rsplit(", ", 1)
    gaps = st.sampled_from((" ", " ", " ", "", "  "))
    words = place.split(" ")
    joined = words[0] + "".join(draw(gaps) + word for word in words[1:])
    return report, head + draw(st.sampled_from((", ", ",", ",  "))) + joined


@st.composite
def answers(draw):
    """An answer of PosMed about one quadrant or the center."""
    verb = draw(st.sampled_from(("located in", "situated towards", "found in")))
    noun = draw(st.sampled_from(("", " region", " area", " quadrant of the MRI image")))
    cell = draw(st.sampled_from(QUADRANTS.cells))
    center = draw(
        st.sampled_from(("", " and near the center of the image", ", far from the center"))
    )
    if cell.side is None:
        return f"The tumour is {verb} the central{noun or ' part'}."
    level = draw(st.sampled_from((cell.level, {"top": "upper", "bottom": "lower"}[cell.level])))
    return f"The tumour is {verb} the {level} {cell.side}{noun}{center}."
