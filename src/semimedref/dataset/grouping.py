"""Which images belong together: by patient, study or case, and by identical content."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence


def connected(keys: Sequence[Iterable[Hashable]]) -> list[int]:
    """The group of every item: items that share a key, directly or over others, are together.

    Args:
        keys: what each item is tied by, such as its patient and the hash of its image.

    Returns:
        For each item, the place of the first item of its group.
    """
    parent = list(range(len(keys)))
    first: dict[Hashable, int] = {}
    for item, own in enumerate(keys):
        for key in own:
            _join(parent, first.setdefault(key, item), item)
    return [_root(parent, item) for item in range(len(keys))]


def partition_ids(
    ids: Sequence[str], keys: Sequence[Iterable[Hashable]], *, prefix: str
) -> list[str]:
    """The published name of every item's group: a hash of the sorted ids that are in it."""
    groups = connected(keys)
    members: dict[int, list[str]] = defaultdict(list)
    for name, group in zip(ids, groups, strict=True):
        members[group].append(name)
    named = {group: f"{prefix}:{_digest(inside)}" for group, inside in members.items()}
    return [named[group] for group in groups]


def _digest(ids: list[str]) -> str:
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]


def _root(parent: list[int], item: int) -> int:
    while parent[item] != item:
        parent[item] = parent[parent[item]]  # halves the way for whoever comes next
        item = parent[item]
    return item


def _join(parent: list[int], one: int, other: int) -> None:
    low, high = sorted((_root(parent, one), _root(parent, other)))
    parent[high] = low  # the first item stands for its group
