"""Five losses of a five-step CPU run per method: whoever changes them must mean it."""

import json
from pathlib import Path

import pytest

from semimedref.run import Parts

GOLDEN = Path(__file__).with_name("losses.json")


def five_losses(cfg, folder):
    trainer = Parts.build(cfg).trainer(folder, lambda: None)
    trainer.stages.number = len(trainer.stages.names) - 1  # the one with unlabeled images
    losses, before = [], 0.0
    for step in range(5):
        trainer._optimize(trainer.data[step])
        losses.append(float(trainer.sums["loss"]) - before)
        before = float(trainer.sums["loss"])
    return losses


METHODS = ("supervised", "teacher_student", "mean_teacher", "fixmatch", "cps", "unimatch",
           "textmoe", "semires", "tevid_recon", "lvit_epi", "textmatch", "rar",
           "dusss", "amvlm", "vlm_pretraining vlm=dusss", "vlm_pretraining vlm=amvlm")  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_losses_are_the_golden_ones(compose_smoke, tmp_path, method):
    small = ["model.width=16", "text_encoder.max_tokens=24"] if method == "lvit_epi" else []
    cfg = compose_smoke(
        *f"method={method}".split(), *small, "scale.schedule.burn_in=0", "scale.schedule.ramp=0"
    )
    expected = json.loads(GOLDEN.read_text())[method]
    assert five_losses(cfg, tmp_path) == pytest.approx(expected, rel=2e-3)
