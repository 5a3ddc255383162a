from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.method.conftest import could_learn

from semimedref.errors import UserError
from semimedref.evaluate import prepare
from semimedref.intensity import standardize
from semimedref.method.ispg import guide
from semimedref.method.schedule import Progress
from semimedref.model.segmenter import TextFeatures
from semimedref.run import Parts

pytestmark = pytest.mark.slow

ISPG = ("method=ispg", "augment=semi_medref", "align=pacl")
BURN_IN, AFTER = Progress(0, 5, 20), Progress(19, 5, 20)


@pytest.fixture
def build(compose_smoke):
    return lambda *extra: Parts.build(compose_smoke(*ISPG, *extra))


@pytest.fixture
def parts(build):
    return build()


def batches(parts, n=4, *, progress=AFTER):
    method = parts.method
    u = np.random.default_rng(0).random((n, method.draws), dtype=np.float32)
    labeled = parts.pool("train", list(range(n))).fetch(range(n), u)
    unlabeled = parts.pool("train", list(range(n, 2 * n)), masks=False).fetch(range(n), u)
    plan = method.plan(unlabeled, progress)
    return (
        prepare(method, method.edit_labeled(labeled), parts.hardware),
        prepare(method, unlabeled, parts.hardware, plan=plan),
    )


def test_the_token_takes_part_in_every_fusion(parts):
    student, (labeled, _) = parts.method.student.eval(), batches(parts)
    image, text = standardize(labeled.image), student.encode_text(labeled.text)
    maps = {}
    for name, q in (("one", torch.zeros(4, 6)), ("other", torch.ones(4, 6))):
        guided = guide(student, text, q)
        assert guided.tokens.shape[1] == guided.mask.shape[1] == text.tokens.shape[1] + 1 == 25
        assert guided.mask[:, -1].all()
        maps[name] = student._fuse(image, guided)
    plain = student._fuse(image, text)
    assert len(plain) == 4
    for one, other, bare in zip(maps["one"], maps["other"], plain, strict=True):
        assert not torch.equal(one, other) and not torch.equal(one, bare)


def test_each_fusion_by_itself_reads_the_token(parts):
    student, (labeled, _) = parts.method.student.eval(), batches(parts)
    text = student.encode_text(labeled.text)
    guided = [guide(student, text, q) for q in (torch.zeros(4, 6), torch.ones(4, 6))]
    x = student.image_encoder.adapt(standardize(labeled.image))
    for level, fusion in zip(student.image_encoder.levels, student.fusion, strict=True):
        x = level(x)
        one, other = (fusion(x, t.tokens, t.mask)[0] for t in guided)
        assert not torch.equal(one, other)


def test_without_its_token_the_network_is_the_plain_one(parts):
    method, (labeled, _) = parts.method.train(False), batches(parts)
    text = method.student.encode_text(labeled.text)
    guided = guide(method.student, text, labeled.position)
    cut = TextFeatures(guided.tokens[:, :-1], guided.mask[:, :-1], guided.pooled)
    plain = method.student(standardize(labeled.image), text).sigmoid()
    assert torch.equal(method.student(standardize(labeled.image), cut).sigmoid(), plain)
    assert torch.equal(method.predict(labeled, weights="student", route="zero"), plain)


def test_routes_differ_only_in_the_positions_that_they_supply(parts):
    method, (labeled, _) = parts.method.train(False), batches(parts)
    image, text = standardize(labeled.image), method.student.encode_text(labeled.text)
    guess = method.predictor(image).sigmoid()
    for route, position in (("oracle", labeled.position), ("ispg", guess), (None, guess)):
        expected = method.student(image, guide(method.student, text, position)).sigmoid()
        assert torch.equal(method.predict(labeled, weights="student", route=route), expected)


def test_zero_route_of_the_release_is_the_token_of_a_zero_vector(build):
    parts = build("preset=release")
    method, (labeled, _) = parts.method.train(False), batches(parts)
    image, text = standardize(labeled.image), method.student.encode_text(labeled.text)
    guided = guide(method.student, text, torch.zeros(4, 6))
    expected = method.student(image, guided).sigmoid()
    assert torch.equal(method.predict(labeled, weights="student", route="zero"), expected)


