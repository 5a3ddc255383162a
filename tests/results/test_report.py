import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from semimedref.errors import UserError
from semimedref.results import figures
from semimedref.results.evidence import duration
from semimedref.results.report import write_report

EVIL = "<script>alert('x')</script> & \"quotes\""


@pytest.fixture
def filled(lab):
    """Two rows, two seeds, and hostile text wherever a run can bring text along."""
    lab.title = EVIL
    for row, method, tp in (("Baseline", "supervised", 60), (EVIL, "teacher_student", 70)):
        for seed in ("s0", "s1"):
            rows = [(f"i{i}", f"p{i}", tp + i, 10, 100 - tp - i) for i in range(8)]
            config = lab.config(method) | ({EVIL: EVIL} if row == EVIL else {})
            folder = lab.finish(lab.cell(row=row, seed=seed, config=config), rows)
    result = json.loads((folder / "result.json").read_text())
    result |= dict.fromkeys(("git_commit", "device", "version"), EVIL)
    result |= {"environment": {EVIL: EVIL}, "precision": {EVIL: EVIL}}
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "overlays").mkdir()
    mask = np.zeros((96, 96), dtype=bool)
    mask[10:30, 10:30] = True
    picture = folder / "overlays" / "a.png"
    figures.panel(np.zeros((96, 96), np.uint8), "", mask, mask, picture, title=None)
    index = [{"id": "a", "text": EVIL, "dice": 0.75, "file": "a.png", "kind": "median"}]
    (folder / "overlays" / "index.json").write_text(json.dumps(index))
    return lab


class Page(HTMLParser):
    """Collects tags and checks that they are closed in order."""

    void = frozenset({"meta", "link", "img", "input", "line", "circle", "polyline"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], text
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def page_of(lab, **options):
    path = write_report(lab.experiment, **options)
    assert path == lab.root / "tables" / "quickstart.html"
    return Page(path.read_text(encoding="utf-8"))


def test_page_asks_nobody_for_anything(filled):
    page = page_of(filled)
    references = [
        value
        for _, attrs in page.tags
        for name, value in attrs.items()
        if name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href")
    ]
    assert references
    assert all(value.startswith(("#", "data:")) for value in references)
    assert not re.search(r"https?://|url\(|@import|<script.+src", page.text)


def test_browser_runs_the_script_of_the_page_and_no_other(filled):
    page = page_of(filled)
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv")]
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert allowed["default-src"] == "'none'"
    assert allowed["script-src"] == f"'sha256-{digest}'"
    assert (allowed["base-uri"], allowed["form-action"]) == ("'none'", "'none'")
    assert allowed["img-src"] == "data:"


def test_every_link_of_the_page_has_its_target(filled):
    page = page_of(filled)
    targets = {attrs.get("id") for _, attrs in page.tags}
    links = [a["href"] for a in page.all("a")]
    assert links[:8] == [
        "#results", "#honest", "#curves", "#significance",
        "#predictions", "#rows", "#provenance", "#reproduce",
    ]  # fmt: skip
    assert {link[1:] for link in links} <= targets


def test_text_from_runs_is_escaped_everywhere(filled):
    page = page_of(filled)
    assert len(page.all("script")) == 1
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;quotes&quot;" in page.text
    (image,) = page.all("img")
    assert EVIL in image["alt"]
    assert image["src"].startswith("data:image/webp;base64,")


def test_every_number_leads_to_its_runs_folders_and_commands(filled):
    page = page_of(filled)
    numbers = [a["href"] for a in page.all("a") if a.get("class") == "from"]
    assert set(numbers) == {"#line-0", "#line-1"}
    rows = dict(re.findall(r"<tr class=group id=(line-\d)>(.*?)</tr>", page.text))
    assert "multirun/phantom-2pct-s0-000000000000" in rows["line-0"]
    assert "only=phantom-2pct-s0-000000000000" in rows["line-0"]
    assert "<td class=n>73.20</td>" in rows["line-0"]  # TP 508, FP 80, FN 292


def test_charts_have_words_for_those_who_cannot_see_them(filled):
    charts = [svg for svg in page_of(filled).all("svg") if "aria-hidden" not in svg]
    assert len(charts) == 1
    assert "Baseline ends at 50.0" in charts[0]["aria-label"]


def test_page_holds_numbers_provenance_commands_and_the_notice(filled):
    text = page_of(filled, overrides=["experiment=quickstart", "ratio=2pct"]).text
    for expected in (
        "4 of 4 cells done",
        "58.5 <small>Dice</small>",
        "method._target_",
        "0123456789",
        "1 min 01 s",
        "512 MiB",
        "1.50 M (1.10 M)",
        "tf32 false",
        "semimedref train -m experiment=quickstart ratio=2pct",
        "Unofficial. Research use only; not a medical device.",
        "prefers-color-scheme: dark",
        "width=device-width",
    ):
        assert expected in text


def test_headroom_comes_from_runs_outside_the_experiment_too(filled):
    assert "Not measured here" in page_of(filled).text
    cell = filled.cell(row="elsewhere", config=filled.config("supervised", 1.0))
    folder = filled.finish(cell)
    result = json.loads((folder / "result.json").read_text())
    result["best"]["val/dice"] = 0.875
    (folder / "result.json").write_text(json.dumps(result))
    filled.cells.remove(cell)
    text = page_of(filled, extra=[folder]).text
    assert "+12.5 <small>points</small>" in text  # 0.875 - 0.75
    assert "enough to win" in text


def test_page_of_an_experiment_that_has_not_begun_says_what_to_do(lab):
    lab.cell()
    text = page_of(lab).text
    assert "0 of 1 cells done" in text
    assert "missing: Baseline, 2 %, s0:  semimedref train -m experiment=quickstart only=" in text
    assert "No epoch has ended yet." in text


def test_model_with_a_small_text_gap_is_marked(lab):
    lab.finish(lab.cell(), text_gap=0.03)
    text = page_of(lab).text
    assert "No text gain is claimed for 1 of 1 models" in text
    assert "no text gain is claimed</span>" in text


def test_broken_picture_is_named(filled):
    picture = next(filled.root.glob("*/overlays/a.png"))
    picture.write_bytes(b"not a picture")
    with pytest.raises(UserError, match=r"a\.png is not a picture"):
        write_report(filled.experiment)


def test_durations_are_printed_for_the_eye():
    assert [duration(s) for s in (41.6, 185, 7620)] == ["42 s", "3 min 05 s", "2 h 07 min"]
