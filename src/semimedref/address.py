"""Addresses of servers and databases: none may hold a password, and none is shown with a user."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from semimedref.errors import UserError

# What database drivers and servers call a secret in the query of an address.
_SECRETS = frozenset({"password", "passwd", "pwd", "sslpassword", "token", "access_token", "key"})
_CURE = (
    "leave it out and set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
    "MLFLOW_TRACKING_PASSWORD, for a server; PGPASSWORD or ~/.pgpass for PostgreSQL"
)


def shown_uri(uri: str) -> str:
    """The address without user name, password and secret parameters, for logs and files."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # no address at all: whoever opens it says so
        return uri.rpartition("@")[2]
    if "@" not in parts.netloc and not parts.query:
        return uri
    kept = [(key, value) for key, value in parse_qsl(parts.query) if not _is_secret(key)]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=urlencode(kept)))


def check_address(uri: object) -> None:
    """Refuse an address with a password: run.json, logs, caches and exports would all keep it."""
    if isinstance(uri, str) and _holds_password(uri):
        raise UserError(
            f"the address {shown_uri(uri)} was given with a password, which would be stored with "
            f"every run: {_CURE}"
        )


def check_words(words: Iterable[str]) -> None:
    """Refuse a password in the words of a command, before Hydra writes them into its files."""
    for word in words:
        check_address(word.partition("=")[2].strip("'\""))


def _holds_password(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return bool(parts.password) or any(_is_secret(key) for key, _ in parse_qsl(parts.query))
    except ValueError:
        return False


def _is_secret(key: str) -> bool:
    return key.lower() in _SECRETS
