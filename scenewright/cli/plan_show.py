"""What ``scenewright plan`` tells: as data, and for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from scenewright.cli.console import console
from scenewright.evals.reporting.words import dollars
from scenewright.evals.runner.sizing.plan import Plan, Size

_REMEDIES = {
    "drawing": "more machines, or a faster way of drawing (fewer steps, an accelerator)",
    "judging": "more machines, or a smaller judge",
    "cpu": "more machines, or machines with more cores",
    "process": "more machines, or several processes on one",
    "device": "more machines with an accelerator, or a faster one",
    "requests": "a higher requests_per_minute of the account, or fewer judges and rounds",
    "day": "a higher requests_per_day of the account, a second account, or fewer judges and rounds",
    "tokens": "a higher tokens_per_minute of the account, or fewer judges and rounds",
    "calls": "a higher `concurrent` of the account, if the provider allows it",
    "items": "more items at work (concurrency, --at-work), or more machines",
}


def as_data(
    plan: Plan, workers: Sequence[int], deadline: float | None, machine_usd: float | None
) -> dict[str, Any]:
    """All that is told, as JSON data. ``deadline`` in hours, ``machine_usd`` for each of them."""
    figures = plan.figures
    return {
        "cells": plan.study.cells,
        "at_work": plan.study.at_work,
        "pictures": round(plan.pictures),
        "figures": {"source": figures.source, "cells": figures.cells, "notes": [*figures.notes]},
        "seconds_a_cell": plan.course.alone,
        "rounds": figures.rounds,
        "void_share": figures.void_share,
        "usd": plan.usd.model_dump(),
        "unpriced": [*plan.unpriced],
        "day_limits": [asdict(limit) for limit in plan.day_limits],
        "bytes": plan.bytes.model_dump(),
        "disk": plan.disk,
        "fits": plan.fits,
        "peak_mib": figures.peak_mib,
        "stages": [
            {
                "stage": stage.name,
                "kind": stage.kind,
                "of": stage.of,
                "shared": stage.shared,
                "limit": plan.limit_of(stage),
                "cells_per_hour": None if math.isinf(rate) else rate * 3600,
            }
            for stage in plan.course.every
            for rate in (stage.capacity(),)
        ],
        "sweep": [_size(plan, plan.size(count), machine_usd) for count in workers],
        "deadline": None if deadline is None else _deadline(plan, deadline, machine_usd),
    }


def _size(plan: Plan, size: Size, machine_usd: float | None) -> dict[str, Any]:
    following, seconds = plan.after(size)
    machines = size.workers * size.hours
    accelerators = machines if plan.figures.accelerator else 0.0
    return {
        "workers": size.workers,
        "hours": size.hours,
        "least_hours": size.least / 3600,
        "most_hours": size.most / 3600,
        "machine_hours": machines,
        "accelerators": size.workers if plan.figures.accelerator else 0,
        "accelerator_hours": accelerators,
        "machine_usd": None if machine_usd is None else machines * machine_usd,
        "binding": {"stage": size.binding.name, "kind": size.binding.kind, "of": size.binding.of},
        "remedy": _REMEDIES[size.binding.kind],
        "next": {"stage": following.name, "hours": seconds / 3600},
        "busy": size.busy,
    }


def _deadline(plan: Plan, hours: float, machine_usd: float | None) -> dict[str, Any]:
    course = plan.course
    count = course.workers_for(hours * 3600)
    limits = [
        {
            "stage": stage.name,
            "of": stage.of,
            "limit": plan.limit_of(stage),
            "needed": _needed(plan.limit_of(stage), factor),
        }
        for stage, factor in course.too_slow(hours * 3600)
    ]
    return {
        "hours": hours,
        "workers": count,
        "limits": limits,
        "size": None if count is None else _size(plan, plan.size(count), machine_usd),
    }


def _needed(limit: int | None, factor: float) -> int | None:
    return None if limit is None or math.isinf(factor) else math.ceil(limit * factor)


def show(plan: Plan, told: dict[str, Any]) -> None:
    """The plan, for people."""
    where = console()
    figures, study = plan.figures, plan.study
    measured = f" ({figures.cells:,} pictures)" if figures.cells else ""
    lines = [
        f"figures   {figures.source or 'a file'}{measured}",
        f"study     {study.cells:,} pictures to keep, about {told['pictures']:,} drawn, "
        f"{figures.rounds:.2f} rounds each; {study.at_work} items at work on a machine",
        f"accounts  {_usd(plan)}",
        f"disk      {_gib(plan)}",
    ]
    if figures.void_share is not None:
        lines.append(f"void      {figures.void_share:.1%} of the facts need no question")
    if figures.peak_mib is not None:
        lines.append(f"memory    {figures.peak_mib:,.0f} MiB at most in the pilot's process")
    for line in lines:
        where.print(Text(line))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stage")
    for name in ("limit", "pictures an hour"):
        table.add_column(name, justify="right")
    for row in told["stages"]:
        limit = "" if row["limit"] is None else f"{row['limit']:,}"
        rate = row["cells_per_hour"]
        table.add_row(row["stage"], limit, "–" if rate is None else f"{rate:,.0f}")
    where.print(table)
    where.print(_sweep(told["sweep"]))
    for size in told["sweep"][:1]:
        where.print(Text(sentence(size), style="bold"), soft_wrap=True)
    if told["deadline"] is not None:
        where.print(Text(_of_deadline(told["deadline"]), style="bold"), soft_wrap=True)
    for note in _notes(plan):
        where.print(Text(f"note: {note}"), soft_wrap=True)


def sentence(size: dict[str, Any]) -> str:
    """What holds the study up, and what would move it."""
    machines = "1 machine" if size["workers"] == 1 else f"{size['workers']} machines"
    said = (
        f"On {machines} it takes {_hours(size['hours'])}, and what holds it up is "
        f"{size['binding']['stage']}. What would move it: {size['remedy']}."
    )
    following = size["next"]
    if following["stage"] == size["binding"]["stage"]:
        return said
    return (
        f"{said} Without that limit it would take {_hours(following['hours'])}, held up by "
        f"{following['stage']}."
    )


def _sweep(sizes: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    priced = sizes[0]["machine_usd"] is not None
    names = ["machines", "time", "from", "to", "machine hours"]
    for name in (*names, "GPU hours", *(["dollars of machines"] if priced else [])):
        table.add_column(name, justify="right")
    table.add_column("held up by")
    for size in sizes:
        hours = [_hours(size[name]) for name in ("hours", "least_hours", "most_hours")]
        cells = [f"{size['workers']:,}", *hours, f"{size['machine_hours']:,.2f}"]
        cells.append(f"{size['accelerator_hours']:,.2f}")
        if priced:
            cells.append(dollars(size["machine_usd"]))
        table.add_row(*cells, size["binding"]["stage"])
    return table


def _of_deadline(found: dict[str, Any]) -> str:
    within = f"Within {_hours(found['hours'])}"
    if found["workers"] is not None:
        gpus = found["size"]["accelerators"]
        return (
            f"{within}: {found['workers']:,} machines"
            + (f" with {gpus:,} GPUs" if gpus else "")
            + f", held up by {found['size']['binding']['stage']}."
        )
    if not found["limits"]:
        return f"{within}: no number of machines does it: a single picture takes too long."
    needed = "; ".join(
        f"{limit['stage']} must be {limit['needed']:,}, not {limit['limit']:,}"
        if limit["needed"] is not None
        else f"{limit['stage']}: no limit is high enough"
        for limit in found["limits"]
    )
    return f"{within}: no number of machines does it, all share the limits of an account: {needed}."


def _notes(plan: Plan) -> list[str]:
    notes = [*plan.figures.notes]
    notes += [f"no price is known for {who}: its dollars are not counted" for who in plan.unpriced]
    notes += [limit.text for limit in plan.day_limits]
    if plan.fits is False:
        room = (plan.disk or 0.0) / 2**30
        notes.append(
            f"the disk binds first: {room:,.1f} GiB hold about "
            f"{_that_fit(plan):,} of {plan.study.cells:,} pictures; take a larger one, or put "
            "keep_runs = false into the configuration"
        )
    return notes


def _that_fit(plan: Plan) -> int:
    return int((plan.disk or 0.0) / plan.bytes.mean * plan.study.cells)


def _usd(plan: Plan) -> str:
    found = plan.usd
    if not any(use.account for use in plan.figures.models.values()):
        return "none is needed"
    low, high = dollars(found.low), dollars(found.high)
    return dollars(found.mean) + ("" if low == high else f" ({low}–{high})")


def _gib(plan: Plan) -> str:
    found = plan.bytes * (1 / 2**30)
    free = "" if plan.disk is None else f"; there are {plan.disk / 2**30:,.1f} GiB"
    return f"{found.mean:,.2f} GiB ({found.low:,.2f}–{found.high:,.2f}){free}"


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} s"
    if hours < 1:
        return f"{hours * 60:.1f} min"
    return f"{hours:,.1f} h" if hours < 72 else f"{hours / 24:,.1f} days"
