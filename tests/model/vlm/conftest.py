"""Small vision-language models and what they are given."""

from types import SimpleNamespace

import pytest
import torch

from semimedref.config import build, compose
from semimedref.model.vlm.vlm import Slow

SENTENCES = [
    "unilateral pulmonary infection, one infected area, upper left lung.",
    "bilateral pulmonary infection, two infected areas, upper left lung and lower right lung.",
    "unilateral pulmonary infection, two infected areas, middle lower right lung.",
]
SMALL = ["dataset=phantom_tiny", "scale=smoke", "vlm.dropout=0"]


@pytest.fixture
def made():
    """A model, its twin, two views of three images and their sentences."""

    def make(name, *overrides):
        cfg = compose([*SMALL, "method=vlm_pretraining", f"vlm={name}", *overrides])
        torch.manual_seed(0)
        model = build(cfg, "vlm")
        slow = model.twin()
        with torch.no_grad():  # a twin that is not the model; a frozen text encoder is shared
            for value in slow.trainable_state().values():
                value.add_(0.05 * torch.randn_like(value)) if value.dim() > 1 else None
        g = torch.Generator().manual_seed(1)
        image, other = (
            torch.randn(3, 1, 96, 96, generator=g),
            torch.randn(3, 1, 96, 96, generator=g),
        )
        text = model.encode_text(model.prepare_text(SENTENCES))
        with torch.no_grad():
            told = Slow(slow.see(other), slow.read(slow.encode_text(slow.prepare_text(SENTENCES))))
        return SimpleNamespace(model=model.eval(), slow=slow, image=image, text=text, told=told)

    return make
