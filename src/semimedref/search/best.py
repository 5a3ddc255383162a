"""The command that trains the best point of a search for good, as ordinary runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from semimedref import config
from semimedref.expansion import hydra_value
from semimedref.search.point import words
from semimedref.search.record import Trial
from semimedref.search.settings import Search

# What belongs to the search and not to its runs.
_OWN = ("search", "experiment_name", "row", "study", "only", "retry_failed", "on_error", "hydra")
_NO_CHOICE = ("experiment", "None")


def final_command(search: Search, trial: Trial) -> str:
    """``semimedref train -m …`` with the trial's values and ``search.final``; no experiment."""
    base = config.compose(list(search.fixed))
    options = [w for w in search.fixed if w.startswith("hydra.searchpath=")]
    plain = config.compose(options)
    groups = {
        key: option
        for key, option in search.choices.items()
        if not key.startswith("hydra/")
        and _NO_CHOICE[0] != key
        and option != _NO_CHOICE[1]
        and str(plain.hydra.runtime.choices.get(key)) != option
    }
    chosen = [f"{key}={option}" for key, option in groups.items()]
    found = _leaves(config.compose([*options, *chosen]))
    changed = [
        f"{key if key in found else '+' + key}={_value(value)}"
        for key, value in _leaves(base).items()
        if key.partition(".")[0] not in _OWN and (key not in found or found[key] != value)
    ]
    given = [*chosen, *changed, *words(trial.params)]
    last = {f"{key}={value}" for key, value in search.final.items()}
    kept = [w for w in given if not any(_replaces(key, w) for key in search.final)]
    return "semimedref train -m " + shlex.join([*flags(options), *kept, *sorted(last)])


def flags(words: Sequence[str]) -> list[str]:
    """``--config-dir FOLDER``, as a person gives further configuration folders."""
    return [part for f in config.search_folders(words) for part in ("--config-dir", str(f))]


def _value(value: object) -> str:
    """A value as a person would write it; what Hydra would misread in quotes."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_./][\w./:-]*", value)
    return str(value) if plain else hydra_value(value)


def _replaces(key: str, word: str) -> bool:
    """Whether a final setting makes an earlier word void: the same key, or a key inside it."""
    own = word.partition("=")[0].lstrip("+")
    return own == key or own.startswith(f"{key}.")


def _leaves(cfg: Any) -> dict[str, Any]:  # noqa: ANN401 - a DictConfig
    from omegaconf import OmegaConf

    return dict(_walk(OmegaConf.to_container(cfg, resolve=False), ""))


def _walk(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, dict) and value:
            yield from _walk(value, path)
        else:
            yield path, value
