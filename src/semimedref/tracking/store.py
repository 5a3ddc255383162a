"""Open an MLflow store safely: one process creates it, and none ever falls into "Default".

MLflow's first use is not safe from several processes: they migrate the same empty database
together and break it, and `set_experiment` silently leaves the losers of a race in "Default".
Here a file lock lets one process create the database and the experiment, and only
`MlflowClient` is used, never the fluent interface with its global state.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.files import exclusive
from semimedref.tracking.reach import DATABASES, check_reach
from semimedref.tracking.settings import SQLITE, TrackingSettings

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

# MLflow then shows runs, charts and tables first, and not the pages for language models.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
# SQLite's write-ahead log needs memory shared between the processes that use the file.
_NETWORK_FILE_SYSTEM = re.compile(
    r"9p|afs|beegfs|ceph|cifs|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|panfs|smb3"
    r"|smbfs|virtiofs|wekafs|fuse\..*"
)


@dataclass(frozen=True)
class Store:
    """One experiment of one MLflow store."""

    client: MlflowClient
    uri: str
    experiment_id: str
    images: str  # which overlays may enter: phantom | always | never


def open_store(
    uri: str,
    experiment: str,
    artifact_root: Path,
    *,
    wal: str,
    timeout_seconds: int,
    retries: int,
    images: str,
) -> Store:
    """The store at `uri`, created if need be, with the experiment in it.

    Args:
        uri: An absolute tracking URI: a database or a server.
        experiment: Name of the experiment that the runs go to.
        artifact_root: Folder for the artifacts of a database store; a server has its own.
        wal: SQLite's write-ahead log: on, off, or auto (on unless the disk is a network's).
        timeout_seconds: How long a server may take for one answer.
        retries: How often an unanswered request is repeated.
        images: Which overlays the store may hold.
    """
    mlflow_environment(timeout_seconds, retries)
    database_environment(uri)
    check_reach(uri, timeout_seconds)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.CRITICAL)  # we report failures, in one line
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    if not uri.startswith(DATABASES):
        client = MlflowClient(tracking_uri=uri)
        return Store(client, uri, _experiment_id(client, experiment, None), images)
    database = Path(uri.removeprefix(SQLITE)) if uri.startswith(SQLITE) else None
    with exclusive(Path(f"{database}.lock") if database else artifact_root / "mlflow.lock"):
        if database:
            _create_database(database)
            _set_journal(database, wal)
        client = MlflowClient(tracking_uri=uri)  # migrates an empty database: never unlocked
        location = artifact_root / re.sub(r"[^\w.-]", "_", experiment, flags=re.ASCII)
        return Store(client, uri, _experiment_id(client, experiment, str(location)), images)


def open_configured(settings: TrackingSettings, experiment: str) -> Store:
    """The store that the configuration names, with this experiment in it."""
    return open_store(
        settings.uri,
        experiment,
        settings.artifact_root,
        wal=settings.wal,
        timeout_seconds=settings.timeout_seconds,
        retries=settings.retries,
        images=settings.images,
    )


def prepare_environment(settings: TrackingSettings) -> None:
    """All that MLflow reads from the environment only; before its import, in the main thread."""
    mlflow_environment(settings.timeout_seconds, settings.retries)
    database_environment(settings.uri)


def database_environment(uri: str) -> None:
    """How to connect to a database that is no file."""
    if not uri.startswith(DATABASES) or uri.startswith(SQLITE):
        return
    # Hundreds of jobs that each keep a connection between epochs would use up PostgreSQL's.
    os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    # Names of runs are UTF-8; a PostgreSQL cluster made in the locale C would refuse them.
    os.environ.setdefault("PGCLIENTENCODING", "UTF8")


def mlflow_environment(timeout_seconds: int, retries: int) -> None:
    """Settings that MLflow reads from the environment only; before its import."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["DO_NOT_TRACK"] = "true"
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # two lines a run, user included
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(timeout_seconds)
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = str(retries)
    # Jitter would draw from Python's global generator, whose state a training checkpoints.
    os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_JITTER"] = "0"


def reason(error: BaseException) -> str:
    """The root of a chain of exceptions, as one short line."""
    while not isinstance(error, UserError):
        below = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if below is None:
            break
        error = below
    line = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
    return f"{line} (the server's log says why)" if "500 error" in line else line


def _experiment_id(client: MlflowClient, name: str, location: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=location, tags=_KIND)
        except MlflowException as error:  # on a server another client may have been first
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = client.get_experiment_by_name(name)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id


def _create_database(database: Path) -> None:
    """Migrate a new file in a process of its own and move it into place when it is complete."""
    if database.exists() and database.stat().st_size:
        return
    fresh = database.with_name(f".{database.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", "mlflow", "db", "upgrade", f"{SQLITE}{fresh}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        fresh.unlink(missing_ok=True)
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"`mlflow db upgrade` could not create {database}: {last}")
    # SQLite would replay the log of a deleted database into the new one.
    for ending in ("-wal", "-shm", "-journal"):
        database.with_name(database.name + ending).unlink(missing_ok=True)
    fresh.replace(database)


def _set_journal(database: Path, wal: str) -> None:
    use_wal = wal == "on" or (wal == "auto" and not _on_network(database))
    wanted = "wal" if use_wal else "delete"
    with closing(sqlite3.connect(database)) as connection:
        (current,) = connection.execute("PRAGMA journal_mode").fetchone()
        if current == wanted:
            return
        try:
            connection.execute(f"PRAGMA journal_mode={wanted}")
        except sqlite3.OperationalError as error:  # in use by others: the next start sets it
            log.debug("%s keeps its journal mode %s: %s", database, current, error)


def _on_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    if not mounts.exists():
        return False
    path = path.resolve()  # a folder of runs is often a link to another disk
    kind, depth = "", -1
    for line in mounts.read_text().splitlines():
        point, this = line.split(" ")[1:3]
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = this, len(point.parts)
    return _NETWORK_FILE_SYSTEM.fullmatch(kind) is not None
