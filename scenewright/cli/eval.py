"""``scenewright eval``: models scored on facts, at scale."""

from __future__ import annotations

import typer

from scenewright.cli.eval_peers import peers
from scenewright.cli.eval_plan import HELP as PLAN_HELP
from scenewright.cli.eval_plan import plan
from scenewright.cli.eval_report import compare, report
from scenewright.cli.eval_run import export, metrics, run
from scenewright.cli.eval_xtc import app as xtc

app = typer.Typer(
    name="eval",
    help="Score text-to-image models on facts: a set of scenes × ways of drawing × judges × "
    "metrics, as a TOML file says it.",
    no_args_is_help=True,
)
for _command in (run, report, compare, metrics, export, peers):
    app.command()(_command)
app.command(help=PLAN_HELP)(plan)
app.add_typer(xtc)