def test_half_of_the_sentences_lose_their_positions(build):
    parts = build()
    n, method = 200, parts.method
    u = np.random.default_rng(1).random((n, method.draws), dtype=np.float32)
    labeled = parts.pool("train").fetch(range(n), u)
    read = method.edit_labeled(labeled).sentences
    gone = [a != b for a, b in zip(read, labeled.sentences, strict=True)]
    assert gone == (u[:, -1] < 0.5).tolist()
    assert not any("lung" in s for s, removed in zip(read, gone, strict=True) if removed)


def test_mixed_and_edited_sentences_are_removed_whole(build):
    parts = build("method.removal.training=1.0", "augment.words.edit=1.0")
    _, unlabeled = batches(parts)
    for row in unlabeled.plan.sentences:
        for sentence in row:
            assert "lung" not in sentence and "[UNK_POS]" not in sentence
            assert "infected area" in sentence


def test_the_teacher_reads_the_complete_sentence_with_q(parts):
    method, (_, unlabeled) = parts.method, batches(parts)
    network, image = method.teacher.network, method.views.weak(unlabeled).image
    sentences = parts.pool("train").fetch([4, 5, 6, 7]).sentences
    complete = network.encode_text(network.prepare_text(sentences))
    expected = network(standardize(image), guide(network, complete, unlabeled.position)).sigmoid()
    assert torch.equal(method.teach(image, unlabeled), expected)


def test_equation_total_gains_both_position_losses_with_a_tenth_each(parts):
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, AFTER)
    expected = (
        losses["loss_sup"]
        + 0.3 * losses["loss_unsup"]
        + 0.02 * losses["loss_pacl_sup"]
        + 0.10 * losses["loss_pacl_unsup"]
        + 0.1 * losses["loss_position_sup"]
        + 0.1 * losses["loss_position_unsup"]
    )
    torch.testing.assert_close(losses["loss"], expected)


def test_positions_are_learned_from_the_first_step_on_both_branches(parts):
    labeled, unlabeled = batches(parts, progress=BURN_IN)
    losses = parts.method.step(labeled, unlabeled, BURN_IN)
    assert set(losses) == {"loss", "loss_sup", "loss_position_sup", "loss_position_unsup"}
    expected = losses["loss_sup"] + 0.1 * losses["loss_position_sup"]
    torch.testing.assert_close(losses["loss"], expected + 0.1 * losses["loss_position_unsup"])


def test_without_unlabeled_images_their_terms_are_absent(parts):
    labeled, _ = batches(parts)
    losses = parts.method.step(labeled, None, AFTER)
    assert set(losses) == {"loss", "loss_sup", "loss_position_sup", "loss_pacl_sup"}


def test_the_predictor_learns_q_of_the_original_report_from_the_strong_view(parts):
    method, (labeled, unlabeled) = parts.method.train(False), batches(parts)
    losses = method.step(labeled, unlabeled, AFTER)
    weak = method.views.weak(unlabeled)
    strong = method.views.strong(weak, unlabeled, method.teach(weak.image, unlabeled))
    guess = method.predictor(standardize(strong.image))
    torch.testing.assert_close(
        losses["loss_position_unsup"], method.position_loss(guess, unlabeled.position)
    )


def test_the_predictor_runs_once_a_step(parts, monkeypatch):
    sizes = []
    parts.method.predictor.register_forward_hook(lambda *_: sizes.append(len(_[2])))
    parts.method.step(*batches(parts), AFTER)
    assert sizes == [8]


def test_gradients_of_the_segmentation_reach_the_predictor(parts):
    method, (labeled, unlabeled) = parts.method, batches(parts)
    teacher = could_learn(method.teacher.network)
    losses = method.step(labeled, unlabeled, AFTER)
    (losses["loss_sup"] + losses["loss_unsup"]).backward()
    for part in (method.predictor.head, method.predictor.image_encoder):
        assert sum(p.grad.abs().sum() for p in part.parameters() if p.grad is not None) > 0
    assert all(p.grad is None for p in teacher.parameters())


def test_q_does_not_reach_the_text_side_of_pacl(parts):
    method, (labeled, unlabeled) = parts.method.train(False), batches(parts)
    read = []
    method.compare = lambda maps, text, q: read.append(text) or maps.sum()
    method.step(labeled, unlabeled, AFTER)
    assert [type(text) for text in read] == [TextFeatures, TextFeatures]
    complete = method.student.encode_text(unlabeled.text).pooled
    assert torch.equal(read[1].pooled, complete)


