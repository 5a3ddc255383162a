"""How much attention goes to positional words, against how many words they are.

The fused attention kernel never forms its weights. They are computed again, from the block's own
projections, by hooks that exist only while an analysis runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F

from semimedref.analysis.bootstrap import Floats, mean_interval
from semimedref.analysis.finding import Finding, percent
from semimedref.analysis.words import Word, read_words
from semimedref.errors import UserError
from semimedref.results.figure.attention import attention as draw_attention
from semimedref.results.figure.measured import Measured

if TYPE_CHECKING:
    from torch import Tensor, nn

    from semimedref.analysis.subject import Subject
    from semimedref.model.blocks import Attention

DEEP = 2  # the last stages, whose average the paper reports


@torch.no_grad()
def attention_weights(
    block: Attention, x: Tensor, memory: Tensor, mask: Tensor | None = None
) -> Tensor:
    """softmax(q k / sqrt(d)) (B, heads, N, M) of a call of the block, without dropout."""
    width = x.shape[-1]
    parts = ((x, slice(0, width)), (memory, slice(width, 2 * width)))
    q, k = (
        F.linear(value, block.in_proj_weight[rows], block.in_proj_bias[rows])
        .unflatten(-1, (block.heads, -1))
        .transpose(1, 2)
        for value, rows in parts
    )
    scores = (q.float() @ k.float().transpose(2, 3)) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
    return scores.softmax(-1)


def fusion_attentions(network: nn.Module) -> list[Attention]:
    """The blocks in which image tokens look at words, one a fusion stage."""
    if not hasattr(network, "fusion"):
        raise UserError(
            f"{type(network).__name__} has no fusion stages with cross-attention: the attention "
            "analysis is for model=mmi_unet"
        )
    return [stage.visual.cross_attention for stage in network.fusion]


@contextmanager
def captured(blocks: Sequence[Attention]) -> Iterator[list[Tensor]]:
    """Collect the attention (B, M) of every block, meaned over heads and queries, per forward."""
    found: list[Tensor] = [torch.empty(0)] * len(blocks)

    def keep(at: int, block: Attention, args: tuple, output: Tensor) -> None:
        del output
        found[at] = attention_weights(block, *args).mean((1, 2))

    hooks = [block.register_forward_hook(partial(keep, i)) for i, block in enumerate(blocks)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def enrichment(
    attention: Floats, positional: np.ndarray, report: np.ndarray
) -> tuple[Floats, Floats]:
    """Attention share and token share of positional tokens, each (N,); NaN where there are none.

    Args:
        attention: (N, L), not negative; only its parts on report tokens count.
        positional: (N, L) bool, tokens of positional words.
        report: (N, L) bool, tokens of the sentence: no padding, no [CLS], no [SEP].
    """
    on_report = attention * report
    share = (on_report * positional).sum(1) / on_report.sum(1)
    tokens = positional.sum(1) / np.maximum(report.sum(1), 1)
    none = ~positional.any(1)
    return np.where(none, np.nan, share), np.where(none, np.nan, tokens)


def token_masks(sentences: Sequence[Sequence[Word]], length: int) -> tuple[np.ndarray, np.ndarray]:
    """Positional tokens and report tokens (N, length), bool."""
    positional = np.zeros((len(sentences), length), dtype=bool)
    report = np.zeros_like(positional)
    for i, words in enumerate(sentences):
        for word in words:
            report[i, list(word.tokens)] = True
            positional[i, list(word.tokens)] = word.positional
    return positional, report


def analyze(subject: Subject) -> Finding:
    """Enrichment of positional tokens in every fusion stage, and in the deep ones together."""
    encoder, vocabulary = subject.network.text_encoder, subject.vocabulary
    texts = subject.pool.split.texts
    known = {t: read_words(t, vocabulary, encoder.tokenize(t)) for t in dict.fromkeys(texts)}
    stages: list[list[np.ndarray]] = []
    with captured(fusion_attentions(subject.network)) as found:
        for _, batch in subject.batches("attention"):
            subject.predict(batch)
            stages.append([a.cpu().numpy().astype(np.float64) for a in found])
    attention = [np.concatenate(stage) for stage in zip(*stages, strict=True)]  # each (N, M)
    sentences = [known[text] for text in texts]
    positional, report = token_masks(sentences, attention[0].shape[1])
    numbers, normalized = summarize(attention, positional, report, subject.patients)
    return _finding(subject, numbers, normalized, sentences)


def summarize(
    attention: Sequence[Floats],
    positional: np.ndarray,
    report: np.ndarray,
    patients: Sequence[str],
) -> tuple[dict[str, object], list[Floats]]:
    """Numbers of every stage and of the deep ones; and attention over report tokens (N, L)."""
    normalized = [a * report / (a * report).sum(1, keepdims=True) for a in attention]
    chosen = np.flatnonzero(positional.any(1))
    who = [patients[i] for i in chosen]
    rows = {f"stage {k}": a for k, a in enumerate(normalized, start=1)}
    rows["deep stages"] = np.mean(normalized[-DEEP:], axis=0)
    stages = {}
    for name, a in rows.items():
        share, tokens = (x[chosen] for x in enrichment(a, positional, report))
        ratio = share / tokens
        stages[name] = {
            "enrichment": float(ratio.mean()),
            "enrichment_ci": mean_interval(ratio, who),
            "attention_share": float(share.mean()),
            "token_share": float(tokens.mean()),
        }
    outside = [float(1 - (a * report).sum(1).mean()) for a in attention]
    numbers = {
        "images": len(positional),
        "images_with_positional_words": len(chosen),
        "stages": stages,
        "attention_outside_the_sentence": outside,
    }
    return numbers, normalized


def _finding(
    subject: Subject,
    numbers: dict[str, object],
    normalized: list[Floats],
    sentences: list[list[Word]],
) -> Finding:
    lines = [("fusion", "enrichment [95 % CI]", "attention, percent", "tokens, percent")]
    for name, row in numbers["stages"].items():
        low, high = row["enrichment_ci"]
        shown = f"{row['enrichment']:.2f} [{low:.2f}, {high:.2f}]"
        shares = (percent(row["attention_share"]), percent(row["token_share"]))
        lines.append((name, shown, *shares))
    outside = ", ".join(percent(v) for v in numbers["attention_outside_the_sentence"])
    if subject.parts.may_show():
        numbers |= {"example": _example(normalized, sentences)}
    return Finding(
        title=f"Attention to positional words, {subject.split}, "
        f"{numbers['images_with_positional_words']} of {numbers['images']} images, "
        f"{subject.weights}",
        numbers=numbers,
        lines=lines,
        notes=(
            "enrichment: attention share of positional tokens over their share of the tokens",
            f"attention outside the sentence ([CLS], [SEP], padding), per stage: {outside} percent",
        ),
        figure=draw_attention([Measured(subject.name, numbers, subject.folder.name)]),
    )


def _example(
    normalized: Sequence[Floats], sentences: Sequence[Sequence[Word]]
) -> dict[str, list[object]]:
    """Attention of every stage to each word of the first sentence that names a position."""
    at = next(i for i, words in enumerate(sentences) if any(w.positional for w in words))
    words = sentences[at]
    return {
        "words": [w.text for w in words],
        "positional": [w.positional for w in words],
        "heat": [[round(float(a[at, list(w.tokens)].sum()), 6) for w in words] for a in normalized],
    }
