"""What a search shows: status, table, report, figures, and the command for the best point."""

import json
import shlex

import pytest

from semimedref import config
from semimedref.errors import UserError
from semimedref.results.commands import report_command, status_command, table_command
from semimedref.results.figure.commands import figures_command
from semimedref.search.best import final_command
from semimedref.search.importance import importance
from semimedref.search.record import Study, Trial
from semimedref.search.report import render_page, write_figures
from semimedref.search.settings import read_search
from semimedref.search.view import View
from semimedref.sweep import expand
from tests.conftest import SMOKE
from tests.search.synthetic import DICE, RULE, STEPS, Lab, make_search

pytestmark = pytest.mark.slow

WORDS = ["experiment=search_phantom", *SMOKE]


@pytest.fixture
def view(tmp_path, formula, no_database):
    search = make_search(tmp_path, stop=RULE, trials=15)
    study = Lab(search, fail=[7]).drive()
    return View(search, study)


@pytest.fixture(autouse=True)
def quick_command(monkeypatch):
    """The command for the best point is composed in one test alone."""
    monkeypatch.setattr(
        View, "final", lambda self, trial: f"semimedref train -m trial={trial.number}"
    )


def test_no_page_shows_a_test_score(view):
    from semimedref.search import text

    pages = [text.status(view, style=False), text.table(view, style=False), text.markdown(view),
             text.csv_text(view), render_page(view)]  # fmt: skip
    for page in pages:
        assert "900.00" not in page and "9.0," not in page  # the test Dice of every run is 9


def test_the_status_lists_every_trial_and_marks_the_best(view):
    from semimedref.search import text

    plain, styled = (text.status(view, style=style) for style in (False, True))
    assert plain.startswith(f"search_formula: {view.headline}\n")
    lines = [line for line in plain.splitlines() if line[:1].isdigit()]
    assert [int(line.split()[0]) for line in lines] == list(range(15))
    assert "trial 7: boom 7" in plain
    best = max((t for t in view.study.trials if t.state == "done"), key=lambda t: t.values)
    (bold,) = [line for line in styled.splitlines() if line.startswith("\x1b[1m")]
    assert bold.removeprefix("\x1b[1m").split()[0] == str(best.number)
    assert f"best: trial {best.number} (val/dice {100 * best.values[0]:.2f})" in plain


def test_the_table_is_ranked_and_stopped_trials_are_no_candidates(view):
    from semimedref.search import text

    values = [t.values[0] for t in text.ranked(view) if t.state == "done"]
    assert values == sorted(values, reverse=True)
    assert [t.state for t in text.ranked(view)[len(values) :]].count("done") == 0


def test_the_report_has_history_and_importance_with_their_numbers(view):
    written, skipped = write_figures(view)
    assert [p.name for p in written] == [
        "search_formula-history.svg", "search_formula-importance.svg",
    ]  # fmt: skip
    assert skipped == ["pareto: the search has 1 objectives, a front needs two"]
    table = json.loads(written[0].with_suffix(".json").read_text())["table"]
    done = [t.values[0] for t in view.study.trials if t.state == "done"]
    assert table[-1][3] == pytest.approx(100 * max(done))  # best so far, after the last trial
    shares = json.loads(written[1].with_suffix(".json").read_text())["table"][1:]
    assert sum(share for _, share in shares) == pytest.approx(1)
    page = render_page(view)
    assert page.count("<figure") == 2 and "Numbers of this figure" in page


def test_the_parameter_that_decides_is_the_most_important(tmp_path):
    search = make_search(tmp_path, space={"a": "interval(0.0,1.0)", "b": "interval(0.0,1.0)"})
    study = Study.load(search)
    for n in range(20):
        a, b = (n * 7 % 20) / 20, (n * 3 % 20) / 20
        study.trials.append(Trial(n, {"a": a, "b": b}, {}, "r", "done", [b + 0.01 * a]))
    (_, first, second) = importance(View(search, study)).table
    assert first[0] == "b" and first[1] > 0.9 and second[0] == "a"


