"""A run folder with tiny networks, trained for a moment."""

import pytest
from tests.conftest import SMOKE

MOMENT = ["scale.epochs=1", "scale.min_epochs=1", "scale.steps_per_epoch=3", "overlays=never"]


@pytest.fixture(scope="session")
def train_tiny(cache, tmp_path_factory):
    """Train with some overrides; each distinct run once a session."""
    from semimedref.config import compose, resolved, run_name
    from semimedref.run import run

    root = tmp_path_factory.mktemp("analysis")

    def train(*overrides):
        cfg = compose([*SMOKE, *MOMENT, f"run_root={root}", *overrides])
        run(cfg)
        return root / run_name(resolved(cfg))

    return train


@pytest.fixture
def open_tiny(train_tiny):
    """A subject of such a run."""
    from semimedref.analysis.subject import Subject

    def subject(*overrides, split="valid", weights="student"):
        return Subject.open(train_tiny(*overrides), split=split, weights=weights)

    return subject
