"""The command line: ``scenewright COMMAND``. Commands live in :mod:`scenewright.cli`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from scenewright.cli.console import Exit, fail
from scenewright.cli.data import app as data
from scenewright.cli.data import get as data_get
from scenewright.cli.data_annotate import app as building
from scenewright.cli.demo import demo
from scenewright.cli.doctor import doctor
from scenewright.cli.eval import app as evals
from scenewright.cli.extract import extract
from scenewright.cli.filter import filter_pictures
from scenewright.cli.judges import app as judges
from scenewright.cli.keys import app as keys
from scenewright.cli.mcp import mcp
from scenewright.cli.mock import app as mock
from scenewright.cli.models import app as models
from scenewright.cli.object_realism import app as object_realism
from scenewright.cli.parse import parse
from scenewright.cli.rate import app as rate
from scenewright.cli.real_bench import app as real_bench
from scenewright.cli.refine import refine, score, strategies
from scenewright.cli.runs import edit, page, show
from scenewright.cli.serve import serve, worker
from scenewright.cli.study import app as study

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
"""Old names of commands and options, and the new ones."""


def renamed(words: Sequence[str]) -> str | None:
    """Return a hint at the new name where a command line begins with an old one, else None."""
    for old, new in RENAMED.items():
        *command, last = old.split()
        rest = words[len(command) :]
        if [*words[: len(command)]] != command or not rest:
            continue
        if any(w.split("=")[0] == last for w in (rest if last.startswith("-") else rest[:1])):
            return f"`scenewright {old}` is now `scenewright {new}`"
    return None


_UNKNOWN_CHOICE = re.compile(r"(?P<value>'.*') is not one of (?P<known>.*)\.$")


class Commands(TyperGroup):
    """Group of all commands, which knows their old names and suggests valid values."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that ``args`` name; an old name ends with a hint at the new one."""
        if hint := renamed(args):
            raise fail(hint, Exit.USAGE)
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
            raise fail(f"{param.opts[0]} {found['value']}: use {known}", Exit.USAGE) from None


app = typer.Typer(
    name="scenewright",
    cls=Commands,
    help="Draw a scene, verify every fact of it with a panel of judges, and repair what is "
    "missing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"scenewright {version('scenewright')}")
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
    os.environ["SCENEWRIGHT_DEBUG"] = "1" if debug else "0"


for _command in (
    refine,
    edit,
    score,
    demo,
    page,
    show,
    serve,
    worker,
    parse,
    strategies,
    doctor,
    extract,
    mcp,
):
    app.command()(_command)

app.command("filter")(filter_pictures)

data.command("get")(data_get)
data.add_typer(building)

app.add_typer(data, name="data")
app.add_typer(evals, name="eval")
app.add_typer(judges, name="judges")
app.add_typer(keys, name="keys")
app.add_typer(mock, name="mock")
app.add_typer(models, name="models")
app.add_typer(rate, name="rate")
app.add_typer(real_bench, name="real-bench")
app.add_typer(object_realism, name="object-realism")
app.add_typer(study, name="study")
if importlib.util.find_spec("scenewright.miniature.cli") is not None:
    app.add_typer(importlib.import_module("scenewright.miniature.cli").app, name="miniature")