def test_importance_needs_some_trials(tmp_path):
    search = make_search(tmp_path)
    with pytest.raises(UserError, match="0 trials are finished, expected 5"):
        importance(View(search, Study.load(search)))


def test_two_objectives_have_a_front(tmp_path, formula, no_database):
    search = make_search(tmp_path, "nsgaii", (DICE, STEPS))
    view = View(search, Lab(search).drive())
    written, skipped = write_figures(view)
    assert len(written) == 3 and not skipped
    about = json.loads(written[2].with_suffix(".json").read_text())
    marked = [line[0] for line in about["table"][1:] if line[1] == "yes"]
    assert 0 in marked  # the first trial has the fewest steps
    assert render_page(view).count("<figure") == 3


def test_the_commands_take_a_search_that_has_not_begun(tmp_path, capsys):
    words = [*WORDS, f"run_root={tmp_path}"]
    assert status_command(words) == 0
    assert "search_phantom: 12 trials, 0 done, 12 to run" in capsys.readouterr().out
    assert table_command(words) == 0
    assert (
        (tmp_path / "tables" / "search_phantom.csv").read_text().startswith("trial,state,val/dice")
    )
    assert report_command(words) == 0
    assert (tmp_path / "tables" / "search_phantom.html").exists()
    with pytest.raises(UserError, match="no figure could be drawn"):
        figures_command(words)


def test_a_search_has_no_table_of_test_scores(tmp_path):
    from semimedref.results.table import build_table

    with pytest.raises(UserError, match="is a search"):
        build_table(expand([*WORDS, f"run_root={tmp_path}"]))


def test_the_command_for_the_best_composes_the_same_run_with_other_seeds(tmp_path):
    words = [*WORDS, f"run_root={tmp_path}", "preset.posaug_edit=0.1"]
    search = read_search(config.compose(words), words)
    params = {"align.temperature": 0.0731, "trainer.lr": 1e-05}
    command = shlex.split(final_command(search, Trial(0, params, {}, "")))
    assert command[:3] == ["semimedref", "train", "-m"] and command[-1] == "seed=s0,s1,s42"
    given = [w for w in command[3:] if not w.startswith("seed=")]
    assert not any(w.startswith(("experiment", "search", "hydra")) for w in given)
    one = config.resolved(config.compose([*given, "seed=s1"]))
    trial = config.compose([*words, "align.temperature=0.0731", "trainer.lr=1e-05", "seed=s1"])
    assert config.signature(one) == config.signature(config.resolved(trial))
    assert one["run_root"] == str(tmp_path)


def test_trials_in_the_queue_are_seen_and_a_cancelled_one_is_lost(view):
    from dataclasses import replace

    from semimedref.launch.queue import Place
    from semimedref.search import text

    first, second, third = (
        Trial(number, dict(view.study.trials[0].params), {}, run=f"run-{number}")
        for number in range(3)
    )
    empty = replace(view.study, trials=[first, second, third])
    places = {"run-0": Place("6_0", "runs"), "run-1": Place("6_1", "waits"),
              "run-2": Place("6_2", "gone")}  # fmt: skip
    page = text.status(View(view.search, empty, places), style=False)
    assert "▸ running" in page and "◦ queued" in page and "✗ lost (the same command" in page
    assert "go on, with the launcher's words" in page and "start it" not in page
    assert "start it:" in text.status(View(view.search, replace(empty, trials=[])), style=False)


def test_a_range_on_the_command_line_is_read_by_every_command(tmp_path, capsys):
    words = [*WORDS, f"run_root={tmp_path}", "trainer.lr=tag(log,interval(1e-4,1e-3))"]
    assert "trainer.lr" in expand(words).search.search.space
    status_command(words)
    assert "start it" in capsys.readouterr().out


def test_a_range_without_a_search_is_refused():
    with pytest.raises(UserError, match="a range needs a search"):
        expand(["experiment=quickstart", "trainer.lr=interval(1e-4,1e-3)"])
