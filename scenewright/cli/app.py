"""Groups of commands whose failures are one line and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from scenewright.cli.console import Exit, clear_errors

Hint = str | Callable[[Mapping[str, Any]], str]
"""What to do after an interruption: a text, or a function of the command's options."""
CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_HINT = "__after_interruption__"


def resumable(hint: Hint) -> Callable[[CommandT], CommandT]:
    """Return a decorator of commands that print ``hint`` when they are interrupted."""

    def marked(command: CommandT) -> CommandT:
        setattr(command, _HINT, hint)
        return command

    return marked


class Command(TyperCommand):
    """Command that ends with the exit code that its function returns or that its error has."""

    def invoke(self, ctx: Any) -> None:
        """Run the command."""
        hint: Hint = getattr(self.callback, _HINT, "")
        with clear_errors(hint if isinstance(hint, str) else hint(ctx.params)):
            code = super().invoke(ctx)
        if isinstance(code, Exit):
            raise typer.Exit(int(code))


class App(typer.Typer):
    """Group of such commands, which shows its help where none is named."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(help=help, no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandT], CommandT]:
        """Return a decorator that adds a function as the command ``name``."""
        return super().command(name, cls=Command, **options)
