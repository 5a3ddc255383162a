import math
from dataclasses import replace

import pytest
import torch
from tests.method.conftest import LATE

from semimedref.combinations import check_combination
from semimedref.config import resolved
from semimedref.errors import UserError
from semimedref.method.lvit_epi import language_vision

ALL = replace(LATE, stage="all")
SMALL = ("method=lvit_epi", "model.width=16", "text_encoder.max_tokens=24")


def test_language_vision_by_hand():
    logits = torch.tensor([[0.0, math.log(3)], [0.0, 0.0]])  # 0.5, 0.75
    like = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    first = 1 - 0.5 / math.hypot(0.5, 0.75)
    assert language_vision(logits, like).item() == pytest.approx(first / 2, rel=1e-5)


@pytest.fixture
def made(case):
    found = case(*SMALL)
    found.method.plan(found.unlabeled, ALL)
    return found


def prediction(method, batch):
    text = method.student.encode_text(batch.text)
    with torch.no_grad():
        return method.student(method.student.normalized(batch.image), text).sigmoid()


def test_a_pseudo_mask_is_first_what_the_student_says_and_then_moves_by_one_percent(made):
    method, batch = made.method, made.unlabeled
    before = prediction(method, batch)
    torch.testing.assert_close(method.iterate(batch), before)
    with torch.no_grad():
        for p in method.student.head.parameters():
            p.add_(3)
    now = prediction(method, batch)
    assert (now - before).abs().max() > 0.1
    moved = method.iterate(batch)
    torch.testing.assert_close(moved, 0.99 * before + 0.01 * now, atol=1e-3, rtol=0)
    assert method.seen.tolist() == [True] * 3
    torch.testing.assert_close(method.memory.float(), moved, atol=1e-3, rtol=0)


def test_images_find_their_own_map_whatever_their_order(made):
    method, batch = made.method, made.unlabeled
    first = method.iterate(batch)
    order = torch.tensor([2, 0, 1])
    text = replace(batch.text, rows=batch.text.rows[order])
    other = replace(batch, image=batch.image[order], index=batch.index[order], text=text)
    torch.testing.assert_close(method.iterate(other), first[order], atol=1e-3, rtol=0)


def test_the_mask_of_the_labeled_image_with_the_most_similar_sentence(made):
    method = made.method
    network = method.student
    pooled = {
        s: network.encode_text(network.prepare_text([s])).pooled[0]
        for s in (*made.labeled.sentences, *made.unlabeled.sentences)
    }
    found = method.like_masks(made.unlabeled)
    for sentence, mask in zip(made.unlabeled.sentences, found, strict=True):
        likeness = [torch.cosine_similarity(pooled[sentence], pooled[s], dim=0).item()
                    for s in made.labeled.sentences]  # fmt: skip
        best = max(range(3), key=likeness.__getitem__)
        assert torch.equal(mask, made.labeled.mask[best])


def test_the_whole_loss(made):
    method = made.method
    losses = method.step(made.labeled, made.unlabeled, ALL)
    total = losses["loss_sup"] + losses["loss_unsup"] + 0.1 * losses["loss_lv"]
    torch.testing.assert_close(losses["loss"], total)
    assert set(method.step(made.labeled, made.unlabeled, replace(LATE, stage="labeled"))) == {
        "loss", "loss_sup",
    }  # fmt: skip


def test_stored_maps_and_masks_of_like_sentences_are_zoomed_with_their_image(case):
    made = case(*SMALL, "augment.zoom.probability=1.0")
    method, batch = made.method, made.unlabeled
    method.plan(batch, ALL)
    losses = method.step(made.labeled, batch, ALL)
    pseudo = method.memory[method.row[batch.index]].float()
    weak = method.views.weak(replace(batch, mask=pseudo))
    text = method.student.encode_text(batch.text)
    outputs = method.student.outputs(method.views.normalize(weak.image), text)
    expected = method.student.objective(outputs, weak.mask, method.loss)
    torch.testing.assert_close(losses["loss_unsup"], expected, atol=1e-3, rtol=1e-3)
    like = method.views.weak(replace(batch, mask=method.like_masks(batch))).mask
    torch.testing.assert_close(losses["loss_lv"], language_vision(outputs.logits, like))
    known = method.views.labeled(made.labeled)
    outputs = method.student.outputs(known.image, method.student.encode_text(made.labeled.text))
    expected = method.student.objective(outputs, known.mask, method.loss)
    torch.testing.assert_close(losses["loss_sup"], expected)


def test_a_text_encoder_that_learns_is_refused(case):
    with pytest.raises(UserError, match=r"set text_encoder\.frozen=true"):
        case(*SMALL, "text_encoder.frozen=false", "text_encoder.cache=false")


def test_a_network_without_words_is_refused(compose_smoke):
    plain = resolved(compose_smoke("method=lvit_epi", "model=unet"))
    with pytest.raises(UserError, match="compares sentences, and model=unet reads none"):
        check_combination(plain)


def test_every_image_has_its_first_pseudo_mask_before_the_second_stage(made):
    method, batch = made.method, made.unlabeled
    assert not method.seen.any()
    method.enter("all")
    assert method.seen.all()
    torch.testing.assert_close(method.memory.float(), prediction(method, batch), atol=1e-3, rtol=0)
