"""The sweeper on a launcher that misbehaves."""

import pytest
from omegaconf import OmegaConf

from hydra_plugins.semimedref_search import search_sweeper
from semimedref.errors import UserError
from semimedref.search import settings, view
from semimedref.search.point import Order
from semimedref.search.record import Study
from tests.search.synthetic import Lab, make_search

pytestmark = pytest.mark.usefixtures("formula", "no_database")


class Launcher:
    """As Hydra's: lists of overrides in, job returns out; by formula, or with an error."""

    def __init__(self, search, *, broken=()):
        self.lab, self.broken, self.calls = Lab(search), set(broken), 0

    def launch(self, overrides, initial_job_idx):
        self.calls += 1
        for words in overrides:
            name = self.lab.search.run_root / next(w for w in words if w.startswith("name="))[5:]
            if self.calls in self.broken:
                raise RuntimeError("the queue is gone")
            self.lab.train(Order(name.name, tuple(words)))
        return []


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Run the sweeper over a formula."""
    search = make_search(tmp_path)
    assert view.read_search is settings.read_search  # imported before it is replaced
    monkeypatch.setattr(settings, "read_search", lambda config, arguments: search)
    monkeypatch.setattr(search_sweeper, "_prepare_store", lambda config: None)
    monkeypatch.setattr(search_sweeper.SearchSweeper, "_announce", lambda self, runs: None)

    def run(*, broken=(), **options):
        sweeper = search_sweeper.SearchSweeper(None, {})
        known = {"only": None, "retry_failed": False, "on_error": "continue", "search": {}}
        known |= {"dry_run": False}
        sweeper.config = OmegaConf.create(known | options)
        sweeper.launcher = Launcher(search, broken=broken)
        launched = sweeper._launched

        def with_names(search, orders, waiting):
            return launched(
                search,
                [Order(o.name, (*o.overrides, f"name={o.name}")) for o in orders],
                waiting,
            )

        sweeper._launched = with_names
        sweeper.sweep([])
        return Study.load(search)

    return run


def test_a_launcher_that_raises_does_not_end_the_search(sweep, capsys):
    study = sweep(broken=[2])
    assert [t.state for t in study.trials] == ["done"] * 3 + ["failed"] * 3 + ["done"] * 6
    said = capsys.readouterr().out
    assert "the launcher reported: the queue is gone" in said
    assert "12 trials, 9 done, 3 failed (retry_failed=true runs them again), 0 to run" in said
    assert sweep(retry_failed=True).count("done") == 12


def test_a_queue_that_refuses_ends_the_search_before_a_point_is_wasted(sweep, monkeypatch):
    def refused(self, *args, **options):
        raise UserError("sbatch refused the jobs")

    monkeypatch.setattr(Launcher, "launch_cells", refused, raising=False)
    with pytest.raises(UserError, match="sbatch refused"):
        sweep()
    monkeypatch.delattr(Launcher, "launch_cells")
    assert sweep().count("done") == 12  # the same points, as if nothing had been


def test_the_second_time_there_is_nothing_to_run(sweep, capsys):
    sweep()
    capsys.readouterr()
    sweep()
    assert capsys.readouterr().out.splitlines()[0] == "12 trials, 12 done, 0 to run"


def test_a_search_of_which_every_trial_failed_says_so(sweep):
    with pytest.raises(
        UserError, match=r"all 12 trials of .* failed, the first with: the job ended"
    ):
        sweep(broken=range(99))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"only": 3}, "only= picks cells"), ({"on_error": "ignore"}, "expected continue or stop")],
)
def test_options_of_tables_are_refused(sweep, options, message):
    with pytest.raises(UserError, match=message):
        sweep(**options)
