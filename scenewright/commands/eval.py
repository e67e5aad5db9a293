"""``scenewright eval``: models scored on facts, at scale."""

from __future__ import annotations

import typer

from scenewright.commands.eval_peers import peers
from scenewright.commands.eval_report import compare, report
from scenewright.commands.eval_run import export, metrics, plan, run
from scenewright.commands.eval_studies import studies, study
from scenewright.commands.eval_xtc import app as xtc

app = typer.Typer(
    name="eval",
    help="Score text-to-image models on facts: a set of scenes × ways of drawing × judges × "
    "metrics, as a TOML file says it.",
    no_args_is_help=True,
)
for _command in (run, plan, report, compare, study, studies, metrics, export, peers):
    app.command()(_command)
app.add_typer(xtc)
