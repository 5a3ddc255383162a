"""A headless Chromium, one for each test module; without an installed one the tests are skipped."""

import json
import shutil
import sys
from pathlib import Path

import pytest

# The fake runs and the real server of the tracking tests.
sys.path.append(str(Path(__file__).parents[1] / "tracking"))

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",  # a page that still scrolls cannot be clicked
    "--window-size=1600,1200",
)


class Browser:
    """The driver, and what the page wrote to the console and asked the network for."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url):
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get("about:blank")
        self.driver.get(url)

    def errors(self):
        """What the console says above information."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] != "INFO"]

    def requests(self):
        """The addresses that were asked for."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def css(self, selector):
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector):
        return [element.text for element in self.css(selector)]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver_path, binary = shutil.which("chromedriver"), shutil.which("chromium")
    if not driver_path or not binary:
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Both paths are given, so that nothing is looked for and nothing is downloaded.
    service = webdriver.ChromeService(executable_path=driver_path)
    driver = webdriver.Chrome(options=options, service=service)
    yield Browser(driver)
    driver.quit()
