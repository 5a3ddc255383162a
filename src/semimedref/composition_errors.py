"""Hydra's and OmegaConf's errors as one line with what helps."""

from __future__ import annotations

import difflib
import re

_MAPPINGS = ("additional_parameters", "objectives")  # keys of the user's own


def explain(error: BaseException) -> str:
    """What was found and what was expected, in one line."""
    text = " ".join(str(error).split())
    cause = " ".join(str(error.__cause__ or "").split())
    key = re.search(
        r"Key '([^']+)' (?:is )?not in (?:struct|'[^']*')|Could not override '([^']+)'",
        f"{text} {cause}",
    )
    if key:
        return _unknown_key(next(g for g in key.groups() if g), text)
    option = re.search(r"Could not find '([^']+)'", text)
    if option:
        listed = text.partition("Available options in")[2].partition(":")[2]
        listed = listed.partition("Config search path")[0]
        choices = [c for c in listed.split() if c.isidentifier() or c.replace("pct", "").isalnum()]
        return f"there is no option '{option[1]}': expected one of {', '.join(choices)}"
    if type(error).__name__ == "OverrideParseException":
        return (
            f"{text}; values with spaces, commas, parentheses or = need quotes inside quotes, e.g. "
            "'dataset.root=\"/data/my set (1)\"'"
        )
    return f"{text} {cause}".strip()


def _unknown_key(key: str, text: str) -> str:
    full = re.search(r"full_key: (\S+)", text)
    name = full[1] if full else key
    near = difflib.get_close_matches(name, _known_keys(), n=1, cutoff=0.75)
    hint = f"did you mean '{near[0]}'? " if near else ""
    if name.startswith("hydra."):
        where = "`semimedref train --cfg hydra` prints every key of Hydra"
    else:
        where = "`semimedref train --cfg job` prints every key"
    if "{" in text or _holds_anything(name):
        where += f"; what is added to a mapping needs a plus, e.g. '+{name}.KEY=VALUE'"
    return f"unknown key '{name}': {hint}{where}"


def _holds_anything(name: str) -> bool:
    """Whether a key is a mapping that users fill, or in one."""
    return any(part in name.split(".") for part in _MAPPINGS)


def _known_keys() -> list[str]:
    from hydra.core.global_hydra import GlobalHydra

    from semimedref.config import compose, resolved

    GlobalHydra.instance().clear()
    return _flat(resolved(compose([])))


def _flat(node: object, prefix: str = "") -> list[str]:
    if not isinstance(node, dict):
        return [prefix]
    own = [prefix] if prefix else []
    return own + [k for key, v in node.items() for k in _flat(v, f"{prefix}.{key}".strip("."))]
