"""MMI-UNet written with functions of its published tensors: no module of ours takes part."""

from __future__ import annotations

import torch
import torch.nn.functional as F


class Twin:
    """Calls by published names."""

    def __init__(self, state):
        self.s = state

    def linear(self, x, name):
        return F.linear(x, self.s[f"{name}.weight"], self.s[f"{name}.bias"])

    def norm(self, x, name, eps=1e-5):
        return F.layer_norm(x, x.shape[-1:], self.s[f"{name}.weight"], self.s[f"{name}.bias"], eps)

    def conv(self, x, name, **how):
        return F.conv2d(x, self.s[f"{name}.weight"], self.s[f"{name}.bias"], **how)

    def channel_norm(self, x, name):
        return self.norm(x.permute(0, 2, 3, 1), name, 1e-6).permute(0, 3, 1, 2)

    def attend(self, q, k, v, heads):
        b, n, c = q.shape
        q, k, v = (x.reshape(b, -1, heads, c // heads).transpose(1, 2) for x in (q, k, v))
        return lambda mask: (
            ((q @ k.mT / (c // heads) ** 0.5 + mask).softmax(-1) @ v)
            .transpose(1, 2)
            .reshape(b, n, c)
        )

    def bert(self, ids, mask):
        base = "text_encoder.model.bert."
        e = f"{base}embeddings."
        x = self.s[f"{e}word_embeddings.weight"][ids]
        x = x + self.s[f"{e}position_embeddings.weight"][: ids.shape[1]]
        x = self.norm(x + self.s[f"{e}token_type_embeddings.weight"][0], f"{e}LayerNorm", 1e-12)
        hidden = (1.0 - mask[:, None, None, :].float()) * -1e30
        for i in range(12):
            p = f"{base}encoder.layer.{i}."
            parts = (self.linear(x, f"{p}attention.self.{n}") for n in ("query", "key", "value"))
            mixed = self.linear(self.attend(*parts, 12)(hidden), f"{p}attention.output.dense")
            x = self.norm(x + mixed, f"{p}attention.output.LayerNorm", 1e-12)
            wide = F.gelu(self.linear(x, f"{p}intermediate.dense"))
            x = self.norm(x + self.linear(wide, f"{p}output.dense"), f"{p}output.LayerNorm", 1e-12)
        return x

    def stage(self, x, i):
        name = f"downsample_layers.{i}"
        if i == 0:
            x = self.channel_norm(self.conv(x, f"{name}.0", stride=4), f"{name}.1")
        else:
            x = self.conv(self.channel_norm(x, f"{name}.0"), f"{name}.1", stride=2)
        for j in range((3, 3, 9, 3)[i]):
            p = f"stages.{i}.{j}."
            y = self.conv(x, f"{p}dwconv", padding=3, groups=x.shape[1]).permute(0, 2, 3, 1)
            y = F.gelu(self.linear(self.norm(y, f"{p}norm", 1e-6), f"{p}pwconv1"))
            x = x + (self.s[f"{p}gamma"] * self.linear(y, f"{p}pwconv2")).permute(0, 3, 1, 2)
        return x

    def attention(self, x, memory, name):
        c = x.shape[-1]
        weights = self.s[f"{name}.in_proj_weight"].split(c)
        biases = self.s[f"{name}.in_proj_bias"].split(c)
        parts = map(F.linear, (x, memory, memory), weights, biases)
        return self.linear(self.attend(*parts, 8)(0.0), f"{name}.out_proj")

    def interact(self, x, memory, p):
        x = self.norm(x + self.attention(x, x, f"{p}self_attn"), f"{p}norm1")
        x = self.norm(x + self.attention(x, memory, f"{p}multihead_attn"), f"{p}norm2")
        y = self.linear(F.relu(self.linear(x, f"{p}linear1")), f"{p}linear2")
        return self.norm(x + y, f"{p}norm3")

    def match(self, x, text, level):
        p = f"fusion{level}."
        b, c, height, width = x.shape
        h, w = height // 2, width // 2
        v = F.conv2d(x, self.s[f"{p}zoom_in.weight"], stride=2).flatten(2).transpose(1, 2)
        v = self.norm(v, f"{p}ln_v")
        t = self.norm(self.linear(text, f"{p}linear1"), f"{p}ln_t")
        update = self.interact(v, t, f"{p}fusion_v.").transpose(1, 2).reshape(b, c, h, w)
        update = F.conv_transpose2d(update, self.s[f"{p}zoom_out.weight"], stride=2)
        update = F.pad(update, (0, width - 2 * w, 0, height - 2 * h))
        return x + update, text + self.linear(self.interact(t, v, f"{p}fusion_t."), f"{p}linear2")

    def up(self, x, skip, level):
        p = f"decode{level}."
        x = F.conv_transpose2d(x, self.s[f"{p}up.weight"], self.s[f"{p}up.bias"], stride=2)
        p = f"{p}conv_bn_relu."
        x = self.conv(torch.cat([x, skip], 1), f"{p}0", padding=1)
        mean, var, weight, bias = (
            self.s[f"{p}1.{n}"][:, None, None]
            for n in ("running_mean", "running_var", "weight", "bias")
        )
        return F.relu((x - mean) / (var + 1e-5).sqrt() * weight + bias)

    def __call__(self, image, ids, mask):
        text = tokens = self.bert(ids, mask)
        x, maps = image.expand(-1, 3, -1, -1), []
        for i in range(4):
            x = self.stage(x, i)
            fused, updated = self.match(x, tokens, i + 1)
            maps.append(fused)
            x, tokens = fused + x, text + updated
        x = maps.pop()
        for level in (4, 3, 2):
            x = self.up(x, maps.pop(), level)
        x = F.pixel_shuffle(self.conv(x, "decoder1.conv_block", padding=1), 4)
        x = F.avg_pool2d(F.pad(x, (3, 0, 3, 0)), 4, stride=1)
        return self.conv(x, "out.conv.conv")
