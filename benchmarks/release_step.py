"""A Semi-MedRef step in the pattern of the published release; our own code, from its description.

Five passes, each complete and each with its own text encoding: the teacher for the pseudo-labels
and again for the donors, the student for labeled, strong and weak images. Views, patches, masks and
sentences one sample at a time, with Python branches on tensors; the optimizer, clipping and the
teacher's update one parameter at a time. The mathematics and the random numbers are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from semimedref.augment.plan import Plan
from semimedref.dataset.sample import Batch
from semimedref.intensity import standardize
from semimedref.method.schedule import Progress
from semimedref.method.teacher_student import TeacherStudent
from semimedref.model.encoders.tokenizer import PAD
from semimedref.model.segmenter import Segmenter, TextFeatures, TextInput
from semimedref.run import Parts


class ReleaseSteps:
    """One optimizer step a call, from the middle of training on."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self.trainer = parts.trainer(folder, lambda: None)
        self.trainer.step = self.trainer.total_steps // 2
        self.method, self.device = parts.method, parts.hardware.device
        config, groups = self.trainer.config, self.method.parameter_groups()
        self.learns = [p for group in groups for p in group["params"]]
        self.optimizer = torch.optim.AdamW(
            groups, lr=config.lr, weight_decay=config.weight_decay, foreach=False
        )

    def __call__(self) -> Tensor:
        trainer, method, progress = self.trainer, self.method, self.trainer.progress
        for group in self.optimizer.param_groups:
            group["lr"] = trainer.learning_rate(trainer.step) * group["lr_scale"]
        method.train()
        self.optimizer.zero_grad(set_to_none=True)
        ((labeled, unlabeled),) = trainer.data[trainer.step]
        loss = self.losses(labeled, unlabeled, progress)["loss"]
        loss.backward()
        if trainer.config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.learns, trainer.config.clip_norm, foreach=False)
        self.optimizer.step()
        _follow(method.teacher.network, method.student, momentum=method.momentum(progress))
        trainer.step += 1
        return loss.detach()

    def losses(self, labeled: Batch, unlabeled: Batch, progress: Progress) -> dict[str, Tensor]:
        """The terms of the objective for two batches of the loader."""
        method, dropout = self.method, self.method.text_dropout
        student, teacher = method.student, method.teacher.network
        labeled, unlabeled = labeled.to(self.device), unlabeled.to(self.device)
        known, mask = _weak(method, labeled)
        weak, _ = _weak(method, unlabeled)
        columns = method.views._columns
        plan = method.views.mixer.plan(unlabeled, unlabeled.uniform[:, columns[3]].numpy())
        donors = plan.donor.tolist()
        with torch.no_grad():
            own = _pass(teacher, weak, unlabeled.sentences)[0].sigmoid()
            given_text = [unlabeled.sentences[j] for j in donors]
            given = _pass(teacher, weak[plan.donor], given_text)[0].sigmoid()
        strong = _strong(method, weak, unlabeled, Given(own, given, plan))
        logits, text = _pass(student, known, labeled.sentences, dropout=dropout)
        terms = {"loss_sup": method.loss(logits, mask)}
        terms["loss_pacl_sup"] = _contrast(method, known, text, labeled.position)
        logits, _ = _pass(student, strong.image, strong.sentences, dropout=dropout)
        terms["loss_unsup"] = method.loss(logits, strong.target)
        _, text = _pass(student, weak, unlabeled.sentences, dropout=dropout)
        terms["loss_pacl_unsup"] = _contrast(method, weak, text, unlabeled.position)
        return method._total(terms, progress)


@dataclass(frozen=True)
class Given:
    """The teacher's word on a batch and on its donors, and the host's plan."""

    own: Tensor  # (B, 1, H, W)
    donor: Tensor  # (B, 1, H, W)
    plan: Plan


@dataclass(frozen=True)
class Strong:
    """What the student sees of a batch."""

    image: Tensor  # (B, 1, H, W)
    target: Tensor  # (B, 1, H, W)
    sentences: list[str]


def _pass(
    network: Segmenter, image: Tensor, sentences: list[str] | tuple[str, ...], dropout: bool = False
) -> tuple[Tensor, TextFeatures]:
    """Tokenize, encode, segment: the whole network, whatever is asked of it."""
    text = network.encode_text(_tokenized(network, sentences), dropout=dropout)
    return network(standardize(image), text), text


