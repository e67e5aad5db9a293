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

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import option_groups
from scenewright.cli.costs import cost_data, count_range, day_notes, print_costs
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.runner.config import EvalConfig
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.runner.time_forecast import Plan, Size

GIB = 2**30


@option_groups(
    Recipe="models judge loop limit per_prompt",
    Size="images backends judges rounds workers at_work disk deadline machine_usd",
    Figures="pilot source figures save",
    Output="out as_json",
)
def plan(
    context: typer.Context,
    config: Annotated[Path | None, typer.Argument()] = None,
    out: options.EvalOut = None,
    models: options.RecipeModels = "",
    judge: options.RecipeJudge = None,
    loop: options.Loop = None,
    limit: options.Limit = None,
    per_prompt: options.OptionalPositive = None,
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
) -> terminal.Exit:
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
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.runner.measuring import figures_from
    from scenewright.evals.runner.measuring import pilot as run_pilot
    from scenewright.evals.runner.time_forecast import Plan, load_figures, save_figures

    chosen = {
        param.name
        for param in context.command.params
        if (origin := context.get_parameter_source(param.name or "")) and origin.name != "DEFAULT"
    }
    asked, folder = None, Path()
    if config is not None:
        asked, folder = load_evaluation(config, out, models, judge, loop, limit, per_prompt)
    of_recipes = {"models", "judge", "loop", "limit", "per_prompt"}
    if config is None and (idle := sorted(chosen & of_recipes)):
        option = idle[0].replace("_", "-")
        raise terminal.fail(f"--{option} is an option of recipes: name one as CONFIG")
    counts_alone = {"config", "out", "as_json", *of_recipes}
    if asked is not None and config is not None and chosen <= counts_alone:
        # No option needs measured figures.
        counted = terminal.run_async(estimate(asked, folder, root=config.parent))
        terminal.print_if_json(estimate_data(counted))
        print_estimate(counted, asked, folder, terminal.console())
        return terminal.Exit.OK
    counts = options.whole_numbers("--workers", workers, 1, "1,2,4,8")
    if (config is None) == (images is None):
        raise terminal.fail("name a CONFIG, or --images N, not both")
    if sum(one is not None for one in (pilot, source, figures)) != 1:
        raise terminal.fail(
            "choose the source of the figures: --pilot N, --from FOLDER, --figures FILE"
        )
    if pilot is not None and config is None:
        raise terminal.fail("a pilot runs items of a CONFIG: name one, or --figures FILE")
    if deadline is not None and not deadline > 0:
        raise terminal.fail("--deadline is a number of hours above 0")
    settings = load_settings()
    setting = asked
    root = None if config is None else config.parent
    if setting is None:
        cells, at_work = (images or 0) * backends, at_work or 8
    else:
        counted = terminal.run_async(estimate(setting, root=root))
        cells, at_work = counted.items * counted.arms, at_work or setting.concurrency
    if figures is not None:
        measured = load_figures(figures)
    elif source is not None:
        measured = figures_from(source)
    else:
        assert setting is not None
        assert pilot is not None
        measured = terminal.run_async(run_pilot(setting, pilot, root=root))
    if save is not None:
        save_figures(measured, save)
    if rounds is not None or judges is not None:
        measured = measured.resized(rounds=rounds, judges=judges)
    space = disk * GIB if disk is not None else float(shutil.disk_usage(".").free)
    sized = Plan(cells, at_work, measured, settings, space)
    data = plan_data(sized, sorted(set(counts)), deadline, machine_usd)
    terminal.print_if_json(data)
    print_plan(sized, data)
    late = data["deadline"] is not None and data["deadline"]["workers"] is None
    return terminal.Exit.MISSING if late or sized.fits is False else terminal.Exit.OK


def load_evaluation(
    config: Path,
    out: Path | None,
    models: str = "",
    judge: list[str] | None = None,
    loop: int | None = None,
    limit: int | None = None,
    per_prompt: int | None = None,
) -> tuple[EvalConfig, Path]:
    """Return the evaluation of ``config``, a file or a recipe, and its folder."""
    from scenewright.evals.recipes.recipe import load_evaluation as load

    asked = load(
        str(config), terminal.split_list(models), judges=terminal.split_list(judge),
        loop=loop, limit=limit, images=per_prompt,
    )  # fmt: skip
    return asked, out if out is not None else Path("evals") / asked.name


