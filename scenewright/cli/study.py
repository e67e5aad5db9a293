"""``scenewright study``: studies of the papers, and studies of a panel of judges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, option_groups, resumable
from scenewright.cli.costs import agree, cost_data, count_range, print_cost_notes, print_costs
from scenewright.cli.progress import show_eval_progress, show_progress
from scenewright.config import OnModelChange
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.runner.estimating import Estimate
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.studies import running
    from scenewright.evals.studies.panel.sources.loading import SourcePlan

app = App(
    help="Run the studies of the Scene-Bench and XTC-Bench papers, or study a panel of judges: "
    "its size, its aggregator, attacks, agreement with people, power."
)

LIMIT_USD = 5.0
"""Dollars above which a paper's study asks; a panel study has its own limit in CONFIG."""


_PAPERS, _PANEL = "Studies of the papers", "Studies of a panel"
_KINDS = {
    _PAPERS: (
        *("profile", "dataset", "n", "seeds", "judges", "instances", "extractor"),
        *("understanders", "steps", "concurrency", "no_sets", "on_model_change"),
    ),
    _PANEL: ("only", "path"),
}
"""Groups of options that one kind of studies takes."""
_BOTH = frozenset({"studies", "out", "plan_only", "yes", "quiet", "as_json"})
"""Options that both kinds take; all others but the panel's are of the papers."""
Kind = Literal["painted", "dsg", "table", "evaluation", "runs", "live", "labels", "simulation"]
"""Kinds of sources."""


@app.command()
@resumable("the same command goes on from there")
@option_groups(**{title: " ".join(names) for title, names in _KINDS.items()})
def run(
    context: typer.Context,
    studies: list[str],
    out: options.OptionalOut = None,
    plan_only: options.Plan = False,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    profile: Annotated[str, typer.Option("--profile", "-p")] = "miniature",
    dataset: str | None = None,
    n: Annotated[int | None, typer.Option(min=2)] = None,
    seeds: str = "0,1,2",
    judges: Annotated[str | None, typer.Option("--judges", "-j")] = None,
    instances: Path | None = None,
    extractor: str | None = None,
    understanders: str | None = None,
    steps: options.OptionalPositive = None,
    concurrency: options.Positive = 4,
    no_sets: Annotated[bool, typer.Option("--no-sets")] = False,
    retry: options.Retry = False,
    on_model_change: OnModelChange = "stop",
    sentinels: options.OptionalShare = None,
    only: Annotated[list[str] | None, typer.Option("--part")] = None,
    path: Path | None = None,
) -> terminal.Exit:
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
    from scenewright.config.settings import load_settings
    from scenewright.evals.datasets.base import CATALOGUE, DatasetSpec
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.studies.registry import ALL, STUDIES, studies_named
    from scenewright.evals.studies.running import WORK, Evaluation, plan, run_studies
    from scenewright.evals.studies.study import Setup, Trial

    files = [
        name
        for name in studies
        if name.endswith(".toml") or (name not in STUDIES and Path(name).is_file())
    ]
    if files and len(studies) > 1:
        raise terminal.fail(f"{files[0]} is a panel study: run it by itself")
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if name in _BOTH or source is None or source.name != "COMMANDLINE":
            continue
        if (name in _KINDS[_PANEL]) != bool(files):
            whose = "a paper's studies" if files else "a panel study"
            raise terminal.fail(f"{param.opts[0]} is an option of {whose}")
    if files:
        return _run_panel(Path(files[0]), out, only, path, plan_only, yes, quiet)
    studies_named(*studies)
    fields = {name: value for name, value in context.params.items() if name in Setup.model_fields}
    fields["seeds"] = options.whole_numbers("--seeds", seeds, 0, "0,1,2")
    if dataset is not None:
        name, _, place = dataset.partition(":")
        if name not in CATALOGUE:
            raise terminal.fail(
                f"--dataset: unknown set {name!r}: use one of {', '.join(sorted(CATALOGUE))}"
            )
        fields["dataset"] = DatasetSpec(name=name, path=place or None)
    fields |= {
        "judges": terminal.split_list(judges),
        "understanders": terminal.split_list(understanders),
    }
    fields |= {"instances": None if instances is None else str(instances)}
    if sentinels is None:
        del fields["sentinels"]
    setup = options.validated(Setup, {**fields, "metrics_of_sets": not no_sets})
    chosen = studies_named(*studies, setup=setup)
    folder = out if out is not None else Path("studies") / profile
    settings = load_settings()
    jobs = plan(chosen, setup, settings)
    evaluations = [job for job in jobs if isinstance(job, Evaluation)]
    own = [job for job in jobs if isinstance(job, Trial)]

    async def price_all() -> tuple[list[Estimate], list[CostForecast]]:
        work = folder / WORK
        estimates = [
            await estimate(one.config, work / one.family, settings=settings, dataset=one.dataset)
            for one in evaluations
        ]
        prices = [await one.costs() if one.costs else CostForecast() for one in own]
        return estimates, prices

    estimates, prices = terminal.run_async(price_all())
    rests = [estimated.rest for estimated in estimates]
    where = terminal.console(stderr=not plan_only)
    # This plan has no form as JSON.
    where.quiet = False
    if plan_only or not quiet:
        terminal.say(f"profile   {setup.profile}", "", where)
        rows = []
        for evaluation, estimated in zip(evaluations, estimates, strict=True):
            config, most = evaluation.config, estimated.costs.most
            tokens = most.usage.tokens_in + most.usage.tokens_out
            counts = (estimated.pictures, estimated.looks)
            rows.append(
                (
                    config.dataset.name,
                    ", ".join(config.conditions),
                    ", ".join(config.panels),
                    f"{estimated.items:,}",
                    *(count_range(*each) for each in counts),
                    f"≤ {tokens:,}" if most.calls else "here",
                    f"≤ {dollars(estimated.costs.usd)}",
                )
            )
        heads = ("set", "conditions", "panels", ">items", ">pictures", ">judged", ">tokens")
        terminal.print_table((*heads, ">dollars"), rows, where, wraps=True)
        for one, price in zip(own, prices, strict=True):
            cost = "" if one.costs is None else f", ≤ {dollars(price.usd)}"
            terminal.say(f"{one.title}: {one.items:,} {one.unit}{cost}", "", where)
        every = [*(estimated.costs for estimated in estimates), *prices]
        names = {name for one in every for name in one.unpriced}
        rest = CostForecast.of(line for one in rests for line in one.lines)
        print_cost_notes(sorted(names), rest, where)
        if ALL in studies:
            for study in STUDIES.values():
                if why := study.unsupported_reason(setup):
                    terminal.say(f"note: {study.name} is left out: {why}", "", where)
    if plan_only:
        return terminal.Exit.OK
    rest = CostForecast.of(line for one in (*rests, *prices) for line in one.lines)
    agree(rest.usd, LIMIT_USD, yes, "take a smaller --n", rest.unpriced)
    totals = [estimated.items for estimated in estimates] + [one.items for one in own]

    @contextmanager
    def watch(job: running.Job, number: int, of: int) -> Iterator[running.OnProgress | None]:
        if not quiet:
            if isinstance(job, Trial):
                title = f"{job.title}, {job.items:,} {job.unit}"
            else:
                data, panels = job.config.dataset.name, len(job.config.panels)
                title = f"{data}, {job.arms} arms, {panels} panels"
            terminal.note(f"{number} of {of}: {title}")
        with show_eval_progress(totals[number - 1], quiet) as show:
            yield show

    done = terminal.run_async(run_studies(chosen, setup, folder, retry=retry, watch=watch))
    _print_results(done, folder)
    return terminal.Exit.OK


