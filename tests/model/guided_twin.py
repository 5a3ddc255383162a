"""GuideDecoder and FMISeg once more, from their specification: functions of published tensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from semimedref.model.published.catalog import published_names, source_of


def published_weights(network, name):
    """The network's tensors by the names of the published checkpoint."""
    theirs = published_names(source_of(name))
    return {theirs[key]: x for key, x in network.state_dict().items() if key in theirs}


def _norm(w, key, x):
    return F.layer_norm(x, x.shape[-1:], w[f"{key}.weight"], w[f"{key}.bias"], 1e-5)


def _linear(w, key, x):
    return F.linear(x, w[f"{key}.weight"], w[f"{key}.bias"])


def _attend(w, key, q, k, v, heads):
    """PyTorch's own multi-head attention, sequence first."""
    mixed, _ = F.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (q, k, v)), q.shape[-1], heads,
        w[f"{key}.in_proj_weight"], w[f"{key}.in_proj_bias"], None, None, False, 0.0,
        w[f"{key}.out_proj.weight"], w[f"{key}.out_proj.bias"], training=False,
    )  # fmt: skip
    return mixed.transpose(0, 1)


def _place(x):
    """Tokens with the 1-D code, number by number."""
    n, d = x.shape[1:]
    table = torch.empty(n, d, dtype=torch.float64)
    for i in range(0, d, 2):
        angle = torch.arange(n, dtype=torch.float64) * math.exp(-i * math.log(10000.0) / d)
        table[:, i], table[:, i + 1] = angle.sin(), angle.cos()
    return x + table.float()


def _text(w, key, text):
    """24 positions are channels; a 25th token skips their mixing."""
    n = w[f"{key}.text_project.0.weight"].shape[1]
    t = F.conv1d(text[:, :n], w[f"{key}.text_project.0.weight"], w[f"{key}.text_project.0.bias"])
    t = torch.cat([t, text[:, n:]], 1)
    return F.leaky_relu(_linear(w, f"{key}.text_project.2", F.gelu(t)), 0.01)


def _norm2d(w, key, x):
    mean, var, weight, bias = (
        w[f"{key}.{part}"][:, None, None]
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return F.leaky_relu((x - mean) / (var + 1e-5).sqrt() * weight + bias, 0.01)


def _up(w, key, x, skip):
    up = F.conv_transpose2d(x, w[f"{key}.transp_conv.conv.weight"], stride=2)
    y = torch.cat([up, skip], 1)
    for i in (1, 2):
        y = F.conv2d(y, w[f"{key}.conv_block.conv{i}.conv.weight"], padding=1)
        y = _norm2d(w, f"{key}.conv_block.norm{i}", y)
    return y


def _head(w, suffix, x):
    block, out = f"decoder1{suffix}.conv_block", f"out{suffix}.conv.conv"
    y = F.pixel_shuffle(F.conv2d(x, w[f"{block}.weight"], w[f"{block}.bias"], padding=1), 4)
    y = F.avg_pool2d(F.pad(y, (3, 0, 3, 0)), 4, stride=1)
    return F.conv2d(y, w[f"{out}.weight"], w[f"{out}.bias"])


def _flat(x):
    return x.flatten(2).permute(0, 2, 1)


def _unflat(tokens, side):
    b, _, c = tokens.shape
    return tokens.permute(0, 2, 1).reshape(b, c, side, side)


def guide_layer(w, key, x, text):
    """Section "guide layer": tokens (B, N, C) in and out."""
    t = _text(w, key, text)
    z = _norm(w, f"{key}.norm1", x)
    a = _attend(w, f"{key}.self_attn", _place(z), _place(z), z, 1)
    x = x + _norm(w, f"{key}.self_attn_norm", a)
    z = _norm(w, f"{key}.norm2", x)
    a = _attend(w, f"{key}.cross_attn", _place(z), _place(t), t, 4)
    return x + w[f"{key}.scale"] * _norm(w, f"{key}.cross_attn_norm", a)


def lffi(w, key, x, text):
    """Section "LFFI": tokens (B, N, C) in and out."""
    t = _text(w, key, text)
    z = _norm(w, f"{key}.augment.norm", x)
    a = _attend(w, f"{key}.augment.self_attn", _place(z), _place(z), z, 1)
    v = x + _norm(w, f"{key}.augment.self_attn_norm", a)
    z = _norm(w, f"{key}.norm1", v)
    a = _attend(w, f"{key}.cross_attn1", _place(z), _place(t), t, 4)
    b = _attend(w, f"{key}.cross_attn2", _place(t), _place(z), z, 4)
    a, b = _norm(w, f"{key}.norm2", a + z), _norm(w, f"{key}.norm3", b + t)
    more = [
        _linear(w, f"{key}.{fl}.linear2", F.relu(_linear(w, f"{key}.{fl}.linear1", y)))
        for fl, y in (("fl1", a), ("fl2", b))
    ]
    a, b = _norm(w, f"{key}.norm4", more[0] + a), _norm(w, f"{key}.norm5", more[1] + b)
    columns = w[f"{key}.line.weight"].shape[1]  # none for a position token
    agree = _linear(w, f"{key}.line", torch.einsum("bnc,blc->bnl", a, b)[..., :columns])
    return v * w[f"{key}.scale"] * _norm(w, f"{key}.cross_attn_norm", a + agree)


def decode(w, maps, text, *, layer, name, suffix=""):
    """All maps of a decoder from those of the trunk: after each layer, each up block, logits."""
    f1, f2, f3, x = maps
    found = []
    for stage, skip in ((16, f3), (8, f2), (4, f1)):
        key = f"decoder{stage}{suffix}"
        guided = _unflat(layer(w, f"{key}.{name}", _flat(x), text), x.shape[-1])
        x = _up(w, f"{key}.decoder", guided, skip)
        found += [guided, x]
    return [*found, _head(w, suffix, x)]


def guide_decoder(w, maps, text):
    """The data flow of GuideDecoder."""
    return decode(w, maps, text, layer=guide_layer, name="guide_layer")


def fmiseg(w, low, high, text):
    """The data flow of FMISeg: maps of the low and of the high branch."""
    a, b = _flat(low[-1]), _flat(high[-1])
    side = low[-1].shape[-1]
    new_a = a + _attend(w, "ffbi.cross_attnl", a, b, b, 4)
    new_b = b + _attend(w, "ffbi.cross_attnh", b, a, a, 4)
    return tuple(
        decode(w, [*maps[:-1], _unflat(x, side)], text, layer=lffi, name="lffi_layer", suffix=s)
        for maps, x, s in ((low, new_a, ""), (high, new_b, "_2"))
    )
