"""Switches of an option must be true or false: the word ``no`` would count as true."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from semimedref.errors import UserError

_BOOL = ("bool", bool)  # an annotation, as text or as it is


def check_switches(
    node: Any,  # noqa: ANN401 - plain configuration values
    path: str,
    *,
    trusted: Sequence[str],
) -> None:
    """Refuse a value that is neither true nor false where a class asks for one of them.

    Args:
        node: a resolved configuration, of which every ``_target_`` is looked at.
        path: where it stands, e.g. ``method``.
        trusted: packages that may be imported to look; others are refused by who builds them.
    """
    if not isinstance(node, Mapping):
        return
    switches = _switches(str(node.get("_target_", "")), trusted)
    for key, value in node.items():
        if key in switches and not isinstance(value, bool):
            raise UserError(f"{path}.{key}={value}: expected true or false")
        check_switches(value, f"{path}.{key}", trusted=trusted)


def _switches(target: str, trusted: Sequence[str]) -> frozenset[str]:
    """Parameters of a class or a function that are bool."""
    from hydra.utils import get_object

    if target.partition(".")[0] not in trusted:
        return frozenset()
    try:
        parameters = inspect.signature(get_object(target)).parameters
    except (ImportError, ValueError):  # the one who builds it says what is wrong
        return frozenset()
    return frozenset(name for name, p in parameters.items() if p.annotation in _BOOL)
