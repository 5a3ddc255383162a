from dataclasses import replace

import pytest
import torch
from tests.method.conftest import could_learn

from semimedref.augment.t_patchmix import Mixed
from semimedref.errors import UserError
from semimedref.evaluate import prepare
from semimedref.method.schedule import Progress
from semimedref.model.segmenter import Outputs
from semimedref.run import Parts

BURN_IN, AFTER = Progress(0, 5, 20), Progress(19, 5, 20)


@pytest.fixture
def parts(compose_smoke):
    return Parts.build(compose_smoke("dataset=phantom_tiny"))


def batches(parts, n=2):
    import numpy as np

    u = np.random.default_rng(0).random((n, parts.method.draws), dtype=np.float32)
    labeled = parts.pool("train", list(range(n))).fetch(range(n), u)
    unlabeled = parts.pool("train", list(range(n, 2 * n)), masks=False).fetch(range(n), u)
    plan = parts.method.plan(unlabeled, AFTER)
    ready = prepare(parts.method, unlabeled, parts.hardware, plan=plan)
    return prepare(parts.method, labeled, parts.hardware), ready


def test_burn_in_sees_labeled_images_only(parts):
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, BURN_IN)
    assert set(losses) == {"loss", "loss_sup"}


def test_equation_total_adds_the_weighted_unlabeled_loss(parts):
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, AFTER)
    assert parts.method.lambda_u(AFTER) == pytest.approx(0.3)
    torch.testing.assert_close(losses["loss"], losses["loss_sup"] + 0.3 * losses["loss_unsup"])


def test_equation_unsup_is_dicece_of_the_strong_view_against_the_teachers_mask(parts):
    method = parts.method
    labeled, unlabeled = batches(parts)
    method.train(False)  # without dropout and batch statistics the pass can be repeated
    losses = method.step(labeled, unlabeled, AFTER)
    weak = method.views.weak(unlabeled)
    target = (method.teach(weak.image, unlabeled) >= 0.55).float()
    from semimedref.intensity import standardize

    strong = method.views.strong(weak, unlabeled, method.teach(weak.image, unlabeled))
    logits = method.student(standardize(strong.image), method.student.encode_text(unlabeled.text))
    torch.testing.assert_close(losses["loss_unsup"], method.loss(logits, target))


SEMI_MEDREF = ("augment=semi_medref", "align=pacl")


def test_equation_total_adds_both_contrastive_terms_with_their_weights(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF))
    labeled, unlabeled = batches(parts)
    losses = parts.method.step(labeled, unlabeled, AFTER)
    expected = (
        losses["loss_sup"]
        + 0.3 * losses["loss_unsup"]
        + 0.02 * losses["loss_pacl_sup"]
        + 0.10 * losses["loss_pacl_unsup"]
    )
    torch.testing.assert_close(losses["loss"], expected)


def test_contrast_starts_after_burn_in(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF))
    labeled, unlabeled = batches(parts)
    assert set(parts.method.step(labeled, unlabeled, BURN_IN)) == {"loss", "loss_sup"}


def test_without_unlabeled_images_the_labeled_contrast_stays(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF))
    labeled, _ = batches(parts)
    assert set(parts.method.step(labeled, None, AFTER)) == {"loss", "loss_sup", "loss_pacl_sup"}


def test_equation_mixed_pseudo_mask_is_cut_at_one_half_and_others_at_delta(parts):
    from semimedref.augment.t_patchmix import Mixed

    probability = torch.full((2, 1, 2, 2), 0.52)
    nothing = torch.zeros_like(probability)
    pasted = torch.tensor([True, False])
    strong = Mixed(probability, probability, nothing, nothing, pasted, pasted.long())
    target = parts.method.target(strong)
    assert target[0].unique().tolist() == [1.0] and target[1].unique().tolist() == [0.0]


def test_the_release_cuts_unmixed_pseudo_masks_at_one_half_where_t_patchmix_is_on(compose_smoke):
    from semimedref.augment.t_patchmix import Mixed

    probability = torch.full((1, 1, 2, 2), 0.52)
    nothing, no = torch.zeros_like(probability), torch.tensor([False])
    for augment, expected in (("semi_medref", 1.0), ("weak_strong", 0.0), ("cutmix", 0.0)):
        method = Parts.build(compose_smoke("preset=release", f"augment={augment}")).method
        cut = getattr(method.views.mixer, "unmixed_threshold", None)
        strong = Mixed(probability, probability, nothing, nothing, no, no.long(), cut)
        assert method.target(strong).unique().tolist() == [expected], augment


def test_the_releases_epoch_after_burn_in_sees_labeled_images_only(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF, "preset=release"))
    labeled, unlabeled = batches(parts)
    skipped, first = Progress(9, 5, 20), Progress(10, 5, 20)  # burn-in: the five steps of epoch 0
    assert parts.method.plan(unlabeled, skipped) is None
    assert set(parts.method.step(labeled, unlabeled, skipped)) == {
        "loss", "loss_sup", "loss_pacl_sup",
    }  # fmt: skip
    assert "loss_unsup" in parts.method.step(labeled, unlabeled, first)


