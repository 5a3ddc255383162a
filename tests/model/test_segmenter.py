import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.segmenter import TextInput

TEXTS = ["upper left lung", "lower right lung, two areas"]


def test_text_input_moves_only_what_it_holds():
    moved = TextInput(input_ids=None, attention_mask=None, rows=torch.tensor([1])).to("meta")
    assert moved.rows.device.type == "meta"
    assert moved.input_ids is None and moved.attention_mask is None


def test_twin_shares_a_frozen_text_encoder_and_copies_the_rest(tiny_model):
    model = tiny_model()
    twin = model.twin()
    assert twin.text_encoder is model.text_encoder
    ours = {id(p) for p in model.image_encoder.parameters()}
    assert ours.isdisjoint(id(p) for p in twin.image_encoder.parameters())
    assert not twin.training and not any(p.requires_grad for p in twin.parameters())
    assert model.training and any(p.requires_grad for p in model.parameters())


def test_twin_copies_a_trainable_text_encoder(tiny_model, option):
    model = tiny_model(text_encoder=option("text_encoder", "tiny", frozen=False, cache=False))
    twin = model.twin()
    assert twin.text_encoder is not model.text_encoder
    assert all(p.requires_grad for p in model.text_encoder.parameters())
    assert not any(p.requires_grad for p in twin.text_encoder.parameters())


def test_twin_predicts_the_same_and_does_not_follow(tiny_model):
    model = tiny_model().eval()
    twin = model.twin()
    image, text = torch.randn(2, 1, 96, 96), model.encode_text(model.prepare_text(TEXTS))
    before = twin(image, text)
    torch.testing.assert_close(model(image, text), before, rtol=0, atol=0)
    with torch.no_grad():
        model.head.out.bias += 1
    torch.testing.assert_close(twin(image, text), before, rtol=0, atol=0)


def test_trainable_state_leaves_out_a_frozen_text_encoder_but_keeps_buffers(tiny_model):
    model = tiny_model()
    model.prepare_text(TEXTS)
    state = model.trainable_state()
    assert not [key for key in state if key.startswith("text_encoder")]
    assert "decoder.0.norm.running_mean" in state
    assert list(model.twin().trainable_state()) == list(state)


def test_trainable_state_holds_a_trained_text_encoder(tiny_model, option):
    model = tiny_model(text_encoder=option("text_encoder", "tiny", frozen=False, cache=False))
    assert "text_encoder.words.weight" in model.trainable_state()


def test_trainable_state_survives_a_round_trip(tiny_model):
    torch.manual_seed(0)
    one, two = tiny_model(), tiny_model()
    two.load_trainable_state(one.trainable_state())
    for key, value in one.state_dict().items():
        torch.testing.assert_close(two.state_dict()[key], value, rtol=0, atol=0)


def test_state_of_another_model_is_refused_by_name_and_shape(tiny_model, option):
    wide = tiny_model(image_encoder=option("image_encoder", "tiny", widths=[8, 8, 16, 32]))
    state = wide.trainable_state()
    del state["head.out.bias"]
    state["surplus"] = torch.zeros(1)
    model = tiny_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(
        UserError, match=r"head.out.bias is missing; surplus is not in this model"
    ) as e:
        model.load_trainable_state(state)
    assert "instead of" in str(e.value) and "more" in str(e.value)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
