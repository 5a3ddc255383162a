"""Counts of a configuration, made once and kept on disk.

What is counted does not depend on seeds, ratios or most numbers of a method, so the runs of a table
share a few counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref.errors import UserError
from semimedref.expansion import cache_folder
from semimedref.files import write_atomic

if TYPE_CHECKING:
    from semimedref.planning.count import MethodFacts, StepCount
    from semimedref.planning.fake_method import FakeMethod
    from semimedref.planning.stages import Stage

# Code that decides a count: what a step computes, and how it is counted.
_COMPUTES = ("align", "augment", "method", "model", "pseudo_label")
_COUNTS = ("checkpoint_size.py", "count.py", "fake_method.py", "meter.py", "stages.py")
_OF_WORDS = ("writing",)  # sentences are made on the host


class UncountableError(UserError):
    """A step that cannot be run without data."""


class Counts:
    """The counts of one configuration; nothing is built if they are on the disk."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    @cached_property
    def key(self) -> str:
        """Equal for configurations whose steps cost the same."""
        return counts_key(self._config)

    def step(self, stage: Stage) -> StepCount:
        """The cost of a micro-batch at a stage."""
        from semimedref.planning.count import StepCount, count_step

        kept = self._kept(stage.key)
        if kept is None:
            kept = self._keep(
                stage.key, lambda: asdict(count_step(self._fake, self._config, stage))
            )
        return StepCount(**kept)

    def facts(self) -> MethodFacts:
        """Evaluations and files."""
        from semimedref.planning.count import MethodFacts, Pass, count_facts

        kept = self._kept("facts")
        if kept is None:
            kept = self._keep("facts", lambda: asdict(count_facts(self._fake, self._config)))
        passes = {name: Pass(**kept[name]) for name in ("validation", "test")}
        return MethodFacts(**kept | passes)

    @cached_property
    def _fake(self) -> FakeMethod:
        from semimedref.planning.fake_method import fake_method

        return fake_method(self._config)

    def _file(self, part: str) -> Path:
        return cache_folder() / "counts" / f"{self.key}-{part}.json"

    def _kept(self, part: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self._file(part).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return found

    def _keep(self, part: str, count: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            found = count()
        except (RuntimeError, NotImplementedError) as error:  # what torch raises without data
            method = self._config["method"]["_target_"].rpartition(".")[2]
            raise UncountableError(
                f"{method}: its step cannot be counted without data "
                f"({' '.join(str(error).split())[:120]})"
            ) from error
        with suppress(UserError):  # a cache that cannot be written only costs time
            write_atomic(self._file(part), json.dumps(found))
        return found


def counts_key(config: Mapping[str, Any]) -> str:
    """A hash of all that decides a count: the method, sizes, and the code that computes."""
    from semimedref.results.cost import without_files

    told = [
        _shape(without_files(config["method"])),
        _sources(config["method"].get("model") or {}),
        {name: config["trainer"][name] for name in ("batch_size", "precision")},
        config["hardware"]["eval_batch_size"],
        config["scale"]["image_side"],
        config["dataset"]["vocabulary"],
        _code(),
    ]
    return hashlib.sha1(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _shape(node: Any) -> Any:  # noqa: ANN401 - plain JSON values
    """What decides sizes: of fractions only whether they are zero, and no rules for sentences."""
    if isinstance(node, Mapping):
        return {key: _shape(value) for key, value in node.items() if key not in _OF_WORDS}
    if isinstance(node, list):
        return [_shape(value) for value in node]
    return bool(node) if isinstance(node, float) else node


def _sources(model: Mapping[str, Any]) -> list[str]:
    """Where weights come from: those of a hub are counted as files to fetch."""
    found = (model.get(name) or {} for name in ("image_encoder", "text_encoder"))
    return [str(part.get("weights", "")).partition(":")[0] for part in found]


@lru_cache(maxsize=1)
def _code() -> str:
    from semimedref.results.cost import code_of

    digest = hashlib.sha1(code_of(*_COMPUTES).encode())
    for name in _COUNTS:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()
