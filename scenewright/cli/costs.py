"""What work may cost: told in words, and asked about above a limit."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer

from scenewright.cli.console import Exit, fail
from scenewright.evals.reporting.words import dollars


def agree(usd: float, limit: float | None, yes: bool, cheaper: str) -> None:
    """Ask before work that may cost ``usd`` dollars if that is more than ``limit``; a no ends the
    command.

    Without a limit, or with ``yes``, nothing is asked. Where nobody can be asked the command ends
    as wrong input; ``cheaper`` is then what else to do, such as "raise limit_usd".
    """
    if yes or limit is None or usd <= limit:
        return
    text = f"it may cost {dollars(usd)}, the limit is {dollars(limit)}"
    if not sys.stdin.isatty():
        raise fail(f"{text}: add --yes, or {cheaper}", Exit.USAGE)
    if not typer.confirm(f"{text}. Go on?", default=False, err=True):
        raise typer.Exit(int(Exit.USAGE))


def day_notes(calls: Iterable[tuple[str, float]]) -> list[str]:
    """Return a note for each account that would pass its requests of a day; ``calls``: id of a
    model and how often it is called, at most."""
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.sizing.days import short_days

    return [f"note: {limit.text}" for limit in short_days(calls, load_settings())]


def count_range(least: int, most: int) -> str:
    """From ``least`` to ``most``, or the one number that both are."""
    return f"{most:,}" if least == most else f"{least:,}–{most:,}"


def dollar_range(least: float | None, most: float | None) -> str:
    """From ``least`` to ``most`` dollars; a question mark where a price is not known."""
    if least is None or most is None:
        return "?"
    low, high = dollars(least), dollars(most)
    return high if low == high else f"{low}–{high}"
