"""docs/cluster.md promises numbers: they are the program's.

Counting every step of the main table takes minutes, so the counts are kept in main_counts.json, and
a few of them are counted again here. After a change of a method or a network count all anew:

    python -m tests.planning.test_cluster_page      # writes that file; the plan goes into the page
"""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from semimedref.config import compose, config_dir, resolved
from semimedref.planning import counts
from semimedref.planning import plan as planning
from semimedref.planning.plan import plan_experiment
from semimedref.planning.text import number, render
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

PAGE = config_dir().parent / "docs" / "cluster.md"
KEPT = Path(__file__).with_name("main_counts.json")
GPUS = ("rtx3090", "rtx4090", "v100", "a100", "h100")
AGAIN = ("MMI-UNet", "Ours (MMI-UNet)")  # rows that are counted again


def key(config):
    """What decides a count, without the code that computes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "_code", str)
        return counts.counts_key(config)


@cache
def kept_counts():
    return json.loads(KEPT.read_text())


class KeptCounts(counts.Counts):
    """Counts of the file; what is not in it fails."""

    def __init__(self, config):
        super().__init__(config)
        self._own = kept_counts()[key(config)]

    def _kept(self, part):
        return self._own[part]


@pytest.fixture(scope="module")
def main(tmp_path_factory):
    return expand(["experiment=main", f"run_root={tmp_path_factory.mktemp('runs')}"])


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(planning, "Counts", KeptCounts)
    monkeypatch.setattr(planning, "_COUNTED", {})


def test_the_page_shows_the_plan_of_the_main_table(main, kept):
    block = re.search(r"\$ semimedref plan experiment=main\n(.*?)```", PAGE.read_text(), re.S)
    assert block is not None and block[1] == render(plan_experiment(main))


def test_the_page_shows_the_hours_of_every_gpu(main, kept):
    rows = re.findall(r"^\| `(\w+)` \| ([\d.,]+) \| ([\d.,]+) \|$", PAGE.read_text(), re.M)
    hours = {}
    for name in GPUS:
        gpu = resolved(compose([f"gpu={name}"]))["gpu"]
        cells = [replace(cell, config=cell.config | {"gpu": gpu}) for cell in main.cells]
        total = plan_experiment(replace(main, cells=cells)).total
        hours[name] = (number(total.gpu_hours), number(total.wall_hours(4)))
    assert {name: (gpu, wall) for name, gpu, wall in rows} == hours


@pytest.mark.parametrize("row", AGAIN)
def test_what_is_kept_is_what_is_counted(main, row, monkeypatch, tmp_path):
    monkeypatch.setattr(counts, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(planning, "_COUNTED", {})
    cell = next(cell for cell in main.cells if cell.row == row)
    plan_experiment(replace(main, cells=[cell]))
    files = tmp_path.glob("counts/*.json")
    written = {file.stem.partition("-")[2]: json.loads(file.read_text()) for file in files}
    assert len(written) > 1
    kept = {part: kept_counts()[key(cell.config)][part] for part in written}
    # The size of a file is an estimate from real tensors: headers may differ by some bytes.
    assert numbers(written) == pytest.approx(numbers(kept), rel=1e-6)


def numbers(node, name=""):
    if not isinstance(node, dict):
        return {name: float(node)} if not isinstance(node, str) else {}
    return {k: v for key, part in node.items() for k, v in numbers(part, f"{name}.{key}").items()}


def count_all():
    """All counts of the main table, and its plan."""
    found = {}

    class Kept(counts.Counts):
        def _keep(self, part, count):
            return self._note(part, super()._keep(part, count))

        def _kept(self, part):
            had = super()._kept(part)
            return None if had is None else self._note(part, had)

        def _note(self, part, value):
            found.setdefault(key(self._config), {})[part] = value
            return value

    planning.Counts = Kept
    text = render(plan_experiment(expand(["experiment=main", "run_root=nowhere"])))
    KEPT.write_text(json.dumps(found, sort_keys=True, indent=0) + "\n")
    return text


if __name__ == "__main__":
    print(count_all())
