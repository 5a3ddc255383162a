import torch

from semimedref.config import build, compose
from semimedref.dataset.sample import Batch


def batch(draws, n=4):
    generator = torch.Generator().manual_seed(1)
    return Batch(
        image=torch.rand(n, 1, 16, 16, generator=generator),
        mask=(torch.rand(n, 1, 16, 16, generator=generator) > 0.5).float(),
        position=torch.zeros(n, 6),
        uniform=torch.rand(n, draws, generator=generator),
        index=torch.arange(n),
        sentences=("a",) * n,
    )


def test_without_augmentation_the_strong_view_is_the_weak_one():
    views = build(compose(["augment=none"]), "augment")
    data = batch(views.draws)
    weak = views.weak(data)
    assert views.strong(weak, data) is weak


def test_the_strong_view_keeps_the_weak_geometry_and_mask():
    views = build(compose(["augment=weak_strong"]), "augment")
    data = batch(views.draws)
    weak = views.weak(data)
    strong = views.strong(weak, data)
    assert torch.equal(strong.mask, weak.mask)
    assert not torch.equal(strong.image, weak.image)
    assert strong.image.min() >= 0 and strong.image.max() <= 1


def test_views_are_functions_of_the_samples_numbers():
    views = build(compose(["augment=weak_strong"]), "augment")
    data = batch(views.draws)
    assert torch.equal(
        views.strong(views.weak(data), data).image, views.strong(views.weak(data), data).image
    )
