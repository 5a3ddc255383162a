import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results.per_image import load, load_file, with_numbers, with_patients

GOOD = "id,patient,tp,fp,fn\n007,12,5,1,2\n008,12,4.0,0,0\n"


def written(folder, text):
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def test_names_stay_text_and_counts_become_whole_numbers(tmp_path):
    frame = load_file(written(tmp_path, GOOD))
    assert frame["id"].tolist() == ["007", "008"]
    assert frame["patient"].tolist() == ["12", "12"]
    assert frame["tp"].tolist() == [5, 4] and frame["tp"].dtype.kind == "i"


def test_a_run_and_a_file_are_both_tables(lab, tmp_path):
    folder = lab.finish(lab.cell())
    assert len(load(str(folder), run_root="nowhere")) == 3
    assert len(load(folder.name, run_root=str(lab.root))) == 3
    assert len(load(str(folder / "per_image.csv"), run_root="nowhere")) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,tp,fp\na,1,2\n", r"lacks the column 'fn' \(it has id, tp, fp\)"),
        ("tp,fp,fn\n1,2,3\n", "lacks the column 'id'"),
        ("id,tp,fp,fn\n", "has no rows"),
        ("", "is not a CSV table"),
        ("id,tp,fp,fn\na,1,2,3\na,1,2,3\n", "lists the image 'a' twice"),
        ("id,tp,fp,fn\na,0.83,2,3\n", r"holds tp=.*0\.83.* for image 'a', which is no count"),
        ("id,tp,fp,fn\na,1,-2,3\n", "holds fp="),
        ("id,tp,fp,fn\na,1,1e30,3\n", "holds fp=1e[+]30|holds fp='1e[+]30'"),
        ("id;tp;fp;fn\na;1;2;3\n", "is its separator a comma"),
        ("id,tp,fp,fn\na,1,2,\n", "holds fn="),
        ("id,tp,fp,fn\na,1,many,3\n", "holds fp='many'"),
        ("id,patient,tp,fp,fn\na,,1,2,3\n", "names no patient for image 'a'"),
    ],
)
def test_an_unusable_table_is_one_clear_line_with_what_is_expected(tmp_path, text, said):
    with pytest.raises(UserError, match=rf"{said}.*expected a CSV table") as error:
        load_file(written(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_not_taken_for_a_run(tmp_path):
    with pytest.raises(UserError, match=r"nothing\.csv does not exist"):
        load(str(tmp_path / "nothing.csv"), run_root=str(tmp_path))


def test_without_patients_each_image_is_its_own_and_that_is_said():
    frames, said = with_patients([pd.DataFrame({"id": ["a", "b"]})] * 2)
    assert frames[1]["patient"].tolist() == ["a", "b"]
    assert "each image counts as a patient of its own" in said


def test_patients_are_taken_from_the_table_that_has_them():
    known = pd.DataFrame({"id": ["a", "b"], "patient": ["p", "p"]})
    frames, said = with_patients([pd.DataFrame({"id": ["b", "a", "new"]}), known])
    assert frames[0]["patient"].tolist() == ["p", "p", ""]
    assert "takes the patients of another one" in said
    assert with_patients([known, known])[1] is None


def test_an_empty_cell_has_no_value_and_words_are_refused():
    frame = pd.DataFrame({"hd95": ["1.5", ""], "mine": ["good", "bad"]})
    numbers = with_numbers(frame, ["hd95"], source="x.csv")["hd95"]
    assert numbers.isna().tolist() == [False, True]
    with pytest.raises(UserError, match=r"x\.csv holds no numbers in 'mine'"):
        with_numbers(frame, ["mine"], source="x.csv")
