import numpy as np
import pytest
import torch

from semimedref.config import build, compose
from semimedref.dataset.sample import Batch
from semimedref.text.caption import lung_caption

OPTIONS = ["none", "weak_strong", "posaug", "text_strong", "cutmix", "spc", "random_patchmix",
           "t_patchmix_pos", "t_patchmix_prob", "t_patchmix_hybrid", "semi_medref"]  # fmt: skip


class Sentences(list):
    """What a text encoder would prepare: here the sentences themselves."""

    def to(self, device):
        del device
        return self


def batch(draws, n=4, side=48):
    generator = torch.Generator().manual_seed(1)
    rng = np.random.default_rng(0)
    position = (rng.random((n, 6)) < 0.4).astype(np.float32)
    position[:, 0] = 1
    return Batch(
        image=torch.rand(n, 1, side, side, generator=generator),
        mask=None,
        position=torch.from_numpy(position),
        uniform=torch.rand(n, draws, generator=generator),
        index=torch.arange(n),
        sentences=tuple(lung_caption(q.astype(int).tolist()) for q in position),
    )


def planned(views, **sizes):
    from dataclasses import replace

    data = batch(views.draws, **sizes)
    return replace(data, plan=views.plan(data, Sentences).to("cpu"))


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_gives_views_of_the_right_shape(option):
    views = build(compose([f"augment={option}"]), "augment")
    data = planned(views)
    weak = views.weak(data)
    strong = views.strong(weak, data, torch.rand(4, 1, 48, 48))
    assert strong.image.shape == strong.probability.shape == data.image.shape
    assert strong.image.min() >= 0 and strong.image.max() <= 1
    assert len(data.plan.texts) == 4 * data.plan.candidates
    assert int(strong.choice.max()) < data.plan.candidates


def test_without_augmentation_the_strong_view_is_the_weak_one():
    views = build(compose(["augment=none"]), "augment")
    data = planned(views)
    weak = views.weak(data)
    probability = torch.rand(4, 1, 48, 48)
    strong = views.strong(weak, data, probability)
    assert strong.image is weak.image and strong.probability is probability
    assert data.plan.sentences == tuple((s,) for s in data.sentences)


def test_views_are_functions_of_the_samples_numbers():
    views = build(compose(["augment=semi_medref"]), "augment")
    one, two = planned(views), planned(views)
    probability = torch.rand(4, 1, 48, 48)
    a = views.strong(views.weak(one), one, probability)
    b = views.strong(views.weak(two), two, probability)
    assert torch.equal(a.image, b.image) and one.plan.sentences == two.plan.sentences


def test_spc_mirrors_image_pseudo_mask_and_words_together():
    views = build(compose(["augment=spc"]), "augment")
    data = planned(views, n=32)
    weak = views.weak(data)
    probability = torch.rand(32, 1, 48, 48)
    strong = views.strong(weak, data, probability)
    from semimedref.text.caption import swap_sides

    assert 0 < int(data.plan.flip.sum()) < 32
    for i, mirrored in enumerate(data.plan.flip.tolist()):
        expected = swap_sides(data.sentences[i]) if mirrored else data.sentences[i]
        assert data.plan.sentences[i] == (expected,)
        same = probability[i].flip(-1) if mirrored else probability[i]
        assert torch.equal(strong.probability[i], same)


def test_cutmix_leaves_the_sentences_alone():
    views = build(compose(["augment=cutmix"]), "augment")
    data = planned(views, n=16)
    assert data.plan.sentences == tuple((s,) for s in data.sentences)
    probability = torch.rand(16, 1, 48, 48)
    strong = views.strong(views.weak(data), data, probability)
    donor = probability[data.plan.donor]
    inside = strong.patch.bool()
    assert torch.equal(strong.probability[inside], donor[inside])
    assert torch.equal(strong.probability[~inside], probability[~inside])
