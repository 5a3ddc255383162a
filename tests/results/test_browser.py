import re

import pytest
from PIL import Image

from semimedref.results import browser, browser_data
from semimedref.results.table import build_table

IMAGES = [
    ("i0", "p0", 90, 5, 5),
    ("i1", "p0", 0, 0, 50),
    ("i2", "p1", 60, 100, 40),
    ("i3", "p2", 0, 80, 60),
]


@pytest.fixture
def tested(lab):
    """One run on images whose four kinds of error are known."""
    lab.folder_of_run = lab.finish(lab.cell(), IMAGES)
    return lab


def only_run(lab):
    (run,) = browser_data.of_table(build_table(lab.experiment))
    return run


def with_columns(lab, **columns):
    path = lab.folder_of_run / "per_image.csv"
    head, *lines = path.read_text().splitlines()
    lines = [
        ",".join([line, *cells]) for line, *cells in zip(lines, *columns.values(), strict=True)
    ]
    path.write_text("\n".join([",".join([head, *columns]), *lines]) + "\n")


def test_predictions_know_their_kind_and_hide_who_they_are_of(tested):
    assert [(p.image, p.patient, p.line, p.error) for p in only_run(tested)] == [
        ("line 2", 1, 2, "good"),
        ("line 3", 1, 3, "missed lesion"),
        ("line 4", 2, 4, "over-segmented"),
        ("line 5", 3, 5, "wrong place"),
    ]


def test_images_of_the_phantom_keep_their_names(lab):
    config = lab.config("supervised")
    config["dataset"]["_target_"] = "semimedref.dataset.phantom.Phantom"
    lab.finish(lab.cell(config=config), IMAGES)
    assert [p.image for p in only_run(lab)] == ["i0", "i1", "i2", "i3"]


def test_position_and_counted_lesions_come_from_the_file(tested):
    places = ["upper left", "", "upper left; lower right", ""]
    with_columns(
        tested, position=places, lesions="1122", lesions_found="1020", lesions_false="0010"
    )
    run = only_run(tested)
    assert [p.position for p in run] == places
    assert run[2].error == "false lesion"
    page = browser.browser(build_table(tested.experiment))
    options = re.search(r"<select name=position>(.*?)</select>", page)[1]
    assert re.findall("<option>(.*?)</option>", options) == ["lower right", "upper left"]


def test_index_of_the_overlays_adds_what_only_masks_show(tested):
    overlays = tested.folder_of_run / "overlays"
    overlays.mkdir()
    Image.new("RGB", (9, 3)).save(overlays / "i3.png")
    (overlays / "index.json").write_text(
        '[{"id": "i3", "text": "t", "dice": 0.0, "file": "i3.png", "kind": "worst",'
        ' "error": "wrong side", "position": "lower left"}]'
    )
    last = only_run(tested)[3]
    assert (last.error, last.position, last.image) == ("wrong side", "lower left", "i3")
    assert last.counted == "wrong place"  # images without a picture know no better
    page = browser.browser(build_table(tested.experiment))
    assert 'data-error="wrong side"' in page
    assert 'data-position="lower left"' in page


def test_shares_of_the_kinds_are_over_all_images(tested):
    page = browser.error_table(browser_data.of_table(build_table(tested.experiment)))
    head = re.findall("<th class=n scope=col>(.*?)</th>", page)
    body = re.findall("<td class=n>(.*?)</td>", page)
    assert dict(zip(head, body, strict=True)) == {
        "good": "25.0",
        "missed lesion": "25.0",
        "wrong place": "25.0",
        "over-segmented": "25.0",
        "images": "4",
    }


def test_a_long_list_is_spread_over_dice_with_both_ends(tested):
    run = only_run(tested)
    assert [p.line for p in browser_data.spread(run, 9)] == [3, 5, 4, 2]
    assert [p.line for p in browser_data.spread(run * 25, 3)] == [3, 4, 2]
    table = build_table(tested.experiment)
    assert "All 4 predictions." in browser.browser(table)


def test_pictures_are_dealt_until_the_page_is_full(monkeypatch):
    monkeypatch.setattr(browser, "_PICTURES", 4)
    assert browser._dealt([["a1", "a2", "a3"], ["b1"], ["c1", "c2"]]) == ["a1", "b1", "c1", "a2"]


def test_runs_without_pictures_say_why_and_list_numbers(tested):
    page = browser.browser(build_table(tested.experiment))
    assert "pictures of real patients stay on the machine" in page
    assert page.count("<tr><td>Baseline</td>") == 4
