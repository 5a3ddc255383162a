"""Seeds: every random draw of a run is a function of (seed, stream, place), never of history."""

from __future__ import annotations

import random

import numpy as np

# A stream keeps draws for different purposes apart; the numbers are part of every run's identity.
STREAMS = {"init": 1, "labeled": 2, "unlabeled": 3, "step": 4, "shuffled_text": 5, "overlay": 6}


def seed_sequence(seed: int, stream: str, *place: int) -> np.random.SeedSequence:
    """Entropy for one place in one stream of a run."""
    return np.random.SeedSequence([seed, STREAMS[stream], *place])


def permutation(seed: int, stream: str, *place: int, n: int) -> np.ndarray:
    """A random order of n items that depends on nothing but its arguments."""
    return np.random.default_rng(seed_sequence(seed, stream, *place)).permutation(n)


def uniforms(seed: int, stream: str, *place: int, n: int) -> np.ndarray:
    """N numbers in [0, 1) for one sample: all that its augmentation may draw."""
    return np.random.default_rng(seed_sequence(seed, stream, *place)).random(n, dtype=np.float32)


def integer(seed: int, stream: str, *place: int) -> int:
    """One 63-bit number, to seed a torch generator for one step (dropout) or one network."""
    state = seed_sequence(seed, stream, *place).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch, so that code of others is repeatable too."""
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
