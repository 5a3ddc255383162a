"""docs/backbones.md is run as it stands: a network of the user's own, its option, its test."""

import re
import shlex
from pathlib import Path

import pytest
from tests.page import SMALL, Page, run, run_python

from semimedref.config import config_dir

pytestmark = pytest.mark.slow

PAGE = Page("backbones.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return PAGE.write(tmp_path_factory.mktemp("page"))


def test_a_network_is_one_file_one_option_and_one_test_of_sixty_lines():
    assert set(PAGE.files) == {
        "my_lab/film_net.py",
        "my_conf/model/film_net.yaml",
        "test_film_net.py",
    }
    assert sum(len([x for x in f.splitlines() if x.strip()]) for f in PAGE.files.values()) <= 60


def test_the_users_test_passes(folder):
    assert "1 passed" in run_python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("command", PAGE.commands)
def test_the_users_network_is_trained_alone_and_under_semi_medref(folder, command):
    words = shlex.split(command)[1:]
    assert "val dice" in run(folder, *words, *SMALL)


def test_the_page_lists_every_option():
    options = {file.stem for file in Path(config_dir(), "model").glob("*.yaml")}
    table = PAGE.text.partition("## With what")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == options
