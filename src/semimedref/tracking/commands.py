"""`semimedref sync` rebuilds MLflow from the run folders; `semimedref ui` shows it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from semimedref.address import shown_uri
from semimedref.errors import UserError
from semimedref.options import run_folder
from semimedref.tracking.catalog import Catalog
from semimedref.tracking.record import read_record
from semimedref.tracking.settings import SQLITE, TrackingSettings, tracking_settings
from semimedref.tracking.store import Store, open_configured, prepare_environment, reason
from semimedref.tracking.sync import sync_run

_HOST = "127.0.0.1"  # runs are not shown to the network; use a tunnel or a server of your own


def sync_command(overrides: list[str]) -> int:
    """Mirror every run folder, or the one of `run=FOLDER`; the exit code is 0 if all went well."""
    from semimedref.config import compose, resolved

    given = [one for one in overrides if one.startswith("run=")]
    asked = [one for one in overrides if one.startswith("verify=")]
    if any(one not in ("verify=true", "verify=false") for one in asked):
        raise UserError(f"{asked[0]}: expected verify=true or verify=false")
    config = resolved(compose([one for one in overrides if one not in (*given, *asked)]))
    folders = [run_folder(one.removeprefix("run="), config["run_root"]) for one in given]
    return sync(config, folders, verify="verify=true" in asked)


def ui_command(overrides: list[str]) -> int:
    """Open MLflow's pages on the store of this configuration; runs until interrupted."""
    from semimedref.config import compose, resolved

    return ui(resolved(compose(overrides)))


def sync(config: Mapping, folders: list[Path], *, verify: bool = False) -> int:
    """Mirror `folders`, or all folders under the run root if none is given.

    Args:
        config: A resolved configuration.
        folders: The run folders.
        verify: Ask MLflow for every value and file, also of runs that were sent whole.
    """
    settings = _settings(config, "sync")
    root = Path(config["run_root"]).absolute()
    folders = folders or sorted(path.parent for path in root.glob("*/run.json"))
    if not folders:
        print(f"no run folder under {root}: nothing to mirror")
        return 0
    target = _Target(settings, verify=verify)
    width = len(str(len(folders)))
    counts = []
    for number, folder in enumerate(folders, start=1):
        count, line = target.sync(folder)
        counts.append(count)
        if line:
            print(f"{number:{width}d}/{len(folders)}  {line}", flush=True)
    sent = [count for count in counts if count is not None]
    print(
        f"{len(counts)} runs, {len(sent)} in MLflow at {shown_uri(settings.uri)}, "
        f"{sum(sent)} values and files sent, {len(counts) - len(sent)} failed"
    )
    return 0 if len(sent) == len(counts) else 1


def ui(config: Mapping) -> int:
    """Replace this process by MLflow's server on the store, or name the server that is it."""
    settings = _settings(config, "ui")
    if settings.uri.startswith(("http://", "https://")):
        print(f"MLflow is at {shown_uri(settings.uri)}")
        return 0
    _check_port(settings.ui_port)
    _open(settings, settings.experiment)
    # The runner of MLflow's own jobs is a second process of 230 MB that we have no use for.
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    print(f"MLflow opens at http://{_HOST}:{settings.ui_port} (Ctrl-C ends it)", flush=True)
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", _HOST]
    command += ["--port", str(settings.ui_port), "--workers", "1"]
    command += ["--backend-store-uri", settings.uri]
    command += ["--default-artifact-root", str(settings.artifact_root)]
    return os.execv(command[0], command)


def _settings(config: Mapping, command: str) -> TrackingSettings:
    settings = tracking_settings(config)
    if settings is None:
        raise UserError(
            f"`semimedref {command}` has no MLflow store with tracking=off; use tracking=mlflow"
        )
    prepare_environment(settings)
    return settings


class _Target:
    """The store that folders are mirrored to, one experiment after the other."""

    def __init__(self, settings: TrackingSettings, *, verify: bool) -> None:
        self._settings, self._verify = settings, verify
        self._places: dict[str, tuple[Store, Catalog]] = {}

    def sync(self, folder: Path) -> tuple[int | None, str]:
        """How much was sent, None if that failed, and a line to print; none if nothing was new."""
        store = None
        try:
            record = read_record(folder)
            experiment = record.experiment or self._settings.experiment
            store, catalog = self._open(experiment)
            if not self._verify and catalog.holds(folder, record):
                return 0, ""
            count = self._send(folder, store)
        except _StoreDownError:
            raise
        except Exception as error:  # the other folders may be fine
            if store:
                _check_answers(self._settings, store)
            return None, f"{folder.name}  failed: {reason(error)}"
        return count, f"{folder.name}  {experiment}  {record.status}  {count} sent"

    def _send(self, folder: Path, store: Store) -> int:
        """Try again what a busy server did not answer: nobody waits for us, and it is safe."""
        for _ in range(self._settings.retries):
            try:
                return sync_run(folder, store, verify=self._verify)
            except UserError:  # a damaged folder stays damaged
                raise
            except Exception:
                _check_answers(self._settings, store)
        return sync_run(folder, store, verify=self._verify)

    def _open(self, experiment: str) -> tuple[Store, Catalog]:
        if experiment not in self._places:
            store = _open(self._settings, experiment)
            try:
                self._places[experiment] = store, Catalog(store)
            except Exception as error:
                raise _StoreDownError(_down(self._settings, error)) from None
        return self._places[experiment]


class _StoreDownError(UserError):
    """No folder can be mirrored."""


def _open(settings: TrackingSettings, experiment: str) -> Store:
    try:
        return open_configured(settings, experiment)
    except Exception as error:
        raise _StoreDownError(_down(settings, error)) from None


def _check_answers(settings: TrackingSettings, store: Store) -> None:
    try:
        store.client.get_experiment(store.experiment_id)
    except Exception as error:
        raise _StoreDownError(_down(settings, error)) from None


def _down(settings: TrackingSettings, error: Exception) -> str:
    help_ = "start the server or set tracking.uri, then run `semimedref sync`; no run is lost"
    if settings.uri.startswith(SQLITE):
        help_ = "delete a damaged database and run `semimedref sync`: the run folders hold it all"
    return f"MLflow at {shown_uri(settings.uri)} does not answer: {reason(error)}; {help_}"


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise UserError(
                f"port {port} cannot be used: {error}; try `semimedref ui tracking.ui_port=5001`"
            ) from None
