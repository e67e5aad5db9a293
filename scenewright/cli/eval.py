"""``scenewright eval``: models scored on facts, at scale."""

from __future__ import annotations

import typer

from scenewright.cli.eval_peers import peers
from scenewright.cli.eval_report import compare, report
from scenewright.cli.eval_run import export, metrics, plan, run
from scenewright.cli.eval_studies import studies, study
from scenewright.cli.eval_xtc import app as xtc

app = typer.Typer(
    name="eval",
    help="Score text-to-image models on facts: a set of scenes × ways of drawing × judges × "
    "metrics, as a TOML file says it.",
    no_args_is_help=True,
)
for _command in (run, plan, report, compare, study, studies, metrics, export, peers):
    app.command()(_command)
app.add_typer(xtc)
