"""DuSSS and AMVLM: masks of sentences and of a teacher."""

import pytest
import torch
from tests.method.conftest import LATE

from semimedref.config import resolved
from semimedref.errors import UserError
from semimedref.model.losses import balanced_dice_bce
from semimedref.needs import needed

pytestmark = pytest.mark.slow

BOTH = ("dusss", "amvlm")


def written_out(made):
    """Teacher's probability, mask of the sentences, student's logits for all images."""
    method, labeled, unlabeled = made.method, made.labeled, made.unlabeled
    weak = method.views.weak(unlabeled)
    taught = method.teach(weak.image, unlabeled)
    vlm = method.vlm
    patches = vlm.patch_map(vlm.normalized(weak.image))
    words = vlm.read(vlm.encode_text(vlm.prepare_text(unlabeled.sentences))).whole
    mask, grounding = method.text_mask(patches, words, 96)
    known = method.views.labeled(labeled)
    logits = [method.student(known.image, None),
              method.student(method.student.normalized(weak.image), None)]  # fmt: skip
    return taught, mask, grounding, known.mask, torch.cat(logits)


@pytest.mark.parametrize("name", BOTH)
def test_the_loss_is_of_masks_and_of_what_teacher_and_sentence_say_together(case, name):
    made = case(f"method={name}")
    losses = made.step()
    taught, mask, grounding, known, logits = written_out(made)
    pseudo = (taught + mask) / 2
    seg = balanced_dice_bce(logits, torch.cat([known, pseudo]))
    torch.testing.assert_close(losses["loss_seg"], seg)
    torch.testing.assert_close(losses["loss_grounding"], grounding)
    text = balanced_dice_bce(torch.logit(mask), taught)
    torch.testing.assert_close(losses["loss_text"], text)
    expected = (seg + text) / 2 if name == "dusss" else seg
    torch.testing.assert_close(losses["loss"], expected + grounding)


@pytest.mark.parametrize("name", BOTH)
def test_as_released_all_pseudo_masks_are_lesion_and_names_are_read(case, name):
    made = case(f"method={name}", "method.as_released=true")
    method = made.method
    ids = made.parts.dataset.split("train").ids
    read = method.vlm.text_encoder._row
    assert {f"{i}.png" for i in ids[3:6]} <= set(read) and not set(made.unlabeled.sentences) & set(
        read
    )
    p, m = torch.tensor([0.0, 1.0]), torch.tensor([0.547, 0.692])
    assert method.pseudo(p, m).tolist() == pytest.approx([0.633, 0.845], abs=1e-3)
    losses = made.step()
    weak = method.views.weak(made.unlabeled)
    taught = method.teach(weak.image, made.unlabeled)
    mask, _ = method.masks(weak.image, made.unlabeled.plan.texts)
    pseudo = (taught + mask).sigmoid()
    assert pseudo.min() > 0.63
    known = method.views.labeled(made.labeled)
    logits = [method.student(known.image, None),
              method.student(method.student.normalized(weak.image), None)]  # fmt: skip
    seg = balanced_dice_bce(torch.cat(logits), torch.cat([known.mask, pseudo]))
    torch.testing.assert_close(losses["loss_seg"], seg)
    assert method.vlm.as_released and method.text_mask.as_released


@pytest.mark.parametrize("name", BOTH)
def test_as_released_the_teacher_uses_the_statistics_of_its_batch(case, name):
    made = case(f"method={name}", "method.as_released=true")
    quiet = case(f"method={name}")
    image = made.unlabeled.image
    found, other = (c.method.teach(image, c.unlabeled) for c in (made, quiet))
    assert not made.method.teacher.network.training
    assert not torch.allclose(found, other)


@pytest.mark.parametrize("as_released", [False, True])
def test_masks_of_sentences_learn_from_the_teacher_unless_as_released(case, as_released):
    made = case("method=dusss", f"method.as_released={str(as_released).lower()}")
    method = made.method
    losses = made.step()
    weights = list(method.text_mask.decoder.parameters())
    assert losses["loss_text"] > 0 and losses["loss_text"].requires_grad != as_released
    whole = torch.autograd.grad(losses["loss"], weights, retain_graph=True, allow_unused=True)
    alone = torch.autograd.grad(losses["loss_grounding"], weights, allow_unused=True)
    same = [a is b or torch.allclose(a, b) for a, b in zip(whole, alone, strict=True)]
    assert all(same) == as_released


