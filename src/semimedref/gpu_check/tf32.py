"""TF32 flags that are put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def kept_flags() -> Iterator[None]:
    """Whatever is set inside, the flags are those of before afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        set_flags(*before)


def set_flags(matmul: bool, cudnn: bool) -> None:
    """TF32 in matrix products and in convolutions."""
    torch.backends.cuda.matmul.allow_tf32 = matmul
    torch.backends.cudnn.allow_tf32 = cudnn
