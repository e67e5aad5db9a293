"""Options that all commands about the service have: where it keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli.console import Exit, console, fail

if TYPE_CHECKING:
    from scenewright.config.settings import Settings
    from scenewright.service.core.settings import ServiceSettings

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the runs and the database.", file_okay=False)
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        help="postgresql://USER:PASSWORD@HOST/NAME; by default SQLite in the data folder."
    ),
]


def check_profiles(settings: ServiceSettings, base: Settings) -> None:
    """Exit with a clear error where a profile that is to be served cannot be used; one that
    nobody named is warned of."""
    from scenewright.config.settings import SettingsError, find_profile, read_profiles

    try:
        for name in settings.profiles:
            find_profile(name, base)
    except SettingsError as error:
        raise fail(str(error), Exit.USAGE) from None
    if not settings.profiles:
        for problem in read_profiles(base)[1].values():
            console(stderr=True).print(f"warning: {problem}. It is left out", soft_wrap=True)
