from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

from semimedref.align.clip import CLIP
from semimedref.align.pacl import PACL
from semimedref.align.projection import projection
from semimedref.config import build
from semimedref.errors import UserError

CONF = Path(__file__).parents[2] / "conf"


def batch(n=4):
    return torch.randn(n, 12, 3, 3), torch.randn(n, 10), torch.eye(6)[torch.arange(n) % 3]


def option(name, **preset):
    return OmegaConf.create(
        {
            "align": OmegaConf.load(CONF / "align" / f"{name}.yaml"),
            "scale": {"align_width": 768},
            "preset": {**OmegaConf.load(CONF / "preset" / "paper.yaml"), **preset},
            "trusted_packages": [],
        }
    )


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_heads_have_the_published_sizes():
    linear, norm = 768 * 768 + 768, 2 * 768
    assert size(projection(768, 768, layers=1)) == linear + norm == 592_128
    assert size(projection(768, 768, layers=2)) == 2 * linear + norm == 1_182_720


def test_heads_have_the_published_layers():
    assert [type(m) for m in projection(4, 4, layers=1)] == [nn.Linear, nn.LayerNorm]
    text = [nn.Linear, nn.LayerNorm, nn.GELU, nn.Linear]
    assert [type(m) for m in projection(4, 4, layers=2)] == text


def test_image_embedding_sees_the_global_average_only(alignment):
    pacl, (image_map, _, _) = alignment(PACL), batch()
    flat = image_map.mean((2, 3), keepdim=True).expand(-1, -1, 5, 5)
    torch.testing.assert_close(pacl.embed_image(image_map), pacl.embed_image(flat))


@pytest.mark.parametrize("kind", [PACL, CLIP])
def test_gradient_reaches_both_heads_and_both_inputs(alignment, kind):
    pacl, (image_map, pooled, q) = alignment(kind), batch()
    image_map.requires_grad_()
    pooled.requires_grad_()
    loss = pacl(image_map, pooled, q)
    loss.backward()
    assert loss.shape == ()
    for tensor in (image_map, pooled, *pacl.parameters()):
        assert tensor.grad is not None
        # A bias behind the text head's last layer moves all texts alike, but not by the same angle.
        assert tensor.grad.abs().max() > 0


def test_training_on_the_loss_orders_texts_by_shared_regions(alignment):
    torch.manual_seed(0)
    q = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 1]]).repeat(2, 1)
    image_map, pooled = torch.randn(6, 12, 1, 1), torch.randn(6, 10)
    pacl = alignment(PACL, temperature=0.2)
    optimizer = torch.optim.Adam(pacl.parameters(), lr=0.01)
    for _ in range(150):
        optimizer.zero_grad()
        pacl(image_map, pooled, q).backward()
        optimizer.step()
    v, u = pacl.embed_image(image_map), pacl.embed_text(pooled)
    same, partial, none = (nn.functional.cosine_similarity(v[0], u[i], dim=0) for i in (3, 1, 2))
    assert same > partial + 0.05
    assert partial > none + 0.2


@pytest.mark.parametrize(
    ("start", "nested", "in_burn_in", "expected"),
    [
        ("burn_in", False, True, (0.0, 0.0)),
        ("burn_in", False, False, (0.02, 0.10)),
        ("first_step", True, True, (0.02, 0.0)),
        ("first_step", True, False, (0.02, 0.03)),  # 0.10 x lambda_u = 0.3
    ],
)
def test_weights_of_both_branches_follow_the_preset(alignment, start, nested, in_burn_in, expected):
    found = alignment(PACL, start=start, nested=nested).weights(in_burn_in=in_burn_in, lambda_u=0.3)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_feature": "fused"}, "align.image_feature=fused is unknown: expected pre_fusion"),
        ({"start": "epoch 0"}, "align.start=epoch 0 is unknown: expected burn_in or first_step"),
        ({"temperature": 0.0}, "align.temperature=0.0: expected a number above 0"),
    ],
)
def test_unknown_setting_is_refused_in_one_line(alignment, changes, message):
    with pytest.raises(UserError, match=message):
        alignment(PACL, **changes)


@pytest.mark.parametrize(("name", "kind"), [("pacl", PACL), ("clip", CLIP)])
def test_option_waits_for_the_widths_of_the_network(name, kind):
    made = build(option(name), "align")(image_width=12, text_width=10)
    assert type(made) is kind
    assert (made.temperature, made.weight_labeled, made.weight_unlabeled) == (0.07, 0.02, 0.10)
    assert (made.image_feature, made.start, made.nested) == ("pre_fusion", "burn_in", False)
    assert made.image_head[0].weight.shape == (768, 12)
    assert made.text_head[0].weight.shape == (768, 10)


def test_release_preset_changes_view_start_and_nesting():
    preset = {"pacl_image_feature": "post_fusion", "pacl_start": "first_step", "pacl_nested": True}
    made = build(option("pacl", **preset), "align")(image_width=12, text_width=10)
    assert (made.image_feature, made.start, made.nested) == ("post_fusion", "first_step", True)


def test_options_differ_in_the_affinity_alone():
    pacl, clip = (
        OmegaConf.to_container(OmegaConf.load(CONF / "align" / f"{n}.yaml"))
        for n in ("pacl", "clip")
    )
    assert {key for key in pacl | clip if pacl[key] != clip[key]} == {"_target_"}
