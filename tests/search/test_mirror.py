"""Optuna's own database of a study."""

import optuna
import pytest

from tests.search.synthetic import RULE, Lab, make_search

pytestmark = pytest.mark.usefixtures("formula")


def test_optunas_database_says_what_the_record_says(tmp_path):
    search = make_search(tmp_path, stop=RULE)
    with pytest.raises(KeyboardInterrupt):
        Lab(search, kill_after=5).drive()
    url = f"sqlite:///{search.folder / 'optuna.db'}"
    (running,) = {t.state for t in optuna.load_study(study_name=None, storage=url).trials[3:]}
    assert running == optuna.trial.TrialState.RUNNING
    study = Lab(search).drive()
    mirrored = optuna.load_study(study_name=search.study, storage=url).trials
    assert [t.params for t in mirrored] == [t.params for t in study.trials]
    assert [t.values for t in mirrored] == [t.values for t in study.trials]
    names = {"COMPLETE": "done", "PRUNED": "stopped", "FAIL": "failed"}
    assert [names[t.state.name] for t in mirrored] == [t.state for t in study.trials]
