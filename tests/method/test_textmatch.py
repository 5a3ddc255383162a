import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.method.conftest import could_learn, spread

from semimedref.errors import UserError
from semimedref.method.textmatch import agreement, pseudo_label, similarity, soft_entropy
from semimedref.model.losses import batch_dice


def test_the_label_is_the_mean_of_the_views_that_have_seen_a_pixel():
    logits = torch.tensor([[math.log(3), 0.0, 0.0], [0.0, math.log(4), math.log(9)]])
    seen = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    found = pseudo_label(logits.reshape(2, 1, 1, 1, 3), seen.reshape(2, 1, 1, 1, 3))
    assert found.flatten().tolist() == pytest.approx([(0.75 + 0.5) / 2, 0.5, (0.5 + 0.9) / 2])


def test_agreement_is_a_mean_over_seen_pixels_and_views():
    ours = torch.tensor([1.0, 2.0]).reshape(1, 1, 1, 2)
    answers = torch.tensor([[0.0, 4.0], [3.0, 9.0]]).reshape(2, 1, 1, 1, 2)
    seen = torch.tensor([[1.0, 1.0], [1.0, 0.0]]).reshape(2, 1, 1, 1, 2)
    assert agreement(ours, answers, seen).item() == pytest.approx(((1 + 4) / 2 + 4) / 2)


