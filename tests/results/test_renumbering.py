import io

import pytest

from semimedref.results.renumbering import Renumbering, Table, alike

TEXT = """id,patient,domain,tp,fp,fn,dice,mrn,hd95
scan9.png,smith,brain,5,1,2,0.769231,X-17,3.5
scan10.png,smith,brain,4,0,4,0.666667,X-17,
scan1.png,"jones, a",polyp,0,3,7,0.000000,X-18,inf
"""


def renumbered(text):
    table = Table.parse(text)
    return Renumbering.of(table).apply(table)


def test_names_become_ranks_of_the_sorted_names_and_counts_stay_as_written():
    table, gone = renumbered(TEXT)
    tag = table.rows[0][0][:8]
    assert table.columns == ["id", "patient", "domain", "tp", "fp", "fn", "dice", "hd95"]
    assert table.rows == [
        [f"{tag}-i1", f"{tag}-p1", "polyp", "0", "3", "7", "0.000000", "inf"],
        [f"{tag}-i2", f"{tag}-p2", "brain", "4", "0", "4", "0.666667", ""],
        [f"{tag}-i3", f"{tag}-p2", "brain", "5", "1", "2", "0.769231", "3.5"],
    ]
    assert gone == ["mrn"]


def test_renumbering_twice_changes_nothing():
    once, _ = renumbered(TEXT)
    assert renumbered(once.text()) == (once, [])


def test_numbers_do_not_depend_on_the_method_or_on_the_order_of_rows():
    head, *rows = TEXT.splitlines()
    other = [row.replace(",5,1,2,", ",6,9,1,") for row in reversed(rows)]  # 7 true pixels still
    ours, theirs = (renumbered(text)[0] for text in (TEXT, "\n".join([head, *other]) + "\n"))
    assert ours.column("id") == theirs.column("id")
    assert ours.column("patient") == theirs.column("patient")


@pytest.mark.parametrize(
    ("old", "new"), [(",5,1,2,", ",5,1,3,"), ("scan9.png,smith", 'scan9.png,"jones, a"')]
)
def test_another_truth_or_grouping_is_another_test_set(old, new):
    assert old in TEXT
    ours, theirs = renumbered(TEXT)[0], renumbered(TEXT.replace(old, new))[0]
    assert not set(ours.column("id")) & set(theirs.column("id"))
    assert not set(ours.column("patient")) & set(theirs.column("patient"))


def test_numbers_have_one_width_so_that_their_texts_sort_like_numbers():
    rows = "".join(f"x{i:03d},q{i:03d},1,1,{i},0.5\n" for i in range(120))
    table, _ = renumbered("id,patient,tp,fp,fn,dice\n" + rows)
    assert table.column("patient") == sorted(table.column("patient"))
    assert [row[0].rpartition("-i")[2] for row in table.rows] == [f"{i:03d}" for i in range(1, 121)]


def test_a_table_of_other_images_is_refused():
    table = Table.parse(TEXT)
    with pytest.raises(KeyError):
        Renumbering.of(table).apply(Table(["id", "n"], [["elsewhere.png", "1"]]))


def test_a_local_table_gets_the_names_of_an_imported_one_of_the_same_test_set():
    import pandas as pd

    local = pd.DataFrame(
        {
            "id": ["b", "a", "c"],
            "patient": ["y", "x", "x"],
            "tp": [1, 2, 3],
            "fp": [0, 0, 0],
            "fn": [4, 5, 6],
        }
    )
    table = Table.parse(local.to_csv(index=False))
    text = Renumbering.of(table).apply(table)[0].text()
    imported = pd.read_csv(io.StringIO(text))
    first, second = alike([imported, local])
    assert first is imported
    assert dict(zip(second["id"], second["tp"], strict=True)) == dict(
        zip(imported["id"], imported["tp"], strict=True)
    )
    assert alike([local, local])[0] is local
