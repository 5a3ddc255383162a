"""The `tracking` group of a resolved configuration, checked, with absolute paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from semimedref.address import check_address
from semimedref.errors import UserError

SQLITE = "sqlite:///"
_CHOICES = {"wal": ("auto", "on", "off"), "images": ("phantom", "always", "never")}


@dataclass(frozen=True)
class TrackingSettings:
    """Where the mirror is and how patient we are with it; `conf/tracking/mlflow.yaml` explains."""

    uri: str
    experiment: str
    artifact_root: Path
    images: str
    wal: str
    timeout_seconds: int
    retries: int
    close_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float
    backoff_jitter: float
    spread_seconds: float
    ui_port: int


def tracking_settings(config: Mapping) -> TrackingSettings | None:
    """The settings in a resolved configuration, or None for `tracking=off`."""
    tracking = config["tracking"]
    if not tracking["uri"]:
        return None
    values = {field.name: tracking[field.name] for field in fields(TrackingSettings)}
    values["experiment"] = tracking["experiment"] or tracking["experiment_single"]
    # YAML reads a bare on or off as a truth value.
    values["wal"] = {True: "on", False: "off"}.get(values["wal"], values["wal"])
    for key, allowed in _CHOICES.items():
        if values[key] not in allowed:
            raise UserError(f"tracking.{key}={values[key]}: expected one of {', '.join(allowed)}")
    if values["backoff_seconds"] <= 0:
        raise UserError(f"tracking.backoff_seconds={values['backoff_seconds']}: expected above 0")
    check_address(values["uri"])
    values["uri"] = absolute_uri(values["uri"])
    values["artifact_root"] = Path(values["artifact_root"]).absolute()
    return TrackingSettings(**values)


def absolute_uri(uri: str) -> str:
    """The same address, independent of the working directory."""
    if not uri.startswith(SQLITE):
        return uri
    return f"{SQLITE}{Path(uri.removeprefix(SQLITE)).absolute()}"