def test_the_release_adds_projected_positions_to_the_text_side_of_pacl(build):
    parts = build("preset=release")
    method, (labeled, unlabeled) = parts.method.train(False), batches(parts)
    assert method.contrast_token is not None
    read = []
    method.compare = lambda maps, text, q: read.append(text) or maps.sum()
    method.step(labeled, unlabeled, AFTER)
    assert torch.equal(read[1].position, unlabeled.position)
    guess = method.predictor(standardize(method.views.weak(labeled).image)).sigmoid()
    torch.testing.assert_close(read[0].position, guess)
    del method.compare
    maps = torch.randn(4, 16, 3, 3)
    u = method.align.embed_text(read[1].pooled) + method.contrast_token(unlabeled.position)
    expected = method.align.contrast(method.align.embed_image(maps), u, unlabeled.position)
    torch.testing.assert_close(method.compare(maps, read[1], unlabeled.position), expected)


def test_the_predictor_learns_at_a_tenth_of_the_rate(parts):
    groups = parts.method.parameter_groups()
    assert [group["lr_scale"] for group in groups] == [1.0, 0.1]
    sets = [{id(p) for p in group["params"]} for group in groups]
    assert sets[1] == {id(p) for p in parts.method.predictor.parameters()}
    assert not sets[0] & sets[1]
    assert {id(p) for p in parts.method.student.position_token.parameters()} <= sets[0]


def test_the_teachers_token_follows_the_students(parts):
    method = parts.method
    with torch.no_grad():
        method.student.position_token.gate.add_(1.0)
    method.after_step(AFTER)
    torch.testing.assert_close(method.teacher.network.position_token.gate, torch.tensor(-1.9))


@pytest.mark.parametrize("preset", ["paper", pytest.param("release", marks=pytest.mark.slow)])
def test_four_steps_equal_two_plus_two(build, tmp_path, preset):
    def trainer(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        made = build("scale.schedule.burn_in=0.05", f"preset={preset}")  # the first step only
        return made.trainer(folder, lambda: None)

    whole, first = trainer("whole"), trainer("cut")
    for step in range(4):
        whole._optimize(whole.data[step])
    for step in range(2):
        first._optimize(first.data[step])
    first._save()
    second = trainer("cut")
    second._resume()
    for step in range(2, 4):
        second._optimize(second.data[step])
    assert {"student", "teacher", "align", "predictor"} <= set(whole.method.weights())
    assert ("contrast_token" in whole.method.weights()) == (preset == "release")
    for network, weights in whole.method.weights().items():
        for name, value in weights.items():
            assert torch.equal(value, second.method.weights()[network][name]), (network, name)


def test_best_weights_hold_all_that_a_prediction_needs(parts, build):
    other = build("seed.value=9")
    other.method.load_weights(parts.method.weights())
    asked = [(p.method.train(False), batches(p)[0]) for p in (parts, other)]
    for route in (None, "zero", "oracle"):
        ours, theirs = (m.predict(b, weights="teacher", route=route) for m, b in asked)
        assert torch.equal(ours, theirs)


def test_the_number_of_regions_comes_from_the_vocabulary(build):
    parts = build("method.removal.vocabulary=quadrants")
    assert parts.method.predictor(torch.zeros(1, 1, 96, 96)).shape == (1, 5)


def test_a_mirrored_image_has_no_known_positions(compose_smoke):
    with pytest.raises(UserError, match="augment=spc"):
        Parts.build(compose_smoke("method=ispg", "augment=spc"))


def test_an_unknown_route_is_refused(parts):
    labeled, _ = batches(parts)
    with pytest.raises(UserError, match="ispg, zero, oracle"):
        parts.method.predict(labeled, weights="student", route="standard")


def test_further_evaluations_do_not_change_the_signature(compose_smoke):
    from semimedref.config import resolved, signature

    base = resolved(compose_smoke(*ISPG))
    other = resolved(compose_smoke(*ISPG, "method.axes=[]"))
    changed = resolved(compose_smoke(*ISPG, "method.removal.training=0.2"))
    assert signature(base) == signature(other) != signature(changed)


def test_labels_of_the_batch_play_no_part_in_the_usual_route(parts):
    labeled, _ = batches(parts)
    blind = replace(labeled, position=torch.zeros(4, 0))
    method = parts.method.train(False)
    a, b = (method.predict(x, weights="student") for x in (labeled, blind))
    assert torch.equal(a, b)
