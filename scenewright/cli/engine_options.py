"""Options of the commands that can work on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

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
