"""``semimedref data``: describe a data set, or draw a contact sheet of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semimedref import config
from semimedref.errors import UserError

if TYPE_CHECKING:
    from semimedref.dataset.sample import ImageTextDataset


def data_command(args: list[str]) -> int:
    """``describe`` prints counts and honest numbers; ``show`` writes a picture."""
    actions = {"describe": describe, "show": show}
    if not args or args[0] not in actions:
        found = f"'{args[0]}'" if args else "nothing"
        raise UserError(f"data: {found} was given; expected describe or show, then dataset=NAME")
    own = {"out": "contact_sheet.png", "split": "train"}
    own |= {k: v for k, _, v in (a.partition("=") for a in args[1:]) if k in own}
    overrides = [a for a in args[1:] if a.partition("=")[0] not in own]
    dataset = config.build(config.compose(overrides), "dataset")
    actions[args[0]](dataset, **own)
    return 0


def describe(dataset: ImageTextDataset, *, out: str, split: str) -> None:
    """Images, patients, distinct sentences, foreground and the text-blind oracle of each split."""
    del out, split
    print(f"{dataset.name}: regions {', '.join(dataset.regions)}")
    print(f"{'split':6s} {'images':>7s} {'patients':>9s} {'sentences':>10s} {'foreground':>11s} "
          f"{'text-blind oracle':>18s}")  # fmt: skip
    for name in ("train", "valid", "test"):
        part = dataset.split(name)
        share = float(np.mean(part.masks, dtype=np.float64))
        oracle = dataset.text_blind_oracle(name)
        shown = "-" if oracle is None else f"{100 * oracle:.1f}"
        print(f"{name:6s} {len(part):7d} {len(set(part.patients)):9d} "
              f"{len(set(part.texts)):10d} {100 * share:10.2f}% {shown:>18s}")  # fmt: skip
    print("text-blind oracle: Dice of segmenting every visible lesion perfectly without reading")


def show(dataset: ImageTextDataset, *, out: str, split: str) -> None:
    """The first images of a split with sentence and outlined truth."""
    if split not in ("train", "valid", "test"):
        raise UserError(f"split={split} is unknown: expected train, valid or test")
    from semimedref.dataset.sheet import contact_sheet

    contact_sheet(dataset.split(split), Path(out))
    print(f"written to {out}")
