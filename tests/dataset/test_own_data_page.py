"""docs/own_data.md is run as it stands: its files, its commands, its words about them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.page import run

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "own_data.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, flags=re.S))
FENCES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.S | re.M)
BLOCKS = [body for language, body in FENCES if not language]
LINES = [line for body in BLOCKS for line in body.splitlines()]
COMMANDS = [line for line in LINES if line.startswith("semimedref ")]
QUIET = ["tracking=off", "hardware=cpu", "hardware.threads=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the files of the page and the drawn images."""
    folder = tmp_path_factory.mktemp("page")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    subprocess.run([sys.executable, "draw_kidneys.py"], cwd=folder, check=True)
    return folder


def test_the_page_has_its_files_and_commands():
    assert set(FILES) == {"draw_kidneys.py", "regions.yaml", "my_conf/experiment/kidneys.yaml"}
    assert len(COMMANDS) == 7
    assert {line.split()[1] for line in COMMANDS} == {"data", "train", "table"}


def test_the_table_on_the_page_is_the_one_that_is_drawn(folder):
    shown = next(block for block in BLOCKS if block.startswith("image,mask"))
    drawn = (folder / "kidneys" / "table.csv").read_text()
    assert drawn.splitlines()[: len(shown.splitlines())] == shown.splitlines()


def test_every_command_of_the_page_does_what_the_page_says(folder):
    said = []
    for line in COMMANDS:
        args = shlex.split(line, comments=True)[1:]
        extra = QUIET if args[0] == "train" else []
        said.append(run(folder, *args, *extra))
    plain, _, first, with_words, whole, sweep, table = said
    assert "20: images/01.png" in plain and "training row without a mask" in plain
    assert (folder / "sheet.png").stat().st_size > 0
    assert "6 labeled and 34 unlabeled images" in first and "max_tokens" not in whole
    assert "names no position" not in with_words and "without mask" not in with_words
    assert "3 cells, 1 done, 2 to run" in sweep  # the whole method was trained above
    assert re.search(r"Ours\s+\d", table) and "Kidney stones, smoke scale" in table
