"""Commands and options of earlier versions: an old name is answered with the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from scenewright.cli.console import Exit, fail

RENAMED = {
    "lab": "mock",
    "work": "worker",
    "real": "real-bench",
    "realism": "object-realism",
    "plan": "eval plan",
    "eval study": "study run",
    "eval studies": "study list",
    "study panel": "study run",
    "edit --holds": "edit --present",
    "edit --lacks": "edit --absent",
}
"""Old names and what they are called now."""


def renamed(words: Sequence[str]) -> str | None:
    """Return the line that tells the new name of a command line that begins with an old one."""
    for old, new in RENAMED.items():
        *command, last = old.split()
        rest = words[len(command) :]
        if [*words[: len(command)]] != command or not rest:
            continue
        if any(w.split("=")[0] == last for w in (rest if last.startswith("-") else rest[:1])):
            return f"`scenewright {old}` is now `scenewright {new}`"
    return None


class Commands(TyperGroup):
    """The group of all commands, which knows their old names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that ``args`` name; an old name ends with the new one."""
        if told := renamed(args):
            raise fail(told, Exit.USAGE)
        return super().resolve_command(ctx, args)