def _tokenized(network: Segmenter, sentences: list[str] | tuple[str, ...]) -> TextInput:
    """Nothing is remembered from earlier passes."""
    encoder = network.text_encoder
    ids = torch.full((len(sentences), encoder.max_tokens), PAD)
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    for i, sentence in enumerate(sentences):
        known = encoder._tokenize(sentence, encoder.max_tokens)
        ids[i, : len(known)] = torch.tensor(known)
        mask[i, : len(known)] = True
    return TextInput(input_ids=ids, attention_mask=mask, rows=None).to(encoder._tokens.device)


def _contrast(method: TeacherStudent, image: Tensor, text: TextFeatures, q: Tensor) -> Tensor:
    """PACL on the text-free map, which the complete pass does not give."""
    return method.align(method.student.image_features(standardize(image)), text.pooled, q)


def _weak(method: TeacherStudent, batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Zoom the samples that are to be zoomed."""
    zoom, u = method.views.zoom, batch.uniform[:, method.views._columns[0]]
    images, masks = [], []
    for i in range(len(batch)):
        image = batch.image[i : i + 1]
        mask = None if batch.mask is None else batch.mask[i : i + 1]
        if u[i, 0].item() < zoom.probability:
            image, mask = zoom(image, mask, u[i : i + 1])
        images.append(image)
        masks.append(mask)
    return torch.cat(images), None if batch.mask is None else torch.cat(masks)


def _strong(method: TeacherStudent, weak: Tensor, batch: Batch, given: Given) -> Strong:
    """Jitter and blur, then patch, pseudo-mask and sentence of every sample."""
    views = method.views
    images = [image[None] for image in weak]
    for part, columns in ((views.jitter, views._columns[1]), (views.blur, views._columns[2])):
        u = batch.uniform[:, columns]
        for i, image in enumerate(images):
            if u[i, 0].item() < part.probability:
                images[i] = part(image, u[i : i + 1])
    edits = batch.uniform[:, views._columns[4]].numpy()
    mixed, targets, sentences = [], [], []
    for i, image in enumerate(images):
        patch = _patch(method, batch, given, i)
        image, probability = image.clone(), given.own[i : i + 1].clone()
        if patch is not None:
            rows, columns = patch
            image[..., rows, columns] = images[given.plan.donor[i].item()][..., rows, columns]
            probability[..., rows, columns] = given.donor[i : i + 1, :, rows, columns]
        pasted = patch is not None
        cut = method.mixed_threshold if pasted else None
        mixed.append(image)
        targets.append(method.pseudo_label(probability, threshold=cut))
        sentences.append(views.words(given.plan.sentences[i][int(pasted)], edits[i]))
    return Strong(torch.cat(mixed), torch.cat(targets), sentences)


def _patch(
    method: TeacherStudent, batch: Batch, given: Given, i: int
) -> tuple[slice, slice] | None:
    """Where sample i takes its donor's pixels, if the lesion gate lets it (hybrid T-PatchMix)."""
    mixer, probability = method.views.mixer, given.donor[i, 0]
    if not given.plan.allowed[i].item():
        return None
    left, top, right, bottom = given.plan.box[i].tolist()
    sure = (probability[top:bottom, left:right] >= mixer.threshold).nonzero()
    if len(sure) == 0:
        return None
    u = batch.uniform[i, method.views._columns[3]][3].item()
    y, x = sure[min(int(u * len(sure)), len(sure) - 1)].tolist()
    side = round(mixer.patch / mixer.reference_side * probability.shape[-1])
    y = min(max(top + y - side // 2, top), max(bottom - side, top))
    x = min(max(left + x - side // 2, left), max(right - side, left))
    patch = slice(y, y + side), slice(x, x + side)
    return patch if probability[patch].mean().item() >= mixer.threshold else None


@torch.no_grad()
def _follow(teacher: Segmenter, student: Segmenter, *, momentum: float) -> None:
    other = dict(student.named_parameters()) | dict(student.named_buffers())
    for name, ours in [*teacher.named_parameters(), *teacher.named_buffers()]:
        if ours is other[name]:
            continue
        if ours.dtype.is_floating_point:
            ours.mul_(momentum).add_(other[name], alpha=1 - momentum)
        else:
            ours.copy_(other[name])
