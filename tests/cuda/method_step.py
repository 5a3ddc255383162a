"""The real step of every method on fake CUDA tensors: the ladder's rows at the paper's size, all
sensible combinations with small encoders; see fake_cuda.py."""

import itertools
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

PAPER = ["scale=paper", "text_encoder.weights=random"]
SMALL = ["scale=smoke", "text_encoder.cache=false", "text_encoder.dropout=true"]
LIGHT = [*SMALL, "model._target_=method_step.LightNet", "trusted_packages=[method_step]"]
CONVNEXT = "image_encoder.weights=random"
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


def check(*overrides, size=PAPER, progress=AFTER_BURN_IN):
    """The step of a configuration."""
    return check_step(compose([*size, *overrides]), progress=progress)


def check_step(cfg, *, progress=AFTER_BURN_IN, optimize=True):
    """Forward, backward, clipping, AdamW and the teacher's update, twice.

    Without ``optimize``: what the combinations differ in, once.
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

    fake_step_check(build_networks, start, steps=2 if optimize else 1)
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


def supervised():
    return check(CONVNEXT, "method=supervised", "augment=none")


def teacher_student():
    return check(CONVNEXT, "method=teacher_student", "augment=weak_strong")


def t_patchmix():
    return check(CONVNEXT, "method=teacher_student", "augment=t_patchmix_hybrid")


def posaug():
    return check(CONVNEXT, "method=teacher_student", "augment=semi_medref", "align=none")


def semi_medref():
    return check(CONVNEXT, "method=teacher_student", "augment=semi_medref", "align=pacl")


PLAIN = ("none", "weak_strong")
STRONG = ("posaug", "text_strong", "cutmix", "spc", "random_patchmix", "t_patchmix_pos",
          "t_patchmix_prob", "t_patchmix_hybrid", "semi_medref")  # fmt: skip
ALIGNS = ("none", "clip", "pacl")
RELEASE = [  # the options that differ in more than numbers
    ("method=teacher_student", "augment=semi_medref", "align=pacl"),
    ("method=teacher_student", "augment=random_patchmix", "align=none"),
    ("method=teacher_student", "augment=none", "align=clip"),
    ("method=ispg", "augment=semi_medref", "align=pacl"),
]


def combinations():
    """Every combination that is not refused, and what the step of each returned.

    Methods without a strong view refuse all but the first; tests/test_combinations.py has the list.
    """
    alone = itertools.product(("supervised", "position_predictor"), PLAIN, ("none",))
    both = itertools.product(("teacher_student", "ispg"), PLAIN + STRONG, ALIGNS)
    all_of_them = [(f"method={m}", f"augment={a}", f"align={c}") for m, a, c in (*alone, *both)]
    all_of_them += [("preset=release", *options) for options in RELEASE]
    all_of_them += [("preset.labeled_view=strong", *RELEASE[0])]
    seen = {}
    for options in all_of_them:
        cfg = compose([*LIGHT, *options])
        try:
            check_combination(resolved(cfg))
        except UserError:
            continue
        seen[" ".join(options)] = check_step(cfg, optimize=False)
    return seen


RIVALS = ("textmoe", "semires", "tevid_recon", "lvit_epi", "textmatch", "rar")
STAGED = ("textmoe", "semires", "tevid_recon", "lvit_epi", "rar")
GENERAL = ("mean_teacher", "fixmatch", "cps", "unimatch")


def general():
    """The general semi-supervised methods at the paper's size."""
    return {name: check(CONVNEXT, f"method={name}") for name in GENERAL}


def rivals():
    """Published methods with their own networks, at the paper's size, with unlabeled images."""
    last = replace(AFTER_BURN_IN, stage="all")
    seen = {name: check(CONVNEXT, f"method={name}", progress=last) for name in RIVALS}
    words = ["text_encoder=bert", "text_encoder.frozen=false", "vlm.image_encoder.weights=random"]
    for vlm in ("dusss", "amvlm"):
        options = [f"method={vlm}", *words]
        seen[vlm] = check(*options, progress=last)
        before = ["method=vlm_pretraining", f"vlm={vlm}", *words]
        seen[f"{vlm}, before"] = check(*before, progress=last)
        released = ["method.as_released=true", f"method={vlm}"]
        seen[f"{vlm}, as released"] = check(*released, size=SMALL, progress=last)
        before = ["method=vlm_pretraining", f"vlm={vlm}", "vlm.as_released=true"]
        seen[f"{vlm}, before, as released"] = check(*before, size=SMALL, progress=last)
    for name in ("rar", "textmoe"):
        released = [f"method={name}", "method.as_released=true"]
        seen[f"{name}, as released"] = check(*released, size=SMALL, progress=last)
    first = replace(AFTER_BURN_IN, stage="labeled")
    for name in STAGED:  # RAR's memory is filled in it, too
        seen[f"{name}, labeled"] = check(f"method={name}", size=SMALL, progress=first)
    with_masks = ["method=semires", "method.candidates=folder", "augment.zoom.probability=0"]
    return seen | {"semires, candidates": check(*with_masks, size=SMALL, progress=last)}


def ispg():
    """At the paper's size."""
    return check(CONVNEXT, "method=ispg", "augment=semi_medref", "align=pacl")


def positions():
    """ISPG as released and in burn-in, and each predictor on its own, with a small trunk."""
    guided = ["method=ispg", "augment=semi_medref", "align=pacl"]
    burn_in = Progress(step=0, steps_per_epoch=176, total_steps=17600)
    seen = {
        "release": check(*guided, "preset=release", size=SMALL),
        "burn-in": check(*guided, size=SMALL, progress=burn_in),
    }
    for head in ("gap_mlp", "region_pool", "region_queries"):
        study = ["method=position_predictor", "augment=none", f"position_predictor={head}"]
        seen[head] = check(*study, size=SMALL)
    return seen
