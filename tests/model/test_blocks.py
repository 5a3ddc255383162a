import math

import torch
import torch.nn.functional as F
from torch import nn

from semimedref.model import blocks
from semimedref.model.blocks import Attention, SubPixelHead, UpBlock, position_code_2d


def _as_torch_attention(ours: Attention) -> nn.MultiheadAttention:
    width = ours.out_proj.in_features
    theirs = nn.MultiheadAttention(width, ours.heads, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    return theirs


def test_attention_equals_torch_multihead_attention():
    torch.manual_seed(0)
    ours = Attention(12, heads=3, dropout=0.0)
    nn.init.normal_(ours.in_proj_bias)
    theirs = _as_torch_attention(ours)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    mask = torch.rand(2, 7) > 0.4
    mask[:, 0] = True
    torch.testing.assert_close(ours(x, x), theirs(x, x, x)[0])
    expected = theirs(x, memory, memory, key_padding_mask=~mask)[0]
    torch.testing.assert_close(ours(x, memory, mask), expected)


def test_attention_drops_weights_only_in_training():
    ours = Attention(8, heads=2, dropout=0.9)
    x = torch.randn(1, 6, 8)
    assert not torch.equal(ours(x, x), ours(x, x))
    ours.eval()
    assert torch.equal(ours(x, x), ours(x, x))


def test_dropped_weights_on_a_cpu_equal_a_slow_twin_forward_and_backward(monkeypatch):
    torch.manual_seed(0)
    ours = Attention(12, heads=3, dropout=0.25)
    ours.image_by_image = True
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    mask = torch.rand(2, 7) > 0.4
    mask[:, 0] = True
    kept = torch.rand(3, 5, 7) > 0.25
    monkeypatch.setattr(blocks, "_kept", lambda shape, dropout: kept)
    parts = [w.unflatten(0, (3, 4)) for w in ours.in_proj_weight.chunk(3)]
    q, k, v = (
        torch.einsum("bnc,hdc->bhnd", a, w) for a, w in zip((x, memory, memory), parts, strict=True)
    )
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / 2  # the root of four channels a head
    scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    weights = scores.softmax(-1) * kept / 0.75
    expected = ours.out_proj(torch.einsum("bhnm,bhmd->bnhd", weights, v).flatten(2))
    found = ours(x, memory, mask)
    torch.testing.assert_close(found, expected)
    both = [torch.autograd.grad(y.square().sum(), [ours.in_proj_weight]) for y in (found, expected)]
    torch.testing.assert_close(*both)


def test_a_share_of_the_weights_is_dropped_anew_each_time():
    torch.manual_seed(0)
    one, other = (blocks._kept(torch.Size((3, 1000, 333)), 0.1) for _ in range(2))
    assert abs(float(one.float().mean()) - 0.9) < 1e-3 and not torch.equal(one, other)
    together = float((one & other).float().mean())
    assert abs(together - 0.81) < 2e-3  # independent of each other


def test_position_code_has_rows_then_columns():
    code = position_code_2d(2, 3, 8, torch.device("cpu"))
    assert code.shape == (6, 8)
    w = 10000 ** (-1 / 2)  # second of two speeds
    row, column = 1, 2
    expected = [math.sin(row), math.sin(row * w), math.cos(row), math.cos(row * w)]
    expected += [math.sin(column), math.sin(column * w), math.cos(column), math.cos(column * w)]
    torch.testing.assert_close(code[row * 3 + column], torch.tensor(expected))


def test_up_block_concatenates_upsampled_before_skip():
    torch.manual_seed(0)
    block = UpBlock(6, 4).eval()
    x, skip = torch.randn(1, 6, 3, 3), torch.randn(1, 4, 6, 6)
    up = F.conv_transpose2d(x, block.up.weight, block.up.bias, stride=2)
    joined = F.conv2d(torch.cat([up, skip], 1), block.conv.weight, block.conv.bias, padding=1)
    torch.testing.assert_close(block(x, skip), F.relu(joined / math.sqrt(1 + 1e-5)))


def test_sub_pixel_head_equals_its_four_steps_one_by_one():
    torch.manual_seed(0)
    head = SubPixelHead(8)
    nn.init.normal_(head.conv.weight)
    x = torch.randn(2, 8, 5, 6)
    y = F.conv2d(x, head.conv.weight, head.conv.bias, padding=1)  # (2, 2 * 16, 5, 6)
    fine = torch.zeros(2, 2, 20, 24)
    for i in range(4):
        for j in range(4):
            fine[:, :, i::4, j::4] = y[:, [i * 4 + j, 16 + i * 4 + j]]
    blurred = torch.zeros_like(fine)
    for row in range(20):
        for column in range(24):
            window = fine[:, :, max(0, row - 3) : row + 1, max(0, column - 3) : column + 1]
            blurred[:, :, row, column] = window.sum((2, 3)) / 16
    expected = F.conv2d(blurred, head.out.weight, head.out.bias)
    torch.testing.assert_close(head(x), expected, atol=1e-5, rtol=1e-5)


def test_sub_pixel_filters_start_equal_in_groups_of_sixteen():
    torch.manual_seed(0)
    head = SubPixelHead(96)
    groups = head.conv.weight.unflatten(0, (24, 16))
    assert torch.equal(groups, groups[:, :1].expand_as(groups))
    assert not torch.equal(groups[0], groups[1])
    assert abs(groups[:, 0].std().item() - math.sqrt(2 / 864)) < 0.001
