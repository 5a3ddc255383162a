"""Keep equal parts of many results once: thousands of runs share a few hundred config groups."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

Pool = dict[str, object]  # parts by the hash of their JSON

_OWN = ("test", "best")  # no two runs share these
_CONFIG = "config"


def intern(result: dict[str, object], pool: Pool) -> str:
    """The result as JSON with its parts replaced by their hashes; the parts go to the pool."""
    config = result[_CONFIG]
    assert isinstance(config, dict)
    rest = {key: value for key, value in result.items() if key != _CONFIG}
    parts = [*_divide(rest, pool), *_divide(config, pool)]
    return json.dumps(parts, separators=(",", ":"))


def restore(record: str, pool: Pool) -> dict[str, object]:
    """The result as it was; parts that results share are one object, not copies."""
    own, shared, config_own, config_shared = json.loads(record)
    config = config_own | {key: pool[part] for key, part in config_shared.items()}
    result: dict[str, object] = own | {key: pool[part] for key, part in shared.items()}
    return result | {_CONFIG: config}


def hashes_of(record: str) -> Iterator[str]:
    """The parts that a record needs from the pool."""
    for shared in json.loads(record)[1::2]:
        yield from shared.values()


def _divide(whole: dict[str, object], pool: Pool) -> tuple[dict[str, object], dict[str, str]]:
    """Values that stand for themselves, and parts by their hash."""
    own: dict[str, object] = {}
    shared: dict[str, str] = {}
    for key, value in whole.items():
        if key in _OWN or not isinstance(value, dict | list):
            own[key] = value
            continue
        text = json.dumps(value, separators=(",", ":"))
        part = hashlib.sha256(text.encode()).hexdigest()[:16]
        pool.setdefault(part, value)
        shared[key] = part
    return own, shared
