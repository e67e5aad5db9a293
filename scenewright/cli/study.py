"""``scenewright study``: how much a panel of judges can be trusted."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json, quiet_libraries
from scenewright.cli.costs import YesOption, agree, day_notes
from scenewright.cli.refine import JsonOption
from scenewright.cli.study_progress import show_study_progress

if TYPE_CHECKING:
    from scenewright.evals.studies.panel.base import PanelStudy
    from scenewright.evals.studies.panel.config import StudyConfig
    from scenewright.evals.studies.panel.running import PanelStudyRun
    from scenewright.evals.studies.panel.sources.loading import SourcePlan

app = typer.Typer(
    name="study",
    no_args_is_help=True,
    help="Study how much a panel of judges can be trusted: its size, its aggregator, attacks, "
    "agreement with people, power.",
)


class Kind(StrEnum):
    """Kinds of sources."""

    painted = "painted"
    dsg = "dsg"
    table = "table"
    evaluation = "evaluation"
    live = "live"
    labels = "labels"
    simulation = "simulation"


@app.command()
def panel(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG",
            help="A TOML file, as `scenewright study example` prints one: its paths begin at its "
            "own folder (docs/panel-studies.md).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The folder; by default studies/NAME.", show_default=False
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="NAME",
            help="Run this part now; can be given several times. Others stay as they are.",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            help="Where the source lies, instead of what CONFIG says.",
            show_default=False,
        ),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what it will take, and stop.")
    ] = False,
    yes: YesOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Study the panel that CONFIG describes, or go on with it; writes a page.

    The answers come from a table, a finished or a new evaluation, the DSG release, labelled
    pictures, paintings of the miniature world, or a simulation. Every part that these answers
    allow is run: index.html tells what was found, with intervals, and beside it lie plots, parquet
    tables and study.json. Started again it goes on: nothing is asked or worked out twice.

    Examples:

      scenewright study example --kind table > mine.toml

      scenewright study panel mine.toml

      scenewright study panel mine.toml --part power --part people

    Exit codes: 0 done; 1 done, but a part failed (the page tells why); 2 wrong input; 3 could not
    run; 130 interrupted.
    """
    quiet_libraries()
    with clear_errors("The same command goes on; the page tells of what is done."):
        from scenewright.config.settings import load_settings
        from scenewright.evals.studies.panel.config import load_study
        from scenewright.evals.studies.panel.running import chosen_parts, run_study
        from scenewright.evals.studies.panel.sources.loading import plan_source
        from scenewright.evals.studies.panel.writing import PAGE, summary, write_study

        asked = _asked(load_study(config), path)
        folder = out if out is not None else Path("studies") / asked.name
        settings = load_settings()
        chosen = chosen_parts(asked, only or ())
        for part in chosen:
            asked.options_of(part)

        async def planned() -> list[SourcePlan]:
            sources = [s for s in (asked.source, asked.learn) if s is not None]
            return [
                await plan_source(source, root=config.parent, folder=folder, settings=settings)
                for source in sources
            ]

        plans = asyncio.run(planned())
        again = _asks_again(asked, chosen, only or (), plans)
        where = console(stderr=not plan_only)
        if plan_only and as_json:
            print_json(_plan_json(asked, chosen, plans, again, folder))
            return
        if plan_only or not quiet:
            _tell(where, asked, chosen, plans, again, folder)
        if plan_only:
            return
        agree(sum(one.usd for one in plans) + again, asked.limit_usd, yes, "raise limit_usd")
        from scenewright.cli.judges_task import run_and_free

        with show_study_progress(console(stderr=True), quiet) as watch:
            study = run_and_free(
                run_study(
                    asked,
                    folder,
                    root=config.parent,
                    settings=settings,
                    only=only or (),
                    watch=watch,
                    write=write_study,
                )
            )
        if as_json:
            print_json(summary(study))
        else:
            _show(study, folder / PAGE)
        failed = any(one.state == "failed" for one in study.outcomes)
    raise typer.Exit(int(Exit.MISSING if failed else Exit.OK))


@app.command()
def parts(as_json: JsonOption = False) -> None:
    """List the parts of the kit: what each tells, what it needs, and its options."""
    with clear_errors():
        from scenewright.evals.studies.panel.parts.registry import PARTS, part_of

        found = [part_of(name) for name in PARTS]
        if as_json:
            print_json({part.name: _part_json(part) for part in found})
            return
        where = console()
        for part in found:
            where.print(Text.assemble((f"{part.name:<12} ", "bold"), part.title), soft_wrap=True)
            where.print(Text(f"{'':<12} {part.about}"), soft_wrap=True)
            needs = ", ".join(sorted(part.needs))
            where.print(Text(f"{'':<12} needs: {needs or 'nothing more than answers'}", "dim"))
            for name, about in _part_json(part)["options"].items():
                line = f"{'':<12}   {name} = {about['default']}"
                said = f"  {about['about']}" if about["about"] else ""
                where.print(Text.assemble(line, (said, "dim")), soft_wrap=True)


