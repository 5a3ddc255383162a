"""Shell completion from the file tree of the configuration: no Hydra import, so it is instant."""

from __future__ import annotations

import os

from semimedref.config import config_dir
from semimedref.errors import UserError

_BASH = """\
_semimedref() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  COMP_WORDBREAKS="${COMP_WORDBREAKS//=/}"
  COMPREPLY=($(compgen -W "$(semimedref completion words ${COMP_WORDS[1]})" -- "$cur"))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -F _semimedref semimedref"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + _BASH


def completion_command(args: list[str]) -> int:
    """Print a script for the shell, or the words that can follow a command."""
    kind = args[0] if args else os.path.basename(os.environ.get("SHELL", "bash"))  # noqa: PTH119
    if kind == "words":
        print("\n".join(words(args[1] if len(args) > 1 else "")))
        return 0
    scripts = {"bash": _BASH, "zsh": _ZSH}
    if kind not in scripts:
        raise UserError(f"completion for '{kind}' is unknown: expected bash or zsh")
    print(scripts[kind])
    return 0


def words(command: str) -> list[str]:
    """Commands, or what can follow one: ``group=option`` for every option file."""
    from semimedref.cli import _COMMANDS

    if command not in _COMMANDS:
        return list(_COMMANDS)
    if command == "analyze":
        from semimedref.analysis.commands import ANALYSES

        return [*ANALYSES, "run=", "split=", "weights=", "out="]
    root = config_dir()
    chosen = (f for f in root.rglob("*.yaml") if f.parent not in (root, root / "parts"))
    files = [f.relative_to(root) for f in chosen]
    return sorted(f"{f.parent}={f.stem}" for f in files)
