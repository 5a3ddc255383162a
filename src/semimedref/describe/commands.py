"""``semimedref model``: list and describe networks, import and export published checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from semimedref.errors import UserError

_ACTIONS = {
    "list": ("semimedref.describe.listing", "list_command"),
    "describe": ("semimedref.describe.describing", "describe_command"),
    "import": ("semimedref.describe.checkpoints", "import_command"),
    "export": ("semimedref.describe.checkpoints", "export_command"),
}


def model_command(args: list[str]) -> int:
    """Hand over to an action."""
    if not args or args[0] not in _ACTIONS:
        found = f"'{args[0]}'" if args else "nothing"
        expected = ", ".join(_ACTIONS)
        raise UserError(
            f"model: {found} was given; expected one of {expected}, e.g. `semimedref model list`"
        )
    module, function = _ACTIONS[args[0]]
    action: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return action(args[1:])
