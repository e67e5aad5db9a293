"""``scenewright plan``: how long, on how many machines, for how much, and what holds it up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, fail, print_json, quiet_libraries
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from scenewright.evals.runner.sizing.figures import Figures
    from scenewright.evals.runner.sizing.plan import Workload

GIB = 2**30
HELP = """Size a study: hours, machines, dollars, disk, and the limit that holds it up.

The study is an evaluation's CONFIG, or --images with numbers. The figures are measured: by a
pilot of a few items (--pilot), in a finished evaluation (--from), or in a file (--figures).
Limits are those of the accounts in the settings. docs/sizing.md tells how it is worked out.

Exit codes: 0 sized; 1 the deadline or the disk does not do; 2 wrong input; 3 could not run.
"""


def plan(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="What `eval run` takes.", show_default=False),
    ] = None,
    images: Annotated[
        int | None, typer.Option("--images", min=1, help="Scenes, in place of CONFIG.")
    ] = None,
    backends: Annotated[
        int, typer.Option("--backends", min=1, help="With --images: ways in which each is drawn.")
    ] = 1,
    judges: Annotated[
        int | None, typer.Option("--judges", min=0, help="Judges of each kept picture.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Most rounds of each loop.")
    ] = None,
    pilot: Annotated[
        int | None,
        typer.Option("--pilot", metavar="N", help="Measure N items of CONFIG now; it pays."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Measured in a finished evaluation."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="FILE", help="Measured figures as TOML.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Keep the figures as TOML.")
    ] = None,
    workers: Annotated[
        str, typer.Option("--workers", metavar="N,N,…", help="Numbers of machines.")
    ] = "1,2,4,8",
    at_work: Annotated[
        int | None,
        typer.Option(
            "--at-work", min=1, help="Items at work on a machine; CONFIG's concurrency, else 8."
        ),
    ] = None,
    deadline: Annotated[
        float | None, typer.Option("--deadline", metavar="HOURS", help="Machines for this time.")
    ] = None,
    machine_usd: Annotated[
        float | None,
        typer.Option("--machine-usd", min=0.0, help="Dollars of one machine an hour."),
    ] = None,
    disk: Annotated[
        float | None,
        typer.Option("--disk", min=0.0, help="GiB of disk; what is free here by default."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Size a study."""
    quiet_libraries()
    with clear_errors():
        counts = _counts(workers)
        if (config is None) == (images is None):
            raise fail("name a CONFIG, or --images N: one of both", Exit.USAGE)
        if sum(one is not None for one in (pilot, source, figures)) != 1:
            raise fail(
                "where are the figures from? Give one of --pilot N, --from FOLDER, --figures FILE",
                Exit.USAGE,
            )
        if pilot is not None and config is None:
            raise fail("a pilot runs items of a CONFIG: name one, or --figures FILE", Exit.USAGE)
        if deadline is not None and not deadline > 0:
            raise fail("--deadline is in hours, and above 0", Exit.USAGE)
        from scenewright.cli.plan_show import as_data, show
        from scenewright.config.settings import load_settings
        from scenewright.evals.runner.sizing.figures import save_figures
        from scenewright.evals.runner.sizing.plan import Plan, resized

        settings = load_settings()
        study = asyncio.run(_study(config, images, backends, at_work))
        measured = asyncio.run(_figures(config, pilot, source, figures))
        if save is not None:
            save_figures(measured, save)
        if rounds is not None or judges is not None:
            measured = resized(measured, rounds=rounds, judges=judges)
        room = disk * GIB if disk is not None else _free()
        sized = Plan(study, measured, settings, room)
        told = as_data(sized, counts, deadline, machine_usd)
        if as_json:
            print_json(told)
        else:
            show(sized, told)
        late = told["deadline"] is not None and told["deadline"]["workers"] is None
        if late or sized.fits is False:
            raise typer.Exit(int(Exit.MISSING))


def _counts(text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise fail(f"--workers {text}: give numbers of machines such as 1,2,4,8", Exit.USAGE)
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
        from scenewright.evals.runner.sizing.tables import figures_from

        return figures_from(source)
    from scenewright.evals.runner.config import load_config
    from scenewright.evals.runner.sizing.pilot import pilot

    assert config is not None
    assert items is not None
    return await pilot(load_config(config), items, root=config.parent)


def _free() -> float:
    """Bytes that are free in the working folder."""
    import shutil

    return float(shutil.disk_usage(".").free)
