"""docs/methods.md is run as it stands: a method of the user's own, its option, its test."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from semimedref.config import config_dir

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "methods.md").read_text()
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.S | re.M)
FILES = {body.split()[1]: body for language, body in FENCES if language}
COMMANDS = [line for language, body in FENCES if not language for line in body.splitlines()]
SMALL = ["scale=smoke", "dataset=phantom_tiny", "scale.epochs=2", "tracking=off", "hardware=cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder, outside of the project, with the files of the page."""
    folder = tmp_path_factory.mktemp("page")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def run(folder, *words):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_method_is_one_file_one_option_and_one_test():
    assert set(FILES) == {"my_lab/sure.py", "my_conf/method/sure.yaml", "test_sure.py"}


def test_the_users_test_passes(folder):
    assert "1 passed" in run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_users_method_trains_any_network(folder, command):
    words = shlex.split(command)[1:]
    assert "val dice" in run(folder, "-m", "semimedref.cli", *words, *SMALL)


def test_the_page_lists_every_option_and_every_page_is_linked():
    options = {file.stem for file in Path(config_dir(), "method").glob("*.yaml")}
    table = PAGE.split("## ")[0]
    assert options == set(re.findall(r"`(\w+)`", "\n".join(
        line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))  # fmt: skip
    pages = {file.name for file in (DOCS / "methods").glob("*.md")}
    assert pages == {Path(p).name for p in re.findall(r"\(methods/(\w+\.md)\)", PAGE)}
