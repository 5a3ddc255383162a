"""docs/methods.md is run as it stands: a method of the user's own, its option, its test."""

import re
import shlex
from pathlib import Path

import pytest
from tests.page import DOCS, SMALL, Page, run

from semimedref.config import config_dir

PAGE = Page("methods.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return PAGE.write(tmp_path_factory.mktemp("page"))


def test_a_method_is_one_file_one_option_and_one_test():
    assert set(PAGE.files) == {"my_lab/sure.py", "my_conf/method/sure.yaml", "test_sure.py"}


def test_the_users_test_passes(folder):
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("command", PAGE.commands)
def test_the_users_method_trains_any_network(folder, command):
    words = shlex.split(command)[1:]
    assert "val dice" in run(folder, "-m", "semimedref.cli", *words, *SMALL)


def test_the_page_lists_every_option_and_every_page_is_linked():
    options = {file.stem for file in Path(config_dir(), "method").glob("*.yaml")}
    table = PAGE.text.split("## ")[0]
    assert options == set(re.findall(r"`(\w+)`", "\n".join(
        line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))  # fmt: skip
    pages = {file.name for file in (DOCS / "methods").glob("*.md")}
    assert pages == {Path(p).name for p in re.findall(r"\(methods/(\w+\.md)\)", PAGE.text)}
