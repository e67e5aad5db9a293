"""Groups of commands: help from docstrings, and failures as one line and an exit code.

A command's function describes its own parameters in the section ``Args:`` of its docstring, as
``name: text`` or ``name (METAVAR): text``. The same section in the docstring of its module, and
then that of :mod:`scenewright.cli.options`, describes parameters that commands share.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from scenewright.cli import options
from scenewright.cli.console import Exit, clear_errors
from scenewright.cli.run_options import derived_parameters

Hint = str | Callable[[Mapping[str, Any]], str]
"""Hint after an interruption: a text, or a function of the command's options."""
CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_HINT = "__after_interruption__"
_GROUPS = "__option_groups__"
_ARGS = re.compile(r"^Args:\n((?: .*\n?|\n)*)", re.MULTILINE)
_ARG = re.compile(r"^ {4}(\w+)(?: \((.+?)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)


def described(*docstrings: str | None) -> dict[str, tuple[str, str]]:
    """Return metavar and text of the parameters in ``Args:``; the last docstring goes first."""
    sections = (_ARGS.search(inspect.cleandoc(text or "")) for text in docstrings)
    return {
        name: (metavar, " ".join(text.split()))
        for section in sections
        if section is not None
        for name, metavar, text in _ARG.findall(section[1])
    }


def resumable(hint: Hint) -> Callable[[CommandT], CommandT]:
    """Return a decorator of commands that print ``hint`` when they are interrupted."""

    def marked(command: CommandT) -> CommandT:
        setattr(command, _HINT, hint)
        return command

    return marked


def option_groups(**groups: str) -> Callable[[CommandT], CommandT]:
    """Return a decorator of commands whose help shows options in groups.

    Each keyword is a group, with the names of its parameters between spaces::

        @option_groups(Models="profile judges", Output="out as_json")
    """
    of_parameter = {name: group for group, names in groups.items() for name in names.split()}

    def marked(command: CommandT) -> CommandT:
        setattr(command, _GROUPS, of_parameter)
        return command

    return marked


class Command(TyperCommand):
    """Command that ends with the exit code that its function returns or that its error has."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._derived = False
        groups: Mapping[str, str] = getattr(self.callback, _GROUPS, {})
        own = described(inspect.getdoc(self.callback))
        shared = described(options.__doc__, sys.modules[self.callback.__module__].__doc__)
        for param in self.params:
            fields = vars(param)
            if param.name in groups:
                fields["rich_help_panel"] = groups[param.name]
            metavar, text = (own if fields["help"] else shared | own).get(param.name, ("", ""))
            fields["help"] = text or fields["help"]
            fields["metavar"] = metavar or fields["metavar"]
            if param.param_type_name == "argument" and fields["metavar"] is None:
                fields["metavar"] = str(param.name).upper()
            if fields.get("is_flag") and param.default is False:
                # A switch that is off needs no option that turns it off.
                param.secondary_opts = []

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters, those of a run's options included."""
        if not self._derived:
            self._derived = True
            self.params += derived_parameters(self.callback)
        return super().get_params(ctx)

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

        def added(command: CommandT) -> CommandT:
            text = _ARGS.sub("", inspect.getdoc(command) or "")
            return super(App, self).command(name, cls=Command, help=text, **options)(command)

        return added
