"""No password in an address ever reaches a file."""

import pytest

from semimedref.address import check_address, check_words, shown_uri
from semimedref.cli import main
from semimedref.config import compose, resolved
from semimedref.errors import UserError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (f"https://me:{SECRET}@host:5000/x", "https://host:5000/x"),
        (f"postgresql+psycopg2://me:{SECRET}@host/db", "postgresql+psycopg2://host/db"),
        (f"postgresql://host/db?user=me&password={SECRET}", "postgresql://host/db?user=me"),
        (f"https://host/x?token={SECRET}", "https://host/x"),
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(uri, shown):
    assert shown_uri(uri) == shown
    with pytest.raises(UserError) as error:
        check_address(uri)
    assert SECRET not in str(error.value)
    assert "MLFLOW_TRACKING_TOKEN" in str(error.value) and "PGPASSWORD" in str(error.value)
    with pytest.raises(UserError):
        check_words(["-m", f"tracking.uri='{uri}'"])


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////a@b/c:d.db",
        "https://host:5000",
        "postgresql+psycopg2://me@host/db?sslmode=require",
        "http://[::1",
        None,
    ],
)
def test_other_addresses_pass(uri):
    check_address(uri)
    if uri and "@" not in uri:
        assert shown_uri(uri) == uri or uri.startswith("http://[")


def test_a_user_name_is_accepted_but_not_shown():
    assert shown_uri("postgresql+psycopg2://me@host/db") == "postgresql+psycopg2://host/db"


def test_a_password_from_the_environment_is_refused_before_anything_is_written(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEMIMEDREF_TRACKING_URI", f"http://me:{SECRET}@127.0.0.1:1")
    with pytest.raises(UserError, match="was given with a password"):
        resolved(compose([]))
    assert main(["train", "-m", "experiment=quickstart", f"run_root={tmp_path}/multirun"]) == 2
    assert main(["train", "scale=smoke", f"run_root={tmp_path}/multirun"]) == 2
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert "was given with a password" in printed.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("extra", [[], ["-m", "seed=s0,s1"], ["-m", "experiment=quickstart"]])
def test_a_password_on_the_command_line_is_refused_before_hydra_writes_it(
    tmp_path, monkeypatch, capsys, extra
):
    monkeypatch.chdir(tmp_path)
    uri = f"postgresql+psycopg2://me:{SECRET}@host/db"
    assert main(["train", *extra, f"run_root={tmp_path}/multirun", f"tracking.uri={uri}"]) == 2
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert printed.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
