import pytest

from semimedref.gpu_check.accelerator import Host
from semimedref.gpu_check.cell import Setup, middle
from semimedref.gpu_check.checks import sync


class Watching(Host):
    """A CPU that says, as a GPU would, when it is waited for."""

    watches = True
    inside = False

    def no_sync(self):
        watching = self

        class Guard:
            def __enter__(self):
                watching.inside = True

            def __exit__(self, *error):
                watching.inside = False

        return Guard()


@pytest.fixture
def watching(settings, tmp_path):
    return Setup(settings, Watching("cpu"), tmp_path)


@pytest.fixture
def trainer(watching):
    return middle(watching.trainer(*watching.settings["size"], *watching.last_row))


def test_a_step_that_waits_after_warm_up_is_named_with_its_line(watching, trainer, monkeypatch):
    def item(progress):
        if watching.accelerator.inside:
            raise RuntimeError("called a synchronizing CUDA operation")

    monkeypatch.setattr(trainer.method, "after_step", item)
    finding = sync.watched(watching, "+ PACL (Ours)", trainer)
    assert finding.state == "failed"
    assert "semimedref/trainer.py:" in finding.found
    assert "self.method.after_step(progress)" in finding.found


def test_a_step_that_never_waits_passes(watching, trainer):
    finding = sync.watched(watching, "+ PACL (Ours)", trainer)
    assert finding.state == "ok" and finding.found.startswith("2 steps without waiting")


def test_other_errors_are_not_taken_for_waiting(watching, trainer, monkeypatch):
    def broken(progress):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(trainer.method, "after_step", broken)
    with pytest.raises(RuntimeError, match="illegal"):
        sync.watched(watching, "x", trainer)


@pytest.mark.slow
def test_on_a_cpu_every_row_runs_and_nothing_is_claimed(setup):
    found = list(sync.check(setup))
    assert [f.state for f in found] == ["skipped"] * 5
    assert [f.subject for f in found] == list(setup.ladder)
