"""Alignment and position predictors on fake CUDA tensors; see tests/cuda/fake_cuda.py."""

import torch
from fake_cuda import DEVICE, fake_step_check

from semimedref.align.clip import CLIP
from semimedref.align.pacl import PACL
from semimedref.model.encoders.small_conv import SmallConv
from semimedref.model.position_predictor.gap_mlp import GapMlp
from semimedref.model.position_predictor.loss import PositionLoss, positive_weight
from semimedref.model.position_predictor.position_token import PositionToken
from semimedref.model.position_predictor.predictor import PositionPredictor
from semimedref.model.position_predictor.region_pool import RegionPool
from semimedref.model.position_predictor.region_queries import RegionQueries
from semimedref.text.vocabulary import QUADRANTS

BOXES = QUADRANTS.boxes
LOSS = PositionLoss(
    weight_bce=0.5, weight_focal=0.5, weight_count=0.1, gamma_positive=0, gamma_negative=2
)


def build():
    heads = [
        lambda **given: GapMlp(**given, hidden=8, dropout=0.2),
        lambda **given: RegionPool(**given, hidden=8, dropout=0.2, mirrored=True),
        lambda **given: RegionQueries(
            **given, layers=2, heads=2, ffn_width=8, dropout=0.2, query_std=0.02
        ),
    ]
    kinds = {
        "image_width": 16,
        "text_width": 10,
        "width": 8,
        "image_layers": 1,
        "text_layers": 2,
        "temperature": 0.07,
        "weight_labeled": 0.02,
        "weight_unlabeled": 0.1,
        "image_feature": "pre_fusion",
        "start": "burn_in",
        "nested": False,
        "unlabeled_view": "weak",
    }
    return [
        PACL(**kinds),
        CLIP(**kinds),
        PositionToken(regions=len(BOXES), hidden=8, width=10, gate=-2.0),
        *(
            PositionPredictor(SmallConv([8, 8, 16, 16], depth=1, groups=4), head, boxes=BOXES)
            for head in heads
        ),
    ]


def everything():
    seen = {}

    def start(pacl, clip, token, *predictors):
        modules = (pacl, clip, token, *predictors)
        image = torch.rand(4, 1, 96, 96, device=DEVICE)
        pooled = torch.rand(4, 10, device=DEVICE)
        q = torch.zeros(4, len(BOXES), device=DEVICE)
        parameters = [p for module in modules for p in module.parameters()]
        optimizer = torch.optim.AdamW(parameters, foreach=True, capturable=True)

        def step():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = [predictor(image) for predictor in predictors]
                image_map = predictors[0].image_encoder(image)[-1]
                text = pooled + token(logits[0].sigmoid())
                loss = pacl(image_map, text, q) + clip(image_map, text, q)
                loss = loss + sum(LOSS(some, q) for some in logits)
            loss = loss + positive_weight(q, lowest=0.25, highest=4).sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            seen["device"] = str(loss.device)
            seen["loss"] = str(loss.dtype)
            seen["without gradient"] = sum(p.grad is None for p in parameters)

        return step

    fake_step_check(build, start)
    return seen
