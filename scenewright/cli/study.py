"""``scenewright study``: studies of the papers, and studies of a panel of judges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import (
    Exit,
    console,
    fail,
    give,
    note,
    print_json,
    print_table,
    run_and_free,
    run_async,
    say,
    split_list,
)
from scenewright.cli.costs import agree, cost_data, count_range, print_cost_notes, print_costs
from scenewright.cli.options import given
from scenewright.cli.progress import show_eval_progress, show_study_progress
from scenewright.config import OnModelChange
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.studies.panel.sources.loading import SourcePlan
    from scenewright.evals.studies.panel.study import PanelStudy, StudyConfig
    from scenewright.evals.studies.running import (
        Evaluation,
        Finished,
        Job,
        OnProgress,
        PlannedTrial,
    )
    from scenewright.evals.studies.study import Setup, StudyDefinition

app = App(
    help="Run the studies of the Scene-Bench and XTC-Bench papers, or study a panel of judges: "
    "its size, its aggregator, attacks, agreement with people, power."
)

LIMIT_USD = 5.0
"""Dollars above which a paper's study asks; a panel study has its own limit in CONFIG."""
_PAPERS = "Studies of the papers"
_PANEL = "Studies of a panel"
_BOTH = frozenset({"studies", "out", "plan_only", "yes", "quiet", "as_json"})
_OF_PANELS = frozenset({"only", "path"})


def _of_papers(*names: str, **how: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PAPERS, **how)


def _of_panels(*names: str, **how: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_PANEL, **how)


Kind = Literal["painted", "dsg", "table", "evaluation", "runs", "live", "labels", "simulation"]
"""Kinds of sources."""


@app.command()
@resumable("the same command goes on from there")
def run(
    context: typer.Context,
    studies: list[str],
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    plan_only: options.Plan = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    profile: Annotated[str, _of_papers("--profile", "-p")] = "miniature",
    dataset: Annotated[str | None, _of_papers()] = None,
    n: Annotated[int | None, _of_papers(min=2)] = None,
    seeds: Annotated[str, _of_papers()] = "0,1,2",
    judges: Annotated[str | None, _of_papers("--judges", "-j")] = None,
    instances: Annotated[Path | None, _of_papers()] = None,
    extractor: Annotated[str | None, _of_papers()] = None,
    understanders: Annotated[str | None, _of_papers()] = None,
    steps: Annotated[int | None, _of_papers(min=1)] = None,
    concurrency: Annotated[int, _of_papers(min=1)] = 4,
    no_sets: Annotated[bool, _of_papers("--no-sets")] = False,
    retry: options.Retry = False,
    on_model_change: Annotated[OnModelChange, _of_papers()] = "stop",
    sentinels: options.Sentinels = None,
    only: Annotated[list[str] | None, _of_panels("--part")] = None,
    path: Annotated[Path | None, _of_panels()] = None,
) -> None:
    """Run or continue studies of the papers, or the panel study that CONFIG describes.

    A paper's study writes NAME.md, .csv, .json and .svg, and index.md, into the folder; pictures
    and answers are kept there in evaluations, so that studies draw nothing twice. Failures are
    listed in the notes, and tried again with --retry.

    A panel study takes answers from a table, a finished or a new evaluation, the DSG release,
    labelled pictures, paintings of the miniature world, or a simulation. Every part that these
    answers allow is run: index.html has the findings with intervals; plots, parquet tables and
    study.json are in the same folder.

    Examples of use:

      scenewright study run feedback judges --profile sdxl

      scenewright study example --kind table > mine.toml

      scenewright study run mine.toml --part power --part people

    Exit codes: 0 done; 1 done, but a part of a panel study failed (see the page); 2 wrong input;
    3 could not run; 130 interrupted.

    Args:
        studies (NAME…|CONFIG): Studies of the papers (`scenewright study list`) or all; or the TOML
            file of one panel study, as `scenewright study example` prints it, with paths relative
            to its folder (docs/panel-studies.md).
        out: Folder; by default studies/PROFILE, of a panel study studies/NAME.
        profile: Models that draw, steer and report.
        dataset (NAME[:PATH]): Scenes; by default painted ones for the miniature, else
            visual-genome.
        n: Scenes (of attributes: classes); by default 100 for the miniature, else 5,000.
        seeds: Seeds, with commas between.
        judges (JUDGE[,JUDGE…]): Judges that the study of judges compares; by default those of the
            profile.
        instances: Objects of the study of attributes: {"apple": ["red apple", …]}, JSON or TOML.
        extractor: Extractor of scene graphs, as in `scenewright extract`; by default the
            miniature's own for the miniature.
        understanders (MODEL[,MODEL…]): Models that answer XTC-Bench's questions: judge:KIND:MODEL
            or chat:ACCOUNT:MODEL; by default three judges of the miniature for the miniature.
        steps: Denoising steps.
        concurrency: Concurrent scenes.
        no_sets: Leave out IS, FID and CLIPScore, which need more models.
        on_model_change: If a judge is served by another version than before: stop with an error
            (what is judged is kept), or accept the mixture and note it.
        only (NAME): Run only this part; can be given several times. Others keep their results.
        path: Path of the source, in place of CONFIG's.
    """
    config = _config_of(studies)
    _check_options(context, config)
    if config is not None:
        _run_panel(config, out, only, path, plan_only, yes, quiet, as_json)
        return
    from scenewright.evals.studies.registry import ALL, STUDIES, studies_named
    from scenewright.evals.studies.running import run_studies

    studies_named(*studies)
    setup = _setup(
        profile=profile,
        dataset=_spec(dataset),
        n=n,
        seeds=_seeds(seeds),
        judges=split_list(judges),
        instances=None if instances is None else str(instances),
        extractor=extractor,
        understanders=split_list(understanders),
        steps=steps,
        concurrency=concurrency,
        metrics_of_sets=not no_sets,
        on_model_change=on_model_change,
        **given(sentinels=sentinels),
    )
    chosen = studies_named(*studies, setup=setup)
    folder = out if out is not None else Path("studies") / profile
    found, own, prices = run_async(_estimated(chosen, setup, folder))
    where = console(stderr=not plan_only)
    if plan_only or not quiet:
        _print_plan(where, found, own, prices, setup)
        if ALL in studies:
            for one in STUDIES.values():
                if why := one.unsupported_reason(setup):
                    say(f"note: {one.name} is left out: {why}", "", where)
    if plan_only:
        return
    usd = sum(estimate.rest.usd for _, estimate in found)
    usd += sum(price.usd for price in prices)
    forecasts = [*(estimate.rest for _, estimate in found), *prices]
    unpriced = dict.fromkeys(name for forecast in forecasts for name in forecast.unpriced)
    agree(usd, LIMIT_USD, yes, "take a smaller --n", unpriced)
    totals = [estimate.items for _, estimate in found] + [one.trial.items for one in own]

    @contextmanager
    def watch(job: Job, number: int, of: int) -> Iterator[OnProgress | None]:
        if not quiet:
            note(f"{number} of {of}: {_job_name(job)}")
        with show_eval_progress(totals[number - 1], quiet) as show:
            yield show

    done = run_async(run_studies(chosen, setup, folder, retry=retry, watch=watch))
    give(
        as_json,
        {"folder": str(folder), "studies": [_study_json(one) for one in done]},
        _show,
        done,
        folder,
    )


