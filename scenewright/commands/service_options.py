"""Options that all commands about the service have: where it keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the runs and the database.", file_okay=False)
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder."
    ),
]
