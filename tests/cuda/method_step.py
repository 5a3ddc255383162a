"""The real step of every method at the paper's size, on fake CUDA tensors; see fake_cuda.py."""

from dataclasses import replace

import torch
from fake_cuda import DEVICE, fake_step_check

from semimedref.augment.plan import Plan
from semimedref.config import build, compose
from semimedref.dataset.sample import Batch
from semimedref.method.schedule import Progress
from semimedref.model.segmenter import TextInput

PAPER = ["scale=paper", "text_encoder.weights=random"]
CONVNEXT = "image_encoder.weights=random"
AFTER_BURN_IN = Progress(step=2000, steps_per_epoch=176, total_steps=17600)


def batch(method, n, *, labeled):
    text = TextInput(
        input_ids=torch.randint(5, 30522, (n, 24), device=DEVICE),
        attention_mask=torch.ones(n, 24, device=DEVICE, dtype=torch.bool),
        rows=None,
    )
    image = torch.rand(n, 1, 224, 224, device=DEVICE)
    return Batch(
        image=image.contiguous(memory_format=torch.channels_last),
        mask=torch.rand(n, 1, 224, 224, device=DEVICE).round() if labeled else None,
        position=torch.zeros(n, 6, device=DEVICE),
        uniform=torch.rand(n, method.draws, device=DEVICE),
        index=torch.zeros(n, dtype=torch.int64, device=DEVICE),
        sentences=("",) * n,
        text=text,
    )


def check(*overrides):
    """Forward, backward, clipping, AdamW and the teacher's update, twice."""
    cfg = compose([*PAPER, *overrides])
    made, seen = {}, {}

    def build_networks():
        made["method"] = method = build(cfg, "method")
        method.train()
        if not method.uses_unlabeled:
            return [method.student]
        heads = [] if method.align is None else [method.align]
        return [method.student, method.teacher.network, *heads]

    def start(*networks):
        method = made["method"]
        groups = method.parameter_groups()
        optimizer = torch.optim.AdamW(groups, lr=3e-4, foreach=True, capturable=True)
        labeled, unlabeled = (batch(method, 4, labeled=flag) for flag in (True, False))
        if method.uses_unlabeled:
            unlabeled = replace(unlabeled, plan=plan(method.views, 4))

        def step():
            losses = method.step(labeled, unlabeled, AFTER_BURN_IN)
            optimizer.zero_grad(set_to_none=True)
            losses["loss"].backward()
            torch.nn.utils.clip_grad_norm_(groups[0]["params"], 1.0, foreach=True)
            optimizer.step()
            method.after_step(AFTER_BURN_IN)
            seen["losses"] = sorted(losses)
            seen["devices"] = sorted({str(v.device) for v in losses.values()})
            seen["gradients"] = sum(p.numel() for p in groups[0]["params"] if p.grad is not None)

        return step

    fake_step_check(build_networks, start)
    return seen


def plan(views, n):
    """What the host would hand over: donors, boxes, and every candidate sentence prepared."""
    variant = getattr(views.mixer, "variant", None)
    candidates = {None: 1, "pos": 2, "hybrid": 2, "random": 7, "prob": 7}[variant]
    text = TextInput(
        input_ids=torch.randint(5, 30522, (n * candidates, 24), device=DEVICE),
        attention_mask=torch.ones(n * candidates, 24, device=DEVICE, dtype=torch.bool),
        rows=None,
    )
    return Plan(
        sentences=(("",) * candidates,) * n,
        donor=torch.zeros(n, dtype=torch.int64, device=DEVICE),
        box=torch.zeros(n, 4, dtype=torch.int64, device=DEVICE),
        allowed=torch.ones(n, dtype=torch.bool, device=DEVICE),
        flip=torch.ones(n, dtype=torch.bool, device=DEVICE),
        texts=text,
    )


def supervised():
    return check(CONVNEXT, "method=supervised", "augment=none")


def teacher_student():
    return check(CONVNEXT, "method=teacher_student", "augment=weak_strong")


def t_patchmix():
    return check(CONVNEXT, "method=teacher_student", "augment=t_patchmix_hybrid")


def semi_medref():
    return check(CONVNEXT, "method=teacher_student", "augment=semi_medref", "align=pacl")


def other_views():
    """The remaining augmentations, at the smoke scale's networks."""
    small = ["image_encoder=tiny", "scale.fusion_heads=8"]
    return {
        name: check("method=teacher_student", f"augment={name}", "align=clip", *small)["devices"]
        for name in ("cutmix", "spc", "posaug", "text_strong", "random_patchmix",
                     "t_patchmix_pos", "t_patchmix_prob")
    }  # fmt: skip
