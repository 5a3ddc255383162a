import numpy as np

from semimedref import seed


def test_draws_depend_on_the_place_and_on_nothing_else():
    first = seed.uniforms(42, "labeled", 3, 7, n=5)
    seed.uniforms(42, "labeled", 0, 0, n=100)
    np.testing.assert_array_equal(first, seed.uniforms(42, "labeled", 3, 7, n=5))


def test_streams_seeds_and_places_differ():
    draws = {
        seed.uniforms(s, stream, place, n=1).tobytes()
        for s in (0, 1, 42)
        for stream in ("labeled", "unlabeled")
        for place in range(5)
    }
    assert len(draws) == 30


def test_a_permutation_is_one():
    assert sorted(seed.permutation(1, "labeled", 2, n=20).tolist()) == list(range(20))