@app.command("list")
def list_studies(as_json: options.Json = False) -> None:
    """List the studies of the papers; `study parts` lists those of a panel."""
    from scenewright.evals.studies.registry import STUDIES

    if as_json:
        print_json({s.name: {"of": s.number, "about": s.title} for s in STUDIES.values()})
        return
    rows = [(one.name, one.number, one.title) for one in STUDIES.values()]
    print_table(("name", "in the paper", "what it measures"), rows)


@app.command()
def parts(as_json: options.Json = False) -> None:
    """List the parts of a panel study: question, requirements and options of each."""
    from scenewright.evals.studies.panel.study import PARTS, part_of

    found = [part_of(name) for name in PARTS]
    if as_json:
        print_json({part.name: _part_json(part) for part in found})
        return
    for part in found:
        say(Text.assemble((f"{part.name:<12} ", "bold"), part.title))
        say(f"{'':<12} {part.about}")
        needs = ", ".join(sorted(part.needs))
        say(f"{'':<12} needs: {needs or 'nothing more than answers'}", "dim")
        for name, about in _part_json(part)["options"].items():
            line = f"{'':<12}   {name} = {about['default']}"
            said = f"  {about['about']}" if about["about"] else ""
            say(Text.assemble(line, (said, "dim")))


@app.command()
def example(
    kind: Annotated[Kind, typer.Option("--kind", "-k")] = "painted",
) -> None:
    """Print a configuration that works.

    Example of use:

      scenewright study example --kind dsg > study.toml

    Args:
        kind: Source of the answers.
    """
    from scenewright.evals.studies.panel.study import example_of

    typer.echo(example_of(kind), nl=False)


