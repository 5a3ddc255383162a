"""Batches from several domains: the same number of each, in passes of their own."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_loaders import split as plain_split

from semimedref import seed as seeds
from semimedref.dataset.loaders import Pool, Stream
from semimedref.errors import UserError
from semimedref.evaluate import with_shuffled_texts

DOMAINS = ("brain",) * 2 + ("skin",) * 5 + ("brain",) + ("polyp",) * 4


def pool(places=tuple(range(12)), domains=DOMAINS):
    whole = plain_split(12)
    return Pool(replace(whole, domains=domains), places, side=4, masks=True)


def stream(own, size=6, sampler="cycle", name="labeled"):
    return Stream(own, name, seed=0, batch_size=size, draws=2, sampler=sampler)


def kinds(batch):
    return [DOMAINS[i] for i in batch.index.tolist()]


@pytest.mark.parametrize("sampler", ["cycle", "replacement"])
def test_every_batch_has_the_same_number_of_each_domain(sampler):
    for step in range(12):
        batch = stream(pool(), sampler=sampler).batch(step)
        assert Counter(kinds(batch)) == {"brain": 2, "skin": 2, "polyp": 2}


def test_each_domain_passes_on_its_own_in_fresh_orders():
    seen = {"brain": [], "skin": [], "polyp": []}
    for step in range(30):
        for place in stream(pool()).batch(step).index.tolist():
            seen[DOMAINS[place]].append(place)
    for name, shown in seen.items():
        own = [i for i, domain in enumerate(DOMAINS) if domain == name]
        passes = [shown[k : k + len(own)] for k in range(0, 60 - 60 % len(own), len(own))]
        assert all(sorted(turn) == own for turn in passes)
        assert len({tuple(turn) for turn in passes}) > 1


def test_a_balanced_batch_is_a_function_of_its_step():
    late, fresh = stream(pool()), stream(pool())
    for step in range(5):
        late.batch(step)
    assert torch.equal(late.batch(5).index, fresh.batch(5).index)
    assert torch.equal(late.batch(5).uniform, fresh.batch(5).uniform)


def test_no_two_samples_share_their_random_numbers():
    drawn = torch.cat([stream(pool()).batch(step).uniform for step in range(10)])
    assert len({tuple(row) for row in drawn.tolist()}) == 60


def test_orders_and_numbers_are_those_of_pass_sample_and_domain():
    batch = stream(pool(), size=3).batch(4)  # one image of each domain, the fifth
    own = {0: [0, 1, 7], 1: [2, 3, 4, 5, 6], 2: [8, 9, 10, 11]}
    for k, members in own.items():
        turn, at = divmod(4, len(members))
        order = seeds.permutation(0, "labeled", turn, k, n=len(members))
        assert int(batch.index[k]) == members[order[at]]
        expected = seeds.uniforms(0, "labeled", turn, at, k, n=2)
        np.testing.assert_array_equal(batch.uniform[k].numpy(), expected)


def test_a_domain_keeps_its_numbers_when_another_is_absent_from_a_pool():
    alone = stream(pool(places=(2, 3, 4, 5, 6)), size=2).batch(3)
    among = stream(pool(), size=6).batch(3)
    assert alone.index.tolist() == among.index[2:4].tolist()
    assert torch.equal(alone.uniform, among.uniform[2:4])


def test_empty_domain_names_are_no_domains():
    named, plain = pool(domains=("",) * 12), Pool(plain_split(12), tuple(range(12)), 4, True)
    for step in range(4):
        one, other = stream(named).batch(step), stream(plain).batch(step)
        assert torch.equal(one.index, other.index) and torch.equal(one.uniform, other.uniform)
    assert named.domains == plain.domains == ()


def test_a_batch_that_the_domains_cannot_share_is_refused():
    with pytest.raises(UserError, match=r"=8 .* 3 domains.* trainer\.batch_size=9"):
        stream(pool(), size=8)


def test_shuffled_sentences_stay_in_their_domain():
    own = pool()
    dealt = with_shuffled_texts(own).split.texts
    assert sorted(dealt) == sorted(own.split.texts) and dealt != own.split.texts
    kind = dict(zip(own.split.texts, DOMAINS, strict=True))
    assert tuple(kind[text] for text in dealt) == DOMAINS