def test_similarity_is_the_cosine_of_enlarged_embeddings():
    g = torch.Generator().manual_seed(0)
    embedding = torch.randn(2, 5, 3, 3, generator=g, requires_grad=True)
    prototypes = torch.randn(2, 5, generator=g)
    found = similarity(embedding, prototypes, (12, 12))
    large = F.interpolate(embedding, (12, 12), mode="bilinear", align_corners=False)
    for k in range(2):
        expected = F.cosine_similarity(large, prototypes[k][None, :, None, None], dim=1)
        torch.testing.assert_close(found[:, k], expected)
    ours, theirs = (
        torch.autograd.grad(x.square().sum(), embedding, retain_graph=True)[0]
        for x in (found[:, 1], expected)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_the_contrast_by_hand():
    scores = torch.tensor([[0.5, 0.2], [0.1, 0.2]]).reshape(1, 2, 1, 2)
    soft = torch.tensor([0.75, 0.3]).reshape(1, 1, 1, 2)
    log_in = math.log(math.exp(0.5) / (math.exp(0.5) + math.exp(0.1)))
    log_out = math.log(math.exp(0.1) / (math.exp(0.5) + math.exp(0.1)))
    expected = (-(0.75 * log_in + 0.25 * log_out) + math.log(2)) / 2
    assert soft_entropy(scores, soft).item() == pytest.approx(expected)


def test_prototypes_begin_with_the_first_mean_and_then_remember(case):
    method = case("method=textmatch", "method.prototype_momentum=0.75", "model.embedding=1").method
    mask = torch.tensor([[1.0, 0.0], [0.0, 0.0]]).reshape(1, 1, 2, 2)

    def show(values, mask):
        method.remember(torch.tensor(values).reshape(1, 1, 2, 2), mask)
        return method.prototypes.flatten().tolist(), method.started.flatten().tolist()

    nowhere = torch.zeros_like(mask)
    assert show([2.0, 4.0, 6.0, 8.0], nowhere) == ([0, 5], [0, 1])  # no lesion yet
    assert show([2.0, 4.0, 6.0, 2.0], mask) == ([2, 0.75 * 5 + 0.25 * 4], [1, 1])
    assert show([4.0, 0.0, 0.0, 0.0], mask) == ([0.75 * 2 + 0.25 * 4, 0.75 * 4.75], [1, 1])
    assert show([8.0, 8.0, 8.0, 8.0], nowhere)[0][0] == 2.5


def test_the_mean_embedding_is_that_of_enlarged_ones(case):
    method = case("method=textmatch").method
    g = torch.Generator().manual_seed(1)
    embedding = torch.randn(3, 8, 6, 6, generator=g)
    mask = (torch.rand(3, 1, 96, 96, generator=g) > 0.8).float()
    method.remember(embedding, mask)
    large = F.interpolate(embedding, (96, 96), mode="bilinear", align_corners=False)
    pixels = large.permute(0, 2, 3, 1)
    for k, chosen in enumerate((mask[:, 0] > 0, mask[:, 0] == 0)):
        torch.testing.assert_close(
            method.prototypes[k], pixels[chosen].mean(0), atol=1e-5, rtol=1e-4
        )


def views_one_by_one(made):
    """Logits at the old scale, and what was seen, of each view in a pass of its own."""
    method, batch = made.method, made.unlabeled
    network, weak = method.teacher.network, method.views.weak(batch).image
    own = batch.uniform[:, method.views.draws :].reshape(len(batch), 3, 27)
    for v in range(3):
        numbers = own[:, v].numpy()
        sentences = [
            method.reworded(s, u[3:]) for s, u in zip(batch.sentences, numbers, strict=True)
        ]
        text = network.encode_text(network.prepare_text(sentences))
        image = network.normalized(method.perturb(weak, own[:, v, :3]))
        yield method.perturb.undo(network(image, text), own[:, v, :3])


@pytest.mark.parametrize("cache", ["true", "false"])
@torch.no_grad()
def test_the_whole_loss_of_both_kinds_of_images(case, cache):
    made = case(
        "method=textmatch", "method.weight_reg=0.3", "method.weight_pl=0.5",
        "method.weight_cl=0.7", f"text_encoder.cache={cache}",
    )  # fmt: skip
    method, labeled, unlabeled = made.method, made.labeled, made.unlabeled
    spread(method.teacher.network)
    losses = made.step()
    known, weak = method.views.labeled(labeled), method.views.weak(unlabeled)
    first = method.student.outputs(known.image, method.student.encode_text(labeled.text))
    image = method.student.normalized(weak.image)
    second = method.student.outputs(image, method.student.encode_text(unlabeled.text))
    logits, seen = (torch.stack(x) for x in zip(*views_one_by_one(made), strict=True))
    assert 0.8 < seen.mean() < 1 and logits.std() > 1e-3
    pseudo = (seen * logits.sigmoid()).sum(0) / seen.sum(0).clamp(min=1)
    pseudo = torch.where(seen.sum(0) > 0, pseudo, logits.sigmoid().mean(0))
    reg = sum((second.logits - x)[s > 0].square().mean() for x, s in zip(logits, seen, strict=True))
    large = F.interpolate(second.extra["embedding"], (96, 96), mode="bilinear")
    scores = torch.stack(
        [F.cosine_similarity(large, p[None, :, None, None], dim=1) for p in method.prototypes], 1
    )
    inside, outside = (scores / 0.9).log_softmax(1).chunk(2, 1)
    expected = {
        "loss_sup": method.student.objective(first, known.mask, None),
        "loss_reg": reg / 3,
        "loss_pl": batch_dice(second.logits, pseudo),
        "loss_cl": -(pseudo * inside + (1 - pseudo) * outside).mean(),
    }
    for name, value in expected.items():
        torch.testing.assert_close(losses[name], value, atol=1e-5, rtol=1e-4)
    sup, reg, pl, cl = expected.values()
    torch.testing.assert_close(losses["loss"], sup + 0.3 * reg + 0.5 * pl + 0.7 * cl)


def test_gradients_reach_the_student_alone_and_the_embedding_too(case):
    made = case("method=textmatch")
    teacher = could_learn(made.method.teacher.network)
    made.step()["loss"].backward()
    assert all(p.grad is None for p in teacher.parameters())
    student = made.method.student
    assert all(p.grad is not None for p in student.parameters() if p.requires_grad)
    assert student.embedding.weight.grad.abs().max() > 0
    assert not made.method.prototypes.requires_grad


def test_a_samples_numbers_decide_its_views_whatever_the_batch(case):
    made = case("method=textmatch")
    method, batch = made.method, made.unlabeled
    weak = method.views.weak(batch).image
    answers, seen = method.answers(weak, batch)
    assert answers.shape == seen.shape == (3, 3, 1, 96, 96)
    rows = batch.plan.rows.reshape(3, 3)[:, 1]
    one = replace(batch, uniform=batch.uniform[1:2], plan=replace(batch.plan, rows=rows))
    alone, _ = method.answers(weak[1:2], one)
    torch.testing.assert_close(alone[:, 0], answers[:, 1], atol=1e-5, rtol=1e-4)


def test_sentences_of_views_are_few_where_the_encoder_keeps_them(case):
    sentence = "bilateral pulmonary infection, two infected areas, upper left lung."
    u = np.random.default_rng(3).random((300, 24), dtype=np.float32)
    few = case("method=textmatch", "method.variants=5").method
    found = {few.reworded(sentence, row) for row in u}
    assert 3 <= len(found) <= 5
    assert few.reworded(sentence, np.full(24, 1 - 2**-24, dtype=np.float32)) in found
    free = case("method=textmatch", "text_encoder.cache=false").method
    assert len({free.reworded(sentence, row) for row in u}) > 50
    assert free.reworded(sentence, np.full(24, 0.99)) == sentence


def test_prototypes_are_in_the_state_and_not_in_the_weights(case):
    made = case("method=textmatch")
    made.step()
    state, other = made.method.state_dict(), case("method=textmatch").method
    assert "prototypes" not in made.method.weights()
    other.load_state_dict(state)
    assert torch.equal(other.prototypes, made.method.prototypes) and other.started.all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model=mmi_unet", r"MMIUNet has not: choose model=textmatch_seg"),
        ("method.teacher_views=0", r"method\.teacher_views=0: expected 1 or more; set"),
        ("method.variants=0", r"method\.variants=0: expected 1 or more; set"),
        ("method.temperature=0", r"method\.temperature=0: expected a number above 0; set"),
        ("method.prototype_momentum=1", r"prototype_momentum=1: expected .* below 1; set"),
    ],
)
def test_what_does_not_fit_is_refused(case, change, message):
    with pytest.raises(UserError, match=message):
        case("method=textmatch", change)
