import numpy as np
import pytest
import torch

from semimedref.dataset.loaders import Pool, Stream, TrainingSteps, steps_per_epoch
from semimedref.dataset.sample import Split


def split(n=10, masks=True):
    images = np.arange(n, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)
    return Split(
        ids=tuple(f"i{k}" for k in range(n)),
        patients=tuple(f"p{k // 2}" for k in range(n)),
        texts=tuple(f"text {k}" for k in range(n)),
        positions=np.eye(6, dtype=np.uint8)[np.arange(n) % 6],
        images=images,
        masks=(images % 2) if masks else Forbidden(),
    )


class Forbidden:
    """Masks of unlabeled images: touching them is an error."""

    def __getitem__(self, key):
        raise AssertionError("a mask of an unlabeled image was read")


def stream(pool, name="labeled", seed=0, size=3, sampler="cycle"):
    return Stream(pool, name, seed, size, draws=2, sampler=sampler)


def test_unlabeled_masks_are_never_read():
    pool = Pool(split(masks=False), tuple(range(10)), side=4, masks=False)
    assert stream(pool).batch(0).mask is None


def test_every_pass_shows_each_image_once_in_a_fresh_order():
    pool = Pool(split(), tuple(range(10)), side=4, masks=True)
    seen = torch.cat([stream(pool).batch(s).index for s in range(10)]).tolist()
    first, second = seen[:10], seen[10:20]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_a_batch_is_a_function_of_its_step():
    pool = Pool(split(), (1, 3, 5, 7), side=4, masks=True)
    stream(pool).batch(0)
    late, fresh = stream(pool).batch(5), stream(pool).batch(5)
    assert torch.equal(late.index, fresh.index)
    assert torch.equal(late.uniform, fresh.uniform)
    assert set(late.index.tolist()) <= {1, 3, 5, 7}


@pytest.mark.parametrize("start", [0, 2])
def test_workers_and_start_do_not_change_what_a_step_sees(start):
    pool = Pool(split(), tuple(range(10)), side=4, masks=True)
    other = Pool(split(masks=False), tuple(range(10)), side=4, masks=False)
    steps = TrainingSteps(stream(pool), stream(other, "unlabeled"), accumulate=2)
    alone = list(steps.loader(start, 4, workers=0, pin=False))
    helped = list(steps.loader(start, 4, workers=2, pin=False))
    whole = list(steps.loader(0, 4, workers=0, pin=False))[start:]
    for a, b, c in zip(alone, helped, whole, strict=True):
        for (al, au), (bl, bu), (cl, cu) in zip(a, b, c, strict=True):
            for x, y, z in ((al, bl, cl), (au, bu, cu)):
                assert torch.equal(x.index, y.index) and torch.equal(x.index, z.index)
                assert torch.equal(x.uniform, y.uniform) and torch.equal(x.image, z.image)


def test_an_epoch_is_one_pass_of_the_larger_pool():
    assert steps_per_epoch(114, 5602, batch_size=32, accumulate=1) == 176
    assert steps_per_epoch(43, 2140, batch_size=32, accumulate=1) == 67
    assert steps_per_epoch(100, 0, batch_size=32, accumulate=2) == 2


def test_images_and_masks_are_brought_to_the_networks_side():
    batch = Pool(split(), (0, 1), side=8, masks=True).fetch([0, 1])
    assert batch.image.shape == (2, 1, 8, 8)
    assert batch.mask.shape == (2, 1, 8, 8)
    assert set(batch.mask.unique().tolist()) <= {0, 1}


def test_replacement_draws_every_time_from_the_whole_pool():
    pool = Pool(split(), tuple(range(10)), side=4, masks=True)
    draws = stream(pool, size=10, sampler="replacement")
    passes = [draws.batch(s).index.tolist() for s in range(400)]
    distinct = np.mean([len(set(seen)) for seen in passes])
    assert abs(distinct - 10 * (1 - 0.9**10)) < 0.15  # 6.51 images of ten come in ten draws
    counts = np.bincount(np.concatenate(passes), minlength=10)
    assert counts.min() > 330 and counts.max() < 470  # 400 each, standard deviation 19
    assert passes[7] == stream(pool, size=10, sampler="replacement").batch(7).index.tolist()


def test_replacement_draws_are_the_floor_of_the_passes_numbers():
    from semimedref.seed import uniforms

    pool = Pool(split(), (1, 3, 5, 7), side=4, masks=True)
    u = uniforms(0, "labeled", 1, 4, n=4)  # pass 1; the place after those of its four samples
    expected = [(1, 3, 5, 7)[int(4 * x)] for x in u.tolist()]
    assert stream(pool, size=4, sampler="replacement").batch(1).index.tolist() == expected
