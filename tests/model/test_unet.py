import pytest
import torch

from semimedref.errors import UserError
from semimedref.model.unet import UNet

pytestmark = pytest.mark.slow

WIDTHS = [16, 8, 8, 4, 4]


@pytest.fixture
def unet(option):
    def build(encoder=None, *, image_side=96, widths=WIDTHS):
        encoder = encoder or option("image_encoder", "tiny")
        return UNet(encoder, image_side=image_side, widths=widths)

    return build


def ask(model, image, sentence="upper left lung"):
    return model(image, model.encode_text(model.prepare_text([sentence] * len(image))))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (64, 96), (128, 160), (224, 224)])
def test_logits_have_the_size_of_the_image(unet, height, width):
    assert ask(unet().eval(), torch.randn(1, 1, height, width)).shape == (1, 1, height, width)


def test_it_takes_an_encoder_that_expects_three_channels(unet, option):
    encoder = option("image_encoder", "efficientnet_lite0", weights="random")
    model = unet(encoder).eval()
    assert ask(model, torch.randn(2, 1, 64, 64)).shape == (2, 1, 64, 64)


def test_the_sentence_does_not_matter_and_the_image_does(unet):
    model, image = unet().eval(), torch.randn(2, 1, 96, 96)
    one = ask(model, image)
    assert torch.equal(one, ask(model, image, "bilateral, lower right lung"))
    assert not torch.equal(one[0], one[1])


def test_gradient_reaches_every_parameter(unet):
    model = unet()
    ask(model, torch.randn(2, 1, 96, 96)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_every_level_of_the_trunk_is_a_skip(unet):
    model = unet().eval()
    found = model.image_encoder(torch.randn(1, 1, 96, 96))
    maps = [m.detach().requires_grad_() for m in found]
    model.image_encoder.forward = lambda image: list(maps)
    ask(model, torch.randn(1, 1, 96, 96)).sum().backward()
    assert [m.shape[-1] for m in maps] == [24, 12, 6, 3]
    assert all(m.grad.abs().sum() > 0 for m in maps)


@pytest.mark.parametrize(
    ("side", "nearest"),
    [(16, "image_side=32"), (100, "image_side=96 or scale.image_side=128")],
)
def test_an_impossible_side_is_refused_with_the_nearest_ones(unet, side, nearest):
    with pytest.raises(UserError, match=f"cannot take images of {side} px.*{nearest}$"):
        unet(image_side=side)
    with pytest.raises(UserError, match=nearest):
        ask(unet(), torch.zeros(1, 1, 96, side))


def test_another_number_of_widths_is_refused(unet):
    with pytest.raises(UserError, match="expected 5 numbers"):
        unet(widths=[8, 8, 8])


def test_a_twin_and_a_checkpoint_predict_the_same(unet):
    model, image = unet().eval(), torch.randn(2, 1, 96, 96)
    twin, other = model.twin(), unet().eval()
    other.load_trainable_state(model.trainable_state())
    assert torch.equal(ask(model, image), ask(twin, image))
    assert torch.equal(ask(model, image), ask(other, image))
    assert not any(p.requires_grad for p in twin.parameters())


@pytest.mark.parametrize("method", ["supervised", "teacher_student"])
def test_a_run_loads_no_text_encoder_and_its_text_gap_is_zero(compose_smoke, tmp_path, method):
    import json

    from semimedref.run import run

    short = ["scale.epochs=2", "scale.steps_per_epoch=2", f"model.widths={WIDTHS}"]
    absent = ["text_encoder=minilm", "text_encoder.weights=/nowhere"]
    run(compose_smoke("model=unet", f"method={method}", *short, *absent))
    (file,) = (tmp_path / "multirun").glob("*/result.json")
    test = json.loads(file.read_text())["test"]
    assert test["text_gap"] == 0.0 and test["dice"] == test["dice_shuffled"]
    assert f"-unet-{method}-" in file.parent.name


def test_t_patchmix_runs_without_words(compose_smoke, tmp_path):
    from semimedref.run import Parts

    cfg = compose_smoke("model=unet", "augment=t_patchmix_hybrid", f"model.widths={WIDTHS}",
                        "scale.schedule.burn_in=0")  # fmt: skip
    trainer = Parts.build(cfg).trainer(tmp_path, lambda: None)
    trainer._optimize(trainer.data[0])
    assert trainer.counts["loss_unsup"] == 1
