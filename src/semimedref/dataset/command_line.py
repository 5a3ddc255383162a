"""Options as somebody may copy them into a terminal, whatever is in a path."""

from __future__ import annotations

import re
import shlex

_PLAIN = r"[\w./~+@%:-]+"  # what Hydra takes without quotes


def override(key: str, value: str) -> str:
    """``key=value``, quoted for Hydra and for the shell where they need it."""
    if not re.fullmatch(_PLAIN, value):
        value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return shlex.quote(f"{key}={value}")