def test_a_soft_pseudo_mask_drifts_to_the_sentences_and_a_hard_one_stays(case):
    p, m = torch.tensor([0.95, 0.05]), torch.tensor([0.376, 0.376])
    soft, hard = (case("method=amvlm", f"method.pseudo_mask={kind}").method.pseudo
                  for kind in ("soft", "hard"))  # fmt: skip
    seen = [p]
    for _ in range(3):  # a student that has learned it becomes the teacher
        seen.append(soft(seen[-1], m))
    assert [round(x[0].item(), 3) for x in seen] == [0.95, 0.663, 0.52, 0.448]
    assert hard(p, m).tolist() == [1, 0] and hard(hard(p, m), m).tolist() == [1, 0]


def test_an_unknown_pseudo_mask_is_refused(case):
    with pytest.raises(UserError, match="expected soft or hard"):
        case("method=dusss", "method.pseudo_mask=mean")


@pytest.mark.parametrize("name", BOTH)
def test_the_vision_language_model_stays_and_is_in_no_checkpoint(case, name):
    made = case(f"method={name}")
    method = made.method
    method.train()
    assert not method.vlm.training
    before = {k: v.clone() for k, v in method.vlm.state_dict().items()}
    losses = made.step()
    losses["loss"].backward()
    assert all(p.grad is None for p in method.vlm.parameters())
    learns = {id(p) for group in method.parameter_groups() for p in group["params"]}
    assert {id(p) for p in method.text_mask.parameters()} <= learns
    assert all(p.grad is not None for p in method.text_mask.parameters())
    assert not learns & {id(p) for p in method.vlm.parameters()}
    assert all(torch.equal(v, before[k]) for k, v in method.vlm.state_dict().items())
    assert set(method.state_dict()) == {"student", "teacher", "text_mask"}
    assert method.networks() == [method.student]  # a prediction needs no other


def test_it_starts_from_the_pre_trained_model(case):
    method, other = case("method=dusss").method, case("method=vlm_pretraining", "vlm=dusss").method
    with torch.no_grad():
        for p in other.student.to_whole.parameters():
            p.fill_(0.5)
    method.start_from("vlm", other.weights())
    state = method.vlm.trainable_state()
    assert all(torch.equal(v, state[k]) for k, v in other.student.trainable_state().items())
    assert not any(p.requires_grad for p in method.vlm.parameters())
    with pytest.raises(UserError, match="these weights are not of this AMVLM"):
        case("method=amvlm").method.start_from("vlm", other.weights())


@pytest.mark.parametrize("name", BOTH)
def test_the_pre_training_is_of_all_images_and_shared_by_ratios(compose_smoke, name):
    found = []
    for ratio in ("1pct", "15pct"):
        ((key, other),) = needed(compose_smoke(f"method={name}", f"ratio={ratio}"))
        plain = resolved(other)
        assert key == "vlm" and plain["ratio"]["fraction"] == 1.0
        assert plain["method"]["_target_"].endswith("VLMPretraining")
        assert plain["trainer"]["patience"] is None and plain["trainer"]["epochs"] == 2
        assert name in plain["method"]["model"]["_target_"]
        found.append(plain["method"] | {"trainer": plain["trainer"]})
    assert found[0] == found[1]


def test_as_released_reaches_the_pre_training(compose_smoke):
    ((_, other),) = needed(compose_smoke("method=dusss", "method.as_released=true"))
    assert resolved(other)["method"]["model"]["as_released"] is True


def test_any_network_can_be_the_student(case):
    made = case("method=dusss", "model=mmi_unet")
    assert made.step()["loss"].isfinite()


def test_without_unlabeled_images_there_are_masks_alone(case):
    made = case("method=amvlm")
    losses = made.method.step(made.labeled, None, LATE)
    assert set(losses) == {"loss", "loss_sup"}
