"""Annotations and own vocabularies decide a result by their content, wherever they lie."""

import pytest

from semimedref import config
from semimedref.config import compose, resolved, signature
from tests.text import kidneys


@pytest.fixture(autouse=True)
def _fresh():
    config.table_identity.cache_clear()


def sign(table, words):
    options = ["dataset=own", f"dataset.annotation={table}", f"dataset.vocabulary={words}"]
    return signature(resolved(compose([*options, "augment=semi_medref", "align=pacl"])))


def files(folder, text="image,mask,text,split\n", name="my.csv"):
    folder.mkdir()
    (folder / name).write_text(text)
    return folder / name, kidneys.write(folder)


def test_a_moved_or_renamed_table_is_the_same_run_and_a_changed_one_is_another(tmp_path):
    first = sign(*files(tmp_path / "a"))
    assert sign(*files(tmp_path / "b", name="renamed.csv")) == first
    assert sign(*files(tmp_path / "c", text="image,mask,text,split,id\n")) != first


def test_of_a_folder_of_tables_all_are_signed_and_nothing_else(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "train.csv").write_text("image,text")
    first = config.table_identity(str(tmp_path))
    (tmp_path / "images" / "a.png").write_bytes(b"pixels")
    config.table_identity.cache_clear()
    assert config.table_identity(str(tmp_path)) == first
    (tmp_path / "test.xlsx").write_bytes(b"rows")
    config.table_identity.cache_clear()
    assert config.table_identity(str(tmp_path)) != first


def test_a_changed_vocabulary_is_another_run(tmp_path):
    table, words = files(tmp_path / "a")
    changed = kidneys.write(tmp_path, kidneys.content() | {"fuzzy": "somewhere in the abdomen"})
    assert sign(table, words) != sign(table, changed)


def test_a_folder_called_like_a_vocabulary_is_not_part_of_a_signature(tmp_path, monkeypatch):
    plain = resolved(compose(["augment=semi_medref"]))
    before = signature(plain)
    (tmp_path / "lungs").mkdir()
    (tmp_path / "lungs" / "some.png").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    config.table_identity.cache_clear()
    assert signature(plain) == before


def test_the_root_does_not_change_the_signature(tmp_path):
    table, words = files(tmp_path / "a")
    other = ["dataset=own", f"dataset.annotation={table}", f"dataset.vocabulary={words}"]
    plain = [resolved(compose([*other, f"dataset.root={r}"])) for r in ("null", tmp_path)]
    assert signature(plain[0]) == signature(plain[1])
