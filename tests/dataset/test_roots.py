"""Where a data set lies: the configuration, the environment or the user's file, in that order."""

import pytest

from semimedref.dataset.roots import data_root
from semimedref.errors import UserError


@pytest.fixture
def home(tmp_path, monkeypatch):
    """No root is known; ``home`` is where the user's file would be."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SEMIMEDREF_QATA_COV19", raising=False)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    return tmp_path


def write_user_file(home, text):
    file = home / "config" / "semimedref" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_the_users_file_names_the_folder(home):
    write_user_file(home, f"roots:\n  qata_cov19: {home / 'a'}\n")
    assert data_root("qata_cov19", None, kind="qata_cov19") == home / "a"


def test_the_environment_goes_before_the_users_file(home, monkeypatch):
    write_user_file(home, f"roots:\n  qata_cov19: {home / 'a'}\n")
    monkeypatch.setenv("SEMIMEDREF_QATA_COV19", str(home / "b"))
    assert data_root("qata_cov19", None, kind="qata_cov19") == home / "b"


def test_the_configuration_goes_before_the_environment(home, monkeypatch):
    monkeypatch.setenv("SEMIMEDREF_QATA_COV19", str(home / "b"))
    assert data_root("qata_cov19", str(home / "c"), kind="qata_cov19") == home / "c"


def test_without_a_root_the_error_names_all_three_ways(home):
    with pytest.raises(UserError) as error:
        data_root("qata_cov19", None, kind="qata_cov19")
    for way in ("dataset.root=FOLDER", "SEMIMEDREF_QATA_COV19", "config.yaml", "roots:"):
        assert way in str(error.value)


def test_a_folder_that_is_gone_is_told_with_the_way_that_named_it(home, monkeypatch):
    monkeypatch.setenv("SEMIMEDREF_QATA_COV19", str(home / "gone"))
    with pytest.raises(UserError, match=r"SEMIMEDREF_QATA_COV19 names .*gone, which does not"):
        data_root("qata_cov19", None, kind="qata_cov19")


@pytest.mark.parametrize("text", ["roots: [", "- a\n", "qata_cov19: /data\n", "roots: 3\n"])
def test_a_wrong_user_file_is_named(home, text):
    file = write_user_file(home, text)
    with pytest.raises(UserError, match=str(file)):
        data_root("qata_cov19", None, kind="qata_cov19")


@pytest.mark.parametrize("text", ["", "roots: {}\n", "roots: {mosmed_plus: /data}\n"])
def test_a_user_file_without_this_data_set_is_as_good_as_none(home, text):
    write_user_file(home, text)
    with pytest.raises(UserError, match="its folder is not known"):
        data_root("qata_cov19", None, kind="qata_cov19")


def test_a_partition_of_ones_own_lies_where_its_kind_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("SEMIMEDREF_QATA_COV19", str(tmp_path))
    assert data_root("my_qata", None, kind="qata_cov19") == tmp_path
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("SEMIMEDREF_MY_QATA", str(own))
    assert data_root("my_qata", None, kind="qata_cov19") == own
