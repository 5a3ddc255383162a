"""Where training stands, and the spans over which weights rise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from semimedref.errors import UserError


@dataclass(frozen=True)
class Progress:
    """The optimizer step about to be taken (from 0), and how many make an epoch and the whole.

    Where a method has stages, these are the steps of the stage that is on.
    """

    step: int
    steps_per_epoch: int
    total_steps: int
    stage: str = ""


class Schedule:
    """Burn-in, then linear ramps; lengths in epochs or in shares of the total.

    A ramp rises at every ``step``, or at every ``epoch`` to the value of its first step (release).
    """

    def __init__(
        self,
        *,
        unit: str,
        burn_in: float,
        ramp: float,
        ramp_update: str,
        momentum_ramp: float,
        momentum_update: str,
    ) -> None:
        if unit not in ("epochs", "share"):
            raise UserError(f"schedule unit '{unit}' is unknown: expected 'epochs' or 'share'")
        for update in (ramp_update, momentum_update):
            if update not in ("step", "epoch"):
                raise UserError(f"schedule update '{update}' is unknown: expected step or epoch")
        self.unit, self.burn_in = unit, burn_in
        self.ramp, self.ramp_update = ramp, ramp_update
        self.momentum_ramp, self.momentum_update = momentum_ramp, momentum_update

    def in_burn_in(self, progress: Progress) -> bool:
        """Whether only labeled images count yet."""
        return self._since_burn_in(progress) < 0

    def skips_unlabeled(self, progress: Progress) -> bool:
        """Whether the unlabeled branch is off: burn-in, and an epoch in which it weighs nothing."""
        if self.in_burn_in(progress):
            return True
        return self.ramp_update == "epoch" and self.unlabeled_share(progress) == 0

    def unlabeled_share(self, progress: Progress) -> float:
        """0 in burn-in, then linear to 1 over ``ramp``."""
        return self._rise(_at(progress, self.ramp_update), self.ramp)

    def momentum_share(self, progress: Progress) -> float:
        """0 in burn-in, then linear to 1 over ``momentum_ramp``."""
        return self._rise(_at(progress, self.momentum_update), self.momentum_ramp)

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


def _at(progress: Progress, update: str) -> Progress:
    """The step whose value holds now."""
    if update == "step":
        return progress
    return replace(progress, step=progress.step - progress.step % progress.steps_per_epoch)
