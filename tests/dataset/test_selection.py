import itertools
import random

import pytest

from semimedref.dataset.selection import select, select_nested, share, subset_sum


def every_sum(sizes):
    places = range(len(sizes))
    for count in range(len(sizes) + 1):
        for chosen in itertools.combinations(places, count):
            yield sum(sizes[i] for i in chosen)


def test_the_target_is_reached_by_the_earliest_items_if_any_items_reach_it():
    dice = random.Random(1)
    for _ in range(150):
        sizes = [dice.randrange(1, 9) for _ in range(dice.randrange(1, 9))]
        target = dice.randrange(1, 20)
        chosen = subset_sum(sizes, target)
        reached = sum(sizes[i] for i in chosen)
        best = min(every_sum(sizes), key=lambda s: (abs(s - target), s))
        assert reached == best and chosen == sorted(set(chosen))
        if best == target:  # no shorter beginning of the list reaches it
            assert target not in every_sum(sizes[: max(chosen)])


@pytest.mark.parametrize(
    ("sizes", "target", "expected"),
    [
        ([1, 1, 1, 1], 2, [0, 1]),  # single images: the first ones
        ([4, 3, 3, 2], 5, [1, 3]),  # 4, 3, 7, 6, 10 are reached first; then 3 + 2 with the first 3
        ([5, 2, 3], 5, [0]),  # reached at once: the others are not looked at
        ([2, 4], 3, [0]),  # 2 and 4 are as close: the smaller
        ([3, 9], 8, [1]),  # 9 is closer than 3
        ([7], 3, []),  # nothing is closer than 7
        ([3, 5], 0, []),
    ],
)
def test_sums_by_hand(sizes, target, expected):
    assert subset_sum(sizes, target) == expected


def test_the_names_are_sorted_before_they_are_shuffled():
    groups = {"d": 1, "b": 2, "a": 1, "c": 3}
    order = ["a", "b", "c", "d"]
    random.Random(5).shuffle(order)
    assert order == ["a", "b", "d", "c"]
    # Sizes 1, 2, 1, 3 for a target of 4: a and b make 1, 2 and 3; with d it is 4, before c's 1 + 3.
    assert select(groups, 4, seed=5) == {"a", "b", "d"}
    assert select(dict(reversed(groups.items())), 4, seed=5) == {"a", "b", "d"}


def test_single_images_are_the_first_of_the_shuffled_list():
    names = [f"g{i:02d}" for i in range(40)]
    order = sorted(names)
    random.Random(7).shuffle(order)
    assert select(dict.fromkeys(names, 1), 6, seed=7) == set(order[:6])


def test_a_larger_share_keeps_the_first_one_and_draws_the_rest_anew():
    groups = {f"g{i:03d}": 1 for i in range(100)}
    order = sorted(groups)
    random.Random(3).shuffle(order)
    five = set(order[:5])
    rest = sorted(set(groups) - five)
    random.Random(3).shuffle(rest)
    found = {f: select_nested(groups, f, seed=3, start=0.05, steps=[0.15]) for f in (0.05, 0.15)}
    assert found == {0.05: five, 0.15: five | set(rest[:10])}


def test_shares_are_nested_whatever_the_sizes():
    dice = random.Random(2)
    for seed in range(20):
        groups = {f"g{i}": dice.randrange(1, 12) for i in range(60)}
        shares = [
            select_nested(groups, f, seed=seed, start=0.05, steps=[0.01, 0.02, 0.15])
            for f in (0.01, 0.02, 0.05, 0.15, 0.4)
        ]
        assert all(small <= large for small, large in itertools.pairwise(shares))
        images = sum(groups[name] for name in shares[3])
        assert abs(images - share(groups, 0.15)) <= 1


def test_a_share_is_rounded_to_even_halves_and_never_nothing():
    assert share({"a": 599}, 0.05) == 30
    assert share({"a": 50}, 0.05) == 2  # 2.5
    assert share({"a": 3}, 0.05) == 1