@app.command()
def example(
    kind: Annotated[
        Kind, typer.Option("--kind", "-k", help="Where the answers come from.")
    ] = Kind.painted,
) -> None:
    """Print a configuration that works.

    Example:

      scenewright study example --kind dsg > study.toml
    """
    from scenewright.evals.studies.panel.examples import EXAMPLES

    typer.echo(EXAMPLES[kind.value], nl=False)


def _asked(config: StudyConfig, path: Path | None) -> StudyConfig:
    """``config`` with its source at ``path``, where that is given."""
    if path is None:
        return config
    if "path" not in type(config.source).model_fields:
        raise fail(f"a source of the kind {config.source.kind} has no --path", Exit.USAGE)
    # What is given on the command line begins at the working folder.
    source = config.source.model_copy(update={"path": str(path.expanduser().absolute())})
    return config.model_copy(update={"source": source})


def _asks_again(
    config: StudyConfig,
    chosen: tuple[PanelStudy, ...],
    only: list[str] | tuple[()],
    plans: list[SourcePlan],
) -> float:
    """Dollars that parts which ask may spend at most; nothing where no judge costs any."""
    if not plans[0].models:
        return 0.0
    limits = [
        getattr(config.options_of(part), "limit_usd", None)
        for part in chosen
        if "live" in part.needs and (not only or part.name in only)
    ]
    return sum(limit or 0.0 for limit in limits)


def _tell(
    where: Console,
    config: StudyConfig,
    chosen: tuple[PanelStudy, ...],
    plans: list[SourcePlan],
    again: float,
    folder: Path,
) -> None:
    """The plan, for people."""
    from scenewright.evals.reporting.words import dollars

    about = f"  {config.about}" if config.about else ""
    where.print(Text.assemble((config.name, "bold"), about), soft_wrap=True)
    where.print(Text(f"folder    {folder}"), soft_wrap=True)
    for title, source, plan in zip(
        ("answers", "learn"), (config.source, config.learn), plans, strict=False
    ):
        if source is None:
            continue
        asks = f", {plan.questions:,} questions" if plan.questions else ""
        place = f" {path}" if (path := getattr(source, "path", "")) else ""
        where.print(Text(f"{title:<9} {source.kind}{place}{asks}"), soft_wrap=True)
        for name, expected in plan.models.items():
            used = expected.usage
            where.print(
                Text(
                    f"          {name}: {expected.calls:,} calls, {used.tokens_in:,} tokens in, "
                    f"{used.tokens_out:,} out, "
                    + ("price not known" if expected.usd is None else f"≤ {dollars(expected.usd)}")
                ),
                soft_wrap=True,
            )
    for note in day_notes((who, of.calls) for plan in plans for who, of in plan.models.items()):
        where.print(Text(note), soft_wrap=True)
    where.print(Text(f"parts     {', '.join(part.name for part in chosen)}"), soft_wrap=True)
    if again:
        where.print(Text(f"          those that ask again stop at {dollars(again)} together"))


def _plan_json(
    config: StudyConfig,
    chosen: tuple[PanelStudy, ...],
    plans: list[SourcePlan],
    again: float,
    folder: Path,
) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "parts": [part.name for part in chosen],
        "questions": sum(plan.questions for plan in plans),
        "usd": sum(plan.usd for plan in plans),
        "usd_asking_again": again,
        "unpriced": sorted({name for plan in plans for name in plan.unpriced}),
        "models": [
            {
                "model": name,
                "calls": expected.calls,
                "tokens_in": expected.usage.tokens_in,
                "tokens_out": expected.usage.tokens_out,
                "usd": expected.usd,
            }
            for plan in plans
            for name, expected in plan.models.items()
        ],
    }


def _part_json(part: PanelStudy) -> dict[str, Any]:
    made = part.options().model_dump(mode="json")
    return {
        "title": part.title,
        "about": part.about,
        "needs": sorted(part.needs),
        "options": {
            name: {"default": made[name], "about": " ".join((field.description or "").split())}
            for name, field in part.options.model_fields.items()
        },
    }


def _show(study: PanelStudyRun, page: Path) -> None:
    from scenewright.evals.studies.panel.writing import rows_of

    where = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("part", "state", "what it found first"):
        table.add_column(title, overflow="fold")
    for row in rows_of(study.outcomes):
        table.add_row(*map(Text, row))
    where.print(table)
    where.print(Text(f"page      {page}"), soft_wrap=True)
