"""Costs of a command: forecasts in tables and JSON, and the question above a limit."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from scenewright.cli.console import Exit, console, fail, note, print_table, say
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.providers.usage import ExpectedUsage
    from scenewright.runs.plan import RunPlan


def agree(
    usd: float | None, limit: float | None, yes: bool, cheaper: str, unpriced: Iterable[str] = ()
) -> None:
    """Ask before work that may cost more than ``limit`` dollars; a no ends the command.

    Without a limit, or with ``yes``, nothing is asked. Where no person can answer, the command
    ends as wrong input; ``cheaper`` is the alternative that it names, such as "raise limit_usd".
    ``unpriced``: models without a known price, for whose sake the limit cannot be kept.
    """
    from scenewright.config.settings import load_settings
    from scenewright.runs.spending import unkept_limit, without_price

    if yes or limit is None:
        return
    settings = load_settings()
    if names := [] if settings.allow_unpriced else without_price(unpriced, settings):
        text = unkept_limit(names, dollars(limit))
        if not sys.stdin.isatty():
            raise fail(f"{text}; --yes goes on without a limit")
    elif (usd or 0.0) > limit:
        text = f"it may cost {dollars(usd or 0.0)}, the limit is {dollars(limit)}"
        if not sys.stdin.isatty():
            raise fail(f"{text}: add --yes, or {cheaper}")
    else:
        return
    if not typer.confirm(f"{text}. Go on?", default=False, err=True):
        raise typer.Exit(int(Exit.USAGE))


def agree_to_run(plan: RunPlan, max_usd: float | None, yes: bool, quiet: bool) -> RunPlan:
    """Return ``plan`` with its spending limit, after a line on what its models may cost.

    A run whose models are all on this machine, or that is finished, is returned as it is. Else the
    limit is ``max_usd``, that of the profile, or that of the settings, and no round begins after
    it. Without ``max_usd`` an estimate above the limit asks as :func:`agree`; a yes, there or by
    ``yes``, takes that limit away.
    """
    from scenewright.evals.runner.forecast import forecast_run
    from scenewright.runs.spending import check_limit, unpriced_models

    if not plan.profile.accounts or (plan.folder.finished and plan.edit is None):
        return plan
    costs = forecast_run(plan)
    limit, source = spending_limit(plan, max_usd, yes)
    if not quiet:
        bound = "no limit" if limit == math.inf else f"limit {dollars(limit)} ({source})"
        note(f"estimated cost: {dollar_range(costs.least.usd, costs.most.usd)}, {bound}")
        print_cost_notes(costs.unpriced, costs, console(stderr=True))
    least = costs.least.usd or 0.0
    if least > limit and max_usd is not None:
        raise fail(f"one round may cost {dollars(least)}, the limit is {dollars(limit)}: raise it")
    unpriced = unpriced_models(plan.profile, plan.settings, plan.replaced)
    unpriced = [] if plan.settings.allow_unpriced else unpriced
    if max_usd is None and limit != math.inf and (costs.usd > limit or unpriced):
        cheaper = f"lower --rounds, or set --max-usd or {source}"
        agree(costs.usd, limit, yes, cheaper, unpriced)
        limit = math.inf
    if limit == math.inf:
        return plan
    plan = plan.with_limit(limit)
    check_limit(plan)
    return plan


def spending_limit(plan: RunPlan, max_usd: float | None, yes: bool) -> tuple[float, str]:
    """Return the most dollars of a run, and the option that says so."""
    if max_usd is not None:
        return max_usd, "--max-usd"
    if yes:
        return math.inf, "--yes"
    if plan.profile.limit_usd is not None:
        return plan.profile.limit_usd, f"limit_usd of the profile {plan.profile.name}"
    return plan.settings.limit_usd, "limit_usd in scenewright.toml"


def count_range(least: int, most: int) -> str:
    """Return ``least``–``most``, or the one number that both are."""
    return f"{most:,}" if least == most else f"{least:,}–{most:,}"


def dollar_range(least: float | None, most: float | None) -> str:
    """Return ``least``–``most`` in dollars, or a question mark where a price is not known."""
    if least is None or most is None:
        return "?"
    low, high = dollars(least), dollars(most)
    return high if low == high else f"{low}–{high}"


def _cells(least: ExpectedUsage, most: ExpectedUsage) -> list[str]:
    """Return calls, tokens and dollars; a model of this machine costs nothing."""
    if not (most.calls or most.usage.images or least.usd is None or most.usd is None):
        return ["here", "", "", ""]
    return [
        count_range(least.calls, most.calls),
        count_range(least.usage.tokens_in, most.usage.tokens_in),
        count_range(least.usage.tokens_out, most.usage.tokens_out),
        dollar_range(least.usd, most.usd),
    ]


def cost_data(expected: ExpectedUsage) -> dict[str, Any]:
    """Return a forecast as JSON data."""
    return {
        "calls": expected.calls,
        "tokens_in": expected.usage.tokens_in,
        "tokens_out": expected.usage.tokens_out,
        "usd": expected.usd,
    }


def agree_to_calls(
    model: str, expected: ExpectedUsage, limit: float, yes: bool, quiet: bool, before: str = ""
) -> None:
    """Print the cost of a model's calls after the text ``before``, and ask above the limit."""
    usd, used = expected.usd, expected.usage
    if not quiet:
        price = "price unknown" if usd is None else dollars(usd)
        note(
            f"{before}{model}: {expected.calls:,} calls, about {used.tokens_in:,} tokens in and "
            f"{used.tokens_out:,} out, {price}"
        )
    agree(usd, limit, yes, "raise --limit-usd", [model] if usd is None else [])


def print_costs(costs: CostForecast, rest: CostForecast | None, where: Console) -> None:
    """Print a forecast as a table of models, with a sum and notes.

    ``rest`` is the forecast of what is not done yet, None for all of it.
    """
    counted = any(line.times for line in costs.lines)
    rows = [
        (n.who, n.what, *([f"{n.times:,}"] if counted else []), *_cells(n.least, n.most))
        for n in costs.lines
    ]
    if rows:
        blank = [""] * (1 + counted)
        rows.append(("all", *blank, *_cells(costs.least, costs.most)))
        times = [">times"] if counted else []
        heads = ("model", "role", *times, ">calls", ">tokens in", ">tokens out", ">dollars")
        print_table(heads, rows, where)
    print_cost_notes(costs.unpriced, rest or costs, where)


def print_cost_notes(unpriced: Iterable[str], rest: CostForecast, where: Console) -> None:
    """Print the models without a known price and the accounts that would pass a day's requests."""
    for name in unpriced:
        say(f"note: no price is known for {name}: what it costs is not in the sum", "", where)
    for line in day_notes(rest):
        say(line, "", where)


def day_notes(rest: CostForecast) -> list[str]:
    """Return a note for each account that would exceed its requests a day."""
    from scenewright.config.settings import load_settings

    return [f"note: {limit.text}" for limit in rest.day_limits(load_settings())]
