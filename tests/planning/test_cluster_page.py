"""docs/cluster.md promises numbers: they are the program's."""

import re
from dataclasses import replace

import pytest

from semimedref.config import compose, config_dir, resolved
from semimedref.planning.plan import plan_experiment
from semimedref.planning.text import number, render
from semimedref.sweep import expand

PAGE = config_dir().parent / "docs" / "cluster.md"
GPUS = ("rtx3090", "rtx4090", "v100", "a100", "h100")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def main(tmp_path_factory):
    return expand(["experiment=main", f"run_root={tmp_path_factory.mktemp('runs')}"])


def test_the_page_shows_the_plan_of_the_main_table(main):
    block = re.search(r"\$ semimedref plan experiment=main\n(.*?)```", PAGE.read_text(), re.S)
    assert block is not None and block[1] == render(plan_experiment(main))


def test_the_page_shows_the_hours_of_every_gpu(main):
    rows = re.findall(r"^\| `(\w+)` \| ([\d.,]+) \| ([\d.,]+) \|$", PAGE.read_text(), re.M)
    hours = {}
    for name in GPUS:
        gpu = resolved(compose([f"gpu={name}"]))["gpu"]
        cells = [replace(cell, config=cell.config | {"gpu": gpu}) for cell in main.cells]
        total = plan_experiment(replace(main, cells=cells)).total
        hours[name] = (number(total.gpu_hours), number(total.wall_hours(4)))
    assert {name: (gpu, wall) for name, gpu, wall in rows} == hours
