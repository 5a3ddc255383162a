"""What a run's JSON files say about the machine, taken out: folders, servers, hosts, users."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from semimedref.config import SIGNED
from semimedref.options import RUN_ROOT

_GONE = ("root", "uri")  # where data and dashboards lie: the next machine has its own
_PERSONAL = ("host", "hostname", "node", "user", "username", "cwd", "argv", "pid")
_URL = re.compile(r"\b([a-z][a-z0-9+.]*)://\S+")
_PATH = re.compile(
    r"(?<![\w.…/])(?:~|[A-Za-z]:(?=[\\/])|(?=/[^\s/]))(?:[\\/][^\s\\/'\",:;()\[\]]+)+"
)
_FEW = 3  # the hash of so few names could be undone by trying names


def scrubbed_run(run: Mapping[str, object]) -> dict[str, object]:
    """``run.json`` for another machine; what is signed stays as it is, or it were another run."""
    return {
        key: value if key == "signed" else _config(run) if key == "config" else _clean(value)
        for key, value in run.items()
    }


def scrubbed_result(result: Mapping[str, object], run: Mapping[str, object]) -> dict[str, object]:
    """``result.json`` for another machine; the run knows the identity of its files."""
    clean = {key: _clean(value) for key, value in result.items() if key != "config"}
    whole = {key: clean.get(key) for key in result} | {"config": _config({**run, **result})}
    data = whole.get("data")
    labeled = data.get("labeled") if isinstance(data, dict) else None
    if isinstance(labeled, dict) and int(labeled.get("images", 0)) < _FEW:
        labeled.pop("sha256", None)
    return whole


def signed_paths(run: Mapping[str, object]) -> list[str]:
    """Keys of the signed part that hold a path: they stay readable, since they decide the name."""
    return [key for key, text in _texts(run.get("signed"), "") if _PATH.search(text)]


def numbers_of(content: Mapping[str, object], *, but: Set[str]) -> dict[str, object] | None:
    """The numbers of a JSON object: words, which may be names, and lists with words are left out.

    None where a key is the name of an image or a patient.
    """
    if content.keys() & but:
        return None
    kept: dict[str, object] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            inner = numbers_of(value, but=but)
            if inner is None:
                return None
            kept |= {key: inner} if inner else {}
        elif _names_nothing(value):
            kept[key] = value
    return kept


def _names_nothing(value: object) -> bool:
    """Whether a value holds neither words nor objects, at any depth."""
    if isinstance(value, list):
        return all(map(_names_nothing, value))
    return not isinstance(value, str | Mapping)


def _config(run: Mapping[str, object]) -> object:
    """The configuration: files by their content, as they are signed; no folder of the machine."""
    config = run["config"]
    assert isinstance(config, dict)
    known = dict(_identities({key: config.get(key) for key in SIGNED}, run.get("signed")))
    clean = _clean({**config, "run_root": RUN_ROOT}, known, personal=())
    assert isinstance(clean, dict)
    return clean


def _identities(given: object, signed: object) -> Iterator[tuple[str, str]]:
    """Each path of the configuration with the hash that stands for it in the signed part."""
    if isinstance(given, dict) and isinstance(signed, dict):
        for key, value in given.items():
            yield from _identities(value, signed.get(key))
    elif isinstance(given, list) and isinstance(signed, list):
        for one, other in zip(given, signed, strict=False):
            yield from _identities(one, other)
    elif isinstance(given, str) and isinstance(signed, str) and signed.startswith("sha256:"):
        yield given, signed


def _clean(
    node: object, known: Mapping[str, str] | None = None, *, personal: tuple[str, ...] = _PERSONAL
) -> object:
    if isinstance(node, dict):
        return {
            key: None
            if (key in _GONE and isinstance(value, str)) or key in personal
            else _clean(value, known, personal=personal)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_clean(value, known, personal=personal) for value in node]
    if not isinstance(node, str):
        return node
    if known and node in known:
        return known[node]
    return _PATH.sub(_last_part, _URL.sub(r"\1:…", node))


def _last_part(path: re.Match[str]) -> str:
    return "…/" + re.split(r"[\\/]", path.group())[-1]


def _texts(node: object, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _texts(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value, prefix)
    elif isinstance(node, str):
        yield prefix, node
