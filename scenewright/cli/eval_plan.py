"""``scenewright eval plan``: estimates of cost, time, machines and disk of an evaluation."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import option_groups
from scenewright.cli.console import Exit, console, fail, give, print_table, run_async, say
from scenewright.cli.costs import cost_data, count_range, day_notes, print_costs
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.runner.config import EvalConfig
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.runner.sizing.figures import Figures
    from scenewright.evals.runner.sizing.plan import Plan, Size, Workload

GIB = 2**30
ConfigArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="A TOML file; its paths are relative to its folder (docs/evaluating.md).",
        show_default=False,
    ),
]


_OF_COUNTS = frozenset({"config", "out", "as_json"})


@option_groups(
    Size="images backends judges rounds workers at_work disk deadline machine_usd",
    Figures="pilot source figures save",
    Output="out as_json",
)
def plan(
    context: typer.Context,
    config: Annotated[Path | None, typer.Argument()] = None,
    out: options.EvalOut = None,
    images: options.OptionalPositive = None,
    backends: options.Positive = 1,
    judges: Annotated[int | None, typer.Option(min=0)] = None,
    rounds: options.OptionalPositive = None,
    pilot: int | None = None,
    source: Annotated[Path | None, typer.Option("--from")] = None,
    figures: Path | None = None,
    save: Path | None = None,
    workers: str = "1,2,4,8",
    at_work: options.OptionalPositive = None,
    deadline: float | None = None,
    machine_usd: options.OptionalAmount = None,
    disk: options.OptionalAmount = None,
    as_json: options.Json = False,
) -> Exit:
    """Estimate what an evaluation will take: pictures, calls, tokens, dollars.

    With measured figures also time, machines, disk and the bottleneck: figures of a pilot of a few
    items (--pilot), of a finished evaluation (--from), or in a file (--figures). --images with
    numbers replaces CONFIG. Limits are those of the accounts in the settings. docs/scaling.md
    explains the calculation.

    Exit codes: 0 estimated; 1 the deadline or the disk does not suffice; 2 wrong input; 3 could not
    run.

    Args:
        config ([CONFIG]): As for `eval run`.
        images: Scenes, in place of CONFIG.
        backends: With --images: pictures of each scene.
        judges: Judges of each kept picture.
        rounds: Most rounds of each loop.
        pilot (N): Measure N items of CONFIG now; their calls cost money.
        source (FOLDER): Figures of a finished evaluation.
        figures (FILE): Figures in a TOML file.
        save (FILE): Write the figures to a TOML file.
        workers (N,N,…): Numbers of machines.
        at_work: Concurrent items on a machine; CONFIG's concurrency, else 8.
        deadline (HOURS): Estimate the machines for this time.
        machine_usd: Dollars an hour of one machine.
        disk: GiB of disk; by default what is free here.
    """
    if config is not None and _only_counted(context):
        _count(config, out, as_json)
        return Exit.OK
    counts = _counts(workers)
    if (config is None) == (images is None):
        raise fail("name a CONFIG, or --images N, not both")
    if sum(one is not None for one in (pilot, source, figures)) != 1:
        raise fail("choose the source of the figures: --pilot N, --from FOLDER, --figures FILE")
    if pilot is not None and config is None:
        raise fail("a pilot runs items of a CONFIG: name one, or --figures FILE")
    if deadline is not None and not deadline > 0:
        raise fail("--deadline is a number of hours above 0")
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.sizing.figures import save_figures
    from scenewright.evals.runner.sizing.plan import Plan, resized

    settings = load_settings()
    study = run_async(_study(config, images, backends, at_work))
    measured = run_async(_figures(config, pilot, source, figures))
    if save is not None:
        save_figures(measured, save)
    if rounds is not None or judges is not None:
        measured = resized(measured, rounds=rounds, judges=judges)
    room = disk * GIB if disk is not None else float(shutil.disk_usage(".").free)
    sized = Plan(study, measured, settings, room)
    data = _as_data(sized, counts, deadline, machine_usd)
    give(as_json, data, _show, sized, data)
    late = data["deadline"] is not None and data["deadline"]["workers"] is None
    return Exit.MISSING if late or sized.fits is False else Exit.OK


def _only_counted(context: typer.Context) -> bool:
    """Return whether no option is given that needs measured figures."""
    given = {
        param.name
        for param in context.command.params
        if (source := context.get_parameter_source(param.name or "")) and source.name != "DEFAULT"
    }
    return given <= _OF_COUNTS


def _count(config: Path, out: Path | None, as_json: bool) -> None:
    from scenewright.evals.runner.estimating import estimate

    asked, folder = asked_in(config, out)
    found = run_async(estimate(asked, folder, root=config.parent))
    give(as_json, _estimate_data(found), print_estimate, found, asked, folder, console())


def asked_in(config: Path, out: Path | None) -> tuple[EvalConfig, Path]:
    """Return the evaluation of ``config``, and its folder."""
    from scenewright.evals.runner.config import load_config

    asked = load_config(config)
    return asked, out if out is not None else Path("evals") / asked.name


def print_estimate(found: Estimate, asked: EvalConfig, folder: Path, where: Console) -> None:
    """Print an estimate by model."""
    say(Text.assemble((asked.name, "bold"), f"  {asked.about}" if asked.about else ""), "", where)
    size = f"{found.items:,} items × {found.arms} arms"
    if found.done:
        size += f"; {found.done:,} items are done, the numbers below are for all"
    for line in (
        f"folder    {folder}",
        f"set       {asked.dataset.name}: {size}",
        *(f"          left out: {count:,} ({reason})" for reason, count in found.left_out.items()),
        f"pictures  {count_range(*found.pictures)}",
        f"facts     about {found.facts:,} in the set; judged pictures {count_range(*found.looks)}",
    ):
        say(line, "", where)
    for gap in found.outside:
        say(f"note: {gap.text}", "", where)
    print_costs(found.costs, found.rest, where)


def _estimate_data(found: Estimate) -> dict[str, Any]:
    return {
        "items": found.items,
        "done": found.done,
        "arms": found.arms,
        "pictures": found.pictures,
        "facts": found.facts,
        "looks": found.looks,
        "left_out": found.left_out,
        "outside": [{**asdict(gap), "text": gap.text} for gap in found.outside],
        "models": [
            {"model": n.who, "does": n.what, "least": cost_data(n.least), "most": cost_data(n.most)}
            for n in found.costs.lines
        ],
        "least": cost_data(found.costs.least),
        "most": cost_data(found.costs.most),
        "notes": day_notes(found.rest),
    }


def _counts(text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise fail(f"--workers {text}: give numbers of machines such as 1,2,4,8")
    return found


async def _study(
    config: Path | None, images: int | None, backends: int, at_work: int | None
) -> Workload:
    from scenewright.evals.runner.sizing.plan import Workload

    if config is None:
        return Workload((images or 0) * backends, at_work or 8)
    from scenewright.evals.runner.config import load_config
    from scenewright.evals.runner.estimating import estimate

    asked = load_config(config)
    counted = await estimate(asked, root=config.parent)
    return Workload(counted.items * counted.arms, at_work or asked.concurrency)


async def _figures(
    config: Path | None, items: int | None, source: Path | None, file: Path | None
) -> Figures:
    from scenewright.evals.runner.sizing.figures import load_figures

    if file is not None:
        return load_figures(file)
    if source is not None:
        from scenewright.evals.runner.sizing.figures import figures_from

        return figures_from(source)
    from scenewright.evals.runner.config import load_config
    from scenewright.evals.runner.sizing.pilot import pilot

    assert config is not None
    assert items is not None
    return await pilot(load_config(config), items, root=config.parent)


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
    "items": "more concurrent items (concurrency, --at-work), or more machines",
}


def _as_data(
    plan: Plan, workers: Sequence[int], deadline: float | None, machine_usd: float | None
) -> dict[str, Any]:
    """Return the plan as JSON data; ``deadline`` in hours, ``machine_usd`` an hour."""
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
        "unpriced": [*plan.costs().unpriced],
        "day_limits": [asdict(limit) for limit in plan.costs().day_limits(plan.settings)],
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


def _show(plan: Plan, data: dict[str, Any]) -> None:
    figures, study = plan.figures, plan.study
    measured = f" ({figures.cells:,} pictures)" if figures.cells else ""
    say(f"figures   {figures.source or 'a file'}{measured}")
    say(
        f"study     {study.cells:,} pictures to keep, about {data['pictures']:,} drawn, "
        f"{figures.rounds:.2f} rounds each; {study.at_work} concurrent items on a machine"
    )
    say(f"accounts  {_usd(plan)}")
    say(f"disk      {_gib(plan)}")
    if figures.void_share is not None:
        say(f"void      {figures.void_share:.1%} of the facts need no question")
    if figures.peak_mib is not None:
        say(f"memory    {figures.peak_mib:,.0f} MiB at most in the pilot's process")
    print_table(
        ("stage", ">limit", ">pictures an hour"),
        [
            (row["stage"], "" if row["limit"] is None else f"{row['limit']:,}",
             "–" if row["cells_per_hour"] is None else f"{row['cells_per_hour']:,.0f}")
            for row in data["stages"]
        ],
    )  # fmt: skip
    _show_sweep(data["sweep"])
    for size in data["sweep"][:1]:
        say(sentence(size), "bold")
    if data["deadline"] is not None:
        say(_of_deadline(data["deadline"]), "bold")
    for text in _notes(plan):
        say(f"note: {text}")


def sentence(size: dict[str, Any]) -> str:
    """Return the bottleneck of the study, and what would move it."""
    machines = "1 machine" if size["workers"] == 1 else f"{size['workers']} machines"
    text = (
        f"On {machines} it takes {_hours(size['hours'])}. The bottleneck is "
        f"{size['binding']['stage']}. Remedy: {size['remedy']}."
    )
    following = size["next"]
    if following["stage"] == size["binding"]["stage"]:
        return text
    return (
        f"{text} Without that limit it would take {_hours(following['hours'])}, limited by "
        f"{following['stage']}."
    )


def _show_sweep(sizes: Sequence[dict[str, Any]]) -> None:
    priced = sizes[0]["machine_usd"] is not None
    heads = ["machines", ">time", ">from", ">to", ">machine hours", ">GPU hours"]
    rows = []
    for size in sizes:
        hours = [_hours(size[name]) for name in ("hours", "least_hours", "most_hours")]
        cells = [f"{size['workers']:,}", *hours, f"{size['machine_hours']:,.2f}"]
        cells.append(f"{size['accelerator_hours']:,.2f}")
        cells += [dollars(size["machine_usd"])] if priced else []
        rows.append([*cells, size["binding"]["stage"]])
    print_table([*heads, *([">dollars of machines"] if priced else []), "bottleneck"], rows)


def _of_deadline(found: dict[str, Any]) -> str:
    within = f"Within {_hours(found['hours'])}"
    if found["workers"] is not None:
        gpus = found["size"]["accelerators"]
        return (
            f"{within}: {found['workers']:,} machines"
            + (f" with {gpus:,} GPUs" if gpus else "")
            + f", limited by {found['size']['binding']['stage']}."
        )
    if not found["limits"]:
        return f"{within}: no number of machines suffices: a single picture takes too long."
    needed = "; ".join(
        f"{limit['stage']} must be {limit['needed']:,}, not {limit['limit']:,}"
        if limit["needed"] is not None
        else f"{limit['stage']}: no limit is high enough"
        for limit in found["limits"]
    )
    return (
        f"{within}: no number of machines suffices, all share the limits of an account: {needed}."
    )


def _notes(plan: Plan) -> list[str]:
    notes = [*plan.figures.notes]
    notes += [
        f"no price is known for {model}: its dollars are not counted"
        for model in plan.costs().unpriced
    ]
    notes += [limit.text for limit in plan.costs().day_limits(plan.settings)]
    if plan.fits is False:
        room = (plan.disk or 0.0) / GIB
        fitting = int((plan.disk or 0.0) / plan.bytes.mean * plan.study.cells)
        notes.append(
            f"the disk is too small: {room:,.1f} GiB hold about "
            f"{fitting:,} of {plan.study.cells:,} pictures; take a larger one, or put "
            "keep_runs = false into the configuration"
        )
    return notes


def _usd(plan: Plan) -> str:
    found = plan.usd
    if not any(use.account for use in plan.figures.models.values()):
        return "none needed"
    low, high = dollars(found.low), dollars(found.high)
    return dollars(found.mean) + ("" if low == high else f" ({low}–{high})")


def _gib(plan: Plan) -> str:
    found = plan.bytes * (1 / GIB)
    free = "" if plan.disk is None else f"; there are {plan.disk / GIB:,.1f} GiB"
    return f"{found.mean:,.2f} GiB ({found.low:,.2f}–{found.high:,.2f}){free}"


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} s"
    if hours < 1:
        return f"{hours * 60:.1f} min"
    return f"{hours:,.1f} h" if hours < 72 else f"{hours / 24:,.1f} days"
