"""``method=position_predictor``: which regions does the report name? From the image alone.

The paper's study of predictors on their own: reports give the labels, validation mAP chooses the
epoch. There are no masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from semimedref import checkpoint
from semimedref.augment.plan import Plan
from semimedref.augment.views import Views
from semimedref.dataset.loaders import Pool
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.intensity import standardize
from semimedref.method.schedule import Progress
from semimedref.model.encoders.image import ImageEncoder, require_levels
from semimedref.model.position_predictor.cost import count_parameters, gflops
from semimedref.model.position_predictor.loss import positive_weight
from semimedref.model.position_predictor.position_token import PositionToken
from semimedref.model.position_predictor.predictor import PositionPredictor
from semimedref.model.position_predictor.scores import position_scores
from semimedref.text.vocabulary import vocabulary as look_up

_TRUNK = "image_encoder."  # of a run's student


class PositionStudy:
    """Weighted cross-entropy on the weak view of labeled images.

    A trunk from a trained run is kept at first and then tuned at its end; a trunk without one
    (``trunk: null``) learns as a whole, from the first step and at the full rate.

    Args:
        model: makes the head from ``width`` and ``boxes``.
        image_encoder: the trunk.
        trunk: a run folder whose trained trunk is taken over, or None.
        views: the weak view.
        vocabulary: regions of the data set's sentences.
        head_epochs: how long a taken-over trunk stays as it is.
        tuned_levels: how many of its last levels are tuned afterwards.
        trunk_lr_scale: their learning rate, relative to the head's.
        lowest_weight: of a positive label in the cross-entropy.
        highest_weight: of a positive label in the cross-entropy.
        threshold: of a predicted region, for F1.
        token: makes what ISPG adds to a predictor; counted in its cost, not trained here.
        token_widths: of the text and of PACL's space, for those tokens.
    """

    uses_unlabeled = False
    selects, segments = "map", False
    routes: tuple[str, ...] = ()
    axes: Sequence[Mapping[str, Any]] = ()
    removal_key, removal_valid = "image_id", 0.0
    stages: Mapping[str, float] = MappingProxyType({})
    reads_masks, selects_on = True, "valid"

    def __init__(
        self,
        *,
        model: Callable[..., nn.Module],
        image_encoder: ImageEncoder,
        trunk: str | None,
        views: Views,
        vocabulary: str,
        head_epochs: float,
        tuned_levels: int,
        trunk_lr_scale: float,
        lowest_weight: float,
        highest_weight: float,
        threshold: float,
        token: Callable[..., PositionToken],
        token_widths: Sequence[int],
    ) -> None:
        require_levels(image_encoder, "the position predictor")
        words = look_up(vocabulary)
        self.student = PositionPredictor(image_encoder, model, boxes=words.boxes)
        self.taken_over = trunk is not None
        self.kept_levels = len(image_encoder.levels) - tuned_levels if self.taken_over else 0
        if trunk is not None:
            take_over(image_encoder, Path(trunk))
            image_encoder.levels[: self.kept_levels].requires_grad_(False)
        self.views, self.draws, self.threshold = views, views.draws, threshold
        self.head_epochs, self.trunk_lr_scale = head_epochs, trunk_lr_scale
        self.lowest_weight, self.highest_weight = lowest_weight, highest_weight
        self.positive_weight = torch.ones(len(words.regions))
        self.token, self.token_widths = token, token_widths

    def to(self, device: object) -> Self:
        """Move the predictor and the weights of its loss."""
        self.student.to(device)
        self.positive_weight = self.positive_weight.to(device)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch between training and evaluation."""
        self.student.train(mode)
        return self

    def networks(self) -> list[nn.Module]:
        """The predictor."""
        return [self.student]

    def check_side(self, side: int) -> None:
        """Any side will do."""

    def prepare_text(self, sentences: Sequence[str]) -> None:
        """Nothing is read."""

    def start_from(self, name: str, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """No other run is needed."""
        raise AssertionError(f"{type(self).__name__} takes nothing over from a run '{name}'")

    def begin(self, labeled: Pool, unlabeled: Pool) -> None:
        """Negatives over positives of each region, clipped, weigh its positive labels."""
        positions = labeled.split.positions[list(labeled.places)]
        self.positive_weight = positive_weight(
            torch.from_numpy(positions.astype(np.float32)),
            lowest=self.lowest_weight,
            highest=self.highest_weight,
        )

    def enter(self, stage: str) -> None:
        """There is one stage."""

    def edit_labeled(self, batch: Batch) -> Batch:
        """Nothing is read."""
        return batch

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Head and trunk."""
        trunk = [p for p in self.student.image_encoder.parameters() if p.requires_grad]
        scale = self.trunk_lr_scale if self.taken_over else 1.0
        head = {"params": list(self.student.head.parameters()), "lr_scale": 1.0}
        return [head, {"params": trunk, "lr_scale": scale}] if trunk else [head]

    def plan(self, batch: Batch, progress: Progress) -> None:
        """There is no strong view."""

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """The weighted cross-entropy of the regions."""
        del unlabeled
        image = standardize(self.views.weak(labeled).image)
        logits = self._logits(image, kept=self.kept_now(progress)).float()
        loss = F.binary_cross_entropy_with_logits(
            logits, labeled.position, pos_weight=self.positive_weight
        )
        return {"loss": loss, "loss_position": loss}

    def kept_now(self, progress: Progress) -> int:
        """How many levels of the trunk are not learning at this step."""
        if not self.taken_over or progress.step >= self.head_epochs * progress.steps_per_epoch:
            return self.kept_levels
        return len(self.student.image_encoder.levels)

    def _logits(self, image: Tensor, *, kept: int) -> Tensor:
        """The forward pass of the predictor, its first ``kept`` levels as in an evaluation."""
        trunk = self.student.image_encoder
        x = trunk.adapt(image)
        with torch.no_grad():
            for level in trunk.levels[:kept].eval():
                x = level(x)
        for level in trunk.levels[kept:]:
            x = level(x)
        return self.student.head(x)

    def rehearsal(self, plan: Plan, side: int) -> Any:  # noqa: ANN401
        """A plan as it is."""
        del side
        return plan

    def after_step(self, progress: Progress) -> None:
        """Nothing follows a step."""

    def values(self, progress: Progress) -> dict[str, float]:
        """How much of the trunk is kept."""
        return {"kept_levels": float(self.kept_now(progress))}

    @torch.no_grad()
    def predict(self, batch: Batch, *, weights: str, route: str | None = None) -> Tensor:
        """Probability (B, K) of every region."""
        self.check_route(route)
        return self.network(weights)(standardize(batch.image)).float().sigmoid()

    def measure(self, batch: Batch, *, threshold: float, weights: str, route: str | None) -> Tensor:
        """Probabilities and labels side by side (B, 2 K); the threshold is one of masks."""
        del threshold
        return torch.cat([self.predict(batch, weights=weights, route=route), batch.position], 1)

    def summarize(self, table: np.ndarray) -> dict[str, float]:
        """Mean average precision, macro AUROC and macro F1."""
        probability, position = np.split(table, 2, axis=1)
        return position_scores(probability, position, threshold=self.threshold)

    def facts(self, side: int) -> dict[str, float]:
        """Parameters and GFLOPs of all that ISPG adds, as the paper counts, and of the head."""
        regions = len(self.positive_weight)
        with torch.device("meta"):
            tokens = [self.token(regions=regions, width=width) for width in self.token_widths]
        complete, whole = count_parameters(self.student, *tokens), gflops(self.student, side)
        trunk = gflops(self.student.image_encoder, side)
        return {
            "params": complete,
            "gflops": whole,
            "params_head": count_parameters(self.student.head),
            "gflops_head": whole - trunk,
        }

    def check_route(self, route: str | None) -> None:
        """Refuse every route: nothing is read."""
        if route is not None:
            raise UserError(f"route={route}: this run reads no text; expected one of method=ispg")

    def network(self, which: str) -> PositionPredictor:
        """The predictor."""
        if which != "student":
            raise UserError(f"weights={which}: a position predictor has no teacher; use student")
        return self.student

    def state_dict(self) -> dict[str, Any]:
        """The predictor."""
        return self.weights()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take it back."""
        self.load_weights(state)

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """The whole predictor: the run that its trunk came from may be gone some day."""
        return {"student": self.student.state_dict()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take it back."""
        self.student.load_state_dict(checkpoint.pick(state, "student"))


def take_over(trunk: ImageEncoder, run: Path) -> None:
    """Load the trunk of a trained run's student."""
    state = checkpoint.pick(checkpoint.load(run / "best.pt"), "weights")
    student = checkpoint.pick(state, "student")
    found = {k.removeprefix(_TRUNK): v for k, v in student.items() if k.startswith(_TRUNK)}
    own = trunk.state_dict()
    if {k: v.shape for k, v in found.items()} != {k: v.shape for k, v in own.items()}:
        raise UserError(
            f"method.trunk={run}: its trunk does not fit this {type(trunk).__name__}; expected a "
            "run with the same image_encoder (`semimedref diff` shows what differs)"
        )
    trunk.load_state_dict(found)
