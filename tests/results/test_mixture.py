from semimedref.results.table import build_table


def notes(lab):
    return [note for note in build_table(lab.experiment).notes if note.startswith("Warning")]


def test_seeds_of_one_row_that_were_trained_by_other_code_are_named(lab):
    lab.finish(lab.cell(seed="s0"))
    lab.finish(lab.cell(seed="s1"), result={"git_commit": "fedcba9876543210"})
    (note,) = notes(lab)
    assert "mix code versions (Baseline, 2pct: 0.1.0 0123456789, 0.1.0 fedcba9876)" in note


def test_rows_may_be_of_different_commits(lab):
    lab.finish(lab.cell())
    lab.finish(lab.cell(row="Other"), result={"git_commit": "fedcba9876543210"})
    assert notes(lab) == []


def test_rows_on_different_copies_of_the_data_are_named(lab):
    lab.finish(lab.cell(), result={"data": {"texts_sha256": "aaaaaaaabb"}})
    lab.finish(lab.cell(row="Other"), result={"data": {"texts_sha256": "bbbbbbbbcc"}})
    (note,) = notes(lab)
    assert "rows of one column mix data versions (2pct: aaaaaaaa, bbbbbbbb)" in note


def test_two_metrics_under_one_name_are_named(lab):
    lab.finish(lab.cell(seed="s0"))
    lab.finish(lab.cell(seed="s1"), result={"metric_definition": 2})
    (note,) = notes(lab)
    assert "metric definitions (Baseline, 2pct: definition 1, definition 2)" in note


def test_equal_runs_warn_of_nothing(lab):
    lab.finish(lab.cell(seed="s0"))
    lab.finish(lab.cell(seed="s1"))
    assert notes(lab) == []
