"""How many images a run will see, from the configuration; no picture is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from semimedref.config import build
from semimedref.dataset.posmed_counts import ALL
from semimedref.dataset.posmed_modalities import MODALITIES, chosen_modalities
from semimedref.dataset.splits import labeled_subset
from semimedref.errors import UserError

_SPLITS = ("train", "valid", "test")


class UnknownImagesError(UserError):
    """Nothing says how many images a data set has."""


@dataclass(frozen=True)
class Images:
    """Numbers of images of a run."""

    labeled: int
    unlabeled: int
    valid: int
    test: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.labeled + self.unlabeled + self.valid + self.test


def images_of(config: Mapping[str, Any]) -> Images:
    """Published or configured numbers; else those of the data set's own table, if it is here."""
    found = _images(config)
    if _reads_masks(config):
        return found
    return replace(found, labeled=found.labeled + found.unlabeled, unlabeled=0)


def _images(config: Mapping[str, Any]) -> Images:
    node, fraction = config["dataset"], float(config["ratio"]["fraction"])
    if node.get("domain_counts"):
        return _of_domains(node, fraction)
    published = node.get("published") or {}
    counts = node.get("images") or published.get("images") or _from_table(config)
    train, valid, test = (int(counts[name]) for name in _SPLITS)
    labeled = _labeled(train, fraction, rounding=node["rounding"])
    return Images(labeled, train - labeled, valid, test)


def _of_domains(node: Mapping[str, Any], fraction: float) -> Images:
    """PosMed: the sum over its domains, as far as they are published."""
    known = node["domain_counts"]["images"]
    names = [modality.name for modality in chosen_modalities(node["domains"])]
    if not all(name in known for name in names):
        if len(names) < len(MODALITIES):
            missing = ", ".join(name for name in names if name not in known)
            raise UnknownImagesError(
                f"{node['name']}: no number of images is published for {missing}"
            )
        names = [ALL]
    train, valid, test = (sum(known[name][split] for name in names) for split in _SPLITS)
    shares = (known[name]["train"] for name in names)
    labeled = sum(_labeled(n, fraction, rounding=node["rounding"]) for n in shares)
    return Images(labeled, train - labeled, valid, test)


def _labeled(train: int, fraction: float, *, rounding: str) -> int:
    """By the rule of the data sets; which images they are does not matter here."""
    places, _ = labeled_subset([""] * train, fraction=fraction, split_seed=0, rounding=rounding)
    return len(places)


def _reads_masks(config: Mapping[str, Any]) -> bool:
    """A method that reads none trains on all images in one pool."""
    from hydra.utils import get_object

    return bool(get_object(config["method"]["_target_"]).reads_masks)


def _from_table(config: Mapping[str, Any]) -> Mapping[str, int]:
    """What the annotation of a data set of the user's own lists."""
    from omegaconf import OmegaConf

    name = config["dataset"]["name"]
    try:
        dataset = build(OmegaConf.create(dict(config)), "dataset")
        counts: Mapping[str, int] = dataset.image_counts()
    except AttributeError as error:
        raise UnknownImagesError(
            f"{name}: this data set does not say how many images it has"
        ) from error
    except UserError as error:
        raise UnknownImagesError(f"{name}: the number of images is unknown ({error})") from error
    return counts
