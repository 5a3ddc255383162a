"""T-PatchMix: its equations by hand, its variants, and image, pseudo-mask and text together."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from semimedref.augment.plan import derangement
from semimedref.augment.t_patchmix import (
    TPatchMix,
    cell_mask,
    lesion_gate,
    mix,
    patch_mask,
    positive_corner,
    uniform_corner,
)
from semimedref.dataset.sample import Batch
from semimedref.text.caption import lung_caption
from semimedref.text.position import parse
from semimedref.text.spans import Writing
from semimedref.text.vocabulary import LUNGS, vocabulary

WRITING = Writing(count="regions", cap=None, always_plural=False, whole=None)
SIDE = 48


def mixer(variant="hybrid", **changes):
    options = {
        "variant": variant, "probability": 1.0, "patch": 28, "reference_side": 224,
        "threshold": 0.55, "unmixed_threshold": "delta", "gate_image": True, "self_pairs": False,
        "region_from": "donor", "conflict": "sides", "update_count": True, "transpose": False,
        "vocabulary": "lungs", "writing": WRITING, "subset": "any", "edge": 0,
    }  # fmt: skip
    return TPatchMix(**(options | changes))  # a patch of 6 pixels at side 48


def batch(positions, seed=0):
    n = len(positions)
    rng = np.random.default_rng(seed)
    return Batch(
        image=torch.from_numpy(rng.random((n, 1, SIDE, SIDE), dtype=np.float32)),
        mask=None,
        position=torch.tensor(positions, dtype=torch.float32),
        uniform=torch.from_numpy(rng.random((n, TPatchMix.draws), dtype=np.float32)),
        index=torch.arange(n),
        sentences=tuple(lung_caption(q) for q in positions),
    )


def run(variant, positions, probability, *, seed=0, **changes):
    data = batch(positions, seed)
    tool = mixer(variant, **changes)
    plan = tool.plan(data, data.uniform.numpy())
    return data, plan, tool.mix(data.image, probability, plan, data.uniform)


def test_equation_patch_mixing_by_hand():
    ours, donor = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
    mask = torch.tensor([[0.0, 1.0], [0.0, 0.0]])[None, None]
    assert mix(ours, donor, mask).tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


def test_equation_gate_by_hand():
    probability = torch.tensor([[0.9, 0.2], [0.6, 0.5]])[None, None].repeat(2, 1, 1, 1)
    patch = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])[:, None]
    ratio, gated = lesion_gate(probability, patch, 0.55)
    assert ratio.tolist() == pytest.approx([0.75, 0.35], abs=1e-5)
    assert torch.equal(gated[0], patch[0]) and gated[1].sum() == 0


def test_a_patch_is_a_square_at_its_corner():
    mask = patch_mask(torch.tensor([[1, 2]]), 3, 6, 7)
    rows, columns = np.nonzero(mask[0, 0].numpy())
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 4, 1, 3)
    assert mask.sum() == 9


def test_uniform_corners_fill_the_box_and_stay_inside():
    box = torch.tensor([[10, 4, 20, 12]]).repeat(400, 1)
    u = torch.rand(400, 2, generator=torch.Generator().manual_seed(0))
    corner = uniform_corner(box, 6, u)
    assert set(corner[:, 0].tolist()) == set(range(10, 15))
    assert set(corner[:, 1].tolist()) == set(range(4, 7))


def test_positive_corners_equal_a_brute_force_choice():
    generator = torch.Generator().manual_seed(3)
    probability = torch.rand(20, 1, 16, 16, generator=generator)
    box = torch.tensor([[2, 3, 12, 15]]).repeat(20, 1)
    u = torch.rand(20, generator=generator)
    corner, found = positive_corner(probability, box, 5, threshold=0.9, u=u)
    for b in range(20):
        pixels = [
            (y, x) for y in range(3, 15) for x in range(2, 12) if probability[b, 0, y, x] >= 0.9
        ]
        assert bool(found[b]) == bool(pixels)
        if pixels:
            y, x = pixels[int(float(u[b]) * len(pixels))]
            assert corner[b].tolist() == [min(max(x - 2, 2), 7), min(max(y - 2, 3), 10)]


def test_no_sample_is_its_own_donor():
    for seed in range(50):
        donor = derangement(np.random.default_rng(seed).random(7))
        assert sorted(donor) == list(range(7)) and all(donor != np.arange(7))


def test_hybrid_with_an_all_one_region_equals_prob():
    data = batch([[1, 1, 1, 1, 1, 1]] * 4)
    probability = torch.rand(4, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    probability = (probability > 0.5).float()
    results = []
    for variant in ("hybrid", "prob"):
        tool = mixer(variant, threshold=0.3)
        plan = tool.plan(data, data.uniform.numpy())
        whole = torch.tensor([[0, 0, SIDE, SIDE]]).repeat(4, 1)
        plan = replace(plan, box=whole, allowed=torch.ones(4, dtype=torch.bool))
        results.append(tool.mix(data.image, probability, plan, data.uniform))
    assert torch.equal(results[0].image, results[1].image)
    assert torch.equal(results[0].gated, results[1].gated)


def test_conflict_in_laterality_forbids_pos_and_hybrid_only():
    positions = [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    sure = torch.ones(2, 1, SIDE, SIDE)
    for variant, expected in (("pos", 0), ("hybrid", 0), ("prob", 2), ("random", 2)):
        assert int(run(variant, positions, sure)[2].pasted.sum()) == expected, variant


def test_the_patch_lies_in_the_box_of_the_donors_phrase():
    positions = [[1, 0, 0, 0, 0, 1]] * 8
    for seed in range(5):
        for variant in ("pos", "hybrid"):
            _, plan, mixed = run(variant, positions, torch.ones(8, 1, SIDE, SIDE), seed=seed)
            for b in range(8):
                left, top, right, bottom = plan.box[b].tolist()
                outside = mixed.patch[b, 0].clone()
                outside[top:bottom, left:right] = 0
                assert mixed.patch[b].sum() == 36 and outside.sum() == 0


def test_ungated_images_are_the_literal_equation():
    doubtful = torch.full((4, 1, SIDE, SIDE), 0.3)
    positions = [[1, 0, 0, 0, 0, 1]] * 4
    data, _, gated = run("pos", positions, doubtful)
    assert torch.equal(gated.image, data.image) and not gated.pasted.any()
    data, _, literal = run("pos", positions, doubtful, gate_image=False)
    assert not torch.equal(literal.image, data.image)
    assert torch.equal(literal.probability, doubtful) and not literal.pasted.any()


position = st.lists(st.integers(0, 1), min_size=6, max_size=6).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    positions=st.lists(position, min_size=2, max_size=5),
    variant=st.sampled_from(["random", "pos", "prob", "hybrid"]),
    seed=st.integers(0, 10_000),
)
def test_image_pseudo_mask_and_text_change_together_or_not_at_all(positions, variant, seed):
    n = len(positions)
    rng = np.random.default_rng(seed)
    smooth = rng.random((n, 1, 4, 4), dtype=np.float32).repeat(12, 2).repeat(12, 3)
    probability = torch.from_numpy(smooth)
    data, plan, mixed = run(variant, positions, probability, seed=seed)
    donor_image, donor_probability = data.image[plan.donor], probability[plan.donor]
    for b in range(n):
        inside = mixed.gated[b].bool()
        assert bool(inside.any()) == bool(mixed.pasted[b])
        assert torch.equal(mixed.image[b][~inside], data.image[b][~inside])
        assert torch.equal(mixed.image[b][inside], donor_image[b][inside])
        assert torch.equal(mixed.probability[b][~inside], probability[b][~inside])
        assert torch.equal(mixed.probability[b][inside], donor_probability[b][inside])
        text = plan.sentences[b][int(mixed.choice[b])]
        named = parse(text, "lungs")
        if not mixed.pasted[b]:
            assert text == data.sentences[b] and named == positions[b]
            continue
        added = np.array(named) - np.array(positions[b])
        assert (added >= 0).all()
        rows, columns = np.nonzero(mixed.gated[b, 0].numpy())
        region = LUNGS.region_at((rows.min() + 3) / SIDE, (columns.min() + 3) / SIDE)
        if variant in ("random", "prob"):
            assert named == [int(on or k == region) for k, on in enumerate(positions[b])]
        else:
            donor = positions[int(plan.donor[b])]
            assert all(d for d, a in zip(donor, added, strict=True) if a)


@settings(max_examples=60, deadline=None)
@given(
    positions=st.lists(position, min_size=2, max_size=5),
    subset=st.sampled_from(["any", "side", "level"]),
    seed=st.integers(0, 10_000),
)
def test_cells_bring_image_pseudo_mask_label_and_words_of_the_donor(positions, subset, seed):
    """Against a twin that walks over every pixel; empty and doubtful cells move as well."""
    n = len(positions)
    probability = torch.rand(n, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    data, plan, mixed = run("cells", positions, probability, seed=seed, subset=subset)
    for b, j in enumerate(plan.donor.tolist()):
        chosen = set(plan.cells[b].nonzero()[:, 0].tolist())
        assert bool(plan.allowed[b]) == bool(chosen) == bool(mixed.pasted[b]) and len(chosen) < 6
        label = [positions[j][k] if k in chosen else positions[b][k] for k in range(6)]
        text = plan.sentences[b][int(mixed.choice[b])]
        assert parse(text, "lungs") == label and any(label)
        assert text == lung_caption(label)
        assert set(plan.brought[b]) == {k for k in chosen if positions[j][k]}
        for y, x in ((0, 0), (15, 23), (16, 24), (31, 23), (32, 24), (47, 47)):
            own = LUNGS.region_at(y / SIDE, x / SIDE) not in chosen
            source = b if own else j
            assert mixed.image[b, 0, y, x] == data.image[source, 0, y, x]
            assert mixed.probability[b, 0, y, x] == probability[source, 0, y, x]


def test_cells_come_together_as_the_subset_says_and_each_one_comes():
    positions = [[1, 1, 1, 1, 1, 1]] * 16
    seen = {name: set() for name in ("any", "side", "level")}
    for name, found in seen.items():
        for seed in range(40):
            plan = run("cells", positions, torch.ones(16, 1, SIDE, SIDE), seed=seed, subset=name)[1]
            found |= {tuple(row.nonzero()[:, 0].tolist()) for row in plan.cells}
    assert seen["side"] == {(0, 1, 2), (3, 4, 5)}
    assert seen["level"] == {(0, 3), (1, 4), (2, 5)}
    assert len(seen["any"]) == 2**6 - 2


def test_a_pair_whose_label_would_be_empty_is_left_alone():
    # Only the upper left is named: where it is exchanged for nothing, the sentence would be false.
    positions = [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    left_alone = 0
    for seed in range(40):
        data, plan, mixed = run("cells", positions, torch.ones(2, 1, SIDE, SIDE), seed=seed)
        for b in range(2):
            if not plan.allowed[b]:
                left_alone += 1
                assert torch.equal(mixed.image[b], data.image[b])
                assert plan.sentences[b][0] == plan.sentences[b][1] == data.sentences[b]
    assert 10 < left_alone < 30  # a quarter of 80


def test_an_edge_fades_from_one_image_to_the_other():
    chosen = torch.tensor([[True, True, True, False, False, False]])
    row = cell_mask(chosen, LUNGS.boxes, 12, 12, edge=1)[0, 0, 5]
    third = pytest.approx(1 / 3)
    assert row.tolist() == [1, 1, 1, 1, 1, pytest.approx(2 / 3), third, 0, 0, 0, 0, 0]


def test_where_boxes_overlap_a_pixel_belongs_to_the_last_cell():
    boxes = vocabulary("quadrants").boxes  # the center lies over all four
    corner, middle = torch.eye(5, dtype=torch.bool)[[0, 4]]
    masks = cell_mask(torch.stack([corner, middle]), boxes, 8, 8, edge=0)[:, 0]
    assert masks.sum((1, 2)).tolist() == [12, 16] and (masks.sum(0) <= 1).all()


def test_an_unknown_variant_or_subset_is_refused():
    from semimedref.errors import UserError

    with pytest.raises(UserError, match="hybrid"):
        mixer("hybird")
    with pytest.raises(UserError, match="subset=half: expected any, side, level"):
        mixer("cells", subset="half")
    with pytest.raises(UserError, match=r"not every region .* has a side"):
        mixer("cells", subset="side", vocabulary="quadrants")


RELEASE = {
    "gate_image": False, "self_pairs": True, "region_from": "receiver",
    "conflict": "first_phrases", "update_count": False, "unmixed_threshold": 0.5,
}  # fmt: skip


def test_transposed_boxes_read_left_as_the_upper_half_and_upper_as_the_left_third():
    upper_left = [[1, 0, 0, 0, 0, 0]] * 2
    sure = torch.ones(2, 1, SIDE, SIDE)
    assert run("pos", upper_left, sure)[1].box[0].tolist() == [0, 0, 24, 16]
    assert run("pos", upper_left, sure, transpose=True)[1].box[0].tolist() == [0, 0, 16, 24]
    lower_right = [[0, 0, 0, 0, 0, 1]] * 2
    assert run("pos", lower_right, sure)[1].box[0].tolist() == [24, 32, 48, 48]
    assert run("pos", lower_right, sure, transpose=True)[1].box[0].tolist() == [32, 24, 48, 48]


def test_the_releases_patch_lies_in_the_receivers_region():
    positions = [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]  # upper left, lower left
    _, plan, mixed = run("pos", positions, torch.ones(2, 1, SIDE, SIDE), **RELEASE)
    assert plan.box.tolist() == [[0, 0, 24, 16], [0, 32, 24, 48]]
    assert mixed.patch[0, 0, 16:].sum() == 0 and mixed.patch[1, 0, :32].sum() == 0


def test_the_release_may_pair_a_sample_with_itself_and_then_changes_nothing():
    data, plan, mixed = run("pos", [[1, 0, 0, 0, 0, 0]], torch.ones(1, 1, SIDE, SIDE), **RELEASE)
    assert plan.donor.tolist() == [0] and bool(mixed.pasted[0])
    assert torch.equal(mixed.image, data.image)
    assert plan.sentences[0][0] == plan.sentences[0][1]


@pytest.mark.parametrize("variant", ["random", "prob"])
def test_the_releases_other_variants_have_one_sentence_for_every_place(variant):
    positions = [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    _, plan, mixed = run(variant, positions, torch.ones(2, 1, SIDE, SIDE), **RELEASE)
    assert plan.candidates == 2 and mixed.choice.tolist() == mixed.pasted.long().tolist()


def test_a_mixer_hands_on_the_threshold_of_unmixed_samples():
    sure = torch.ones(2, 1, SIDE, SIDE)
    assert run("pos", [[1] * 6] * 2, sure)[2].unmixed_threshold is None
    assert run("pos", [[1] * 6] * 2, sure, **RELEASE)[2].unmixed_threshold == 0.5
    from semimedref.errors import UserError

    with pytest.raises(UserError, match="expected delta or a number"):
        mixer("pos", unmixed_threshold="half")
