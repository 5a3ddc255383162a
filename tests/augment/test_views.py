from dataclasses import replace

import numpy as np
import pytest
import torch

from semimedref.config import build, compose
from semimedref.dataset.sample import Batch
from semimedref.text.caption import lung_caption
from semimedref.text.position import parse

OPTIONS = ["none", "weak_strong", "posaug", "text_strong", "cutmix", "spc", "random_patchmix",
           "t_patchmix_pos", "t_patchmix_prob", "t_patchmix_hybrid", "t_patchmix_cells",
           "semi_medref"]  # fmt: skip


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


def test_jitter_in_the_unit_interval_keeps_what_lies_below_the_mean():
    views = build(compose(["augment=weak_strong"]), "augment")
    data = planned(views, n=8)
    strong = views.strong(views.weak(data), data, torch.rand(8, 1, 48, 48))
    assert strong.image.min() >= 0 and strong.image.max() <= 1
    ready = views.normalized(strong.image)
    torch.testing.assert_close(ready.mean((1, 2, 3)), torch.zeros(8), atol=1e-5, rtol=0)
    torch.testing.assert_close(ready.std((1, 2, 3), unbiased=False), torch.ones(8))


def test_the_releases_jitter_clamps_standardized_images_to_the_unit_interval():
    changes = ["augment.jitter.probability=1", "augment.jitter.brightness=0",
               "augment.jitter.contrast=0", "augment.blur=null",
               "augment.zoom.probability=0"]  # fmt: skip
    views = build(compose(["preset=release", "augment=weak_strong", *changes]), "augment")
    image = torch.tensor([[0.0, 0.2], [0.4, 1.0]])[None, None]  # mean 0.4, deviation 0.3742
    data = batch(views.draws, n=1, side=2)
    data = replace(data, image=image, plan=views.plan(data, Sentences).to("cpu"))
    strong = views.strong(views.weak(data), data, torch.rand(1, 1, 2, 2))
    # z = -1.069, -0.535, 0, 1.604: all below the mean become 0, all above one deviation 1
    assert strong.image.flatten().tolist() == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=1e-6)
    assert views.normalized(strong.image) is strong.image  # not standardized again


@pytest.mark.parametrize("space", ["unit", "z_score", "weak_statistics"])
def test_the_labeled_view_is_weak_unless_asked_and_keeps_its_mask(space):
    from semimedref.intensity import standardize

    jitter = "augment.jitter.probability=1"
    weak, strong = (
        build(compose([f"preset.labeled_view={kind}", f"preset.jitter_space={space}", jitter]),
              "augment")
        for kind in ("weak", "strong")
    )  # fmt: skip
    data = replace(planned(weak), mask=torch.rand(4, 1, 48, 48).round())
    calm = weak.weak(data)
    assert torch.equal(weak.labeled(data).image, standardize(calm.image))
    expected = weak.normalized(weak.perturb(calm, data))
    assert torch.equal(strong.labeled(data).image, expected)
    assert not torch.equal(expected, standardize(calm.image))
    assert torch.equal(strong.labeled(data).mask, calm.mask)


def test_jitter_survives_where_the_weak_view_says_how_to_standardize():
    """x -> a + b x is undone by an image's own mean and deviation, and seen by the weak ones."""
    always = ["augment=weak_strong", "augment.jitter.probability=1", "augment.blur.probability=0"]
    size = {}
    for space in ("unit", "weak_statistics"):
        views = build(compose([*always, f"preset.jitter_space={space}"]), "augment")
        data = planned(views, n=16)
        data = replace(data, image=0.3 + 0.4 * data.image)  # nothing is clamped
        weak = views.weak(data)
        strong = views.normalized(views.strong(weak, data, torch.rand(16, 1, 48, 48)).image)
        size[space] = float((strong - views.normalize(weak.image)).square().mean().sqrt())
    assert size["unit"] < 1e-4 < 0.1 < size["weak_statistics"]
    gray = build(compose([*always, "preset.jitter_space=weak_statistics"]), "augment")
    assert gray.normalized_by("imagenet").jitter_space == "unit"  # fixed statistics undo nothing


def test_posaug_leaves_a_phrase_alone_that_a_cell_has_brought():
    always = ["augment=semi_medref", "preset.mix_variant=cells", "augment.words.edit=1.0"]
    views = build(compose([*always, "preset.posaug_when=own_phrases"]), "augment")
    plan = planned(views, n=16).plan
    brought = 0
    for (_, text), regions in zip(plan.sentences, plan.brought, strict=True):
        named = parse(text, "lungs")
        assert all(named[k] for k in regions)
        brought += len(regions)
    assert brought > 5
    assert any("[UNK_POS]" in text for _, text in plan.sentences)


def test_posaug_runs_after_mixing_and_in_the_release_before_it():
    always = ["augment=semi_medref", "augment.words.edit=1.0", "augment.words.rho=1.0"]
    after, before = (
        build(compose([*always, f"preset.posaug_when={when}"]), "augment")
        for when in ("after_mixing", "before_mixing")
    )
    rows = planned(after, n=8).plan.sentences
    assert all(
        "lung" not in text for row in rows for text in row
    )  # the mixed phrase is dropped too
    plan = planned(before, n=8).plan
    assert not plan.allowed.any()  # no donor's phrase survived, so nothing can be mixed
    assert all("[UNK_POS]" in row[0] and row[0] == row[1] for row in plan.sentences)


def test_the_release_mixes_the_phrases_that_posaug_left(monkeypatch):
    options = ["augment=semi_medref", "preset=release", "preset.mix_probability=1"]
    views = build(compose(options), "augment")
    plan = planned(views, n=32).plan
    damaged = [row[0] for row in plan.sentences]
    assert any("[UNK_POS]" in text for text in damaged)
    for text, allowed in zip(damaged, plan.allowed.tolist(), strict=True):
        assert allowed <= any(parse(text, "lungs"))  # without a phrase of its own, no patch


def test_words_of_unknown_options_are_refused():
    from semimedref.errors import UserError

    for field in ("jitter_space", "labeled_view", "posaug_when"):
        with pytest.raises(UserError, match="is unknown: expected"):
            build(compose([f"preset.{field}=other"]), "augment")
