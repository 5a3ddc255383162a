"""``method=ispg``: positions predicted from the image stand in for those that a sentence lacks.

Image-derived Soft Position Guidance (paper, Eq. ispg) on top of Semi-MedRef. A predictor of its own
says from the image which regions the report names; its probabilities become a soft token, appended
to the words, that takes part in every fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from semimedref.align.alignment import Alignment
from semimedref.augment.plan import Plan
from semimedref.augment.spc import SPC
from semimedref.augment.views import Views
from semimedref.checkpoint import pick
from semimedref.dataset.sample import Batch
from semimedref.errors import UserError
from semimedref.intensity import standardize
from semimedref.method.schedule import Progress, Schedule
from semimedref.method.segmentation_loss import SegmentationLoss
from semimedref.method.supervised import mask_of
from semimedref.method.teacher_student import TeacherStudent, add_parameters
from semimedref.method.text_choice import join
from semimedref.model.position_predictor.loss import PositionLoss
from semimedref.model.position_predictor.position_token import PositionToken
from semimedref.model.position_predictor.predictor import PositionPredictor
from semimedref.model.segmenter import Segmenter, TextFeatures
from semimedref.text.removal import Removal
from semimedref.text.vocabulary import vocabulary as look_up

ZERO_ROUTES = ("no_token", "constant_token")


class ISPG(TeacherStudent):
    """The student reads A_rho(T) and the token of the predicted positions; the teacher T and q.

    Choices where the paper leaves room:

    - The predictor sees what the student sees: the weak labeled and the strong unlabeled image, in
      one pass. Its target is the label q of the original report, also where a patch was pasted.
    - Its two losses count from the first step, at full weight; in burn-in, without a teacher, the
      unlabeled image is not mixed yet.
    - Labeled PACL compares the sentence that the student reads, unlabeled PACL the complete one;
      no position enters its text side unless ``contrast_projector`` is on.
    - The token's projector belongs to the student, so the teacher has an average of it; there is
      one predictor for both.

    Args:
        predictor: makes g_phi from the ``boxes`` of the regions.
        token: makes h_psi from the number of ``regions`` and a ``width``.
        position_loss: of the predicted positions.
        removal: A_rho, in training and in validation.
        weight_position_labeled: of its loss on labeled images.
        weight_position_unlabeled: of its loss on unlabeled images.
        predictor_lr_scale: learning rate of the predictor, relative to all others.
        contrast_projector: add a second projection of the positions to PACL's text side.
        zero_route: what route=zero supplies: ``no_token``, or the ``constant_token`` of zeros.
        axes: evaluations of the test set after training: routes and removal rates.
    """

    routes = ("ispg", "zero", "oracle")

    def __init__(
        self,
        *,
        model: Segmenter,
        views: Views,
        align: Callable[..., Alignment] | None,
        pseudo_label: Callable[..., Tensor],
        loss: SegmentationLoss,
        schedule: Schedule,
        weight_unlabeled: float,
        mixed_threshold: float,
        momentum_start: float,
        momentum_end: float,
        text_dropout: bool,
        passes: str,
        unsure: float,
        predictor: Callable[..., PositionPredictor],
        token: Callable[..., PositionToken],
        position_loss: PositionLoss,
        removal: Removal,
        weight_position_labeled: float,
        weight_position_unlabeled: float,
        predictor_lr_scale: float,
        contrast_projector: bool,
        zero_route: str,
        axes: Sequence[Mapping[str, Any]],
    ) -> None:
        _check(views, zero_route, model)
        words = look_up(removal.vocabulary)
        regions = len(words.regions)
        # Before the teacher is made: its copy of the token follows the student's.
        model.position_token = token(regions=regions, width=model.text_encoder.width)
        super().__init__(
            model=model,
            views=views,
            align=align,
            pseudo_label=pseudo_label,
            loss=loss,
            schedule=schedule,
            weight_unlabeled=weight_unlabeled,
            mixed_threshold=mixed_threshold,
            momentum_start=momentum_start,
            momentum_end=momentum_end,
            text_dropout=text_dropout,
            passes=passes,
            unsure=unsure,
        )
        if passes != "joint":
            raise UserError(
                f"preset.student_passes={passes}: method=ispg has one pass; expected joint"
            )
        self.predictor = predictor(boxes=words.boxes)
        self.contrast_token = None
        if contrast_projector and self.align is not None:
            *_, last = (m for m in self.align.text_head if isinstance(m, nn.Linear))
            self.contrast_token = token(regions=regions, width=last.out_features)
        self.position_loss, self.removal, self.zero_route = position_loss, removal, zero_route
        self.weight_position_labeled = weight_position_labeled
        self.weight_position_unlabeled = weight_position_unlabeled
        self.predictor_lr_scale, self.axes = predictor_lr_scale, axes
        self.removal_key, self.removal_valid = removal.key, removal.validation
        self.draws += 1  # the last number of a sample decides its removal

    def to(self, device: object) -> Self:
        """Move the predictor too."""
        for part in self._own().values():
            part.to(device)
        return super().to(device)

    def train(self, mode: bool = True) -> Self:
        """The head of the predictor has dropout."""
        if self.predictor.training != mode:
            self.predictor.train(mode)
        return super().train(mode)

    def networks(self) -> list[nn.Module]:
        """Student and predictor."""
        return [self.student, self.predictor]

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The predictor learns more slowly."""
        groups = super().parameter_groups()
        if self.contrast_token is not None:
            add_parameters(groups, self.contrast_token.parameters())
        slow = {"params": list(self.predictor.parameters()), "lr_scale": self.predictor_lr_scale}
        return [*groups, slow]

    def edit_labeled(self, batch: Batch) -> Batch:
        """Some labeled sentences lose their positions."""
        pairs = zip(batch.sentences, batch.uniform[:, -1].tolist(), strict=True)
        return replace(batch, sentences=tuple(self.removal(s, u) for s, u in pairs))

    def plan(self, batch: Batch, progress: Progress) -> Plan | None:
        """Some unlabeled sentences lose them too: the mixed ones, with what PosAug left."""
        if self.schedule.skips_unlabeled(progress):
            return None
        plan = self.views.plan(batch, list)
        pairs = zip(plan.sentences, batch.uniform[:, -1].tolist(), strict=True)
        rows = tuple(tuple(self.removal(s, u) for s in row) for row, u in pairs)
        return replace(plan, sentences=rows).prepared(self.student.prepare_text)

    def step(
        self, labeled: Batch, unlabeled: Batch | None, progress: Progress
    ) -> dict[str, Tensor]:
        """One pass of the predictor and one of the student over both branches."""
        known, text = self.views.labeled(labeled), self.student_text(labeled)
        images, texts, strong, weak = [known.image], [text], None, None
        if unlabeled is not None:
            weak = self.views.weak(unlabeled)
            if self.schedule.skips_unlabeled(progress):
                images.append(self.views.normalized(self.views.perturb(weak, unlabeled)))
            else:
                strong = self.views.strong(weak, unlabeled, self.teach(weak.image, unlabeled))
                images.append(self.views.normalized(strong.image))
                texts.append(self.strong_text(unlabeled, strong))
        image, both, n = torch.cat(images), join(texts), len(labeled)
        guess = self.predictor(self._as_z_score(image))
        position = guess[: len(both.tokens)].float().sigmoid()
        guided = guide(self.student, both, position)
        first, second = self.student.outputs(image[: len(position)], guided).split(n)
        losses = {
            "loss_sup": self.objective(first, mask_of(known)),
            "loss_position_sup": self.position_loss(guess[:n], labeled.position),
        }
        if unlabeled is not None:
            losses["loss_position_unsup"] = self.position_loss(guess[n:], unlabeled.position)
        if strong is not None:
            losses["loss_unsup"] = self.unlabeled_objective(second, strong)
        pairs = [(known.image, self._contrasted(text, position[:n]), labeled.position)]
        if strong is not None and self.align is not None:
            complete = self._contrasted(self.student_text(unlabeled), unlabeled.position)
            pairs.append((self.student.normalized(weak.image), complete, unlabeled.position))
        return self._total(losses | self._contrast(pairs, progress), progress)

    def loss_weights(self, progress: Progress) -> dict[str, float]:
        """The position losses are not ramped."""
        return super().loss_weights(progress) | {
            "loss_position_sup": self.weight_position_labeled,
            "loss_position_unsup": self.weight_position_unlabeled,
        }

    @torch.no_grad()
    def teach(self, image: Tensor, batch: Batch) -> Tensor:
        """The teacher's probability P for a weak view, the complete sentence and its label q."""
        network = self.teacher.network
        text = guide(network, network.encode_text(batch.text), batch.position)
        return network(network.normalized(image), text).float().sigmoid()

    def compare(self, image_map: Tensor, text: TextFeatures, q: Tensor) -> Tensor:
        """The contrastive loss; with the second projector, positions are part of the sentence."""
        if self.contrast_token is None:
            return super().compare(image_map, text, q)
        read = self.align.embed_text(text.pooled) + self.contrast_token(text.position)
        return self.align.contrast(self.align.embed_image(image_map), read, q)

    def _contrasted(self, text: TextFeatures, position: Tensor) -> TextFeatures:
        """What PACL reads: the bare sentence, unless switches of the release let positions in."""
        if self.align is None:
            return text
        if self.contrast_token is None and self.align.image_feature == "pre_fusion":
            return text
        return guide(self.student, text, position)

    @torch.no_grad()
    def predict(self, batch: Batch, *, weights: str, route: str | None = None) -> Tensor:
        """Foreground probability; by default with the token of the predicted positions."""
        self.check_route(route)
        network = self.network(weights)
        image = network.normalized(batch.image)
        text = network.encode_text(batch.text)
        position = self.supplied(image, batch, route=route or self.routes[0])
        if position is not None:
            text = guide(network, text, position)
        return network(image, text).float().sigmoid()

    def supplied(self, image: Tensor, batch: Batch, *, route: str) -> Tensor | None:
        """The positions (B, K) that a route makes the token of; None: there is no token."""
        if route == "ispg":
            return self.predictor(self._as_z_score(image)).float().sigmoid()
        if route == "oracle":
            return batch.position
        return None if self.zero_route == "no_token" else torch.zeros_like(batch.position)

    def _as_z_score(self, image: Tensor) -> Tensor:
        """The predictor's images; a z-score does not see how another normalization scaled them."""
        if self.student.normalization == "z_score":
            return image
        return standardize(image.mean(1, keepdim=True))

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """With the predictor."""
        return super().weights() | {name: p.state_dict() for name, p in self._own().items()}

    def load_weights(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take all back."""
        super().load_weights(state)
        for name, part in self._own().items():
            part.load_state_dict(pick(state, name))

    def _own(self) -> dict[str, nn.Module]:
        extra = {} if self.contrast_token is None else {"contrast_token": self.contrast_token}
        return {"predictor": self.predictor, **extra}


@dataclass(frozen=True)
class GuidedText(TextFeatures):
    """Sentences whose last token says where: the ``position`` (B, K) that it was made of."""

    position: Tensor


def guide(network: Segmenter, text: TextFeatures, position: Tensor) -> GuidedText:
    """Append z^p = h_psi(position) to the words; it is never masked (paper, Eq. ispg)."""
    token = network.position_token(position)[:, None].to(text.tokens.dtype)
    return GuidedText(
        tokens=torch.cat([text.tokens, token], 1),
        mask=torch.cat([text.mask, text.mask.new_ones(len(token), 1)], 1),
        pooled=text.pooled,
        position=position,
    )


def _check(views: Views, zero_route: str, model: Segmenter) -> None:
    if zero_route not in ZERO_ROUTES:
        raise UserError(f"zero_route={zero_route}: expected {' or '.join(ZERO_ROUTES)}")
    if isinstance(views.mixer, SPC):
        raise UserError(
            "method=ispg augment=spc: a mirrored image no longer has the positions that the "
            "predictor is to learn; choose another augment, e.g. augment=semi_medref"
        )
    if not model.takes_position_token:
        raise UserError(
            f"method=ispg adds a token to the words, and {type(model).__name__} has no place for "
            "one: choose another model, e.g. model=mmi_unet"
        )
