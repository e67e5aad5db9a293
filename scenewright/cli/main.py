"""The command line: ``scenewright COMMAND``. Commands live in :mod:`scenewright.cli`."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scenewright.cli.app import App
from scenewright.cli.console import fail
from scenewright.cli.data import app as data
from scenewright.cli.demo import demo
from scenewright.cli.doctor import doctor
from scenewright.cli.eval import app as evals
from scenewright.cli.extract import extract
from scenewright.cli.gate import gate
from scenewright.cli.init import init
from scenewright.cli.judges import app as judges
from scenewright.cli.keys import app as keys
from scenewright.cli.mock import app as mock
from scenewright.cli.models import app as models
from scenewright.cli.object_realism import app as object_realism
from scenewright.cli.parse import parse
from scenewright.cli.rate import app as rate
from scenewright.cli.real_bench import app as real_bench
from scenewright.cli.refine import refine, score, strategies
from scenewright.cli.runs import edit, open_, show
from scenewright.cli.serve import mcp, serve, worker
from scenewright.cli.study import app as study
from scenewright.core.version import VERSION

RENAMED = {
    "lab": "mock",
    "work": "worker",
    "real": "real-bench",
    "realism": "object-realism",
    "plan": "eval plan",
    "page": "open --no-browser",
    "filter": "real-bench filter",
    "eval study": "study run",
    "eval studies": "study list",
    "study panel": "study run",
    "edit --holds": "edit --present",
    "edit --lacks": "edit --absent",
}
"""Old names of commands and options, and the new ones."""
REMOVED = {
    "models serve": "serve judges with vLLM, SGLang or `transformers serve` (docs/scaling.md)",
    "models rehearse": "run `python -m benchmarks.rehearse` in a checkout (docs/local-models.md)",
}
"""Removed commands, and what replaces each."""


def gone(words: Sequence[str]) -> str | None:
    """Return a hint where a command line begins with an old name or a removed command."""
    for old in (*RENAMED, *REMOVED):
        *command, last = old.split()
        rest = words[len(command) :]
        if [*words[: len(command)]] != command or not rest:
            continue
        if any(w.split("=")[0] == last for w in (rest if last.startswith("-") else rest[:1])):
            if old in REMOVED:
                return f"`scenewright {old}` was removed: {REMOVED[old]}"
            return f"`scenewright {old}` is now `scenewright {RENAMED[old]}`"
    return None


_UNKNOWN_CHOICE = re.compile(r"(?P<value>'.*') is not one of (?P<known>.*)\.$")


class Commands(TyperGroup):
    """Group of all commands, which knows old names and suggests valid values."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that ``args`` name; an old name ends with a hint at the new one."""
        if hint := gone(args):
            raise fail(hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an unknown value of an option is one line with the valid ones."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Typer's own classes of usage errors are private.
            message, param = getattr(error, "message", None), getattr(error, "param", None)
            found = _UNKNOWN_CHOICE.search(message) if isinstance(message, str) else None
            if found is None or param is None:
                raise
            known = " or ".join(found["known"].replace("'", "").rsplit(", ", 1))
            raise fail(f"{param.opts[0]} {found['value']}: use {known}") from None


app = App(
    name="scenewright",
    cls=Commands,
    help="Draw a scene, verify every fact of it with a panel of judges, and repair what is "
    "missing.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scenewright {VERSION}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and the libraries' own messages.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Options for all commands."""
    # What libraries make while they are imported stays: searches of it for garbage would take a
    # seventh of the time to a first picture.
    gc.set_threshold(_ALLOCATIONS)
    os.environ["SCENEWRIGHT_DEBUG"] = "1" if debug else "0"


_ALLOCATIONS = 50_000
"""Objects made between two searches of the newest for garbage."""

START, EVALUATE, SERVE, RESEARCH = "Start", "Evaluate", "Serve", "Research"
_COMMANDS: Mapping[str, Sequence[Callable[..., object]]] = {
    START: (refine, show, open_, edit, score, parse, demo, init, doctor, strategies),
    EVALUATE: (extract, gate),
    SERVE: (serve, worker, mcp),
}
for _panel, _commands in _COMMANDS.items():
    for _command in _commands:
        app.command(_command.__name__.rstrip("_"), rich_help_panel=_panel)(_command)
_APPS = {
    START: {"models": models, "keys": keys},
    EVALUATE: {"eval": evals, "data": data, "judges": judges, "rate": rate},
    SERVE: {"mock": mock},
    RESEARCH: {"study": study, "real-bench": real_bench, "object-realism": object_realism},
}
for _panel, _apps in _APPS.items():
    for _name, _app in _apps.items():
        app.add_typer(_app, name=_name, rich_help_panel=_panel)
if importlib.util.find_spec("scenewright.miniature.cli") is not None:
    _miniature = importlib.import_module("scenewright.miniature.cli").app
    app.add_typer(_miniature, name="miniature", rich_help_panel=RESEARCH)
