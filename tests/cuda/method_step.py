"""The real step of a configuration on fake CUDA tensors; see fake_cuda.py."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from fake_cuda import DEVICE, fake_step_check

from semimedref.augment.plan import Plan
from semimedref.combinations import check_combination
from semimedref.config import build, compose, resolved
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.method.schedule import Progress
from semimedref.model.encoders.no_text import NoText
from semimedref.model.segmenter import Segmenter, TextInput

SMALL = ["scale=smoke", "text_encoder.cache=false", "text_encoder.dropout=true"]
LIGHT = [*SMALL, "model._target_=method_step.LightNet", "trusted_packages=[method_step]"]
PAPER = ["scale=paper", "text_encoder.weights=random"]
CONVNEXT = "image_encoder.weights=random"
SIZES = {"paper": [*PAPER, CONVNEXT], "own encoder": PAPER, "small": SMALL, "light": LIGHT}
AFTER_BURN_IN = Progress(step=16000, steps_per_epoch=176, total_steps=17600)


class LightNet(Segmenter):
    """The real encoders with hardly any decoder: most operations are those of the method."""

    def __init__(self, image_encoder, text_encoder, **sizes):
        super().__init__()
        self.image_encoder, self.text_encoder = image_encoder, text_encoder
        self.words = torch.nn.Linear(text_encoder.width, image_encoder.widths[-1])
        self.mask = torch.nn.Conv2d(image_encoder.widths[-1], 1, 1)

    def image_features(self, image):
        return self.image_encoder(image)[-1]

    def fused_features(self, image, text):
        return self.image_features(image) + self.words(text.tokens.mean(1))[:, :, None, None]

    def forward(self, image, text):
        return F.interpolate(self.mask(self.fused_features(image, text)), image.shape[-2:])

    def check_side(self, side):
        pass


def text_of(n, method):
    """What the method's text encoder would make of n sentences."""
    encoder = getattr(method.student, "text_encoder", None)
    if isinstance(encoder, NoText):
        nothing = torch.zeros(n, dtype=torch.int64, device=DEVICE)
        return TextInput(input_ids=None, attention_mask=None, rows=nothing)
    tokens = getattr(encoder, "max_pieces", getattr(encoder, "max_tokens", 24))
    return TextInput(
        input_ids=torch.randint(5, 500, (n, tokens), device=DEVICE),
        attention_mask=torch.ones(n, tokens, device=DEVICE, dtype=torch.bool),
        rows=None,
    )


def batch(method, n, *, side, labeled):
    image = torch.rand(n, 1, side, side, device=DEVICE)
    return Batch(
        image=image.contiguous(memory_format=torch.channels_last),
        mask=torch.rand(n, 1, side, side, device=DEVICE).round() if labeled else None,
        position=torch.zeros(n, 6, device=DEVICE),
        uniform=torch.rand(n, method.draws, device=DEVICE),
        index=torch.zeros(n, dtype=torch.int64, device=DEVICE),
        sentences=("",) * n,
        text=text_of(n, method),
    )


def networks_of(method):
    """All that has weights, the teacher included."""
    own = [part for part in vars(method).values() if isinstance(part, torch.nn.Module)]
    return [*own, method.teacher.network] if hasattr(method, "teacher") else own


def check(overrides, *, size="paper", stage=None, burn_in=False):
    """A step of a configuration; see ``SIZES``."""
    progress = replace(AFTER_BURN_IN, **({"stage": stage} if stage else {}))
    if burn_in:
        progress = replace(progress, step=0)
    cfg = compose([*SIZES[size], *overrides])
    return check_step(cfg, progress=progress, optimize=size != "light")


def is_refused(overrides):
    """Whether the parts of a configuration do not go together."""
    try:
        check_combination(resolved(compose([*SIZES["light"], *overrides])))
    except UserError:
        return True
    return False


def check_step(cfg, *, progress, optimize):
    """Forward, backward, clipping, AdamW and the teacher's update.

    Without ``optimize``: without clipping and AdamW, which no option changes.
    """
    made, seen = {}, {}

    def build_networks():
        made["method"] = method = build(cfg, "method")
        method.train()
        return networks_of(method)

    def start(*networks):
        method = made["method"]
        for name, value in vars(method).items():
            if isinstance(value, torch.Tensor):
                setattr(method, name, torch.ones(value.shape, device=DEVICE))
        groups = method.parameter_groups()
        learns = [p for group in groups for p in group["params"]]
        optimizer = torch.optim.AdamW(groups, lr=3e-4, foreach=True, capturable=True)
        labeled, unlabeled = (
            batch(method, 4, side=cfg.scale.image_side, labeled=flag) for flag in (True, False)
        )
        if method.uses_unlabeled:
            whole = method.rehearsal(plan(method, 4), cfg.scale.image_side)
            unlabeled = replace(unlabeled, plan=whole)

        def step():
            losses = method.step(labeled, unlabeled, progress)
            optimizer.zero_grad(set_to_none=True)
            losses["loss"].backward()
            if optimize:
                torch.nn.utils.clip_grad_norm_(learns, 1.0, foreach=True)
                optimizer.step()
            method.after_step(progress)
            seen["losses"] = sorted(losses)
            seen["devices"] = sorted({str(v.device) for v in losses.values()})
            seen["gradients"] = sum(p.numel() for p in groups[0]["params"] if p.grad is not None)

        return step

    fake_step_check(build_networks, start, steps=1)
    return seen


def plan(method, n):
    """What the host would hand over: donors, boxes, and every candidate sentence prepared."""
    mixer = method.views.mixer
    anywhere = getattr(mixer, "variant", None) in ("random", "prob") and mixer.text.update_count
    candidates = 7 if anywhere else 2 if hasattr(mixer, "variant") else 1
    return Plan(
        sentences=(("",) * candidates,) * n,
        donor=torch.zeros(n, dtype=torch.int64, device=DEVICE),
        box=torch.zeros(n, 4, dtype=torch.int64, device=DEVICE),
        allowed=torch.ones(n, dtype=torch.bool, device=DEVICE),
        flip=torch.ones(n, dtype=torch.bool, device=DEVICE),
        texts=text_of(n * candidates, method),
    )