def _config_of(studies: list[str]) -> Path | None:
    """Return the file of a panel study if that is what the arguments name."""
    from scenewright.evals.studies.registry import STUDIES

    files = [
        Path(name)
        for name in studies
        if name.endswith(".toml") or (name not in STUDIES and Path(name).is_file())
    ]
    if files and len(studies) > 1:
        raise fail(f"{files[0]} is a panel study: run it by itself")
    return files[0] if files else None


def _check_options(context: typer.Context, config: Path | None) -> None:
    """Refuse options of the other kind of studies."""
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if name in _BOTH or source is None or source.name != "COMMANDLINE":
            continue
        if (name in _OF_PANELS) != (config is not None):
            whose = "a paper's studies" if config is not None else "a panel study"
            raise fail(f"{param.opts[0]} is an option of {whose}")


@resumable("The same command goes on; the page shows what is done.")
def _run_panel(
    config: Path,
    out: Path | None,
    only: list[str] | None,
    path: Path | None,
    plan_only: bool,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> Exit:
    from scenewright.config.settings import load_settings
    from scenewright.evals.studies.panel.page import PAGE, rows_of, summary, write_study
    from scenewright.evals.studies.panel.running import chosen_parts, run_study
    from scenewright.evals.studies.panel.sources.loading import plan_source
    from scenewright.evals.studies.panel.study import load_study

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

    plans = run_async(planned())
    again = _asks_again(asked, chosen, only or (), plans)
    where = console(stderr=not plan_only)
    if plan_only and as_json:
        print_json(_panel_plan_data(chosen, plans, again, folder))
        return Exit.OK
    if plan_only or not quiet:
        _print_panel_plan(where, asked, chosen, plans, again, folder)
    if plan_only:
        return Exit.OK
    usd = sum(one.costs.usd for one in plans) + again
    unpriced = dict.fromkeys(name for one in plans for name in one.costs.unpriced)
    agree(usd, asked.limit_usd, yes, "raise limit_usd", unpriced)
    with show_study_progress(quiet) as watch:
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
        say(study.answer, "bold")
        print_table(("part", "state", "first finding"), rows_of(study.outcomes), wraps=True)
        for line in study.loaded.notes:
            say(line, "yellow")
        say(f"page      {folder / PAGE}")
    failed = any(one.state == "failed" for one in study.outcomes)
    return Exit.MISSING if failed else Exit.OK


def _source_at(config: StudyConfig, path: Path | None) -> StudyConfig:
    """Return ``config`` with its source at ``path`` if that is given."""
    if path is None:
        return config
    if "path" not in type(config.source).model_fields:
        raise fail(f"a source of the kind {config.source.kind} has no --path")
    # Paths of the command line are relative to the working folder.
    source = config.source.model_copy(update={"path": str(path.expanduser().absolute())})
    return config.model_copy(update={"source": source})


def _asks_again(
    config: StudyConfig,
    chosen: tuple[PanelStudy, ...],
    only: list[str] | tuple[()],
    plans: list[SourcePlan],
) -> float:
    """Return the most dollars of parts that ask judges; 0 where no judge costs any."""
    if not plans[0].costs.lines:
        return 0.0
    limits = [
        getattr(config.options_of(part), "limit_usd", None)
        for part in chosen
        if "live" in part.needs and (not only or part.name in only)
    ]
    return sum(limit or 0.0 for limit in limits)


def _print_panel_plan(
    where: Console,
    config: StudyConfig,
    chosen: tuple[PanelStudy, ...],
    plans: list[SourcePlan],
    again: float,
    folder: Path,
) -> None:
    say(
        Text.assemble((config.name, "bold"), f"  {config.about}" if config.about else ""), "", where
    )
    say(f"folder    {folder}", "", where)
    sources = [source for source in (config.source, config.learn) if source is not None]
    for title, source, plan in zip(("answers", "learn"), sources, plans, strict=False):
        asks = f", {plan.questions:,} questions" if plan.questions else ""
        place = f" {path}" if (path := getattr(source, "path", "")) else ""
        say(f"{title:<9} {source.kind}{place}{asks}", "", where)
    print_costs(_together(plans), None, where)
    say(f"parts     {', '.join(part.name for part in chosen)}", "", where)
    if again:
        say(f"          parts that ask judges stop at {dollars(again)} together", "", where)


def _together(plans: list[SourcePlan]) -> CostForecast:
    from scenewright.evals.runner.forecast import CostForecast

    return CostForecast.of(line for plan in plans for line in plan.costs.lines)


def _panel_plan_data(
    chosen: tuple[PanelStudy, ...], plans: list[SourcePlan], again: float, folder: Path
) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "parts": [part.name for part in chosen],
        "questions": sum(plan.questions for plan in plans),
        "usd": sum(plan.costs.usd for plan in plans),
        "usd_asking_again": again,
        "unpriced": sorted(_together(plans).unpriced),
        "models": [
            {"model": line.who, **cost_data(line.most)}
            for plan in plans
            for line in plan.costs.lines
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


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise fail(f"--seeds is {text!r}: write numbers, as in 0,1,2") from None
    if min(numbers) < 0:
        raise fail(f"--seeds is {text!r}: write numbers from 0")
    return numbers


def _spec(text: str | None) -> DatasetSpec | None:
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.datasets.registry import LOADERS

    if text is None:
        return None
    name, _, path = text.partition(":")
    if name not in LOADERS:
        known = ", ".join(sorted(LOADERS))
        raise fail(f"--dataset: unknown set {name!r}: use one of {known}")
    return DatasetSpec(name=name, path=path or None)


def _setup(**fields: Any) -> Setup:
    from pydantic import ValidationError

    from scenewright.evals.studies.study import Setup

    try:
        return Setup(**fields)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise fail(said) from None


async def _estimated(
    chosen: tuple[StudyDefinition, ...], setup: Setup, folder: Path
) -> tuple[list[tuple[Evaluation, Estimate]], tuple[PlannedTrial, ...], list[CostForecast]]:
    """Return the estimates of evaluations, the trials, and the costs of these."""
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.studies.running import WORK, plan, planned_trials

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
    prices = [await one.trial.costs() if one.trial.costs else CostForecast() for one in own]
    return found, own, prices


def _print_plan(
    where: Console,
    found: list[tuple[Evaluation, Estimate]],
    own: tuple[PlannedTrial, ...],
    prices: list[CostForecast],
    setup: Setup,
) -> None:
    from scenewright.evals.runner.forecast import CostForecast

    say(f"profile   {setup.profile}", "", where)
    rows = []
    for evaluation, estimate in found:
        config, most = evaluation.config, estimate.costs.most
        rows.append(
            (
                config.dataset.name,
                ", ".join(config.conditions),
                ", ".join(config.panels),
                f"{estimate.items:,}",
                count_range(*estimate.pictures),
                count_range(*estimate.looks),
                f"≤ {most.usage.tokens_in + most.usage.tokens_out:,}" if most.calls else "here",
                f"≤ {dollars(estimate.costs.usd)}",
            )
        )
    heads = ("set", "conditions", "panels", ">items", ">pictures", ">judged", ">tokens", ">dollars")
    print_table(heads, rows, where, wraps=True)
    for one, price in zip(own, prices, strict=True):
        cost = "" if one.trial.costs is None else f", ≤ {dollars(price.usd)}"
        say(f"{one.title}: {one.trial.items:,} {one.trial.unit}{cost}", "", where)
    every = [*(estimate.costs for _, estimate in found), *prices]
    unpriced = {name for one in every for name in one.unpriced}
    rest = CostForecast.of(line for _, one in found for line in one.rest.lines)
    print_cost_notes(sorted(unpriced), rest, where)


def _job_name(job: Job) -> str:
    from scenewright.evals.studies.running import PlannedTrial

    if isinstance(job, PlannedTrial):
        return f"{job.title}, {job.trial.items:,} {job.trial.unit}"
    config = job.config
    return f"{config.dataset.name}, {job.arms} arms, {len(config.panels)} panels"


def _counts(one: Finished) -> dict[str, int]:
    from scenewright.evals.studies.paper import VERDICTS

    found = dict.fromkeys(VERDICTS, 0)
    for claim in one.outcome.claims:
        found[claim.verdict] += 1
    return {str(name): count for name, count in found.items()}


def _study_json(one: Finished) -> dict[str, Any]:
    return {
        "study": one.study.name,
        "of": one.study.number,
        "answer": None if one.outcome.answer is None else one.outcome.answer.model_dump(),
        "verdicts": _counts(one),
        "files": [str(file) for file in one.files],
    }


def _show(done: tuple[Finished, ...], folder: Path) -> None:
    from scenewright.evals.studies.paper import VERDICTS
    from scenewright.evals.studies.running import INDEX

    for one in done:
        if one.outcome.answer is not None:
            say(Text.assemble((f"{one.study.number}  ", "bold"), one.outcome.answer.sentence))
    rows = [(one.study.name, one.study.number, *map(str, _counts(one).values())) for one in done]
    print_table(("study", "in the paper", *(f">{verdict}" for verdict in VERDICTS)), rows)
    say(f"written to {folder / INDEX}")
