"""What holds for every method: exact resuming, and masks that nobody may see."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from semimedref.config import compose, config_dir, resolved
from semimedref.method.schedule import Progress
from semimedref.planning.count import count_step
from semimedref.planning.fake_method import fake_method
from semimedref.planning.stages import Stage
from semimedref.run import Parts
from semimedref.sweep import expand

pytestmark = pytest.mark.slow

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
    "lvit_epi": ["model.width=8", "text_encoder.max_tokens=24"],
}
STAGED = ("textmoe", "semires", "tevid_recon", "rar", "lvit_epi")
RELEASED = ("textmoe", "rar", "dusss", "amvlm")
SHORT = ["scale.schedule.burn_in=0", "scale.epochs=2", "scale.cosine_epochs=2"]


def test_no_method_is_forgotten_here():
    options = {file.stem for file in (config_dir() / "method").glob("*.yaml")}
    assert options - {"atlas", "position_predictor"} == set(METHODS)  # no unlabeled images
    methods = {name: resolved(compose([f"method={name}"]))["method"] for name in METHODS}
    assert {name for name, m in methods.items() if m.get("stages")} == set(STAGED)
    assert {name for name, m in methods.items() if "as_released" in m} == set(RELEASED)


def test_each_method_that_has_a_released_form_stands_in_the_table_in_both():
    found = {
        (cell.config["method"]["_target_"].split(".")[-2], cell.config["method"]["as_released"])
        for cell in expand(["experiment=rivals_as_released"]).cells
    }
    assert found == {(method, form) for method in RELEASED for form in (False, True)}


@pytest.fixture
def make(compose_smoke, tmp_path):
    """A trainer of a method in a folder.

    None may ask for the test split, and none may look at the mask of an unlabeled image.
    """

    def make_trainer(method, name="run", *more):
        (tmp_path / name).mkdir(exist_ok=True)
        cfg = compose_smoke(f"method={method}", *METHODS[method], *SHORT, *more)
        parts = Parts.build(cfg)
        if parts.method.selects_on != "test":  # as RAR was released
            parts.dataset.split = forbidden(parts.dataset.split)
        trainer = parts.trainer(tmp_path / name, lambda: None)
        hide_unlabeled_masks(trainer)
        return trainer

    return make_trainer


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


RESUMED = [
    *((method, 7) for method in METHODS),  # of ten steps; the second stage, where there are two
    *((method, 3) for method in ("textmoe", "rar")),  # RAR's memory is filled in the first stage
    *((method, 7, "method.as_released=true") for method in RELEASED),
]


@pytest.mark.parametrize("case", RESUMED, ids=lambda case: "-".join(map(str, case)))
def test_resumed_half_way_it_ends_with_the_same_bits_and_saw_no_hidden_mask(make, tmp_path, case):
    method, at, *more = case
    whole = make(method, "whole", *more)
    whole.fit()
    stop_after(make(method, "again", *more), at)
    assert (tmp_path / "again" / "last.pt").is_file()
    again = make(method, "again", *more)
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


def hide_unlabeled_masks(trainer):
    labeled, other = trainer.data.labeled.pool, trainer.data.unlabeled
    known = set(labeled.places) if trainer.method.reads_masks else set()
    hidden = [i for i in range(len(labeled.split)) if i not in known]
    for pool in [labeled] if other is None else [labeled, other.pool]:
        hide(pool.split, hidden)
        assert pool is labeled or set(pool.places) == set(hidden)
    return labeled, hidden


def test_a_look_at_a_hidden_mask_would_be_seen(make):
    pool, hidden = hide_unlabeled_masks(make("teacher_student"))
    with pytest.raises(AssertionError, match="was read"):
        replace(pool, places=tuple(hidden), masks=True).fetch([0])


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
