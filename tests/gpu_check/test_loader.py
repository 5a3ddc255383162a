from types import SimpleNamespace

import torch

from semimedref.gpu_check.checks import loader
from semimedref.gpu_check.finding import OK, SKIPPED


class Tensor:
    def __init__(self, pinned):
        self.is_pinned = lambda: pinned


def trainer_with(**pinned):
    names = ("image", "mask", "position", "uniform", "index")
    batch = SimpleNamespace(**{n: Tensor(pinned.get(n, True)) for n in names})
    data = SimpleNamespace(loader=lambda *at, workers, pin: [[(batch, batch)]] if pin else None)
    hardware = SimpleNamespace(device=torch.device("cuda"), workers=0)
    return SimpleNamespace(hardware=hardware, data=data, step=0)


def test_batches_for_a_gpu_are_asked_for_page_locked_and_looked_at():
    assert loader.pinned(trainer_with()).state == "ok"
    finding = loader.pinned(trainer_with(mask=False))
    assert finding.state == "failed" and finding.found == "pageable: mask"


def test_a_loader_is_compared_with_the_step(setup):
    pinned, speed = loader.check(setup)
    assert (pinned.state, speed.state) == (SKIPPED, OK)
    assert speed.values["loader_images_per_second"] > speed.values["step_images_per_second"] > 0
