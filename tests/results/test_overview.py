import json
import re

import pytest

from semimedref import sweep
from semimedref.errors import UserError
from semimedref.results.commands import report_command
from semimedref.results.embedded import figures


@pytest.fixture
def experiments(lab, expanded, monkeypatch):
    """Three experiments, of which one has no run and one cannot be composed."""
    known = ["broken", "empty", "quickstart"]
    monkeypatch.setattr(sweep, "known_experiments", lambda folders=None: known)
    usual = sweep.expand

    def expand(words):
        if words[0] == "experiment=broken":
            raise UserError("weights <b>missing</b>")
        if words[0] == "experiment=empty":
            cells, lab.cells = lab.cells, []
            try:
                return usual(words)
            finally:
                lab.cells = cells
        return usual(words)

    monkeypatch.setattr(sweep, "expand", expand)
    return lab


def test_one_page_leads_to_every_experiment_with_a_finished_run(experiments, capsys):
    lab = experiments
    for row, tp in (("Baseline", 60), ("+ T-S EMA", 70)):
        lab.finish(lab.cell(row=row), [("i", "p", tp, 10, 100 - tp)])
    assert report_command([f"run_root={lab.root}"]) == 0
    assert capsys.readouterr().out.strip() == str(lab.root / "tables" / "index.html")
    text = (lab.root / "tables" / "index.html").read_text()
    assert set(re.findall(r'href="([^#"]*\.html)"', text)) == {"quickstart.html"}
    assert (lab.root / "tables" / "quickstart.html").is_file()
    assert "1 experiments, 2 of 2 cells done, 2 finished runs" in text
    assert "<th scope=row>+ T-S EMA</th><td class=n>77.78</td>" in text  # 140 / 180
    assert "<td class=n>+7.19</td>" in text  # minus 120 / 170
    assert "weights &lt;b&gt;missing&lt;/b&gt;" in text
    assert "<code>empty</code>" not in text


def test_page_over_no_run_says_how_to_make_one(experiments, tmp_path):
    assert report_command([f"run_root={tmp_path / 'none'}"]) == 0
    text = (tmp_path / "none" / "tables" / "index.html").read_text()
    assert "No experiment has a finished run here" in text


def test_drawn_figures_come_with_caption_and_numbers(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "t-a.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>')
    about = {
        "title": "A <b>",
        "caption": "What.",
        "table": [["x", "y"], ["<i>", -0.5], ["b", None]],
    }
    (folder / "t-a.json").write_text(json.dumps(about))
    (folder / "t-b.svg").write_text("no numbers beside it: not shown")
    page = figures(tmp_path, "t")
    assert page.count("<figure") == 1
    assert "data:image/svg+xml;base64," in page
    assert "<script" not in page
    assert "A &lt;b&gt;</b> What." in page
    assert '<td>&lt;i&gt;</td><td class=n data-v="-0.5">−0.5</td>' in page
    assert "<td>b</td><td>–</td>" in page


def test_figure_whose_numbers_cannot_be_read_is_named(tmp_path):
    (tmp_path / "tables").mkdir()
    for ending in ("svg", "json"):
        (tmp_path / "tables" / f"t-a.{ending}").write_text("{")
    with pytest.raises(UserError, match=r"t-a\.json cannot be read"):
        figures(tmp_path, "t")
