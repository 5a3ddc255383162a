"""Fixtures of searches."""

from tests.search.synthetic import formula, no_database  # noqa: F401
