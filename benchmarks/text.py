"""Sentences: rows of a table of features against running the frozen text encoder each step."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.measure import Comparison, compare, seconds
from benchmarks.size import Size
from semimedref.config import compose
from semimedref.model.segmenter import Segmenter, TextFeatures
from semimedref.run import Parts


def run(size: Size) -> list[Comparison]:
    """The features of a batch alone, then a whole optimizer step of method=teacher_student."""
    build = {
        cache: Parts.build(compose([*size.cpu, f"text_encoder.cache={cache}"]))
        for cache in ("true", "false")
    }
    cached, encoded = build["true"], build["false"]
    return [_features(cached, encoded, size), _step(cached, encoded, size)]


def _features(cached: Parts, encoded: Parts, size: Size) -> Comparison:
    texts = cached.pool("train").split.texts
    distinct = list(dict.fromkeys(texts))
    network = cached.method.student
    filled = seconds(lambda: network.prepare_text(distinct))
    batch = texts[: size.batch]
    ours, obvious = (lambda n=p.method.student: _encode(n, batch) for p in (cached, encoded))
    torch.testing.assert_close(ours().tokens, obvious().tokens, rtol=1e-3, atol=1e-4)
    return compare(
        "text",
        f"features of {len(batch)} sentences",
        ours=("prepare_text + encode_text, cached", ours),
        obvious=("the encoder runs", obvious),
        size=size,
        note=f"the table is filled once: {len(distinct)} sentences in {filled:.2f} s",
    )


@torch.no_grad()
def _encode(network: Segmenter, sentences: tuple[str, ...]) -> TextFeatures:
    return network.encode_text(network.prepare_text(sentences))


def _step(cached: Parts, encoded: Parts, size: Size) -> Comparison:
    with TemporaryDirectory() as folder:
        ours, obvious = (_Steps(parts, Path(folder)) for parts in (cached, encoded))
        torch.testing.assert_close(ours(), obvious(), rtol=1e-3, atol=1e-4)
        half = ours.trainer.config.batch_size
        return compare(
            "text",
            f"whole step, {half} + {half} images",
            ours=("cached sentences", ours),
            obvious=("the encoder runs 3 times", obvious),
            size=size,
            note="teacher_student after burn-in: data, teacher, student, AdamW, EMA",
        )


class _Steps:
    """One optimizer step of the real training loop a call, after the burn-in."""

    def __init__(self, parts: Parts, folder: Path) -> None:
        self.trainer = parts.trainer(folder, lambda: None)
        self.trainer.step = self.trainer.total_steps // 2
        self.trainer._forward = parts.method.step  # what fit() sets without torch.compile

    def __call__(self) -> torch.Tensor:
        self.trainer.sums = {}
        self.trainer._optimize(self.trainer.data[self.trainer.step])
        return self.trainer.sums["loss"]
