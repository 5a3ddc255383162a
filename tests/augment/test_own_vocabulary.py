"""PosAug, T-PatchMix and SPC's check on a vocabulary of the user's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.text import kidneys

from semimedref.augment.posaug import PosAug
from semimedref.augment.t_patchmix import TPatchMix
from semimedref.combinations import can_be_mirrored
from semimedref.dataset.sample import Batch
from semimedref.text.position import parse
from semimedref.text.vocabulary import Box, vocabulary

SIDE, PATCH = 40, 4
FIRST = [phrases[0] for phrases in kidneys.PHRASES.values()]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return kidneys.write(tmp_path_factory.mktemp("own"))


def mixed(variant, words, regions, seed):
    tool = TPatchMix(
        variant=variant, probability=1.0, patch=PATCH, reference_side=SIDE, threshold=0.55,
        unmixed_threshold="delta", gate_image=True, self_pairs=False, region_from="donor",
        conflict="sides", update_count=True, transpose=False, vocabulary=words, writing=None,
        subset="any", edge=0,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    n = len(regions)
    data = Batch(
        image=torch.from_numpy(rng.random((n, 1, SIDE, SIDE), dtype=np.float32)),
        mask=None,
        position=torch.eye(len(FIRST))[regions],
        uniform=torch.from_numpy(rng.random((n, TPatchMix.draws), dtype=np.float32)),
        index=torch.arange(n),
        sentences=tuple(f"A stone in {FIRST[i]}." for i in regions),
    )
    plan = tool.plan(data, data.uniform.numpy())
    return data, plan, tool.mix(data.image, torch.ones(n, 1, SIDE, SIDE), plan, data.uniform)


def test_posaug_leaves_no_region_when_it_edits_every_phrase(words):
    tool = PosAug(unit="phrase", edit=1.0, rho=0.5, vocabulary=words)
    text = "Stones in the bladder, the left kidney and the right upper pole."
    rng = np.random.default_rng(0)
    made = {tool(text, rng.random(PosAug.draws)) for _ in range(50)}
    assert not any(any(parse(sentence, words)) for sentence in made)
    assert f"Stones in {kidneys.FUZZY}, [UNK_POS] and [UNK_POS]." in made


@pytest.mark.parametrize("variant", ["pos", "hybrid"])
def test_a_patch_lies_in_the_donors_box_and_the_sentence_gains_its_region(variant, words):
    for seed in range(20):
        data, plan, out = mixed(variant, words, [0, 4, 3, 4], seed)
        for b in range(4):
            donor = data.position[plan.donor[b]].argmax().item()
            named = parse(plan.sentences[b][int(out.choice[b])], words)
            own = data.position[b].int().tolist()
            if not out.pasted[b]:  # left only against right only
                assert {data.position[b].argmax().item(), donor} == {0, 3} and named == own
                continue
            assert named == [int(on or k == donor) for k, on in enumerate(own)]
            rows, columns = np.nonzero(out.patch[b, 0].numpy())
            box = Box(*kidneys.BOXES[donor])
            assert box.holds(rows.min() / SIDE, columns.min() / SIDE)
            assert rows.max() < box.bottom * SIDE and columns.max() < box.right * SIDE


@pytest.mark.parametrize("variant", ["random", "prob"])
def test_where_no_region_lies_nothing_is_pasted_and_elsewhere_it_is_named(variant, words):
    pasted = 0
    for seed in range(40):
        data, plan, out = mixed(variant, words, [0, 4, 3, 2], seed)
        for b in range(4):
            named = parse(plan.sentences[b][int(out.choice[b])], words)
            own = data.position[b].int().tolist()
            if not out.pasted[b]:
                assert named == own and not out.patch[b].any()
                continue
            pasted += 1
            rows, columns = np.nonzero(out.patch[b, 0].numpy())
            y, x = (rows.min() + PATCH // 2) / SIDE, (columns.min() + PATCH // 2) / SIDE
            region = next(k for k, box in enumerate(kidneys.BOXES) if Box(*box).holds(y, x))
            assert named == [int(on or k == region) for k, on in enumerate(own)]
    assert 0 < pasted < 160  # the boxes cover less than half of the image


def mirrored_pair(tmp_path, left, right, **changes):
    boxes = [{"top": 0.2, "bottom": 0.5, "left": x, "right": x + 0.3} for x in (0.1, 0.6)]
    regions = [
        {"name": name, "phrases": [phrase], "box": box}
        for name, phrase, box in zip(("a", "b"), (left, right), boxes, strict=True)
    ]
    return vocabulary(kidneys.write(tmp_path, kidneys.content() | {"regions": regions} | changes))


def test_spc_needs_mirrored_boxes_whose_words_are_exchanged(tmp_path):
    good = mirrored_pair(tmp_path, "the left kidney", "the right kidney")
    assert can_be_mirrored(good)
    lopsided = replace(good, cells=(good.cells[0], replace(good.cells[1], box=Box(0, 1, 0, 1))))
    assert not can_be_mirrored(lopsided)


def test_spc_is_refused_where_left_and_right_have_names_of_their_own(tmp_path):
    assert not can_be_mirrored(mirrored_pair(tmp_path, "the liver", "the spleen"))


def test_cells_say_what_the_mixed_label_says(words):
    for seed in range(20):
        data, plan, out = mixed("cells", words, [0, 4, 3, 4], seed)
        for b, j in enumerate(plan.donor.tolist()):
            label = torch.where(plan.cells[b], data.position[j], data.position[b])
            text = plan.sentences[b][int(out.choice[b])]
            assert parse(text, words) == label.int().tolist()