def estimate_data(found: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON data."""
    return terminal.fields_of(
        found,
        *("items", "done", "arms", "pictures", "facts", "looks", "left_out"),
        outside=[{**asdict(gap), "text": gap.text} for gap in found.outside],
        models=[
            {"model": n.who, "does": n.what, "least": cost_data(n.least), "most": cost_data(n.most)}
            for n in found.costs.lines
        ],
        least=cost_data(found.costs.least),
        most=cost_data(found.costs.most),
        notes=day_notes(found.rest),
    )


def print_estimate(found: Estimate, asked: EvalConfig, folder: Path, where: Console) -> None:
    """Print an estimate by model."""
    terminal.print_heading(asked.name, asked.about, where)
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
        terminal.say(line, "", where)
    for gap in found.outside:
        terminal.say(f"note: {gap.text}", "", where)
    print_costs(found.costs, found.rest, where)


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


def plan_data(
    plan: Plan, workers: Sequence[int], deadline: float | None, machine_usd: float | None
) -> dict[str, Any]:
    """Return the plan as JSON data; ``deadline`` in hours, ``machine_usd`` an hour."""
    figures, last = plan.figures, None
    if deadline is not None:
        count = plan.course.workers_for(deadline * 3600)
        limits = []
        for stage, factor in plan.course.too_slow(deadline * 3600):
            most, endless = stage.limit, math.isinf(factor)
            needed = None if most is None or endless else math.ceil(most * factor)
            limits.append({"stage": stage.name, "of": stage.of, "limit": most, "needed": needed})
        size = None if count is None else size_data(plan, plan.size(count), machine_usd)
        last = {"hours": deadline, "workers": count, "limits": limits, "size": size}
    return {
        **terminal.fields_of(plan, "cells", "at_work"),
        "pictures": round(plan.pictures),
        "figures": {"source": figures.source, "cells": figures.cells, "notes": [*figures.notes]},
        "seconds_a_cell": plan.course.alone,
        **terminal.fields_of(figures, "rounds", "void_share"),
        "usd": plan.usd.model_dump(),
        "unpriced": [*plan.costs().unpriced],
        "day_limits": [asdict(limit) for limit in plan.costs().day_limits(plan.settings)],
        "bytes": plan.bytes.model_dump(),
        **terminal.fields_of(plan, "disk", "fits"),
        "peak_mib": figures.peak_mib,
        "stages": [
            {
                "stage": stage.name,
                **terminal.fields_of(stage, "kind", "of", "shared", "limit"),
                "cells_per_hour": None if math.isinf(rate) else rate * 3600,
            }
            for stage in plan.course.every
            for rate in (stage.capacity(),)
        ],
        "sweep": [size_data(plan, plan.size(count), machine_usd) for count in workers],
        "deadline": last,
    }


def size_data(plan: Plan, size: Size, machine_usd: float | None) -> dict[str, Any]:
    """Return what a number of machines takes, as JSON data."""
    following, seconds = plan.after(size)
    machines = size.workers * size.hours
    accelerators = machines if plan.figures.accelerator else 0.0
    return {
        **terminal.fields_of(size, "workers", "hours"),
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


def print_plan(plan: Plan, data: dict[str, Any]) -> None:
    """Print a plan with its stages, numbers of machines and bottleneck."""
    figures = plan.figures
    measured = f" ({figures.cells:,} pictures)" if figures.cells else ""
    terminal.say(f"figures   {figures.source or 'a file'}{measured}")
    terminal.say(
        f"study     {plan.cells:,} pictures to keep, about {data['pictures']:,} drawn, "
        f"{figures.rounds:.2f} rounds each; {plan.at_work} concurrent items on a machine"
    )
    usd, size, free = plan.usd, plan.bytes * (1 / GIB), (plan.disk or 0.0) / GIB
    low, high = dollars(usd.low), dollars(usd.high)
    cost = dollars(usd.mean) + ("" if low == high else f" ({low}–{high})")
    paid = any(use.account for use in figures.models.values())
    terminal.say(f"accounts  {cost if paid else 'none needed'}")
    there = "" if plan.disk is None else f"; there are {free:,.1f} GiB"
    terminal.say(f"disk      {size.mean:,.2f} GiB ({size.low:,.2f}–{size.high:,.2f}){there}")
    if figures.void_share is not None:
        terminal.say(f"void      {figures.void_share:.1%} of the facts need no question")
    if figures.peak_mib is not None:
        terminal.say(f"memory    {figures.peak_mib:,.0f} MiB at most in the pilot's process")
    terminal.print_table(
        ("stage", ">limit", ">pictures an hour"),
        [
            (row["stage"], "" if row["limit"] is None else f"{row['limit']:,}",
             "–" if row["cells_per_hour"] is None else f"{row['cells_per_hour']:,.0f}")
            for row in data["stages"]
        ],
    )  # fmt: skip
    priced = data["sweep"][0]["machine_usd"] is not None
    heads = ["machines", ">time", ">from", ">to", ">machine hours", ">GPU hours"]
    terminal.print_table(
        [*heads, *([">dollars of machines"] if priced else []), "bottleneck"],
        [
            (f"{one['workers']:,}",
             *(_hours(one[name]) for name in ("hours", "least_hours", "most_hours")),
             f"{one['machine_hours']:,.2f}", f"{one['accelerator_hours']:,.2f}",
             *([dollars(one["machine_usd"])] if priced else []), one["binding"]["stage"])
            for one in data["sweep"]
        ],
    )  # fmt: skip
    terminal.say(sentence(data["sweep"][0]), "bold")
    if data["deadline"] is not None:
        terminal.say(deadline_sentence(data["deadline"]), "bold")
    costs = plan.costs()
    notes = [*figures.notes]
    notes += [
        f"no price is known for {model}: its dollars are not counted" for model in costs.unpriced
    ]
    notes += [limit.text for limit in costs.day_limits(plan.settings)]
    if plan.fits is False:
        fitting = int((plan.disk or 0.0) / plan.bytes.mean * plan.cells)
        notes.append(
            f"the disk is too small: {free:,.1f} GiB hold about {fitting:,} of {plan.cells:,} "
            "pictures; take a larger one, or put keep_runs = false into the configuration"
        )
    for text in notes:
        terminal.say(f"note: {text}")


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


def deadline_sentence(found: dict[str, Any]) -> str:
    """Return how many machines keep the deadline, or why none do."""
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


def _hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3600:.1f} s"
    if hours < 1:
        return f"{hours * 60:.1f} min"
    return f"{hours:,.1f} h" if hours < 72 else f"{hours / 24:,.1f} days"
