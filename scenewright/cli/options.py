"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from scenewright.config import OnModelChange

JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, whatever it costs.")]
EngineOption = Annotated[
    str, typer.Option("--engine", help="local, or ray: workers of a cluster (docs/scaling.md).")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Workers of --engine ray; by default one a GPU, else one a CPU.",
        show_default=False,
    ),
]
AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        help="Its cluster, as HOST:PORT or auto; empty: this machine.",
        show_default=False,
    ),
]
OnModelChangeOption = Annotated[
    OnModelChange | None,
    typer.Option(
        "--on-model-change",
        help="Where a judge is served by another version than before: stop with an error (what is "
        "judged is kept), split the tables by version, or accept the mixture and note it. "
        "Default: what CONFIG says, else stop.",
        show_default=False,
    ),
]
SentinelsOption = Annotated[
    float | None,
    typer.Option(
        "--sentinels",
        min=0.0,
        max=1.0,
        help="Sentinel questions for each question put to a judge behind an API, to notice a model "
        "exchanged under its old name; 0 asks none. Default: what CONFIG says, else 0.05.",
        show_default=False,
    ),
]
