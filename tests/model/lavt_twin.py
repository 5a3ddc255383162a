"""LAVT once more, from its description: functions on tensors with the published names."""

from __future__ import annotations

import torch
import torch.nn.functional as F

DEPTHS = (2, 2, 6, 2)


def named(s, name):
    return s[f"{name}.weight"], s[f"{name}.bias"]


def norm(x, s, name):
    return F.layer_norm(x, x.shape[-1:], *named(s, name), 1e-5)


def window_attention(x, s, name, *, heads, window, places, wrapped):
    """One window (B, N, C) with the places (row, column) of its tokens, one head at a time.

    Two tokens see each other as usual only if the shift has wrapped both or neither.
    """
    c = x.shape[-1]
    d = c // heads
    q, k, v = F.linear(x, *named(s, f"{name}.qkv")).split(c, -1)
    table = s[f"{name}.relative_position_bias_table"]
    bias = x.new_zeros(heads, len(places), len(places))
    for i, (row, column) in enumerate(places):
        for j, (other_row, other_column) in enumerate(places):
            at = (row - other_row + window - 1) * (2 * window - 1)
            bias[:, i, j] = table[at + column - other_column + window - 1]
            if wrapped[i] != wrapped[j]:
                bias[:, i, j] -= 100
    out = []
    for h in range(heads):
        a = slice(h * d, (h + 1) * d)
        out.append(((q[..., a] @ k[..., a].mT) / d**0.5 + bias[h]).softmax(-1) @ v[..., a])
    return F.linear(torch.cat(out, -1), *named(s, f"{name}.proj"))


def swin_block(x, s, name, *, heads, window, shift):
    """(B, H, W, C), window by window."""
    _, height, width, _ = x.shape
    high, wide = (-(-side // window) * window for side in (height, width))
    padded = x.new_zeros(len(x), high, wide, x.shape[-1])
    padded[:, :height, :width] = norm(x, s, f"{name}.norm1")
    update = torch.zeros_like(padded)
    places = [(r, c) for r in range(window) for c in range(window)]
    for top in range(0, high, window):
        for left in range(0, wide, window):
            moved = [(top + r + shift, left + c + shift) for r, c in places]
            rows = torch.tensor([r % high for r, _ in moved])
            columns = torch.tensor([c % wide for _, c in moved])
            update[:, rows, columns] = window_attention(
                padded[:, rows, columns],
                s,
                f"{name}.attn",
                heads=heads,
                window=window,
                places=places,
                wrapped=[(r >= high, c >= wide) for r, c in moved],
            )
    x = x + update[:, :height, :width]
    hidden = F.gelu(F.linear(norm(x, s, f"{name}.norm2"), *named(s, f"{name}.mlp.fc1")))
    return x + F.linear(hidden, *named(s, f"{name}.mlp.fc2"))


def merge(x, s, name):
    """Patch merging of (B, H, W, C)."""
    _, height, width, _ = x.shape
    x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    corners = [x[:, row::2, column::2] for row, column in ((0, 0), (1, 0), (0, 1), (1, 1))]
    return F.linear(norm(torch.cat(corners, -1), s, f"{name}.norm"), s[f"{name}.reduction.weight"])


def blocks(x, s, stage, *, heads, window):
    for j in range(DEPTHS[stage]):
        shift = window // 2 if j % 2 else 0
        name = f"backbone.layers.{stage}.blocks.{j}"
        x = swin_block(x, s, name, heads=heads, window=window, shift=shift)
    return x


def embed(image, s):
    x = F.conv2d(image, *named(s, "backbone.patch_embed.proj"), stride=4)
    return norm(x.permute(0, 2, 3, 1), s, "backbone.patch_embed.norm")


def instance_norm(x):
    """Over the places of (B, C, N)."""
    centered = x - x.mean(2, keepdim=True)
    return centered / (centered.square().mean(2, keepdim=True) + 1e-5).sqrt()


def pwam(x, words, mask, s, name):
    """x (B, C, N), words (B, D, L), mask (B, L) of 0 and 1 -> (B, C, N)."""
    attention = f"{name}.image_lang_att"
    vis = F.gelu(F.conv1d(x, *named(s, f"{name}.vis_project.0")))
    q = instance_norm(F.conv1d(x, *named(s, f"{attention}.f_query.0")))
    k = F.conv1d(words, *named(s, f"{attention}.f_key.0")) * mask[:, None]
    v = F.conv1d(words, *named(s, f"{attention}.f_value.0")) * mask[:, None]
    scores = torch.einsum("bcn,bcl->bnl", q, k) / x.shape[1] ** 0.5
    scores = scores + (1e4 * mask - 1e4)[:, None]
    read = torch.einsum("bnl,bcl->bcn", scores.softmax(-1), v)
    o = instance_norm(F.conv1d(read, *named(s, f"{attention}.W.0")))
    return F.gelu(F.conv1d(vis * o, *named(s, f"{name}.project_mm.0")))


def decode(maps, s):
    y1, y2, y3, y = maps
    for level, skip in ((4, y3), (3, y2), (2, y1)):
        y = F.interpolate(y, skip.shape[-2:], mode="bilinear", align_corners=True)
        y = torch.cat([y, skip], 1)
        for half in (1, 2):
            bn = f"classifier.bn{half}_{level}"
            y = F.conv2d(y, s[f"classifier.conv{half}_{level}.weight"], padding=1)
            mean, var = (s[f"{bn}.running_{k}"][:, None, None] for k in ("mean", "var"))
            weight, bias = (t[:, None, None] for t in named(s, bn))
            y = F.relu((y - mean) / (var + 1e-5).sqrt() * weight + bias)
    return F.conv2d(y, *named(s, "classifier.conv1_1"))


def lavt(image, words, mask, s, *, heads, window):
    """Two-class logits, and the four maps that the decoder gets."""
    words, mask = words.mT, mask.to(words.dtype)
    maps, x = [], embed(image, s)
    for stage in range(4):
        layer = f"backbone.layers.{stage}"
        x = blocks(x, s, stage, heads=heads[stage], window=window)
        size, tokens = x.shape[1:3], x.flatten(1, 2)
        found = pwam(tokens.mT, words, mask, s, f"{layer}.fusion").mT
        y = norm(found, s, f"backbone.norm{stage}")
        maps.append(y.mT.unflatten(2, size))
        if stage < 3:
            gate = F.linear(found, s[f"{layer}.res_gate.0.weight"]).relu()
            gate = F.linear(gate, s[f"{layer}.res_gate.2.weight"]).tanh()
            x = (tokens + gate * found).unflatten(1, size)
            x = merge(x, s, f"{layer}.downsample")
    classes = decode(maps, s)
    return F.interpolate(classes, image.shape[-2:], mode="bilinear", align_corners=True), maps
