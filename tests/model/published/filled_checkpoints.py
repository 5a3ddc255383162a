"""Published state dicts with values that depend on each tensor's name alone."""

from __future__ import annotations

import math
import zlib

import torch

from semimedref.model.published.catalog import published_shapes


def fill(name, shape):
    """Ordinary values: weights by their fan-in, norms about one, variances above zero."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if name.endswith(("num_batches_tracked", "position_ids", "relative_position_index")):
        return torch.zeros(shape, dtype=torch.int64)
    value = torch.randn(shape, generator=generator)
    if name.endswith("running_var"):
        return value.abs() + 0.5
    if len(shape) < 2:
        return 0.1 * value + (1.0 if name.endswith(("weight", "gamma")) else 0.0)
    return value / math.sqrt(math.prod(shape[1:]))


def state_dict(source, leave_out=()):
    """All tensors of a release; the masked-language head shares the word embedding."""
    shapes = published_shapes(source)
    state = {k: fill(k, shape) for k, shape in shapes.items() if k not in leave_out}
    tied, words = (f"text_encoder.model.{k}.weight" for k in
                   ("cls.predictions.decoder", "bert.embeddings.word_embeddings"))  # fmt: skip
    if tied in state and words in state:
        state[tied] = state[words]
    return state


def same(first, second):
    """Whether two state dicts hold the same names, types and numbers."""
    return first.keys() == second.keys() and all(
        first[k].dtype == second[k].dtype and torch.equal(first[k], second[k]) for k in first
    )