def test_at_100_percent_labels_the_unlabeled_parts_are_off_and_the_labeled_contrast_stays(
    compose_smoke, tmp_path
):
    cfg = compose_smoke(*SEMI_MEDREF, "ratio=100pct", "scale.schedule.burn_in=0")
    trainer = Parts.build(cfg).trainer(tmp_path, lambda: None)
    assert trainer.data.unlabeled is None
    for step in range(2):
        trainer._optimize(trainer.data[step])
    assert trainer.counts == {"loss": 2, "loss_sup": 2, "loss_pacl_sup": 2}


@pytest.mark.parametrize(("ratio", "sampler"), [("2pct", "replacement"), ("100pct", "cycle")])
def test_the_release_draws_labeled_images_with_replacement_beside_unlabeled_ones(
    compose_smoke, tmp_path, ratio, sampler
):
    cfg = compose_smoke("preset=release", f"ratio={ratio}")
    data = Parts.build(cfg).trainer(tmp_path, lambda: None).data
    assert data.labeled.sampler == sampler
    assert data.unlabeled is None or data.unlabeled.sampler == "cycle"


@pytest.mark.parametrize(
    ("epoch", "weight", "momentum"),
    [(4, 0, 0.99), (5, 0, 0.99), (6, 0.02, 0.99045), (20, 0.3, 0.99675), (25, 0.3, 0.999)],
)
def test_lambda_u_and_m_of_the_release_by_hand(compose_smoke, epoch, weight, momentum):
    published = ["scale.schedule={unit: epochs, burn_in: 5, ramp: 15, momentum_ramp: 20}",
                 "scale.momentum_start=0.99", "scale.momentum_end=0.999"]  # fmt: skip
    method = Parts.build(compose_smoke("preset=release", *published)).method
    for step in (176 * epoch, 176 * epoch + 175):  # the first and the last step of the epoch
        at = Progress(step, 176, 17600)
        assert method.lambda_u(at) == pytest.approx(weight)
        assert method.momentum(at) == pytest.approx(momentum)


def test_the_teacher_reads_the_complete_sentence_whatever_posaug_does(compose_smoke):
    parts = Parts.build(compose_smoke("augment=posaug", "augment.words.edit=1.0"))
    _, unlabeled = batches(parts)
    assert all(
        "left" not in s and "right" not in s for row in unlabeled.plan.sentences for s in row
    )
    assert all("left" in s or "right" in s for s in unlabeled.sentences)
    read = []
    network = parts.method.teacher.network
    real = network.encode_text
    network.encode_text = lambda text, **k: read.append(text) or real(text, **k)
    parts.method.teach(parts.method.views.weak(unlabeled).image, unlabeled)
    assert read == [unlabeled.text]


def test_the_sentence_is_chosen_on_the_device():
    from semimedref.method.text_choice import choose
    from semimedref.model.segmenter import TextInput

    ids = torch.arange(2 * 3 * 4).reshape(6, 4)
    text = TextInput(ids, ids > 3, torch.arange(6))
    chosen = choose(text, torch.tensor([2, 0]), 3)
    assert chosen.input_ids.tolist() == [ids[2].tolist(), ids[3].tolist()]
    assert chosen.rows.tolist() == [2, 3]


def test_the_release_contrasts_the_fused_map_from_the_first_step(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF, "preset=release"))
    labeled, unlabeled = batches(parts)
    assert set(parts.method.step(labeled, unlabeled, BURN_IN)) == {
        "loss", "loss_sup", "loss_pacl_sup",
    }  # fmt: skip
    parts.method.train(False)
    losses = parts.method.step(labeled, unlabeled, AFTER)
    from semimedref.intensity import standardize

    text = parts.method.student.encode_text(labeled.text)
    image = standardize(parts.method.views.weak(labeled).image)
    fused = parts.method.student.fused_features(image, text)
    expected = parts.method.align(fused, text.pooled, labeled.position)
    torch.testing.assert_close(losses["loss_pacl_sup"], expected)
    nested = losses["loss_sup"] + 0.02 * losses["loss_pacl_sup"]
    nested = nested + 0.3 * (losses["loss_unsup"] + 0.1 * losses["loss_pacl_unsup"])
    torch.testing.assert_close(losses["loss"], nested)


@pytest.mark.parametrize("model", ["mmi_unet", "guide_decoder"])
def test_the_pass_that_segments_gives_the_map_that_is_compared(compose_smoke, model):
    """Equal losses and gradients, whether the map comes from a pass of its own or not."""
    made = []
    for kind in ("post_fusion", "segmenting"):
        words = (*SEMI_MEDREF, f"preset.pacl_image_feature={kind}", f"model={model}")
        parts = Parts.build(compose_smoke(*words))
        labeled, unlabeled = batches(parts)
        passes = []
        parts.method.student.image_encoder.levels[0].register_forward_hook(
            lambda part, given, out, seen=passes: seen.append(len(out))
        )
        parts.method.train(False)  # without dropout and batch statistics
        losses = parts.method.step(labeled, unlabeled, AFTER)
        losses["loss"].backward()
        learns = [p for p in parts.method.student.parameters() if p.requires_grad]
        made.append((losses, [p.grad for p in learns], passes))
    torch.testing.assert_close(made[0][0], made[1][0])
    torch.testing.assert_close(made[0][1], made[1][1], rtol=1e-4, atol=1e-6)
    assert made[0][2] == [4, 4]  # labeled and strong images, then labeled and weak ones
    if model == "mmi_unet":
        assert made[1][2] == [6]


