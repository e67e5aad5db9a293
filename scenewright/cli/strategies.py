"""``scenewright strategies``: how a round can repair a picture."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from scenewright.cli.console import clear_errors, console, print_json, quiet_libraries
from scenewright.cli.refine import JsonOption, ProfileOption

_DIRECTOR_ABOUT = "Let a language model decide each step with tools: draw, look, verify, accept."


def strategies(profile: ProfileOption = None, as_json: JsonOption = False) -> None:
    """List the strategies of `refine --strategy`, and what the profile's backend lacks for each.

    Others come from packages with an entry point of the group scenewright.strategies.
    """
    with clear_errors():
        quiet_libraries()
        rows = _rows(profile)
        if as_json:
            print_json({"strategies": rows})
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        for row in rows:
            unsupported_reason = f" Here {row['lacks']}." if row["lacks"] else ""
            table.add_row(row["name"] + (" (default)" if row["default"] else ""),
                          row["about"] + unsupported_reason)  # fmt: skip
        console().print(table)


def _rows(name: str | None) -> list[dict[str, Any]]:
    from scenewright.config.settings import DIRECTOR, find_profile, load_settings
    from scenewright.graphs.strategies.registry import strategies as known
    from scenewright.runs.model_factory.profiles import backend_of

    settings = load_settings()
    profile = find_profile(name or settings.profile, settings)
    features = backend_of(profile.backend, settings).features
    rows = [
        {"name": each.name, "about": each.about, "lacks": each.unsupported_reason(features) or ""}
        for each in known().values()
    ]
    unsupported_reason = "" if profile.chat else f"the profile {profile.name} names no chat model"
    rows.append({"name": DIRECTOR, "about": _DIRECTOR_ABOUT, "lacks": unsupported_reason})
    return [{**row, "default": row["name"] == profile.strategy} for row in rows]
