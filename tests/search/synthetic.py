"""A search without trainings: a launcher that writes run folders from a formula."""

import json

import pytest

from semimedref.search.drive import Drive
from semimedref.search.record import Study
from semimedref.search.settings import Objective, Search
from semimedref.search.stop import StopRule

DICE, STEPS = Objective("val/dice", "maximize"), Objective("cost/steps", "minimize")
RULE = StopRule(warmup=2, trials=3)
SPACE = {"a": "interval(0.0,1.0)", "b": "tag(log,interval(0.001,1.0))", "c": "choice(x,y,z)"}
GRID = {"a": "range(0.0,1.1,step=0.5)", "c": "choice(x,y,z)"}
SAMPLERS = {
    "tpe": {"_target_": "optuna.samplers.TPESampler", "n_startup_trials": 4},
    "joint": {
        "_target_": "optuna.samplers.TPESampler", "n_startup_trials": 4, "multivariate": True,
        "constant_liar": True,
    },
    "random": {"_target_": "optuna.samplers.RandomSampler"},
    "grid": {"_target_": "optuna.samplers.GridSampler", "_partial_": True},
    "nsgaii": {
        "_target_": "hydra_plugins.hydra_optuna_sweeper._impl.create_nsgaii_sampler",
        "population_size": 4,
    },
}  # fmt: skip


def make_search(root, sampler="tpe", objectives=(DICE,), **changes):
    known = {
        "name": "search_formula", "title": "A formula", "study": "search_formula-000000000000",
        "trials": 12, "batch": 3, "seed": 42, "objectives": tuple(objectives), "stop": None,
        "space": GRID if sampler == "grid" else SPACE, "sampler": SAMPLERS[sampler],
        "fixed": (), "overrides": ("experiment=search_formula",), "final": {}, "run_root": root,
    }  # fmt: skip
    return Search(**known | changes)


def value_of(params):
    return 1 - (params["a"] - 0.3) ** 2 - 0.1 * params.get("b", 0) - 0.1 * "xyz".index(params["c"])


class Lab:
    """Trains by formula; counts, fails and is killed as asked."""

    def __init__(self, search, *, kill_after=None, fail=(), order=1, epochs=4):
        self.search, self.kill_after, self.fail = search, kill_after, set(fail)
        self.order, self.epochs, self.trained, self.free = order, epochs, [], []

    def launch(self, orders, waiting):
        assert not waiting
        for order in list(orders)[:: self.order]:
            if self.kill_after is not None and len(self.trained) >= self.kill_after:
                raise KeyboardInterrupt
            self.trained.append(order.name)
            self.train(order)

    def train(self, order):
        words = dict(o.split("=", 1) for o in order.overrides)
        params = {
            k: v if k == "c" else float(v) for k, v in words.items() if k in self.search.space
        }
        folder = self.search.run_root / order.name
        number = int(words["row"].strip('"').split()[1])
        if number in self.fail:
            (folder / "failure.json").write_text(json.dumps({"error": f"boom {number}"}))
            return
        (folder / "failure.json").unlink(missing_ok=True)
        best = value_of(params)
        note = json.loads((folder / "studies" / f"{self.search.study}.json").read_text())
        rows = []
        for epoch in range(1, self.epochs + 1):
            rows.append({"epoch": epoch, "val/dice": best * epoch / self.epochs})
            if rows[-1]["val/dice"] < note["limits"].get(str(epoch), -1):
                break
        (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        if len(rows) == self.epochs:
            result = {"status": "done", "test": {"dice": 9.0}, "config": {}, "steps": 10 + number}
            result |= {"best": {"epoch": self.epochs, "val/dice": best}}
            (folder / "result.json").write_text(json.dumps(result))

    def drive(self, **options):
        from hydra_plugins.semimedref_search.search_sweeper import _sampler

        study = Study.load(self.search)
        sampler, study.size = _sampler(self.search)
        drive = Drive(self.search, study, self.launch, sampler, self.free.extend, **options)
        drive.run()
        return study


@pytest.fixture
def formula(monkeypatch):
    """Composing is replaced: a point's run is named by its parameters."""
    import hashlib

    from semimedref.search import point

    def compose(overrides):
        words = [o for o in overrides if not o.startswith(("row=", "study="))]
        if "c=broken" in words:
            raise ValueError("c=broken cannot be composed")
        return f"formula-{hashlib.sha1(repr(sorted(words)).encode()).hexdigest()[:12]}", {}

    monkeypatch.setattr(point, "compose", compose)


@pytest.fixture
def no_database(monkeypatch):
    """Optuna's database is only a mirror, and slow to make."""
    from semimedref.search import mirror

    monkeypatch.setattr(mirror, "write", lambda *args: None)
