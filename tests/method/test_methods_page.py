"""docs/methods.md is run as it stands: a method of the user's own, its option, its test."""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
from tests.page import DOCS, SMALL, Page, run, run_python

from semimedref.combinations import check_combination
from semimedref.config import compose, config_dir, resolved
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

PAGE = Page("methods.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return PAGE.write(tmp_path_factory.mktemp("page"))


def test_a_method_is_one_file_one_option_and_one_test():
    assert set(PAGE.files) == {"my_lab/sure.py", "my_conf/method/sure.yaml", "test_sure.py"}


def test_the_users_test_passes(folder):
    assert "1 passed" in run_python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize("command", PAGE.commands)
def test_the_users_method_trains_any_network(folder, command):
    words = shlex.split(command)[1:]
    assert "val dice" in run(folder, *words, *SMALL)


def test_the_users_table_has_one_row_more(folder):
    (block,) = re.findall(r"\n    # (my_conf/\S+),.*\n((?:    .+\n)+)", PAGE.text)
    file = folder / block[0]
    file.parent.mkdir(exist_ok=True)
    file.write_text("# @package _global_\n" + textwrap.dedent(block[1]))
    experiment = expand(["experiment=my_rivals", f"hydra.searchpath=[file://{folder / 'my_conf'}]"])
    shipped = expand(["experiment=phantom_rivals"])
    assert [*shipped.rows, "Sure"] == list(experiment.rows)
    assert len(experiment.cells) == len(shipped.cells) + 3
    assert experiment.comparisons == (("Sure", "Supervised"), ("Sure", "Mean Teacher"))
    assert {c.signature for c in shipped.cells} < {c.signature for c in experiment.cells}


def test_the_page_lists_every_option_and_every_page_is_linked():
    options = {file.stem for file in Path(config_dir(), "method").glob("*.yaml")}
    table = PAGE.text.split("## ")[0]
    assert options == set(re.findall(r"`(\w+)`", "\n".join(
        line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))  # fmt: skip
    pages = {file.name for file in (DOCS / "methods").glob("*.md")}
    assert pages == {Path(p).name for p in re.findall(r"\(methods/(\w+\.md)\)", PAGE.text)}


def commands_of(text):
    """Commands of a page, in the text and in indented lines, which may go on after a backslash."""
    lines = re.sub(r"\\\n\s+", "", text)
    inline = re.findall(r"`(semimedref [^`]+)`", re.sub(r"\s+", " ", text))
    return [*re.findall(r"^    (semimedref .+)$", lines, flags=re.M), *inline]


@pytest.mark.parametrize("page", sorted(p.stem for p in (DOCS / "methods").glob("*.md")))
def test_the_commands_of_a_page_compose(page):
    commands = commands_of((DOCS / "methods" / f"{page}.md").read_text())
    assert any(f"method={page}" in command for command in commands)
    for command in commands:
        _, verb, *words = shlex.split(command)
        if verb == "train" and "-m" in words:
            assert expand([word for word in words if word.startswith("experiment=")]).cells
        elif verb == "train":
            check_combination(resolved(compose([w for w in words if "/launcher=" not in w])))
        else:
            assert verb == "predict" or (verb == "evaluate" and "run=RUN" in words)
