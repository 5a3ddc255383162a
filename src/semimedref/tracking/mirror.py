"""The trainer's side of the mirror: a thread that can neither fail nor slow a training."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from semimedref.address import shown_uri
from semimedref.tracking.record import read_record
from semimedref.tracking.settings import SQLITE, TrackingSettings, tracking_settings
from semimedref.tracking.store import Store, open_configured, prepare_environment, reason
from semimedref.tracking.sync import Feed

log = logging.getLogger(__name__)

_MOST_DOUBLINGS = 30  # of a pause: far above any longest pause, far below the largest number


class Mirror:
    """Mirrors one run folder to MLflow in the background.

    Call `notify()` when the folder has news (after run.json, after each epoch), and `close()`
    once result.json or failure.json is written.
    """

    def __init__(self, folder: Path, config: Mapping) -> None:
        settings = tracking_settings(config)
        assert settings is not None, "tracking=off: use open_mirror"
        # The environment is set here, in the caller's thread, where nobody else reads it.
        prepare_environment(settings)
        self._folder = folder.absolute()
        self._settings = settings
        self._feed: Feed | None = None
        self._wake = threading.Event()
        self._closing = False
        self._complete = False
        self._failures = 0  # since the last success
        self._stumbled = False  # whether there ever was one
        self._next_try = 0.0
        # A generator of its own: a training checkpoints the state of Python's global one.
        self._random = random.Random(f"{self._folder} {os.getpid()}")
        self._thread: threading.Thread | None = None

    def notify(self) -> None:
        """The folder has news; returns at once."""
        if self._closing:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mlflow-mirror", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self, timeout: float | None = None) -> bool:
        """Mirror the last state, waiting at most `timeout` (`tracking.close_seconds`) seconds.

        Returns:
            Whether MLflow now holds everything.
        """
        self.notify()
        self._closing = True
        self._wake.set()
        limit = self._settings.close_seconds if timeout is None else timeout
        self._thread.join(limit)
        if self._thread.is_alive() and not self._failures:
            log.warning(
                "MLflow at %s is not up to date after %g s; `semimedref sync` completes it",
                shown_uri(self._settings.uri),
                limit,
            )
        return self._complete and not self._thread.is_alive()

    def _run(self) -> None:
        behind = False
        self._next_try = time.monotonic() + self._spread()
        while True:
            self._wake.wait(max(0.0, self._next_try - time.monotonic()) if behind else None)
            self._wake.clear()
            closing = self._closing  # read after clear(): close() sets it before it wakes us
            behind = True
            if closing or time.monotonic() >= self._next_try:
                behind = not self._attempt(leaving=closing)
            if closing:
                return

    def _attempt(self, *, leaving: bool) -> bool:
        if leaving and self._stumbled:
            self._feed = None  # look again: a lost answer may have left a second run
        try:
            if self._feed is None:
                self._feed = Feed(self._folder, self._open())
            self._feed.push(leaving=leaving)
        except Exception as error:  # whatever it is, the training goes on
            self._fail(error)
            return False
        if self._failures:
            log.info("MLflow at %s answers again", shown_uri(self._settings.uri))
        self._complete, self._failures = True, 0
        return True

    def _open(self) -> Store:
        experiment = read_record(self._folder).experiment or self._settings.experiment
        return open_configured(self._settings, experiment)

    def _fail(self, error: Exception) -> None:
        self._complete, self._feed = False, None
        if self._failures == 0:
            _warn(self._settings, error)
        pause = self._settings.backoff_seconds * 2 ** min(self._failures, _MOST_DOUBLINGS)
        pause = min(pause, self._settings.backoff_max_seconds)
        pause *= 1 - self._settings.backoff_jitter * self._random.random()
        self._next_try = time.monotonic() + pause
        self._failures += 1
        self._stumbled = True

    def _spread(self) -> float:
        """Before the first contact: a hundred jobs that start together do not come together."""
        shared = not self._settings.uri.startswith(SQLITE)
        return self._settings.spread_seconds * self._random.random() if shared else 0.0


class NullMirror:
    """`tracking=off`: the run folder is all there is."""

    def notify(self) -> None:
        """Nothing to do."""

    def close(self, timeout: float | None = None) -> bool:
        """Nothing to wait for."""
        return True


def open_mirror(folder: Path, config: Mapping) -> Mirror | NullMirror:
    """The mirror that a resolved configuration asks for."""
    return NullMirror() if tracking_settings(config) is None else Mirror(folder, config)


def prepare_store(config: Mapping) -> bool:
    """Create store and experiment before jobs are launched; says so in one line if it cannot."""
    settings = tracking_settings(config)
    if settings is None:
        return True
    prepare_environment(settings)
    try:
        open_configured(settings, settings.experiment)
    except Exception as error:  # the jobs mirror later, or `semimedref sync` does
        _warn(settings, error)
        return False
    return True


def _warn(settings: TrackingSettings, error: Exception) -> None:
    log.warning(
        "MLflow at %s does not answer: %s; the run goes on; `semimedref sync` repairs",
        shown_uri(settings.uri),
        reason(error),
    )
