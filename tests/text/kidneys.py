"""An own vocabulary for the tests, and sentences that use it."""

import yaml
from hypothesis import strategies as st

PHRASES = {
    "upper left": ["the left upper pole", "upper pole of the left kidney"],
    "lower left": ["the left lower pole", "lower pole of the left kidney"],
    "left kidney": ["the left kidney"],  # part of other wordings
    "upper right": ["the right upper pole", "upper pole of the right kidney"],
    "bladder": ["the bladder", "urinary bladder", "bladder-neck region"],
}
BOXES = [(0.2, 0.5, 0.1, 0.4), (0.5, 0.8, 0.1, 0.4), (0.2, 0.8, 0.1, 0.4), (0.2, 0.5, 0.6, 0.9),
         (0.8, 1.0, 0.35, 0.65)]  # fmt: skip
NAMES = list(PHRASES)
FUZZY = "a region of the abdomen"


def content():
    """The file as plain values."""
    regions = []
    for (name, phrases), box in zip(PHRASES.items(), BOXES, strict=True):
        edges = dict(zip(("top", "bottom", "left", "right"), box, strict=True))
        region = {"name": name, "phrases": phrases, "box": edges}
        sides = [side for side in ("left", "right") if side in name]
        regions.append(region | ({"side": sides[0]} if sides else {}))
    return {"name": "kidneys", "fuzzy": FUZZY, "regions": regions}


def write(folder, changed=None):
    """The path of the file, or of one with other content."""
    path = folder / "regions.yaml"
    path.write_text(yaml.safe_dump(content() if changed is None else changed, sort_keys=False))
    return str(path)


@st.composite
def sentences(draw):
    """A sentence, and the regions that its phrases were taken from."""
    heads = ["A stone is seen in", "Stones:", "There is a cyst near", "Seen in"]
    head = draw(st.sampled_from(heads))
    said, places = [], draw(st.lists(st.integers(0, len(NAMES) - 1), max_size=3))
    for place in places:
        phrase = draw(st.sampled_from(PHRASES[NAMES[place]]))
        change = draw(st.sampled_from([str, str.upper, lambda p: p.replace(" ", "-", 1)]))
        bare = phrase.removeprefix("the ")
        article = draw(st.sampled_from(["", "the ", "a ", "its "]))
        said.append(article + change(bare))
    joined = draw(st.sampled_from([" and ", ", ", " and in "])).join(said)
    end = draw(st.sampled_from([".", "", " is likely."]))
    text = f"{head} {joined}{end}" if said else f"{head} nothing{end}"
    return text, sorted(set(places))
