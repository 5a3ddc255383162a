"""The built-in phantom: chest radiographs with lesions, and sentences that name only some of them.

Lungs, ribs, spine, heart and noise; at most one lesion in each of six regions. The sentence names
some of the lesions; the others are distractors drawn from the same distribution, mostly on the side
that is not named. So a model that does not read cannot do better than the text-blind oracle.

    semimedref data show dataset=phantom
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from semimedref.dataset.phantom_image import Anatomy, Lesion, radiograph
from semimedref.dataset.roots import cache_root
from semimedref.dataset.sample import ImageTextDataset, Split
from semimedref.errors import UserError
from semimedref.files import exclusive, whole_folder
from semimedref.text.caption import lung_caption
from semimedref.text.spans import Writing
from semimedref.text.vocabulary import LUNGS

GENERATOR = 1  # raised when the drawing code changes: a new generator is a new phantom
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Difficulty:
    """What decides how hard the phantom is; every number is config."""

    contrast: tuple[float, float]
    radius: tuple[float, float]
    elongation: float
    bend: float
    texture: float
    clutter: int
    noise: float
    anatomy: float


@dataclass(frozen=True)
class Placement:
    """Which regions are named and which show a distractor; every number is config."""

    unilateral: float
    named: tuple[int, ...]
    other_side: tuple[int, ...]
    same_side: float
    second_named: float
    anywhere: tuple[int, ...]


class Phantom(ImageTextDataset):
    """A frozen synthetic data set, generated once from its seed and cached outside the project."""

    regions = LUNGS.regions
    synthetic = True

    def __init__(
        self,
        *,
        name: str,
        sha256: str | None,
        seed: int,
        side: int,
        images: dict[str, int],
        images_per_patient: int,
        placement: dict[str, object],
        difficulty: dict[str, object],
        vocabulary: str,
        writing: Writing,
        rounding: str,
        root: str | None,
    ) -> None:
        self.name = name
        self.sha256 = sha256
        self.rounding = rounding
        self.vocabulary, self.writing = vocabulary, writing
        self._recipe = {
            "generator": GENERATOR,
            "seed": seed,
            "side": side,
            "images": {s: int(images[s]) for s in SPLITS},
            "images_per_patient": images_per_patient,
            "placement": asdict(_placement(placement)),
            "difficulty": asdict(_difficulty(difficulty)),
        }
        self._root = Path(root).expanduser() if root else cache_root()

    @property
    def folder(self) -> Path:
        """Where this recipe is cached."""
        recipe = json.dumps(self._recipe, sort_keys=True)
        return self._root / f"{self.name}-{hashlib.sha1(recipe.encode()).hexdigest()[:10]}"

    def split(self, name: str) -> Split:
        """Images as a memory map, with sentences, positions and masks."""
        self.generate()
        rows = json.loads((self.folder / f"{name}.json").read_text())
        return Split(
            ids=tuple(r["id"] for r in rows),
            patients=tuple(r["patient"] for r in rows),
            texts=tuple(r["text"] for r in rows),
            positions=np.array([r["position"] for r in rows], dtype=np.uint8),
            images=np.load(self.folder / f"{name}_images.npy", mmap_mode="r"),
            masks=np.load(self.folder / f"{name}_masks.npy", mmap_mode="r"),
        )

    def text_blind_oracle(self, name: str) -> float:
        """Global Dice of segmenting every lesion, named or not, perfectly."""
        masks = self.split(name).masks
        lesions = np.load(self.folder / f"{name}_lesions.npy", mmap_mode="r")
        named, shown = int(np.sum(masks, dtype=np.int64)), int(np.sum(lesions, dtype=np.int64))
        return 2 * named / (named + shown)

    def shown_regions(self, name: str) -> Iterator[list[int]]:
        """Where each image of a split shows a lesion, named or not, 0/1 by region.

        The cache holds the union of an image's lesions, so the images are drawn again.
        """
        return (drawn.shown for drawn in draw_images(self._recipe, name))

    def generate(self) -> None:
        """Draw the data set unless it is cached; refuse content that is not the frozen one."""
        stamp = self.folder / "content.sha256"
        if not stamp.exists():
            with exclusive(self.folder.with_suffix(".lock")):  # jobs that start together draw once
                if not stamp.exists():
                    self._draw_all()
        found = stamp.read_text().strip()
        if self.sha256 is not None and found != self.sha256:
            raise UserError(
                f"phantom '{self.name}' is frozen as {self.sha256[:12]}, these settings give "
                f"{found[:12]}: for a phantom of your own set dataset.name=my_phantom "
                "dataset.sha256=null"
            )

    def _draw_all(self) -> None:
        print(f"drawing the data set '{self.name}' into {self.folder} (once)", flush=True)
        digest = hashlib.sha256()
        with whole_folder(self.folder) as partial:
            for split in SPLITS:
                rows, arrays = draw_split(self._recipe, split)
                text = json.dumps(rows, indent=0)
                (partial / f"{split}.json").write_text(text)
                digest.update(text.encode())
                for kind, array in arrays.items():
                    np.save(partial / f"{split}_{kind}.npy", array)
                    digest.update(array.tobytes())
            (partial / "content.sha256").write_text(digest.hexdigest() + "\n")
            (partial / "recipe.json").write_text(json.dumps(self._recipe, indent=1))


@dataclass(frozen=True)
class Drawn:
    """One image as it is drawn."""

    id: str
    patient: str
    named: list[int]  # 0/1 by region: what the sentence says
    shown: list[int]  # 0/1 by region: where a lesion is
    image: np.ndarray
    masks: dict[int, np.ndarray]  # of every lesion, by region


def draw_split(recipe: dict, split: str) -> tuple[list[dict], dict[str, np.ndarray]]:
    """All rows of a split and its arrays ``images``, ``masks`` (named) and ``lesions`` (shown)."""
    n, side = recipe["images"][split], recipe["side"]
    arrays = {k: np.zeros((n, side, side), np.uint8) for k in ("images", "masks", "lesions")}
    rows: list[dict] = []
    for at, drawn in enumerate(draw_images(recipe, split)):
        arrays["images"][at] = drawn.image
        for region, mask in drawn.masks.items():
            arrays["lesions"][at] |= mask
            if drawn.named[region]:
                arrays["masks"][at] |= mask
        rows.append(
            {"id": drawn.id, "patient": drawn.patient, "text": lung_caption(drawn.named)}
            | {"position": drawn.named}
        )
    return rows, arrays


def draw_images(recipe: dict, split: str) -> Iterator[Drawn]:
    """The images of a split in order, patient by patient."""
    n, side = recipe["images"][split], recipe["side"]
    difficulty, placement = _difficulty(recipe["difficulty"]), _placement(recipe["placement"])
    done = patient = 0
    while done < n:
        rng = np.random.default_rng([recipe["seed"], SPLITS.index(split), patient])
        anatomy = Anatomy.draw(rng, spread=difficulty.anatomy)
        for visit in range(1 + int(rng.random() * recipe["images_per_patient"])):
            if done == n:
                break
            named, shown = _place(rng, placement)
            lesions = {r: _lesion(rng, difficulty) for r in range(6) if shown[r]}
            image, masks = radiograph(
                rng, anatomy.visit(rng), lesions, side=side, difficulty=difficulty
            )
            who = f"{split}-p{patient:04d}"
            yield Drawn(f"{who}-{visit}", who, named, shown, image, masks)
            done += 1
        patient += 1


def _place(rng: np.random.Generator, placement: Placement) -> tuple[list[int], list[int]]:
    """Which regions the sentence names, and which show a lesion."""
    named = [0] * 6
    if rng.random() < placement.unilateral:
        side = int(rng.random() * 2)
        count = _pick(rng, placement.named)
        for level in rng.permutation(3)[:count]:
            named[3 * side + level] = 1
        other = [3 * (1 - side) + level for level in rng.permutation(3)]
        distractors = other[: _pick(rng, placement.other_side)]
        free = [3 * side + level for level in rng.permutation(3) if not named[3 * side + level]]
        if rng.random() < placement.same_side:
            distractors += free[:1]
    else:
        for side in range(2):
            for level in rng.permutation(3)[: 2 if rng.random() < placement.second_named else 1]:
                named[3 * side + level] = 1
        free = [int(r) for r in rng.permutation(6) if not named[r]]
        distractors = free[: _pick(rng, placement.anywhere)]
    shown = list(named)
    for region in distractors:
        shown[region] = 1
    return named, shown


def _lesion(rng: np.random.Generator, difficulty: Difficulty) -> Lesion:
    return Lesion.draw(
        rng,
        radius=difficulty.radius,
        elongation=difficulty.elongation,
        contrast=difficulty.contrast,
    )


def _pick(rng: np.random.Generator, choices: tuple[int, ...]) -> int:
    return choices[int(rng.random() * len(choices))]


def _placement(values: dict[str, object]) -> Placement:
    lists = ("named", "other_side", "anywhere")
    return Placement(**{k: tuple(v) if k in lists else v for k, v in values.items()})


def _difficulty(values: dict[str, object]) -> Difficulty:
    pairs = {k: tuple(v) if k in ("contrast", "radius") else v for k, v in values.items()}
    return Difficulty(**pairs)
