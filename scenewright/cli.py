"""The command line: ``scenewright COMMAND``. Commands live in :mod:`scenewright.commands`."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Annotated

import typer

from scenewright.commands.data import app as data
from scenewright.commands.data_annotate import app as building
from scenewright.commands.data_get import get as data_get
from scenewright.commands.demo import demo
from scenewright.commands.doctor import doctor
from scenewright.commands.edit import edit
from scenewright.commands.eval import app as evals
from scenewright.commands.extract import HELP as EXTRACT_HELP
from scenewright.commands.extract import extract
from scenewright.commands.filter import HELP as FILTER_HELP
from scenewright.commands.filter import filter_pictures
from scenewright.commands.folders import page, show
from scenewright.commands.judges import app as judges
from scenewright.commands.keys import app as keys
from scenewright.commands.lab import app as lab
from scenewright.commands.mcp import HELP as MCP_HELP
from scenewright.commands.mcp import mcp
from scenewright.commands.models import app as models
from scenewright.commands.parse import parse
from scenewright.commands.plan import HELP as PLAN_HELP
from scenewright.commands.plan import plan
from scenewright.commands.rate import app as rate
from scenewright.commands.real import app as real
from scenewright.commands.realism import app as realism
from scenewright.commands.refine import refine, score
from scenewright.commands.serve import serve
from scenewright.commands.strategies import strategies
from scenewright.commands.study import app as study
from scenewright.commands.work import work

app = typer.Typer(
    name="scenewright",
    help="Draws a scene, checks every fact of it with a panel of judges, and repairs what is "
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


for _command in (refine, edit, score, demo, page, show, serve, work, parse, strategies, doctor):
    app.command()(_command)

app.command(help=MCP_HELP)(mcp)
app.command(help=EXTRACT_HELP)(extract)
app.command("filter", help=FILTER_HELP)(filter_pictures)
app.command(help=PLAN_HELP)(plan)

data.command("get")(data_get)
data.add_typer(building)

app.add_typer(data, name="data")
app.add_typer(evals, name="eval")
app.add_typer(judges, name="judges")
app.add_typer(keys, name="keys")
app.add_typer(lab, name="lab")
app.add_typer(models, name="models")
app.add_typer(rate, name="rate")
app.add_typer(real, name="real")
app.add_typer(realism, name="realism")
app.add_typer(study, name="study")
if importlib.util.find_spec("scenewright.miniature.cli") is not None:
    app.add_typer(importlib.import_module("scenewright.miniature.cli").app, name="miniature")
