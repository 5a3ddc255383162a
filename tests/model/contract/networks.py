"""Every network of ``conf/model`` in small, and what its specification says of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from semimedref.config import build, compose, config_dir

SENTENCES = [
    "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung.",
    "unilateral pulmonary infection, one infected area, middle right lung.",
]
COUNTED = {"text_atlas", "mean_mask"}  # no network: means of masks, with tests of their own
NAMES = sorted({p.stem for p in Path(config_dir(), "model").glob("*.yaml")} - COUNTED)

# Sides that a network takes and sides that it refuses, beside 96 and 224.
SIDES = {
    "fmiseg": ([64], [100]),
    "guide_decoder": ([64], [100]),
    "lavt": ([64, 128], [32, 100]),
    "lvit": ([64, 112], [96, 100, 128]),  # one side a network
    "mg_unet_recon": ([64], [100]),
    "mmi_unet": ([160], [64, 100, 128]),
    "plain_unet": ([64, 112], [100]),
    "rar": ([64], [100]),
    "tevid_recon": ([64], [100]),
    "textmatch_seg": ([64], [100]),
    "textmoe_seg": ([64], [100]),
    "unet": ([128], [100]),
    "vitexnet_recon": ([64], [100]),
}
# Networks in which padding takes part where the specification says so.
READ_PADDING: set[str] = {"fmiseg", "guide_decoder", "lvit", "rar", "tevid_recon", "textmoe_seg"}
# Networks whose prediction does not depend on the words.
WORDLESS = {"mg_unet_recon", "plain_unet", "unet"}
# Parts that the network's own method trains, and no labeled image alone.
TRAINED_BY_METHOD = {"textmatch_seg": "embedding."}
# Further overrides that a network needs at the smoke scale.
OVERRIDES: dict[str, list[str]] = {
    "mg_unet_recon": ["model.width=16", "model.entries=8"],
    "lvit": ["model.width=16", "text_encoder.max_tokens=24"],
}


@cache
def config(name: str, side: int = 96):
    """The composed configuration of a network with tiny encoders."""
    overrides = [
        "dataset=phantom_tiny",
        "scale=smoke",
        "text_encoder.cache=false",
        f"scale.image_side={side}",
        f"model={name}",
        *OVERRIDES.get(name, []),
    ]
    return compose(overrides)


def network(name: str, *, side: int = 96, seed: int = 0):
    """A freshly initialized network."""
    torch.manual_seed(seed)
    return build(config(name, side), "model")


def spread(model: torch.nn.Module, *, seed: int = 1) -> None:
    """Weights of ordinary size everywhere, so that no gate or layer scale hides a part."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if name.startswith("text_encoder."):
            continue
        if p.dim() < 2:
            p.data = 0.5 + 0.3 * torch.randn(p.shape, generator=generator)
    for name, b in model.named_buffers():
        if name.endswith("running_mean"):
            b.copy_(0.1 * torch.randn(b.shape, generator=generator))
        elif name.endswith("running_var"):
            b.copy_(0.5 + torch.rand(b.shape, generator=generator))


def images(n: int = 2, side: int = 96, *, seed: int = 3) -> torch.Tensor:
    """Gray images in [0, 1], from left to right ever brighter, and each noisier than the last."""
    noise = torch.rand(n, 1, side, side, generator=torch.Generator().manual_seed(seed))
    share = torch.arange(1, n + 1)[:, None, None, None] / (n + 1)
    return share * noise + (1 - share) * torch.linspace(0, 1, side)


def logits(model, image, sentences):
    """What the network says about images in [0, 1]."""
    text = model.encode_text(model.prepare_text(sentences))
    return model(model.normalized(image), text)