@app.command("list")
def list_studies(as_json: options.Json = False) -> None:
    """List the studies of the papers; `study parts` lists those of a panel."""
    from scenewright.evals.studies.registry import STUDIES

    terminal.print_if_json({s.name: {"of": s.number, "about": s.title} for s in STUDIES.values()})
    rows = [(one.name, one.number, one.title) for one in STUDIES.values()]
    terminal.print_table(("name", "in the paper", "what it measures"), rows)


@app.command()
def parts(as_json: options.Json = False) -> None:
    """List the parts of a panel study: question, requirements and options of each."""
    from scenewright.evals.studies.panel.study import PARTS, part_of

    found: dict[str, dict[str, Any]] = {}
    for part in map(part_of, PARTS):
        usual = part.options().model_dump(mode="json")
        choices = {
            name: {"default": usual[name], "about": " ".join((field.description or "").split())}
            for name, field in part.options.model_fields.items()
        }
        needs = sorted(part.needs)
        found[part.name] = terminal.fields_of(part, "title", "about", needs=needs, options=choices)
    terminal.print_if_json(found)
    for name, each in found.items():
        terminal.say(Text.assemble((f"{name:<12} ", "bold"), each["title"]))
        terminal.say(f"{'':<12} {each['about']}")
        needed = ", ".join(each["needs"])
        terminal.say(f"{'':<12} needs: {needed or 'nothing more than answers'}", "dim")
        for option, about in each["options"].items():
            line = f"{'':<12}   {option} = {about['default']}"
            said = f"  {about['about']}" if about["about"] else ""
            terminal.say(Text.assemble(line, (said, "dim")))


@app.command()
def example(kind: Annotated[Kind, typer.Option("--kind", "-k")] = "painted") -> None:
    """Print a configuration that works.

    Example of use:

      scenewright study example --kind dsg > study.toml

    Args:
        kind: Source of the answers.
    """
    from scenewright.evals.studies.panel.study import example_of

    typer.echo(example_of(kind), nl=False)


