"""Every figure comes in three formats with a caption and a table, the same bytes each time."""

import csv
import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from PIL import Image

from semimedref.results.figure import style
from semimedref.results.figure.contract import Figure
from semimedref.results.figure.label_efficiency import label_efficiency
from semimedref.results.figure.rows import rows


@pytest.fixture
def figure(ratios):
    return label_efficiency(ratios)


def test_a_figure_is_five_files(figure, tmp_path):
    paths = figure.write(tmp_path / "new", "x", numbers={"images": 3})
    assert [p.name for p in paths] == ["x.svg", "x.pdf", "x.png", "x.csv", "x.json"]
    about = json.loads((tmp_path / "new" / "x.json").read_text())
    assert about["title"] and about["sources"] and about["images"] == 3
    lines = list(csv.reader((tmp_path / "new" / "x.csv").open()))
    assert lines[0] == about["table"][0] and len(lines) == len(about["table"]) > 1


def test_the_caption_is_made_of_sentences(figure, ratios):
    for one in (figure, rows(ratios)):
        assert one.caption[0].isupper() and one.caption.endswith(".")
        assert "seed" in one.caption


def test_svg_is_valid_xml_and_its_letters_are_text(figure):
    svg = figure.drawn()["svg"]
    tree = ElementTree.fromstring(svg)
    texts = {"".join(node.itertext()).strip() for node in tree.iter() if node.tag.endswith("text")}
    assert {"Dice (%)", "labeled images (%)", "Baseline", "Ours"} <= texts
    assert b"<dc:date>" not in svg


def test_drawn_twice_the_bytes_are_equal(figure):
    assert figure.drawn() == figure.drawn()


_SCRIPT = """
import hashlib
from semimedref.results.figure.contract import Figure
from semimedref.results.figure.mixing import mixing
row = {k: .5 for k in ("lesion_score", "position_overlap", "named_overlap", "gate_opens",
                       "pasted", "ambiguous")} | {"samples": 9}
files = mixing({"Random PatchMix": row, "T-PatchMix-pos": row}, name="x", source="y").drawn()
print({k: hashlib.sha256(v).hexdigest() for k, v in files.items()})
"""


@pytest.mark.slow
def test_another_process_draws_the_same_bytes():
    out = [
        subprocess.run(
            [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert out[0] == out[1] != ""


def test_png_is_a_print_column_at_300_dpi(figure, tmp_path):
    figure.write(tmp_path, "x")
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.width == pytest.approx(8.5 / 2.54 * 300, abs=2)
        assert picture.info["dpi"][0] == pytest.approx(300, abs=0.1)


def test_pdf_has_no_type_3_font_and_no_date(figure):
    pdf = figure.drawn()["pdf"]
    assert b"/Type3" not in pdf and b"CreationDate" not in pdf


def test_no_style_repeats_within_forty_lines():
    looks = [style.line_style(k) for k in range(40)]
    assert len({(look["marker"], str(look["linestyle"])) for look in looks}) == 40
    assert len({style.bar_style(k)["hatch"] for k in range(7)}) == 7


def test_drawing_leaves_the_global_settings_alone(figure):
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure.drawn()
    assert dict(matplotlib.rcParams) == before
    assert isinstance(figure, Figure)
