"""One contract for every network: what methods, trainer and evaluation rely on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from networks import (
    NAMES,
    READ_PADDING,
    SENTENCES,
    SIDES,
    TRAINED_BY_METHOD,
    WORDLESS,
    images,
    logits,
    network,
    spread,
)

from semimedref.errors import UserError
from semimedref.method.segmentation_loss import SegmentationLoss

pytestmark = pytest.mark.slow

SHARED = SegmentationLoss(cross_entropy=True, smooth=1e-5)
every_network = pytest.mark.parametrize("name", NAMES)
every_reader = pytest.mark.parametrize("name", [n for n in NAMES if n not in WORDLESS])


@pytest.fixture(scope="module")
def ready():
    """Networks with weights of ordinary size, in evaluation mode, built once."""
    known = {}

    def get(name):
        if name not in known:
            known[name] = network(name)
            spread(known[name])
        return known[name].eval()

    return get


@every_network
@torch.no_grad()
def test_logits_are_finite_and_as_large_as_the_image(name, ready):
    found = logits(ready(name), images(), SENTENCES)
    assert found.shape == (2, 1, 96, 96)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    assert found.std() > 1e-4


@every_network
@torch.no_grad()
def test_sides_are_taken_or_refused_with_the_nearest_ones(name):
    taken, refused = SIDES[name]
    for side in [*taken, 224]:
        model = network(name, side=side).eval()
        assert logits(model, images(1, side), SENTENCES[:1]).shape == (1, 1, side, side)
    for side in refused:
        with pytest.raises(UserError, match=rf"{side} px.*scale\.image_side="):
            model.check_side(side)


@every_network
def test_a_labeled_step_reaches_every_parameter_that_learns(name):
    model = network(name).train()
    spread(model)
    text = model.encode_text(model.prepare_text(SENTENCES))
    target = (images(seed=9) > 0.7).float()
    outputs = model.outputs(model.normalized(images()), text)
    model.objective(outputs, target, SHARED).backward()
    for key, p in model.named_parameters():
        if p.requires_grad and not key.startswith(TRAINED_BY_METHOD.get(name, "-")):
            assert p.grad is not None, key
            assert p.grad.isfinite().all(), key


@every_network
@torch.no_grad()
def test_the_loss_of_a_batch_reads_each_image_with_its_own_mask(name):
    model = network(name).train()  # batch statistics keep the maps at an ordinary size
    target = (images(seed=9) > 0.7).float()
    text = model.encode_text(model.prepare_text(SENTENCES))
    outputs = model.outputs(model.normalized(images()), text)
    whole = model.objective(outputs, target, SHARED)
    swapped = model.objective(outputs, target.flip(0), SHARED)
    assert whole.shape == () and whole.isfinite()
    assert whole != swapped
    first, second = outputs.split(1)
    assert torch.equal(torch.cat([first.logits, second.logits]), outputs.logits)
    assert model.objective(first, target[:1], SHARED).isfinite()


@every_network
@torch.no_grad()
def test_all_outputs_hold_the_logits_that_are_predicted(name, ready):
    model = ready(name)
    text = model.encode_text(model.prepare_text(SENTENCES))
    outputs = model.outputs(model.normalized(images()), text)
    assert torch.allclose(outputs.logits, logits(model, images(), SENTENCES), atol=1e-5)
    assert all(len(value) == 2 for value in outputs.extra.values())


@every_network
@torch.no_grad()
def test_evaluation_is_deterministic_and_images_do_not_look_at_each_other(name, ready):
    model = ready(name)
    both = logits(model, images(), SENTENCES)
    assert torch.equal(both, logits(model, images(), SENTENCES))
    alone = logits(model, images()[1:], SENTENCES[1:])
    assert torch.allclose(both[1:], alone, atol=2e-4, rtol=1e-4)


@every_reader
@torch.no_grad()
def test_words_matter(name, ready):
    model = ready(name)
    other = logits(model, images(), SENTENCES[::-1])
    assert (logits(model, images(), SENTENCES) - other).abs().max() > 1e-4


@every_network
@torch.no_grad()
def test_padding_changes_nothing_unless_the_specification_says_so(name, ready):
    model = ready(name)
    image = model.normalized(images())
    text = model.encode_text(model.prepare_text(SENTENCES))
    tokens = torch.where(text.mask[..., None], text.tokens, text.tokens + 3.0)
    changed = (model(image, text) - model(image, replace(text, tokens=tokens))).abs().max()
    if name in READ_PADDING:
        assert changed > 1e-4
    else:
        assert changed < 1e-5


@every_network
@torch.no_grad()
def test_a_state_dict_makes_another_network_the_same(name, ready):
    model = ready(name)
    other = network(name, seed=5).eval()
    other.load_trainable_state(model.trainable_state())
    found = logits(other, images(), SENTENCES)
    assert torch.equal(found, logits(model, images(), SENTENCES))
    twin = model.twin()
    assert torch.equal(found, logits(twin, images(), SENTENCES))
    assert not any(p.requires_grad for p in twin.parameters())


@every_network
@torch.no_grad()
def test_bfloat16_changes_probabilities_by_little(name):
    model = network(name).eval()
    exact = logits(model, images(), SENTENCES).sigmoid()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = logits(model, images(), SENTENCES).float().sigmoid()
    assert (exact - rounded).abs().max() < 0.05


@every_reader
@torch.no_grad()
def test_pacl_gets_maps_before_and_after_the_words(name, ready):
    model = ready(name)
    image = model.normalized(images())
    text = model.encode_text(model.prepare_text(SENTENCES))
    other = model.encode_text(model.prepare_text(SENTENCES[::-1]))
    before = model.image_features(image)
    after = model.fused_features(image, text)
    assert before.dim() == after.dim() == 4
    assert before.shape[:2] == (2, model.feature_width("pre_fusion"))
    assert after.shape[:2] == (2, model.feature_width("post_fusion"))
    assert (after - model.fused_features(image, other)).abs().max() > 1e-5


@every_reader
@torch.no_grad()
def test_a_position_token_is_read_or_refused(name, ready):
    model = ready(name)
    if not model.takes_position_token:
        return
    image = model.normalized(images())
    text = model.encode_text(model.prepare_text(SENTENCES))

    def guided(value):
        token = torch.full_like(text.tokens[:, :1], value)
        return replace(
            text,
            tokens=torch.cat([text.tokens, token], 1),
            mask=torch.cat([text.mask, text.mask.new_ones(2, 1)], 1),
        )

    found = model(image, guided(0.5))
    assert found.shape == (2, 1, 96, 96)
    assert (found - model(image, guided(-0.5))).abs().max() > 1e-5


@every_network
@torch.no_grad()
def test_dropped_features_change_a_pass_and_leave_no_trace(name, ready):
    model = ready(name)
    before = logits(model, images(), SENTENCES)
    torch.manual_seed(0)
    with model.dropped_features(0.5):
        assert not torch.allclose(logits(model, images(), SENTENCES), before)
    assert torch.equal(logits(model, images(), SENTENCES), before)
