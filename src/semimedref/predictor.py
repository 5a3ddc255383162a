"""Use a trained run: an image and a sentence in, a mask out.

predictor = semimedref.Predictor("multirun/phantom-2pct-…")
prediction = predictor("chest.png", "unilateral pulmonary infection, one infected area, ...")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semimedref import checkpoint, config
from semimedref.errors import UserError
from semimedref.run import finished_config

if TYPE_CHECKING:
    from PIL.Image import Image

    Source = str | Path | np.ndarray | Image


@dataclass(frozen=True)
class Prediction:
    """What the network sees in one image, at the image's own size."""

    image: np.ndarray  # (H, W) uint8
    text: str
    probability: np.ndarray  # (H, W) float32
    mask: np.ndarray  # (H, W) bool


class Predictor:
    """A run's best weights, ready to segment."""

    def __init__(
        self,
        run: str | Path,
        *,
        weights: str = "student",
        device: str = "auto",
        overrides: Sequence[str] = (),
    ) -> None:
        folder = Path(run)
        cfg = finished_config(folder, [f"hardware.device={device}", *overrides])
        self.hardware = config.build(cfg, "hardware")
        self.hardware.apply()
        self.method = config.build(cfg, "method")
        self.method.to(self.hardware.device).train(False)
        self.method.load_weights(checkpoint.pick(checkpoint.load(folder / "best.pt"), "weights"))
        self.weights, self.side = weights, cfg.scale.image_side
        self.threshold, self.vocabulary = cfg.trainer.threshold, cfg.dataset.vocabulary
        self.method.network(weights)

    def names_a_position(self, text: str) -> bool:
        """Whether the sentence names a region of the data set's vocabulary, if it has one."""
        from semimedref.text.position import parse

        return self.vocabulary is None or any(parse(text, self.vocabulary))

    def __call__(self, image: Source, text: str) -> Prediction:
        """Segment what the sentence refers to."""
        import torch
        import torch.nn.functional as F

        from semimedref.dataset.loaders import Pool
        from semimedref.dataset.sample import Split
        from semimedref.evaluate import predict_pool

        if not text.strip():
            raise UserError('the sentence is empty: give text="…", e.g. text="… upper left lung."')
        gray = read_gray(image)
        single = Split(("image",), ("image",), (text,), np.zeros((1, 0), np.uint8), gray[None],
                       np.zeros((0, 0, 0), np.uint8))  # fmt: skip
        pool = Pool(single, (0,), self.side, masks=False)
        small = predict_pool(self.method, pool, [0], self.hardware, weights=self.weights)[0]
        tensor = torch.from_numpy(small)[None, None]
        if small.shape != gray.shape:
            tensor = F.interpolate(tensor, size=gray.shape, mode="bilinear", align_corners=False)
        probability = tensor[0, 0].numpy()
        return Prediction(gray, text, probability, probability >= self.threshold)


def read_gray(image: Source) -> np.ndarray:
    """Any image as 8-bit gray (H, W)."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(image, str | Path):
        try:
            with Image.open(image) as file:
                return _to_gray(file)
        except FileNotFoundError as error:
            raise UserError(f"image={image} does not exist") from error
        except (UnidentifiedImageError, OSError) as error:
            raise UserError(f"image={image} is no image that can be read (PNG, JPEG, …)") from error
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim not in (2, 3):
            raise UserError(
                f"an array of {image.dtype} with shape {image.shape} was given: expected uint8 "
                "(H, W) or (H, W, 3)"
            )
        image = Image.fromarray(image)
    return _to_gray(image)


def _to_gray(image: Image) -> np.ndarray:
    """8-bit gray; deeper images are stretched from their minimum to their maximum.

    The network standardizes each image, so the stretch changes nothing but the rounding.
    """
    if image.mode not in ("I", "F") and not image.mode.startswith("I;16"):
        return np.asarray(image.convert("L"))
    deep = np.asarray(image).astype(np.float64)
    low, high = float(deep.min()), float(deep.max())
    return np.round((deep - low) / max(high - low, 1e-12) * 255).astype(np.uint8)
