"""The commands that use a trained run: ``predict`` and ``evaluate``."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semimedref.errors import UserError
from semimedref.files import write_atomic
from semimedref.options import RUN_ROOT, overrides, parse, run_folder

if TYPE_CHECKING:
    from semimedref.predictor import Prediction

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff"}


def predict_command(args: list[str]) -> int:
    """Mask, probability map and overlay for one image, or for a folder with a CSV of texts."""
    options = parse(
        args,
        command="predict",
        required=("run", "image"),
        optional={"text": "", "texts": "", "out": "predictions", "weights": "student",
                  "device": "auto", "run_root": RUN_ROOT},
        overrides=True,
    )  # fmt: skip
    pairs = _pairs(Path(options["image"]), options["text"], options["texts"])
    folder = run_folder(options["run"], options["run_root"])
    out = Path(options["out"])
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create {out} ({error.strerror}): set out=FOLDER") from error

    from tqdm import tqdm

    from semimedref.predictor import Predictor

    predictor = Predictor(
        folder, weights=options["weights"], device=options["device"], overrides=overrides(args)
    )
    quiet = len(pairs) == 1 or not sys.stderr.isatty()
    for text in {text for _, text in pairs}:
        if not predictor.names_a_position(text):
            print(f"note: no position is recognized in: {text}", file=sys.stderr)
    names = _names([image for image, _ in pairs])
    for (image, text), name in tqdm(list(zip(pairs, names, strict=True)), disable=quiet):
        _write(predictor(image, text), out, name)
    count = "1 image" if len(pairs) == 1 else f"{len(pairs)} images"
    print(f"{count}: masks, probability maps and overlays in {out}")
    return 0


def evaluate_command(args: list[str]) -> int:
    """Scores of a finished run on a split: which weights, which texts, which position route."""
    options = parse(
        args,
        command="evaluate",
        required=("run",),
        optional={"split": "valid", "weights": "student", "texts": "true", "route": "",
                  "removal": "", "device": "auto", "run_root": RUN_ROOT},
        overrides=True,
    )  # fmt: skip
    if options["split"] not in ("valid", "test", "train"):
        raise UserError(f"split={options['split']} is unknown: expected train, valid or test")
    folder = run_folder(options["run"], options["run_root"])

    from semimedref import checkpoint
    from semimedref.axis import Axis
    from semimedref.run import Parts, finished_config

    axis = Axis(
        weights=options["weights"],
        texts=options["texts"],
        route=options["route"] or None,
        removal=_share(options["removal"]),
    )
    cfg = finished_config(folder, [f"hardware.device={options['device']}", *overrides(args)])
    parts = Parts.build(cfg)
    parts.method.load_weights(checkpoint.pick(checkpoint.load(folder / "best.pt"), "weights"))
    scores = parts.evaluate(options["split"], axis)
    file = folder / "eval" / f"{axis.name(options['split'])}.json"
    write_atomic(file, json.dumps(scores, indent=1))
    for name, value in scores.items():
        print(f"{name:16s} {100 * value:6.2f}")
    print(f"written to {file}")
    return 0


def _share(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"removal={text}: expected a number from 0 to 1") from error


def _pairs(image: Path, text: str, texts: str) -> list[tuple[Path, str]]:
    if not image.exists():
        raise UserError(f"image={image} does not exist")
    if image.is_file():
        if not text:
            raise UserError('text= is missing: e.g. text="… one infected area, lower left lung."')
        return [(image, text)]
    if not texts:
        raise UserError(f"image={image} is a folder: give texts=FILE.csv with columns image,text")
    try:
        with Path(texts).open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"texts={texts} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"texts={texts} is no CSV in UTF-8: save it as one") from error
    if not rows or not {"image", "text"} <= set(rows[0]):
        found = ", ".join(rows[0]) if rows else "nothing"
        raise UserError(f"texts={texts} has the columns {found}: expected image,text")
    torn = [k for k, r in enumerate(rows, start=2) if None in r]
    if torn:
        raise UserError(
            f'texts={texts}, line {torn[0]}: too many columns; put sentences with commas in "…"'
        )
    files = {f.name: f for f in image.iterdir() if f.suffix.lower() in _SUFFIXES}
    missing = [r["image"] for r in rows if r["image"] not in files]
    if missing:
        raise UserError(
            f"texts={texts} names {len(missing)} images that are not in {image}, "
            f"the first is {missing[0]}"
        )
    empty = [r["image"] for r in rows if not (r["text"] or "").strip()]
    if empty:
        raise UserError(f"texts={texts} has no text for {empty[0]}: every image needs a sentence")
    return [(files[r["image"]], r["text"]) for r in rows]


def _names(images: list[Path]) -> list[str]:
    """A name for each output; images that would share one are numbered."""
    counts = Counter(image.stem for image in images)
    seen: Counter[str] = Counter()
    names = []
    for image in images:
        seen[image.stem] += 1
        several = counts[image.stem] > 1
        names.append(f"{image.stem}-{seen[image.stem]}" if several else image.stem)
    return names


def _write(prediction: Prediction, out: Path, stem: str) -> None:
    from PIL import Image

    from semimedref.results.figures import panel

    Image.fromarray((prediction.mask * 255).astype(np.uint8)).save(out / f"{stem}_mask.png")
    gray = np.round(prediction.probability * 255).astype(np.uint8)
    Image.fromarray(gray).save(out / f"{stem}_probability.png")
    overlay = out / f"{stem}_overlay.png"
    panel(prediction.image, prediction.text, None, prediction.mask, overlay, title=stem)
