"""``scenewright eval study`` and ``studies``: the studies of Scene-Bench and of graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json, quiet_libraries
from scenewright.cli.costs import YesOption, agree, count_range, day_notes
from scenewright.cli.eval_progress import show_eval_progress
from scenewright.cli.refine import JsonOption
from scenewright.cli.version_options import SentinelsOption
from scenewright.config.on_model_change import OnModelChange
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.datasets.base import DatasetSpec
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.studies.planning import Evaluation, Job, PlannedTrial
    from scenewright.evals.studies.running import Finished, OnProgress
    from scenewright.evals.studies.setup import Setup
    from scenewright.evals.studies.study import StudyDefinition, TrialCost

LIMIT_USD = 5.0
"""Dollars above which the command asks first."""


def study(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME…",
            help="Studies (`scenewright eval studies` lists them), or all.",
            show_default=False,
        ),
    ],
    profile: Annotated[
        str, typer.Option("--profile", "-p", help="What draws, steers and reports.")
    ] = "miniature",
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="NAME[:PATH]",
            help="Scenes; by default painted ones for the miniature, else visual-genome.",
            show_default=False,
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            min=2,
            help="Scenes (of attributes: classes); by default 100 for the miniature, else 5,000.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, with commas between.")] = "0,1,2",
    judges: Annotated[
        str | None,
        typer.Option(
            "--judges",
            "-j",
            metavar="JUDGE[,JUDGE…]",
            help="Whom the study of judges compares; by default those of the profile.",
            show_default=False,
        ),
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option(
            "--instances",
            help='Objects of the study of attributes: {"apple": ["red apple", …]}, JSON or TOML.',
            show_default=False,
        ),
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(
            "--extractor",
            help="What reads graphs off pictures, as in `scenewright extract`; by default the "
            "miniature's own for the miniature.",
            show_default=False,
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
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Denoising steps.", show_default=False),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="Scenes at work at the same time.")
    ] = 4,
    no_sets: Annotated[
        bool,
        typer.Option("--no-sets", help="Without IS, FID and CLIPScore, which need more models."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder; by default studies/PROFILE.", show_default=False),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again what failed or was left unscored.")
    ] = False,
    on_model_change: Annotated[
        OnModelChange,
        typer.Option(
            "--on-model-change",
            help="Where a judge is served by another version than before: stop with an error (what "
            "is judged is kept), or accept the mixture and note it.",
        ),
    ] = "stop",
    sentinels: SentinelsOption = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what it will take, and stop.")
    ] = False,
    yes: YesOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run studies of the Scene-Bench and XTC-Bench papers: tables, plots, and what agrees.

    Writes NAME.md, .csv, .json and .svg of each, and index.md, into the folder; pictures and
    answers are kept there below evaluations, so the same command goes on where it was stopped, and
    other studies draw nothing twice. What failed is told in the notes, and tried again with
    --retry.

    Exit codes: 0 done; 2 wrong input; 3 could not run; 130 interrupted.
    """
    quiet_libraries()
    with clear_errors("the same command goes on from there"):
        from scenewright.evals.studies.registry import ALL, studies_named
        from scenewright.evals.studies.running import run_studies

        studies_named(*names)
        setup = _setup(
            profile=profile,
            dataset=_spec(dataset),
            n=n,
            seeds=_seeds(seeds),
            judges=_parts(judges),
            instances=None if instances is None else str(instances),
            extractor=extractor,
            understanders=_parts(understanders),
            steps=steps,
            concurrency=concurrency,
            metrics_of_sets=not no_sets,
            on_model_change=on_model_change,
            **({} if sentinels is None else {"sentinels": sentinels}),
        )
        chosen = studies_named(*names, setup=setup)
        folder = out if out is not None else Path("studies") / profile
        found, own, prices = asyncio.run(_estimated(chosen, setup, folder))
        where = console(stderr=not plan_only)
        if plan_only or not quiet:
            _tell(where, found, own, prices, setup)
            if ALL in names:
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
            print_json({"folder": str(folder), "studies": [_as_json(one) for one in done]})
        else:
            _show(done, folder)


def studies(as_json: JsonOption = False) -> None:
    """List the studies."""
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


def _parts(text: str | None) -> tuple[str, ...]:
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


def _as_json(one: Finished) -> dict[str, Any]:
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
