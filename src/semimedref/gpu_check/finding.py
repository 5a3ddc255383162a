"""What a check found: one line for a person, numbers for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

OK, FAILED, SKIPPED = "ok", "failed", "skipped"


@dataclass(frozen=True)
class Finding:
    """One thing that a check looked at.

    Attributes:
        subject: a ladder row, a precision, a flag; empty where a check looks at one thing only.
        state: ok, failed or skipped.
        found: what was seen, in a few words.
        expected: what should have been seen, of a failed one.
        advice: what to do about it.
        values: numbers for the report.
    """

    subject: str
    state: str
    found: str
    expected: str = ""
    advice: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    def line(self) -> str:
        """One line for a person."""
        parts = [f"{self.subject}: {self.found}" if self.subject else self.found]
        parts += [f"expected {self.expected}"] if self.expected else []
        parts += [self.advice] if self.advice else []
        return "; ".join(" ".join(part.split()) for part in parts)


def ok(subject: str, found: str, **values: object) -> Finding:
    """As it should be."""
    return Finding(subject, OK, found, values=values)


def skipped(subject: str, why: str) -> Finding:
    """Could not be looked at here."""
    return Finding(subject, SKIPPED, why)


def judged(
    passed: bool,
    subject: str,
    *,
    found: str,
    expected: str,
    advice: str,
    values: Mapping[str, Any],
) -> Finding:
    """As it should be, or failed with what was expected and what to do."""
    if passed:
        return Finding(subject, OK, found, values=values)
    return Finding(subject, FAILED, found, expected, advice, values)
