import hashlib

import numpy as np
import pytest

from semimedref.config import build, compose
from semimedref.dataset.phantom import draw_split
from semimedref.errors import UserError
from semimedref.text.caption import lung_caption


@pytest.fixture(scope="module")
def tiny():
    return build(compose(["dataset=phantom_tiny"]), "dataset")


def test_patients_are_disjoint_between_splits_and_some_have_several_images(tiny):
    patients = {name: set(tiny.split(name).patients) for name in ("train", "valid", "test")}
    assert not patients["train"] & patients["valid"]
    assert not patients["train"] & patients["test"]
    assert not patients["valid"] & patients["test"]
    train = tiny.split("train")
    assert 1 < len(train) / len(patients["train"]) <= 3


def test_sentences_say_what_the_position_says(tiny):
    split = tiny.split("valid")
    for text, q in zip(split.texts, split.positions, strict=True):
        assert text == lung_caption(q.tolist())


def test_named_lesions_lie_on_the_named_side(tiny):
    split = tiny.split("train")
    left = split.masks[:, :, :48].reshape(len(split), -1).any(1)
    right = split.masks[:, :, 48:].reshape(len(split), -1).any(1)
    named_left, named_right = split.positions[:, :3].any(1), split.positions[:, 3:].any(1)
    assert (left == named_left).mean() > 0.97
    assert (right == named_right).mean() > 0.97


def test_named_levels_lie_from_top_to_bottom(tiny):
    split = tiny.split("train")
    single = [i for i in range(len(split)) if split.positions[i].sum() == 1]
    rows = {0: [], 1: [], 2: []}
    for i in single:
        rows[int(split.positions[i].argmax()) % 3].append(np.nonzero(split.masks[i])[0].mean())
    upper, middle, lower = (np.mean(rows[level]) for level in range(3))
    assert upper < middle - 10 < lower - 20


def test_distractors_are_as_bright_as_named_lesions(tiny):
    split = tiny.split("train")
    lesions = np.load(tiny.folder / "train_lesions.npy")
    named = [split.images[i][split.masks[i] > 0].mean() for i in range(len(split))]
    other = [
        split.images[i][(lesions[i] > 0) & (split.masks[i] == 0)].mean()
        for i in range(len(split))
        if ((lesions[i] > 0) & (split.masks[i] == 0)).any()
    ]
    assert abs(np.mean(named) - np.mean(other)) < 0.15 * np.std(named) * 2


def test_the_text_blind_oracle_is_two_named_over_named_plus_shown(tiny):
    lesions = np.load(tiny.folder / "test_lesions.npy").astype(int)
    masks = tiny.split("test").masks.astype(int)
    tp, fp = (lesions & masks).sum(), (lesions & (1 - masks)).sum()
    assert tiny.text_blind_oracle("test") == pytest.approx(2 * tp / (2 * tp + fp))


def test_the_frozen_phantom_keeps_the_oracle_under_060():
    recipe = build(compose(["dataset=phantom"]), "dataset")._recipe
    _, arrays = draw_split(recipe | {"images": {"train": 0, "valid": 0, "test": 600}}, "test")
    named, shown = arrays["masks"].sum(dtype=int), arrays["lesions"].sum(dtype=int)
    assert 2 * named / (named + shown) <= 0.60


def test_the_tiny_phantom_is_the_frozen_one(tiny):
    digest = hashlib.sha256()
    for split in ("train", "valid", "test"):
        digest.update((tiny.folder / f"{split}.json").read_bytes())
        for kind in ("images", "masks", "lesions"):
            digest.update(np.load(tiny.folder / f"{split}_{kind}.npy").tobytes())
    assert digest.hexdigest() == tiny.sha256


def test_a_new_generator_is_a_new_version_in_the_history():
    from semimedref.config import _history
    from semimedref.dataset.phantom import GENERATOR

    assert _history()["versions"].get("semimedref.dataset.phantom.Phantom", 1) == GENERATOR


def test_another_recipe_under_a_frozen_name_is_refused():
    changed = build(compose(["dataset=phantom_tiny", "dataset.seed=1"]), "dataset")
    with pytest.raises(UserError, match="is frozen"):
        changed.split("train")


def test_a_phantom_of_ones_own_needs_no_hash():
    own = compose(["dataset=phantom_tiny", "dataset.seed=1", "dataset.sha256=null"])
    assert len(build(own, "dataset").split("valid")) == 24