def test_pixels_of_which_the_teacher_is_unsure_are_left_out_of_the_unlabeled_loss(compose_smoke):
    """Whatever the student says there, L_unsup and its gradient do not see it; others count."""
    parts = Parts.build(compose_smoke("preset.unsure=0.2", "pseudo_label.threshold=0.5"))
    probability = torch.tensor([[0.1, 0.35], [0.65, 0.9]])[None, None]
    strong = Mixed(probability, probability, *[torch.zeros(1)] * 2, torch.zeros(1).bool(), None)
    logits = torch.tensor([[-1.0, 0.3], [0.2, 2.0]])[None, None].requires_grad_()
    loss = parts.method.unlabeled_objective(Outputs(logits), strong)
    p = torch.tensor([-1.0, 2.0]).sigmoid()  # of the two sure pixels, background and lesion
    dice = 1 - 2 * p[1] / (p.sum() + 1)
    entropy = -((1 - p[0]).log() + p[1].log()) / 2
    torch.testing.assert_close(loss, dice + entropy, rtol=1e-4, atol=1e-4)
    loss.backward()
    assert (logits.grad != 0).flatten().tolist() == [True, False, False, True]


def test_passes_apart_give_batch_norm_each_kind_of_image_on_its_own(compose_smoke):
    seen = {}
    for kind in ("joint", "apart"):
        parts = Parts.build(compose_smoke(f"preset.student_passes={kind}"))
        labeled, unlabeled = batches(parts)
        sizes = seen[kind] = []
        parts.method.student.image_encoder.levels[0].register_forward_hook(
            lambda part, given, out, found=sizes: found.append(len(out))
        )
        parts.method.train(False)
        seen[kind + " loss"] = parts.method.step(labeled, unlabeled, AFTER)["loss"]
    assert (seen["joint"], seen["apart"]) == ([4], [2, 2])
    torch.testing.assert_close(seen["joint loss"], seen["apart loss"])


def test_projections_are_trained_and_resumed(compose_smoke):
    parts = Parts.build(compose_smoke(*SEMI_MEDREF))
    learned = {id(p) for p in parts.method.parameter_groups()[0]["params"]}
    assert {id(p) for p in parts.method.align.parameters()} <= learned
    other = Parts.build(compose_smoke(*SEMI_MEDREF, "seed.value=5"))
    other.method.load_state_dict(parts.method.state_dict())
    for a, b in zip(parts.method.align.parameters(), other.method.align.parameters(), strict=True):
        assert torch.equal(a, b)


def test_teacher_never_receives_gradient(parts):
    labeled, unlabeled = batches(parts)
    teacher = could_learn(parts.method.teacher.network)
    parts.method.step(labeled, unlabeled, AFTER)["loss"].backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert any(p.grad is not None for p in parts.method.student.parameters())


def test_unlabeled_masks_play_no_part(parts):
    labeled, unlabeled = batches(parts)
    with_mask = replace(unlabeled, mask=torch.ones_like(unlabeled.image))
    parts.method.train(False)
    a = parts.method.step(labeled, unlabeled, AFTER)["loss"]
    b = parts.method.step(labeled, with_mask, AFTER)["loss"]
    assert torch.equal(a, b)


def test_prediction_ignores_augmentation_and_can_use_either_network(parts):
    labeled, _ = batches(parts)
    parts.method.train(False)
    student = parts.method.predict(labeled, weights="student")
    assert torch.equal(student, parts.method.predict(labeled, weights="teacher"))
    with torch.no_grad():
        for p in parts.method.student.parameters():
            p.add_(0.1)
    assert not torch.equal(student, parts.method.predict(labeled, weights="student"))
    assert torch.equal(student, parts.method.predict(labeled, weights="teacher"))


def test_an_unknown_network_is_refused(parts):
    labeled, _ = batches(parts)
    with pytest.raises(UserError, match="student or teacher"):
        parts.method.predict(labeled, weights="pupil")


def test_state_comes_back_whole(parts, compose_smoke):
    labeled, unlabeled = batches(parts)
    parts.method.step(labeled, unlabeled, AFTER)["loss"].backward()
    with torch.no_grad():
        for p in parts.method.student.parameters():
            if p.grad is not None:
                p.sub_(p.grad)
    parts.method.after_step(AFTER)
    other = Parts.build(compose_smoke("seed.value=9")).method
    other.load_state_dict(parts.method.state_dict())
    for which in ("student", "teacher"):
        a, b = parts.method.weights()[which], other.weights()[which]
        assert all(torch.equal(a[k], b[k]) for k in a)
