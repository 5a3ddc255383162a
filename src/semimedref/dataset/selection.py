"""Choose whole groups so that a wanted number of images comes out, smaller shares inside larger."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

Groups = Mapping[str, int]  # images of each group, by its name


def subset_sum(sizes: Sequence[int], target: int) -> list[int]:
    """Places whose sizes add up to the target, the earliest that do.

    The items are taken up one by one until some of them reach the target exactly; of every sum the
    first way that was found is kept. If none reaches it: the closest sum, of two the smaller.
    """
    ways: dict[int, tuple[int, int]] = {0: (-1, -1)}  # sum: (last item, sum without it)
    for item, size in enumerate(sizes):
        if target in ways:
            break
        for total in list(ways):
            # More than twice the target is farther away than nothing at all.
            if total + size <= 2 * target:
                ways.setdefault(total + size, (item, total))
    total = min(ways, key=lambda found: (abs(found - target), found))
    chosen = []
    while total:
        item, total = ways[total]
        chosen.append(item)
    return chosen[::-1]


def select(groups: Groups, target: int, *, seed: int) -> set[str]:
    """Groups with ``target`` images together, or about as many, from a shuffled list of all."""
    order = sorted(groups)
    random.Random(seed).shuffle(order)
    return {order[place] for place in subset_sum([groups[name] for name in order], target)}


def share(groups: Groups, fraction: float) -> int:
    """How many images a fraction of the groups' images is; at least one."""
    return max(1, round(sum(groups.values()) * fraction))


def select_nested(
    groups: Groups, fraction: float, *, seed: int, start: float, steps: Collection[float]
) -> set[str]:
    """Groups for a fraction, inside those of a larger and around those of a smaller one.

    The fraction ``start`` is drawn from all groups. Larger ones keep what the step before them has
    and fill up from the rest; smaller ones are drawn from the step after them. A step draws with
    the same seed.
    """
    chosen = select(groups, share(groups, start), seed=seed)
    between = [step for step in steps if start < step < fraction or fraction < step < start]
    way = sorted(between, reverse=fraction < start)
    for step in [*way, *([] if fraction == start else [fraction])]:
        target = share(groups, step)
        if step < start:
            chosen = select(_only(groups, chosen), target, seed=seed)
        else:
            rest = _only(groups, set(groups) - chosen)
            have = sum(groups[name] for name in chosen)
            chosen |= select(rest, max(0, target - have), seed=seed)
    return chosen


def _only(groups: Groups, names: Collection[str]) -> Groups:
    return {name: groups[name] for name in names}
