"""The options of the commands whose judges may come to be served by another version."""

from __future__ import annotations

from typing import Annotated

import typer

from scenewright.config.on_model_change import OnModelChange

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
