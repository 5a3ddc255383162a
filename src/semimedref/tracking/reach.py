"""Say fast and in plain words what is wrong with the address of a store.

MLflow answers an unknown kind of address with the name of a dictionary key, and tries a database
that refuses it ten times, for two minutes.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec

from semimedref.address import shown_uri
from semimedref.errors import UserError

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_PLUGINS = "mlflow.tracking_store"
_POSTGRESQL = "postgresql+psycopg2"
_EXPECTED = f"sqlite:///FILE, http://HOST:PORT or {_POSTGRESQL}://USER@HOST/NAME"


def check_reach(uri: str, timeout_seconds: int) -> None:
    """Refuse an address that MLflow cannot open, and a database that does not let us in."""
    scheme, colon, _ = uri.partition("://")
    known = {"http", "https", *(point.name for point in entry_points(group=_PLUGINS))}
    if uri.startswith(("databricks", "uc:")) or (colon and scheme in known):
        return
    if not colon or not scheme.startswith((*DATABASES, "postgres")):
        raise UserError(f"{shown_uri(uri)} is no address of a store: expected {_EXPECTED}")
    if scheme == "sqlite" and not uri.startswith("sqlite:///"):
        raise UserError(f"{uri} has two slashes: expected sqlite:///FILE")
    if scheme.startswith("postgres"):
        _check_postgresql(uri, scheme, timeout_seconds)


def _check_postgresql(uri: str, scheme: str, timeout_seconds: int) -> None:
    if scheme != _POSTGRESQL:
        raise UserError(f"{scheme}:// names no driver that is installed: write {_POSTGRESQL}://")
    if find_spec("psycopg2") is None:
        raise UserError("psycopg2 is not installed: pip install 'semimedref[postgres]'")
    import psycopg2

    address = uri.replace(_POSTGRESQL, "postgresql", 1)
    psycopg2.connect(address, connect_timeout=timeout_seconds).close()
