import numpy as np
import pandas as pd
import pytest

from semimedref.errors import UserError
from semimedref.results.pairing import check_pairs, patient_sums


def table():
    rows = [("i0", "p1", 30, 10, 10), ("i1", "p0", 20, 0, 20), ("i2", "p1", 50, 30, 0)]
    return pd.DataFrame(rows, columns=["id", "patient", "tp", "fp", "fn"])


def test_sums_of_a_patient_are_those_of_its_images():
    frame = table()
    parts = frame[["tp", "fp", "fn"]].to_numpy(float)
    assert patient_sums(frame, parts).tolist() == [[20, 0, 20], [80, 40, 10]]


def test_the_order_of_the_images_does_not_matter():
    check_pairs({"a": [table()], "b": [table().iloc[::-1]]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ["i0", "i1", "other"]}, "image 'i2' is in ours and not in theirs"),
        ({"patient": ["p1", "p0", "p7"]}, "patient of image 'i2' is p1 in ours and p7 in theirs"),
        ({"fn": [10, 20, 9]}, r"true pixels \(tp \+ fn\) of image 'i2' is 50 in ours and 59 in"),
    ],
)
def test_results_that_cannot_be_paired_are_refused_by_image(change, said):
    with pytest.raises(UserError, match=said):
        check_pairs({"ours": [table()], "theirs": [table().assign(**change)]})


def test_an_image_more_names_both_numbers():
    with pytest.raises(UserError, match="a has 3 images, b has 2"):
        check_pairs({"a": [table()], "b": [table().iloc[:2]]})


def test_different_numbers_of_seeds_are_refused():
    with pytest.raises(UserError, match=r"a 2, b 1.*as many for each"):
        check_pairs({"a": [table(), table()], "b": [table()]})


def test_another_seed_of_the_same_method_must_have_the_same_images():
    other = table().assign(tp=np.array([1, 2, 3]))
    with pytest.raises(UserError, match="cannot be paired"):
        check_pairs({"a": [table(), other]})
