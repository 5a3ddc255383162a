"""Read per-image results: of a run, or of any other program that counts pixels.

A table of one's own needs the columns id, tp, fp and fn; patient where images of one patient are
several; and whatever else is to be compared, such as nsd or hd95.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from semimedref.errors import UserError
from semimedref.options import run_folder
from semimedref.results import store

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = ("id", *store.COUNTS)
_MOST = 2**40  # pixels of an image: larger numbers are mistakes, and sums of them overflow


def load(name: str, *, run_root: str) -> pd.DataFrame:
    """The per-image table of a file or of a run."""
    path = Path(name)
    if path.is_file():
        return load_file(path)
    if path.suffix == ".csv":
        raise _unusable(path, "does not exist")
    return store.load_per_image(run_folder(name, run_root))


def load_file(path: Path) -> pd.DataFrame:
    """A table of one's own, checked; it may have no column ``patient``."""
    frame = _read(path)
    missing = [column for column in _NEEDED if column not in frame.columns]
    if missing:
        found = ", ".join(map(str, frame.columns))
        hint = ": is its separator a comma?" if len(frame.columns) == 1 else ""
        raise _unusable(path, f"lacks the column {missing[0]!r} (it has {found}){hint}")
    if frame.empty:
        raise _unusable(path, "has no rows")
    if frame["id"].duplicated().any():
        twice = frame["id"][frame["id"].duplicated()].iloc[0]
        raise _unusable(path, f"lists the image {twice!r} twice")
    for column in store.COUNTS:
        frame[column] = _counts(path, frame, column)
    if "patient" in frame.columns:
        blank = frame["patient"].str.strip() == ""
        if blank.any():
            image = frame["id"][blank].iloc[0]
            raise _unusable(path, f"names no patient for image {image!r}")
    return frame


def with_patients(frames: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], str | None]:
    """Tables in which every image has a patient, and what is to be said about it.

    A table without patients takes them from one that has them; if none has, each image counts as
    a patient of its own.
    """
    known = [frame for frame in frames if "patient" in frame.columns]
    if len(known) == len(frames):
        return list(frames), None
    if not known:
        said = "no table has a column 'patient': each image counts as a patient of its own"
        return [frame.assign(patient=frame["id"]) for frame in frames], said
    patients = known[0].set_index("id")["patient"]
    filled = [
        frame
        if "patient" in frame.columns
        else frame.assign(patient=frame["id"].map(patients).fillna(""))
        for frame in frames
    ]
    return filled, "a table without the column 'patient' takes the patients of another one"


def with_numbers(frame: pd.DataFrame, columns: Iterable[str], *, source: str) -> pd.DataFrame:
    """The table with some columns as numbers; an empty cell has no value."""
    import pandas as pd

    changed = frame.copy()
    for column in columns:
        try:
            changed[column] = pd.to_numeric(frame[column].replace("", None)).astype(float)
        except (ValueError, TypeError) as error:
            raise _unusable(Path(source), f"holds no numbers in {column!r} ({error})") from None
    return changed


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        names = {"id": str, "patient": str}
        return pd.read_csv(path, dtype=names, keep_default_na=False, skipinitialspace=True)
    except (ValueError, OSError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _unusable(path, f"is not a CSV table ({line})") from None


def _counts(path: Path, frame: pd.DataFrame, column: str) -> pd.Series[int]:
    """Pixels of one kind; whole numbers may be written as 12 or as 12.0."""
    import pandas as pd

    numbers = pd.to_numeric(frame[column], errors="coerce")
    wrong = numbers.isna() | (numbers < 0) | (numbers % 1 != 0) | (numbers > _MOST)
    if wrong.any():
        image, value = frame["id"][wrong].iloc[0], str(frame[column][wrong].iloc[0])
        raise _unusable(
            path, f"holds {column}={value!r} for image {image!r}, which is no count of pixels"
        )
    return numbers.astype("int64")


def _unusable(path: Path, found: str) -> UserError:
    return UserError(
        f"{path} {found}; expected a CSV table with a row for each test image and the columns id, "
        "tp, fp, fn (whole numbers of pixels) and, where a patient has several images, patient: "
        "`semimedref compare --help` shows an example"
    )
