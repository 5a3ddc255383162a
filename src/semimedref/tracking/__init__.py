"""MLflow as a mirror of the run folders: never the truth, never in the way of a training."""

from semimedref.tracking.commands import sync_command, ui_command
from semimedref.tracking.mirror import Mirror, NullMirror, open_mirror, prepare_store
from semimedref.tracking.settings import TrackingSettings, tracking_settings
from semimedref.tracking.store import Store, open_store
from semimedref.tracking.sync import sync_run

__all__ = [
    "Mirror",
    "NullMirror",
    "Store",
    "TrackingSettings",
    "open_mirror",
    "open_store",
    "prepare_store",
    "sync_command",
    "sync_run",
    "tracking_settings",
    "ui_command",
]
