"""The pages of the data sets say what the options say, and show nobody."""

import re
from pathlib import Path

import pytest
import yaml

from semimedref.config import compose, config_dir

PAGES = Path(__file__).parents[2] / "docs" / "data"
NAMES = ["qata_cov19", "mosmed_plus", "posmed"]


def page(name):
    return (PAGES / f"{name}.md").read_text()


def option(name):
    return yaml.safe_load((config_dir() / "dataset" / f"{name}.yaml").read_text())


@pytest.mark.parametrize("name", ["qata_cov19", "mosmed_plus"])
def test_counts_and_hashes_are_those_of_the_option(name):
    published = option(name)["published"]
    counts = " | ".join(f"{published['images'][s]:,}" for s in ("train", "valid", "test"))
    assert f"| {counts} |" in page(name)
    for row in published["labeled"]:
        line = f"| {100 * row['ratio']:g} % | {row['images']} | `{row['sha256'][:12]}` |"
        assert line in page(name)


def test_the_counts_of_posmed_are_those_of_the_option():
    counts = option("posmed")["domain_counts"]
    for domain, labeled in counts["labeled"].items():
        shown = "all six" if domain == "all" else domain
        line = next(row for row in page("posmed").splitlines() if row.startswith(f"| {shown} | "))
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")][1:]
        images = counts["images"].get(domain, {"train": "", "valid": "", "test": ""})
        expected = [
            images["train"],
            labeled["15pct"],
            labeled["5pct"],
            images["valid"],
            images["test"],
        ]
        assert cells == list(map(str, expected))


@pytest.mark.parametrize("name", NAMES)
def test_commands_compose_and_options_that_are_named_exist(name):
    text = page(name)
    commands = re.findall(r"^semimedref (?:data \w+|train) ([^#\n]*)", text, flags=re.M)
    assert len(commands) == 4
    for line in commands:
        words = [word for word in line.split() if not word.startswith("out=")]
        assert compose(words).dataset.name == name
    for words in re.findall(r"`((?:dataset|preset)\.[^`\s]+=[^`\s…]+)", text):
        compose([f"dataset={name}", words.replace("FILE", "x").replace("FOLDER", "x")])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_no_picture_and_no_path_of_a_machine(name):
    assert "![" not in page(name) and "<img" not in page(name)
    assert not re.search(r"/(?:home|work|tmp|mnt|Users)/", page(name))
    assert "not ours to ship" in page(name)
