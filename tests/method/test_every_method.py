"""What holds for every method: exact resuming, and masks that nobody may see."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from semimedref.config import resolved
from semimedref.method.schedule import Progress
from semimedref.planning.count import count_step
from semimedref.planning.fake_method import fake_method
from semimedref.planning.stages import Stage
from semimedref.run import Parts

METHODS = {
    "supervised": ["augment=none"],
    "teacher_student": ["augment=semi_medref", "align=pacl"],
    "ispg": ["augment=semi_medref", "align=pacl"],
    "mean_teacher": [],
    "fixmatch": [],
    "cps": [],
    "unimatch": [],
    "textmoe": [],
    "semires": [],
    "tevid_recon": [],
    "textmatch": [],
    "rar": [],
    "dusss": [],
    "amvlm": [],
    "vlm_pretraining": ["vlm=dusss"],
    "lvit_epi": ["model.width=16", "text_encoder.max_tokens=24"],
}
SHORT = ["scale.schedule.burn_in=0", "scale.epochs=2", "scale.cosine_epochs=2"]


@pytest.fixture
def make(compose_smoke, tmp_path):
    """A trainer of a method in a folder; none may ask for the test split."""

    def trainer(method, name="run", *more):
        (tmp_path / name).mkdir(exist_ok=True)
        cfg = compose_smoke(f"method={method}", *METHODS[method], *SHORT, *more)
        parts = Parts.build(cfg)
        parts.dataset.split = forbidden(parts.dataset.split)
        return parts.trainer(tmp_path / name, lambda: None)

    return trainer


class StopError(Exception):
    pass


def stop_after(trainer, steps):
    """Train so many steps, save, and go."""
    real = trainer._optimize

    def optimize(batches):
        real(batches)
        if trainer.step == steps:
            trainer._save()
            raise StopError

    trainer._optimize = optimize
    with pytest.raises(StopError):
        trainer.fit()


def tensors(state, path=""):
    for key, value in state.items():
        if isinstance(value, dict):
            yield from tensors(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


@pytest.mark.parametrize("method", METHODS)
def test_resumed_half_way_it_ends_with_the_same_bits(make, method):
    whole = make(method, "whole")
    whole.fit()
    stop_after(make(method, "again"), 7)
    again = make(method, "again")
    again.fit()
    expected, found = (dict(tensors(t.method.state_dict())) for t in (whole, again))
    assert expected.keys() == found.keys()
    assert all(torch.equal(value, found[key]) for key, value in expected.items())
    assert whole.best == again.best


class Hidden(np.ndarray):
    """Masks of which some may not be looked at."""

    def __getitem__(self, key):
        if isinstance(key, (int, np.integer)) and int(key) in self.hidden:
            raise AssertionError(f"the mask of image {key} was read")
        return super().__getitem__(key)


def hide(split, places):
    masks = np.asarray(split.masks).view(Hidden)
    masks.hidden = set(places)
    object.__setattr__(split, "masks", masks)


@pytest.mark.parametrize("method", METHODS)
def test_training_sees_no_mask_of_the_unlabeled_pool_and_nothing_of_the_test_split(make, method):
    trainer = make(method)
    labeled, other = trainer.data.labeled.pool, trainer.data.unlabeled
    known = set(labeled.places) if trainer.method.reads_masks else set()
    hidden = [i for i in range(len(labeled.split)) if i not in known]
    for pool in [labeled] if other is None else [labeled, other.pool]:
        hide(pool.split, hidden)
        assert pool is labeled or set(pool.places) == set(hidden)
    with pytest.raises(AssertionError, match="was read"):  # the trap works
        replace(labeled, places=tuple(hidden), masks=True).fetch([0])
    trainer.fit()


def forbidden(split):
    def asked(name):
        assert name != "test", "training asked for the test split"
        return split(name)

    return asked


@pytest.mark.parametrize("method", METHODS)
def test_a_step_is_counted_for_a_plan(compose_smoke, method):
    config = resolved(compose_smoke(f"method={method}", *METHODS[method]))
    last = Progress(19, 5, 20, "all")
    alone = method in ("supervised", "vlm_pretraining")
    kind = Stage(unlabeled=not alone, burn_in=False, skips=False, at=last)
    found = count_step(fake_method(config), config, kind)
    masks = Stage(unlabeled=False, burn_in=False, skips=False, at=last)
    labeled = count_step(fake_method(config), config, masks)
    assert found.flops >= labeled.flops > 0 and found.kernels > 0 and found.memory > 0
    assert alone or found.flops > 1.5 * labeled.flops


def test_all_methods_share_the_labeled_images(make):
    trainers = {m: make(m) for m in METHODS}
    without = trainers.pop("vlm_pretraining").data.labeled.pool
    assert len(without) == len(without.split) and not without.masks
    places = {m: tuple(t.data.labeled.pool.places) for m, t in trainers.items()}
    assert len(set(places.values())) == 1
