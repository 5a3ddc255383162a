"""Sentences without their positions: which of them, in training and in an evaluation (ISPG)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from semimedref.errors import UserError
from semimedref.text.spans import remove

KEYS = ("image_id", "report_text")
_SALT = 42  # with it `report_text` chooses exactly the sentences that the authors' code chooses
_BYTES, _SPAN = 6, 2.0**48  # of the digest that count: exact in a float


class Removal:
    """A_rho: all positional phrases go, with some probability (paper, Eq. ispg).

    Args:
        vocabulary: regions of the data set's sentences.
        training: rho_tr, the chance of each sentence that the student reads.
        validation: share of the validation sentences by which the best epoch is chosen.
        key: what decides an evaluation: ``image_id``, or ``report_text`` as in the release, where
            equal sentences are removed together (of 63 QaTa captions, 20 % are 60 % of the images).
    """

    def __init__(self, *, vocabulary: str, training: float, validation: float, key: str) -> None:
        _check_key(key)
        for name, share in (("training", training), ("validation", validation)):
            check_share(f"method.removal.{name}", share)
        self.vocabulary, self.key = vocabulary, key
        self.training, self.validation = training, validation

    def __call__(self, sentence: str, u: float) -> str:
        """The sentence as the student reads it; u is the sample's number in [0, 1)."""
        return remove(sentence, self.vocabulary) if u < self.training else sentence


def removed_of(ids: Sequence[str], texts: Sequence[str], share: float, *, key: str) -> list[bool]:
    """Which cases lose their positions; those of a smaller share are among those of a larger."""
    _check_key(key)
    return [number(case) < share for case in (ids if key == "image_id" else texts)]


def number(case: str) -> float:
    """A number in [0, 1) that a case keeps for ever."""
    digest = hashlib.sha256(f"{_SALT}|{case}".encode()).digest()
    return int.from_bytes(digest[:_BYTES], "big") / _SPAN


def check_share(name: str, share: float) -> None:
    """Refuse what is no share."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise UserError(f"{name}={share}: expected a number from 0 to 1")


def _check_key(key: str) -> None:
    if key not in KEYS:
        raise UserError(f"removal key '{key}' is unknown: expected {' or '.join(KEYS)}")
