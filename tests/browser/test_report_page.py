"""The report page as a reader has it: in a browser, by mouse, by keyboard, without script."""

import json

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from semimedref.results import figures
from semimedref.results.report import write_report
from tests.results.conftest import Lab

COUNTS = [(90, 5, 5), (0, 0, 50), (60, 100, 40), (0, 80, 60)]  # good, missed, over, wrong place
PLACES = ["upper left", "lower right", "upper left; lower right", "middle left"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two rows, two seeds, four images each, two pictures, one figure."""
    lab = Lab(tmp_path_factory.mktemp("lab") / "multirun")
    for row, gain in (("Baseline", 0), ("+ T-S EMA", 4)):
        for seed in ("s0", "s1"):
            images = [
                (f"i{i}", f"p{i}", tp + gain, fp, fn - gain)
                for i, (tp, fp, fn) in enumerate(COUNTS)
            ]
            config = lab.config("supervised" if row == "Baseline" else "teacher_student")
            config["dataset"]["_target_"] = "semimedref.dataset.phantom.Phantom"
            _pictures(lab.finish(lab.cell(row=row, seed=seed, config=config), images))
    tables = lab.root / "tables"
    tables.mkdir()
    (tables / "quickstart-bars.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" '
        'height="20"/><image href="http://203.0.113.1/x.png" width="9" height="9"/></svg>'
    )
    about = {"title": "Bars", "caption": "Two bars.", "table": [["x", "y"], ["a", 2], ["b", 1]]}
    (tables / "quickstart-bars.json").write_text(json.dumps(about))
    return write_report(lab.experiment).as_uri()


def _pictures(folder):
    path = folder / "per_image.csv"
    head, *lines = path.read_text().splitlines()
    lines = [f"{line},{place}" for line, place in zip(lines, PLACES, strict=True)]
    path.write_text("\n".join([f"{head},position", *lines]) + "\n")
    overlays = folder / "overlays"
    overlays.mkdir()
    mask = np.zeros((48, 48), dtype=bool)
    mask[10:20, 10:20] = True
    index = []
    for name, error, kind in (("i0", "good", "best"), ("i3", "wrong side", "worst")):
        figures.panel(
            np.zeros((48, 48), np.uint8), "", mask, mask, overlays / f"{name}.png", title=None
        )
        index.append({"id": name, "text": f"Sentence {name}.", "dice": 0.5, "file": f"{name}.png"})
        index[-1] |= {"kind": kind, "error": error}
    (overlays / "index.json").write_text(json.dumps(index))


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    return browser


def first_cells(browser, at):
    rows = browser.css("#results tbody tr")
    return [row.find_elements("css selector", "th, td")[at].text for row in rows]


def test_page_is_quiet_and_asks_nobody(opened):
    opened.driver.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    assert opened.errors() == []
    outside = [url for url in opened.requests() if not url.startswith(("file:", "data:", "about:"))]
    assert outside == []
    loaded = opened.driver.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []
    broken = "return [...document.images].filter(i => i.complete && !i.naturalWidth).length"
    assert opened.driver.execute_script(broken) == 0


def test_script_that_somebody_smuggles_in_does_not_run(opened):
    opened.driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
        "document.body.append(s); const i = document.createElement('img');"
        "i.src = 'http://203.0.113.1/x.png'; document.body.append(i);"
    )
    assert opened.driver.execute_script("return window.evil") is None
    assert any("Content Security Policy" in message for message in opened.errors())


def test_click_on_a_heading_sorts_and_a_third_restores(opened):
    head = opened.css("#results thead th")[2]
    button = head.find_element("css selector", "button")
    assert button.text == "Dice"
    assert head.get_attribute("aria-sort") == "none"
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert first_cells(opened, 1) == ["+ T-S EMA", "Baseline"]
    assert first_cells(opened, 0) == ["2 %", "2 %"]  # printed once before, now in every line
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert first_cells(opened, 1) == ["Baseline", "+ T-S EMA"]
    button.click()
    assert head.get_attribute("aria-sort") == "none"
    assert first_cells(opened, 0) == ["2 %", ""]


def test_keyboard_sorts_too(opened):
    button = opened.css("#results thead th button")[1]
    opened.driver.execute_script("arguments[0].focus()", button)
    assert opened.driver.switch_to.active_element == button
    button.send_keys(Keys.ENTER)
    assert first_cells(opened, 1) == ["+ T-S EMA", "Baseline"]
    button.send_keys(Keys.SPACE)
    assert first_cells(opened, 1) == ["Baseline", "+ T-S EMA"]


def shown(browser):
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => !e.hidden).length"
    selectors = (".gallery figure", "table.predictions tbody tr")
    return tuple(browser.driver.execute_script(script, selector) for selector in selectors)


def test_filters_narrow_pictures_and_numbers_together(opened):
    assert shown(opened) == (8, 16)
    choose = {
        name: Select(opened.css(f"select[name={name}]")[0]) for name in ("row", "error", "position")
    }
    choose["error"].select_by_visible_text("wrong side")
    assert shown(opened) == (4, 4)
    choose["row"].select_by_visible_text("Baseline")
    assert shown(opened) == (2, 2)
    assert opened.texts("output") == ["2 of 8 pictures, 2 of 16 listed predictions"]
    choose["position"].select_by_visible_text("upper left")
    assert shown(opened) == (0, 0)
    opened.css(".filters button")[0].click()
    opened.driver.execute_async_script("setTimeout(arguments[0], 20)")
    assert shown(opened) == (8, 16)
    choose["position"].select_by_visible_text("upper left")
    assert shown(opened) == (4, 8)  # alone, and beside another region


def test_dice_range_is_typed_by_keyboard(opened):
    low, high = opened.css("input[name=low]")[0], opened.css("input[name=high]")[0]
    low.send_keys("40")
    high.send_keys("60")
    # 120/260 = 46.2 and 128/264 = 48.5 of the third image; the pictures say 50.0.
    assert shown(opened) == (8, 4)


def test_number_leads_to_its_runs_and_commands(opened):
    opened.css("#results a.from")[0].click()
    row = opened.css("tr:target")[0]
    assert row.is_displayed()
    assert "Baseline, 2 %" in row.text
    assert "only=phantom-2pct-s0-000000000000" in row.text


def test_page_without_script_shows_everything(browser, page):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(page)
        assert browser.css("thead button") == []
        assert not browser.css(".filters")[0].is_displayed()
        assert [e.is_displayed() for e in browser.css(".gallery figure")] == [True] * 8
        browser.css("#predictions details summary")[-1].click()
        assert [e.is_displayed() for e in browser.css("table.predictions tbody tr")] == [True] * 16
        assert "Two bars." in browser.texts("#figures figcaption")[0]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_narrow_screen_scrolls_tables_and_not_the_page(browser, page):
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(page)
        widths = "return [document.documentElement.scrollWidth, innerWidth]"
        assert browser.driver.execute_script(widths) == [390, 390]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
