"""``semimedref data``: describe, show, verify or prepare a data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semimedref import config
from semimedref.errors import UserError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from semimedref.dataset.sample import ImageTextDataset, Split

_OWN = ("out", "split", "cases")  # options of ours; any other one is Hydra's
_SHOWN = "3"  # cases that a verification lists of each problem, unless asked for more


def data_command(args: list[str]) -> int:
    """Build the data set that the overrides name and hand it to an action."""
    if not args or args[0] not in _ACTIONS:
        found = f"'{args[0]}'" if args else "nothing"
        expected = ", ".join(_ACTIONS)
        raise UserError(f"data: {found} was given; expected one of {expected}, then dataset=NAME")
    pairs = [arg.partition("=") for arg in args[1:]]
    own = {key: value for key, _, value in pairs if key in _OWN}
    cfg = config.compose([arg for arg in args[1:] if arg.partition("=")[0] not in _OWN])
    return _ACTIONS[args[0]](config.build(cfg, "dataset"), cfg, own)


def describe(dataset: ImageTextDataset, cfg: DictConfig, own: dict[str, str]) -> int:
    """Images, patients, distinct sentences, foreground and the text-blind oracle of each split."""
    del cfg, own
    print(f"{dataset.name}: regions {', '.join(dataset.regions) or 'none'}")
    print(f"{'split':6s} {'images':>7s} {'patients':>9s} {'sentences':>10s} {'foreground':>11s} "
          f"{'text-blind oracle':>18s}")  # fmt: skip
    for name in ("train", "valid", "test"):
        part = _split(dataset, name)
        masks = part.masks[part.masked]
        share = float(np.mean(masks, dtype=np.float64)) if len(masks) else 0.0
        oracle = dataset.text_blind_oracle(name)
        shown = "-" if oracle is None else f"{100 * oracle:.1f}"
        print(f"{name:6s} {len(part):7d} {len(set(part.patients)):9d} "
              f"{len(set(part.texts)):10d} {100 * share:10.2f}% {shown:>18s}")  # fmt: skip
    print("text-blind oracle: Dice of segmenting every visible lesion perfectly without reading")
    return 0


def show(dataset: ImageTextDataset, cfg: DictConfig, own: dict[str, str]) -> int:
    """The first images of a split, or the named ones, with sentence and outlined truth."""
    del cfg
    split, out = own.get("split", "train"), own.get("out", "contact_sheet.png")
    if split not in ("train", "valid", "test"):
        raise UserError(f"split={split} is unknown: expected train, valid or test")
    from semimedref.dataset.sheet import contact_sheet

    part = _split(dataset, split)
    contact_sheet(part, Path(out), places=_places(part, own.get("cases"), split))
    print(f"written to {out}")
    return 0


def _split(dataset: ImageTextDataset, name: str) -> Split:
    """A split that has images: of an empty one there is nothing to show."""
    from semimedref.dataset.file_dataset import FileDataset

    if isinstance(dataset, FileDataset) and not dataset.found.split(name):
        raise UserError(
            f"{dataset.name}: the split {name} is empty: no row of it was found in "
            f"{dataset.folder}. Run `semimedref data verify {dataset.options}`"
        )
    return dataset.split(name)


def _places(part: Split, cases: str | None, split: str) -> list[int] | None:
    """Where the named images are in a split."""
    if cases is None:
        return None
    known = {name: place for place, name in enumerate(part.ids)}
    named = [name.strip() for name in cases.split(",")]
    strange = [name for name in named if name not in known]
    if strange:
        raise UserError(
            f"cases={strange[0]} is not in {split}: expected names, split=train|valid|test"
        )
    return [known[name] for name in named]


def verify(dataset: ImageTextDataset, cfg: DictConfig, own: dict[str, str]) -> int:
    """A table of problems with their cases; exit code 1 if there is an error among them."""
    from semimedref.dataset.verify import verify as verify_dataset

    cases = own.get("cases", _SHOWN)
    if cases != "all" and not cases.isdecimal():
        raise UserError(f"cases={cases}: expected how many are listed of each problem, or all")
    shown = None if cases == "all" else int(cases)
    return verify_dataset(dataset, split_seed=cfg.ratio.split_seed, shown=shown)


def prepare(dataset: ImageTextDataset, cfg: DictConfig, own: dict[str, str]) -> int:
    """The partition as files that anybody can compare."""
    from semimedref.dataset.partition_file import prepare as prepare_dataset

    if not own.get("out"):
        raise UserError("data prepare: out=FOLDER is missing, the place for the partition's files")
    out = Path(own["out"]).expanduser()
    for line in prepare_dataset(dataset, out, split_seed=cfg.ratio.split_seed):
        print(line)
    return 0


_ACTIONS: dict[str, Callable[[ImageTextDataset, DictConfig, dict[str, str]], int]] = {
    "describe": describe,
    "show": show,
    "verify": verify,
    "prepare": prepare,
}
