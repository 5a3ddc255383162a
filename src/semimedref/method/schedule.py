"""Where training stands, and the spans over which weights rise."""

from __future__ import annotations

from dataclasses import dataclass

from semimedref.errors import UserError


@dataclass(frozen=True)
class Progress:
    """The optimizer step about to be taken (from 0), and how many make an epoch and the whole."""

    step: int
    steps_per_epoch: int
    total_steps: int


class Schedule:
    """Burn-in, then linear ramps per step; lengths in epochs or in shares of the total."""

    def __init__(self, *, unit: str, burn_in: float, ramp: float, momentum_ramp: float) -> None:
        if unit not in ("epochs", "share"):
            raise UserError(f"schedule unit '{unit}' is unknown: expected 'epochs' or 'share'")
        self.unit = unit
        self.burn_in, self.ramp, self.momentum_ramp = burn_in, ramp, momentum_ramp

    def in_burn_in(self, progress: Progress) -> bool:
        """Whether only labeled images count yet."""
        return self._since_burn_in(progress) < 0

    def unlabeled_share(self, progress: Progress) -> float:
        """0 in burn-in, then linear to 1 over ``ramp``."""
        return self._rise(progress, self.ramp)

    def momentum_share(self, progress: Progress) -> float:
        """0 in burn-in, then linear to 1 over ``momentum_ramp``."""
        return self._rise(progress, self.momentum_ramp)

    def _rise(self, progress: Progress, length: float) -> float:
        since = self._since_burn_in(progress)
        if since < 0:
            return 0.0
        steps = self._steps(length, progress)
        return min(1.0, since / steps) if steps > 0 else 1.0

    def _since_burn_in(self, progress: Progress) -> float:
        return progress.step - self._steps(self.burn_in, progress)

    def _steps(self, length: float, progress: Progress) -> float:
        whole = progress.steps_per_epoch if self.unit == "epochs" else progress.total_steps
        return length * whole
