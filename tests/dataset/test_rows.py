"""Tables with small faults are read whole; others say where the fault is."""

import json
import re
import zipfile

import pytest
import trees

from semimedref.dataset.rows import NoTableError, UnreadableError, read_rows


def test_empty_cells_beyond_the_last_column_do_no_harm(tmp_path):
    (tmp_path / "a.csv").write_text('image,text\na.png,"left, upper",,\nb.png,right\n')
    assert read_rows(tmp_path / "a.csv") == [
        {"image": "a.png", "text": "left, upper"},
        {"image": "b.png", "text": "right"},
    ]


def test_a_text_without_quotes_is_refused_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_text("image,text\na.png,left\nb.png,right, lower\n")
    with pytest.raises(UnreadableError, match="line 3 has too many columns") as error:
        read_rows(tmp_path / "a.csv")
    assert error.value.detail.startswith("line 3 has too many columns")


@pytest.mark.parametrize("claimed", [b"A1", b"A1:B2", b"A1:Z99"])
def test_a_workbook_that_claims_another_size_is_read_whole(claimed, tmp_path):
    file = tmp_path / "a.xlsx"
    trees.write_excel(file, ["image", "text"], [["a.png", "left"], ["b.png", None], ["c.png", "x"]])
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="' + claimed + b'"',
                          parts[sheet])  # fmt: skip
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert [(row["image"], row["text"]) for row in read_rows(file)] == [
        ("a.png", "left"), ("b.png", ""), ("c.png", "x"),
    ]  # fmt: skip


def test_what_json_writes_for_nothing_is_nothing(tmp_path):
    (tmp_path / "a.json").write_text('[{"image": "a.png", "caption": NaN, "label": null}]')
    assert read_rows(tmp_path / "a.json") == [{"image": "a.png", "caption": "", "label": ""}]


def test_keys_of_json_that_hold_no_rows_are_passed_over(tmp_path):
    content = {"train": [{"image": "a.png"}], "info": {"version": 1}, "sizes": [1, 2]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert read_rows(tmp_path / "a.json") == [{"image": "a.png", "split": "train"}]
    (tmp_path / "a.json").write_text('{"info": {"version": 1}}')
    with pytest.raises(NoTableError):
        read_rows(tmp_path / "a.json")
