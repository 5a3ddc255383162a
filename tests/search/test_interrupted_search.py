"""The real command, killed twice: the same points, the same values, the same best."""

import json
import re
import time

import pytest

from semimedref import config
from tests.command import semimedref, start

pytestmark = pytest.mark.slow

# The atlas is the cheapest run there is: it counts, and tries one threshold an epoch.
CHEAP = [
    "tracking=off", "hardware=cpu", "hardware.threads=1", "overlays=never",
    "method.thresholds=[0.1,0.2,0.3,0.4]", "trainer.epochs=4", "trainer.min_epochs=4",
    "search.stop.warmup=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def my_conf(tmp_path_factory):
    """The search that docs/search.md shows."""
    page = (config.config_dir().parent / "docs" / "search.md").read_text()
    (written,) = re.findall(r"```yaml\n(# @package.*?)```", page, re.S)
    folder = tmp_path_factory.mktemp("my_conf") / "experiment"
    folder.mkdir()
    (folder / "my_search.yaml").write_text(written)
    return folder.parent


def words(my_conf, root):
    return ["--config-dir", my_conf, "experiment=my_search", f"run_root={root}", *CHEAP]


def kill_after(count, args, root):
    """SIGKILL as soon as so many trials have ended."""
    process = start(root.parent / "log", *args)
    while ended(root) < count:
        assert process.is_alive(), "the search ended before it was killed"
        time.sleep(0.02)
    process.kill()
    process.join()


def ended(root):
    return sum(len(list(root.glob(f"*/{name}.json"))) for name in ("result", "stopped"))


def record(root):
    (file,) = root.glob("searches/*/study.json")
    return json.loads(file.read_text())


def trainings(root):
    """How often a run was started anew or continued, and its epochs, by folder."""
    logs = {f.parent.name: f.read_text() for f in root.glob("*/train.log")}
    return {name: len(re.findall(r"epoch \d+/4 ", text)) for name, text in logs.items()}


def test_a_study_killed_after_5_and_9_trials_ends_like_one_that_was_not(tmp_path, my_conf):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train = ["train", "-m", "hydra/launcher=basic"]
    done = semimedref(*train, *words(my_conf, whole))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("12 trials, 0 done, 12 to run")

    args = [*train, *words(my_conf, cut)]
    kill_after(5, args, cut)
    kill_after(9, args, cut)
    last = semimedref(*args)
    assert last.returncode == 0, last.stdout + last.stderr

    one, other = record(whole), record(cut)
    assert len(one["trials"]) == 12
    assert one == other  # points, values bit for bit, states, curves, limits, in the same order
    assert {"done", "stopped"} >= {t["state"] for t in one["trials"]}
    assert len({json.dumps(t["params"]) for t in one["trials"]}) == 12
    best = max(t["values"][0] for t in one["trials"] if t["state"] == "done")
    assert f"val/dice {100 * best:.2f}" in last.stdout.splitlines()[-1]
    assert last.stdout.splitlines()[-1] == done.stdout.splitlines()[-1]

    counted, again = trainings(cut), semimedref(*args)
    assert again.stdout.splitlines()[0] == done.stdout.splitlines()[-2]  # 12 trials, …, 0 to run
    assert again.stdout.splitlines()[0].endswith(" 0 to run")
    assert trainings(cut) == counted
    # A finished epoch was never trained again: each log has every epoch once, but for the one cut.
    extra = sum(counted.values()) - sum(trainings(whole).values())
    assert 0 <= extra <= 2

    listed = semimedref("status", *words(my_conf, cut))
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.count("✓ done") + listed.stdout.count("‖ stopped") == 12
    assert "semimedref train -m" in listed.stdout
