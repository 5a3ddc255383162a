from semimedref.results import latex, render
from semimedref.results.table import build_table


def test_rows_whose_epochs_the_test_set_chose_are_named_below_the_table(lab):
    lab.finish(lab.cell(row="RAR"), result={"selected_on": "valid"})
    lab.finish(lab.cell(row="RAR (as released)"), result={"selected_on": "test"})
    lab.finish(lab.cell(row="RAR (as released)", seed="s1"), result={"selected_on": "test"})
    table = build_table(lab.experiment)
    (note,) = [line for line in table.notes if "chosen by the test set" in line]
    assert note == (
        "Warning: epochs were chosen by the test set, as released, in RAR (as released): such test "
        "scores are too good."
    )
    assert note in render.markdown(table, [])
    assert "chosen by the test set" in latex.latex(table)


def test_nothing_is_said_of_rows_that_validation_chose(lab):
    lab.finish(lab.cell(row="RAR"), result={"selected_on": "valid"})
    lab.finish(lab.cell(row="before it was written"))
    lab.cell(row="RAR (as released)")  # not trained yet: it shows no score
    assert not [line for line in build_table(lab.experiment).notes if "test set" in line]
