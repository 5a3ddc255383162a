"""LViT written once more, with plain functions and the published names."""

import torch
import torch.nn.functional as F


class Twin:
    """The published data flow, step by step, on a state dict with the published names."""

    def __init__(self, state, *, training=False):
        self.p, self.training = state, training

    def bn(self, x, key):
        shape = [1, -1] + [1] * (x.dim() - 2)
        mean, var = self.p[f"{key}.running_mean"], self.p[f"{key}.running_var"]
        if self.training:
            axes = [0, *range(2, x.dim())]
            mean, var = x.mean(axes), x.var(axes, unbiased=False)
        x = (x - mean.view(shape)) / (var.view(shape) + 1e-5).sqrt()
        return x * self.p[f"{key}.weight"].view(shape) + self.p[f"{key}.bias"].view(shape)

    def conv(self, x, key, **how):
        weight, bias = self.p[f"{key}.weight"], self.p.get(f"{key}.bias")
        return (F.conv2d if x.dim() == 4 else F.conv1d)(x, weight, bias, **how)

    def cbr(self, x, key, padding=1):
        return self.bn(self.conv(x, f"{key}.conv", padding=padding), f"{key}.norm").clamp(min=0)

    def pair(self, x, key):
        return self.cbr(self.cbr(x, f"{key}.nConvs.0"), f"{key}.nConvs.1")

    def linear(self, x, key):
        return x @ self.p[f"{key}.weight"].T + self.p[f"{key}.bias"]

    def norm(self, x, key):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return (x - mean) / (var + 1e-5).sqrt() * self.p[f"{key}.weight"] + self.p[f"{key}.bias"]

    def vit(self, x, key):
        key = f"{key}.Encoder_blocks.0"
        c, d = x.shape[-1], x.shape[-1] // 8
        qkv = self.linear(self.norm(x, f"{key}.norm1"), f"{key}.attn.qkv")
        q, k, v = qkv[..., :c], qkv[..., c : 2 * c], qkv[..., 2 * c :]
        heads = []
        for h in range(8):
            s = slice(h * d, (h + 1) * d)
            heads.append((q[..., s] @ k[..., s].mT / d**0.5).softmax(-1) @ v[..., s])
        x = x + self.linear(torch.cat(heads, -1), f"{key}.attn.proj")
        y = F.gelu(self.linear(self.norm(x, f"{key}.norm2"), f"{key}.mlp.fc1"))
        return x + F.gelu(self.linear(y, f"{key}.mlp.fc2"))

    def embed(self, x, key, patch):
        x = self.conv(x, f"{key}.embeddings.patch_embeddings", stride=patch)
        return x.flatten(2).transpose(1, 2) + self.p[f"{key}.embeddings.position_embeddings"]

    def plam(self, s, key):
        a = self.conv(s, f"{key}.conv_avg").clamp(min=0).mean(1)
        m = self.conv(s, f"{key}.conv_max").clamp(min=0).max(1).values
        y = self.linear(torch.stack([a, m, a + m], -1), f"{key}.bottleneck.0").clamp(min=0)
        return self.linear(y, f"{key}.bottleneck.2")[:, None, :, :, 0] * s

    def up(self, x, skip, key):
        x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
        return self.pair(torch.cat([self.plam(skip, f"{key}.pixModule"), x], 1), key)

    def reconstruct(self, y, key, scale):
        b, n, c = y.shape
        side = int(n**0.5)
        y = y.transpose(1, 2).reshape(b, c, side, side)
        y = y.repeat_interleave(scale, 2).repeat_interleave(scale, 3)
        return self.cbr(y, key, padding=0)

    def along(self, y, key):
        return self.cbr(y.transpose(1, 2), key).transpose(1, 2)

    def __call__(self, image, words):
        x1 = self.cbr(image, "inc")
        t = words.transpose(1, 2)
        for i in (4, 3, 2, 1):
            t = self.conv(t, f"text_module{i}", padding=1)
        x2 = self.pair(F.max_pool2d(x1, 2), "down1")
        x3 = self.pair(F.max_pool2d(x2, 2), "down2")
        x4 = self.pair(F.max_pool2d(x3, 2), "down3")
        x5 = self.pair(F.max_pool2d(x4, 2), "down4")
        text = self.cbr(t.transpose(1, 2), "downVit.CTBN3")
        y1 = self.vit(self.embed(x1, "downVit", 16) + text, "downVit")
        y2 = self.vit(self.embed(x2, "downVit1", 8), "downVit1")
        y2 = torch.cat([self.along(y2, "downVit1.CTBN"), y1], 2)
        y3 = self.vit(self.embed(x3, "downVit2", 4), "downVit2")
        y3 = torch.cat([self.along(y3, "downVit2.CTBN"), y2], 2)
        y4 = self.vit(self.embed(x4, "downVit3", 2), "downVit3")
        y4 = torch.cat([self.along(y4, "downVit3.CTBN"), y3], 2)
        down = [y1, y2, y3, y4]
        y4 = self.vit(y4, "upVit3")
        y3 = self.vit(y3, "upVit2") + self.along(y4, "upVit2.CTBN2")
        y2 = self.vit(y2, "upVit1") + self.along(y3, "upVit1.CTBN2")
        y1 = self.vit(y1, "upVit") + self.along(y2, "upVit.CTBN2")
        x = self.up(x5, x4 + self.reconstruct(y4, "reconstruct4", 2), "up4")
        x = self.up(x, x3 + self.reconstruct(y3, "reconstruct3", 4), "up3")
        x = self.up(x, x2 + self.reconstruct(y2, "reconstruct2", 8), "up2")
        x = self.up(x, x1 + self.reconstruct(y1, "reconstruct1", 16), "up1")
        up = [y1, y2, y3, y4]
        return {"maps": [x1, x2, x3, x4, x5], "down": down, "up": up, "out": self.conv(x, "outc")}
