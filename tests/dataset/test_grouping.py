import hashlib
import itertools
import random

from semimedref.dataset.grouping import connected, partition_ids


def by_repeated_merging(keys):
    """The obvious way: merge any two groups with a common key until none are left."""
    groups = [({place}, set(own)) for place, own in enumerate(keys)]
    merged = True
    while merged:
        merged = False
        for one, other in itertools.combinations(groups, 2):
            if one[1] & other[1]:
                groups.remove(other)
                one[0].update(other[0])
                one[1].update(other[1])
                merged = True
                break
    first = {place: min(members) for members, _ in groups for place in members}
    return [first[place] for place in range(len(keys))]


def test_groups_are_those_of_repeated_merging():
    dice = random.Random(0)
    for _ in range(60):
        n = dice.randrange(1, 25)
        keys = [[dice.randrange(2 * n) for _ in range(dice.randrange(3))] for _ in range(n)]
        assert connected(keys) == by_repeated_merging(keys)


def test_patients_and_equal_images_tie_images_together_over_others():
    keys = [["anna", "h1"], ["anna", "h2"], ["bert", "h3"], ["cleo", "h2"], ["cleo"]]
    assert connected(keys) == [0, 0, 2, 0, 0]


def test_a_partition_is_named_by_the_sorted_ids_of_its_images():
    names = partition_ids(["m:b", "m:a", "m:c"], [["x"], ["x"], ["y"]], prefix="m_partition")
    both = hashlib.sha256(b"m:a\nm:b").hexdigest()[:16]
    alone = hashlib.sha256(b"m:c").hexdigest()[:16]
    assert names == [f"m_partition:{both}", f"m_partition:{both}", f"m_partition:{alone}"]