@resumable("The same command goes on; the page shows what is done.")
def _run_panel(
    config: Path,
    out: Path | None,
    only: list[str] | None,
    path: Path | None,
    plan_only: bool,
    yes: bool,
    quiet: bool,
) -> terminal.Exit:
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.studies.panel.page import PAGE, rows_of, summary, write_study
    from scenewright.evals.studies.panel.running import chosen_parts, run_study
    from scenewright.evals.studies.panel.sources.loading import plan_source
    from scenewright.evals.studies.panel.study import load_study

    asked = load_study(config)
    if path is not None:
        if "path" not in type(asked.source).model_fields:
            raise terminal.fail(f"a source of the kind {asked.source.kind} has no --path")
        # Paths of the command line are relative to the working folder.
        place = {"path": str(path.expanduser().absolute())}
        asked = asked.model_copy(update={"source": asked.source.model_copy(update=place)})
    folder = out if out is not None else Path("studies") / asked.name
    settings = load_settings()
    chosen = chosen_parts(asked, only or ())
    for part in chosen:
        asked.options_of(part)
    sources = [source for source in (asked.source, asked.learn) if source is not None]

    async def planned() -> list[SourcePlan]:
        return [
            await plan_source(source, root=config.parent, folder=folder, settings=settings)
            for source in sources
        ]

    plans = terminal.run_async(planned())
    limits = [
        getattr(asked.options_of(part), "limit_usd", None)
        for part in chosen
        if plans[0].costs.lines and "live" in part.needs and (not only or part.name in only)
    ]
    again = sum(limit or 0.0 for limit in limits)
    together = CostForecast.of(line for plan in plans for line in plan.costs.lines)
    if plan_only:
        terminal.print_if_json(
            {
                "folder": folder,
                "parts": [part.name for part in chosen],
                "questions": sum(plan.questions for plan in plans),
                "usd": sum(plan.costs.usd for plan in plans),
                "usd_asking_again": again,
                "unpriced": sorted(together.unpriced),
                "models": [{"model": line.who, **cost_data(line.most)} for line in together.lines],
            }
        )
    if plan_only or not quiet:
        where = terminal.console(stderr=not plan_only)
        terminal.print_heading(asked.name, asked.about, where)
        terminal.say(f"folder    {folder}", "", where)
        for title, source, plan in zip(("answers", "learn"), sources, plans, strict=False):
            asks = f", {plan.questions:,} questions" if plan.questions else ""
            origin = f" {named}" if (named := getattr(source, "path", "")) else ""
            terminal.say(f"{title:<9} {source.kind}{origin}{asks}", "", where)
        print_costs(together, None, where)
        terminal.say(f"parts     {', '.join(part.name for part in chosen)}", "", where)
        if again:
            terminal.say(
                f"          parts that ask judges stop at {dollars(again)} together", "", where
            )
    if plan_only:
        return terminal.Exit.OK
    agree(together.usd + again, asked.limit_usd, yes, "raise limit_usd", together.unpriced)
    with show_progress("", quiet) as show:
        study = terminal.run_and_free(
            run_study(
                asked,
                folder,
                root=config.parent,
                settings=settings,
                only=only or (),
                watch=lambda at: show(at.done, at.total, f"{at.step} of {at.steps}: {at.doing}"),
                write=write_study,
            )
        )
    terminal.print_if_json(summary(study))
    terminal.say(study.answer, "bold")
    terminal.print_table(("part", "state", "first finding"), rows_of(study.outcomes), wraps=True)
    for line in study.loaded.notes:
        terminal.say(line, "yellow")
    terminal.say(f"page      {folder / PAGE}")
    failed = any(one.state == "failed" for one in study.outcomes)
    return terminal.Exit.MISSING if failed else terminal.Exit.OK


def _print_results(done: Sequence[running.Finished], folder: Path) -> None:
    from scenewright.evals.studies.paper import VERDICTS
    from scenewright.evals.studies.running import INDEX

    rows: list[dict[str, Any]] = [
        {
            "study": one.study.name,
            "of": one.study.number,
            "answer": one.outcome.answer,
            "verdicts": {
                str(verdict): sum(claim.verdict == verdict for claim in one.outcome.claims)
                for verdict in VERDICTS
            },
            "files": one.files,
        }
        for one in done
    ]
    terminal.print_if_json({"folder": folder, "studies": rows})
    for row in rows:
        if row["answer"] is not None:
            terminal.say(Text.assemble((f"{row['of']}  ", "bold"), row["answer"].sentence))
    terminal.print_table(
        ("study", "in the paper", *(f">{verdict}" for verdict in VERDICTS)),
        [(row["study"], row["of"], *map(str, row["verdicts"].values())) for row in rows],
    )
    terminal.say(f"written to {folder / INDEX}")
