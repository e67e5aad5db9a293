"""``scenewright study``: the studies of the papers, and studies of a panel of judges."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json, quiet_libraries
from scenewright.cli.costs import agree, count_range, day_notes
from scenewright.cli.options import JsonOption, QuietOption, SentinelsOption, YesOption
from scenewright.cli.progress import show_eval_progress, show_study_progress
from scenewright.config import OnModelChange
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.studies.panel.base import PanelStudy
    from scenewright.evals.studies.panel.config import StudyConfig
    from scenewright.evals.studies.panel.running import PanelStudyRun
    from scenewright.evals.studies.panel.sources.loading import SourcePlan
    from scenewright.evals.studies.planning import Evaluation, Job, PlannedTrial
    from scenewright.evals.studies.running import Finished, OnProgress
    from scenewright.evals.studies.setup import Setup
    from scenewright.evals.studies.study import StudyDefinition, TrialCost

app = typer.Typer(
    name="study",
    no_args_is_help=True,
    help="Run the studies of the Scene-Bench and XTC-Bench papers, or study a panel of judges: "
    "its size, its aggregator, attacks, agreement with people, power.",
)

LIMIT_USD = 5.0
"""Dollars above which a paper's study asks first; a panel's CONFIG says its own."""
_PAPERS = "Studies of the papers"
_PANEL = "Studies of a panel"
_BOTH = frozenset({"studies", "out", "plan_only", "yes", "quiet", "as_json"})
_OF_PANELS = frozenset({"only", "path"})


class Kind(StrEnum):
    """Kinds of sources."""

    painted = "painted"
    dsg = "dsg"
    table = "table"
    evaluation = "evaluation"
    runs = "runs"
    live = "live"
    labels = "labels"
    simulation = "simulation"


@app.command()
def run(
    context: typer.Context,
    studies: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…|CONFIG",
            help="Studies of the papers (`scenewright study list`) or all; or the TOML file of one "
            "panel study, as `scenewright study example` prints it: its paths begin at its own "
            "folder (docs/panel-studies.md).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder; by default studies/PROFILE, of a panel study studies/NAME.",
            show_default=False,
        ),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what it will take, and stop.")
    ] = False,
    yes: YesOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    profile: Annotated[
        str,
        typer.Option(
            "--profile", "-p", help="What draws, steers and reports.", rich_help_panel=_PAPERS
        ),
    ] = "miniature",
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME[:PATH]",
            help="Scenes; by default painted ones for the miniature, else visual-genome.",
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=2,
            help="Scenes (of attributes: classes); by default 100 for the miniature, else 5,000.",
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option("--seeds", help="Seeds, with commas between.", rich_help_panel=_PAPERS)
    ] = "0,1,2",
    judges: Annotated[
        str | None,
        typer.Option(
            "--judges",
            "-j",
            metavar="JUDGE[,JUDGE…]",
            help="Whom the study of judges compares; by default those of the profile.",
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option(
            "--instances",
            help='Objects of the study of attributes: {"apple": ["red apple", …]}, JSON or TOML.',
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(
            "--extractor",
            help="What reads graphs off pictures, as in `scenewright extract`; by default the "
            "miniature's own for the miniature.",
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    understanders: Annotated[
        str | None,
        typer.Option(
            "--understanders",
            metavar="WHO[,WHO…]",
            help="Who answers XTC-Bench's questions: judge:KIND:MODEL or chat:ACCOUNT:MODEL; by "
            "default three judges of the miniature for the miniature.",
            show_default=False,
            rich_help_panel=_PAPERS,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", min=1, help="Denoising steps.", show_default=False, rich_help_panel=_PAPERS
        ),
    ] = None,
    concurrency: Annotated[
        int,
        typer.Option(
            "--concurrency", min=1, help="Scenes at work at the same time.", rich_help_panel=_PAPERS
        ),
    ] = 4,
    no_sets: Annotated[
        bool,
        typer.Option(
            "--no-sets",
            help="Without IS, FID and CLIPScore, which need more models.",
            rich_help_panel=_PAPERS,
        ),
    ] = False,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry", help="Try again what failed or was left unscored.", rich_help_panel=_PAPERS
        ),
    ] = False,
    on_model_change: Annotated[
        OnModelChange,
        typer.Option(
            "--on-model-change",
            help="Where a judge is served by another version than before: stop with an error (what "
            "is judged is kept), or accept the mixture and note it.",
            rich_help_panel=_PAPERS,
        ),
    ] = "stop",
    sentinels: SentinelsOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--part",
            metavar="NAME",
            help="Run this part now; can be given several times. Others stay as they are.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            help="Where the source lies, instead of what CONFIG says.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> None:
    """Run studies of the papers, or the panel study that CONFIG describes; or go on with them.

    A paper's study writes NAME.md, .csv, .json and .svg, and index.md, into the folder; pictures
    and answers are kept there below evaluations, so that studies draw nothing twice. What failed is
    told in the notes, and tried again with --retry.

    A panel study takes answers from a table, a finished or a new evaluation, the DSG release,
    labelled pictures, paintings of the miniature world, or a simulation. Every part that these
    answers allow is run: index.html tells what was found, with intervals, and beside it lie plots,
    parquet tables and study.json.

    Examples:

      scenewright study run feedback judges --profile sdxl

      scenewright study example --kind table > mine.toml

      scenewright study run mine.toml --part power --part people

    Exit codes: 0 done; 1 done, but a part of a panel study failed (the page tells why); 2 wrong
    input; 3 could not run; 130 interrupted.
    """
    quiet_libraries()
    config = _config_of(studies)
    _check_options(context, config)
    if config is not None:
        _run_panel(config, out, only, path, plan_only, yes, quiet, as_json)
        return
    with clear_errors("the same command goes on from there"):
        from scenewright.evals.studies.registry import ALL, studies_named
        from scenewright.evals.studies.running import run_studies

        studies_named(*studies)
        setup = _setup(
            profile=profile,
            dataset=_spec(dataset),
            n=n,
            seeds=_seeds(seeds),
            judges=_names(judges),
            instances=None if instances is None else str(instances),
            extractor=extractor,
            understanders=_names(understanders),
            steps=steps,
            concurrency=concurrency,
            metrics_of_sets=not no_sets,
            on_model_change=on_model_change,
            **({} if sentinels is None else {"sentinels": sentinels}),
        )
        chosen = studies_named(*studies, setup=setup)
        folder = out if out is not None else Path("studies") / profile
        found, own, prices = asyncio.run(_estimated(chosen, setup, folder))
        where = console(stderr=not plan_only)
        if plan_only or not quiet:
            _tell(where, found, own, prices, setup)
            if ALL in studies:
                _tell_left_out(where, setup)
        if plan_only:
            return
        usd = sum((estimate.most.usd or 0.0) * estimate.remaining for _, estimate in found)
        usd += sum(price.usd for price in prices)
        agree(usd, LIMIT_USD, yes, "take a smaller --n")
        told = console(stderr=True)
        totals = [estimate.items for _, estimate in found] + [one.trial.items for one in own]

        @contextmanager
        def watch(job: Job, number: int, of: int) -> Iterator[OnProgress | None]:
            if not quiet:
                told.print(Text(f"{number} of {of}: {_arms(job)}"))
            with show_eval_progress(told, totals[number - 1], quiet) as show:
                yield show

        done = asyncio.run(run_studies(chosen, setup, folder, retry=retry, watch=watch))
        if as_json:
            print_json({"folder": str(folder), "studies": [_study_json(one) for one in done]})
        else:
            _show(done, folder)


@app.command("list")
def list_studies(as_json: JsonOption = False) -> None:
    """List the studies of the papers; `study parts` lists those of a panel."""
    with clear_errors():
        from scenewright.evals.studies.registry import STUDIES

        if as_json:
            print_json({s.name: {"of": s.number, "about": s.title} for s in STUDIES.values()})
            return
        table = Table(box=None, pad_edge=False, header_style="dim")
        for title in ("name", "in the paper", "what it measures"):
            table.add_column(title)
        for one in STUDIES.values():
            table.add_row(one.name, one.number, one.title)
        console().print(table)


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


def _config_of(studies: list[str]) -> Path | None:
    """The file of a panel study, where that is what is named."""
    from scenewright.evals.studies.registry import STUDIES

    files = [
        Path(name)
        for name in studies
        if name.endswith(".toml") or (name not in STUDIES and Path(name).is_file())
    ]
    if files and len(studies) > 1:
        raise fail(f"{files[0]} is a panel study: run it by itself", Exit.USAGE)
    return files[0] if files else None


def _check_options(context: typer.Context, config: Path | None) -> None:
    """End the command where an option of the other kind of studies is given."""
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if name in _BOTH or source is None or source.name != "COMMANDLINE":
            continue
        if (name in _OF_PANELS) != (config is not None):
            whose = "a paper's studies" if config is not None else "a panel study"
            raise fail(f"{param.opts[0]} is an option of {whose}", Exit.USAGE)


def _run_panel(
    config: Path,
    out: Path | None,
    only: list[str] | None,
    path: Path | None,
    plan_only: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    with clear_errors("The same command goes on; the page tells of what is done."):
        from scenewright.config.settings import load_settings
        from scenewright.evals.studies.panel.config import load_study
        from scenewright.evals.studies.panel.running import chosen_parts, run_study
        from scenewright.evals.studies.panel.sources.loading import plan_source
        from scenewright.evals.studies.panel.writing import PAGE, summary, write_study

        asked = _source_at(load_study(config), path)
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
            _tell_panel(where, asked, chosen, plans, again, folder)
        if plan_only:
            return
        agree(sum(one.usd for one in plans) + again, asked.limit_usd, yes, "raise limit_usd")
        from scenewright.cli.judges_asking import run_and_free

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
            _show_panel(study, folder / PAGE)
        failed = any(one.state == "failed" for one in study.outcomes)
    raise typer.Exit(int(Exit.MISSING if failed else Exit.OK))


def _source_at(config: StudyConfig, path: Path | None) -> StudyConfig:
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


def _tell_panel(
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


def _show_panel(study: PanelStudyRun, page: Path) -> None:
    from scenewright.evals.studies.panel.writing import rows_of

    where = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("part", "state", "what it found first"):
        table.add_column(title, overflow="fold")
    for row in rows_of(study.outcomes):
        table.add_row(*map(Text, row))
    where.print(table)
    where.print(Text(f"page      {page}"), soft_wrap=True)


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise fail(f"--seeds is {text!r}: write numbers, as in 0,1,2", Exit.USAGE) from None
    if min(numbers) < 0:
        raise fail(f"--seeds is {text!r}: none below 0", Exit.USAGE)
    return numbers


def _spec(text: str | None) -> DatasetSpec | None:
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.datasets.registry import LOADERS

    if text is None:
        return None
    name, _, path = text.partition(":")
    if name not in LOADERS:
        known = ", ".join(sorted(LOADERS))
        raise fail(f"--dataset: there is no set {name!r}: use one of {known}", Exit.USAGE)
    return DatasetSpec(name=name, path=path or None)


def _setup(**fields: Any) -> Setup:
    from pydantic import ValidationError

    from scenewright.evals.studies.setup import Setup

    try:
        return Setup(**fields)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise fail(said, Exit.USAGE) from None


async def _estimated(
    chosen: tuple[StudyDefinition, ...], setup: Setup, folder: Path
) -> tuple[list[tuple[Evaluation, Estimate]], tuple[PlannedTrial, ...], list[TrialCost]]:
    """What evaluations take, the trials, and what these cost."""
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.studies.planning import plan, planned_trials
    from scenewright.evals.studies.running import WORK
    from scenewright.evals.studies.study import TrialCost

    settings = load_settings()
    work = folder / WORK
    found = [
        (
            evaluation,
            await estimate(
                evaluation.config,
                work / evaluation.family,
                settings=settings,
                dataset=evaluation.dataset,
            ),
        )
        for evaluation in plan(chosen, setup, settings)
    ]
    own = planned_trials(chosen, setup, settings)
    prices = [TrialCost(0.0) if one.trial.price is None else await one.trial.price() for one in own]
    return found, own, prices


def _tell(
    where: Console,
    found: list[tuple[Evaluation, Estimate]],
    own: tuple[PlannedTrial, ...],
    prices: list[TrialCost],
    setup: Setup,
) -> None:
    where.print(Text(f"profile   {setup.profile}"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("set", "conditions", "panels"):
        table.add_column(title)
    for title in ("items", "pictures", "looks", "tokens", "dollars"):
        table.add_column(title, justify="right")
    for evaluation, estimate in found:
        config = evaluation.config
        usage = estimate.most.usage
        table.add_row(
            config.dataset.name,
            ", ".join(config.conditions),
            ", ".join(config.panels),
            f"{estimate.items:,}",
            count_range(*estimate.pictures),
            count_range(*estimate.looks),
            f"≤ {usage.tokens_in + usage.tokens_out:,}" if estimate.most.calls else "here",
            f"≤ {dollars(estimate.most.usd or 0.0)}",
        )
    if found:
        where.print(table)
    for one, price in zip(own, prices, strict=True):
        cost = "" if one.trial.price is None else f", ≤ {dollars(price.usd)}"
        where.print(Text(f"{one.title}: {one.trial.items:,} {one.trial.unit}{cost}"))
    unpriced = {who for _, estimate in found for who in estimate.unpriced}
    for name in sorted(unpriced | {who for price in prices for who in price.unpriced}):
        where.print(Text(f"note: no price is known for {name}: its dollars are not counted"))
    calls = [(n.who, n.most.calls * one.remaining) for _, one in found for n in one.lines]
    for note in day_notes(calls):
        where.print(Text(note), soft_wrap=True)


def _tell_left_out(where: Console, setup: Setup) -> None:
    from scenewright.evals.studies.registry import STUDIES

    for one in STUDIES.values():
        if why := one.unsupported_reason(setup):
            where.print(Text(f"note: {one.name} is left out: {why}"), soft_wrap=True)


def _arms(job: Job) -> str:
    from scenewright.evals.studies.planning import PlannedTrial

    if isinstance(job, PlannedTrial):
        return f"{job.title}, {job.trial.items:,} {job.trial.unit}"
    config = job.config
    return f"{config.dataset.name}, {job.arms} arms, {len(config.panels)} panels"


def _counts(one: Finished) -> dict[str, int]:
    from scenewright.evals.studies.claims import VERDICTS

    found = dict.fromkeys(VERDICTS, 0)
    for claim in one.outcome.claims:
        found[claim.verdict] += 1
    return {str(name): count for name, count in found.items()}


def _study_json(one: Finished) -> dict[str, Any]:
    return {
        "study": one.study.name,
        "of": one.study.number,
        "verdicts": _counts(one),
        "files": [str(file) for file in one.files],
    }


def _show(done: tuple[Finished, ...], folder: Path) -> None:
    from scenewright.evals.studies.claims import VERDICTS
    from scenewright.evals.studies.writing import INDEX

    where = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("study")
    table.add_column("in the paper")
    for verdict in VERDICTS:
        table.add_column(verdict, justify="right")
    for one in done:
        table.add_row(one.study.name, one.study.number, *map(str, _counts(one).values()))
    where.print(table)
    where.print(Text(f"written to {folder / INDEX}"), soft_wrap=True)
