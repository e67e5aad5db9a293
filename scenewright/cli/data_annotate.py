"""``scenewright data annotate``, ``quality`` and ``spotcheck``: sets built from photos."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    fail,
    plain_table,
    print_json,
    quiet_libraries,
)
from scenewright.cli.costs import agree
from scenewright.cli.options import (
    AddressOption,
    EngineOption,
    JsonOption,
    QuietOption,
    WorkersOption,
    YesOption,
)
from scenewright.cli.progress import show_progress
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.core.ports.judge import Judge
    from scenewright.evals.annotation.config import AnnotateConfig
    from scenewright.evals.annotation.pipeline import Building, Summary
    from scenewright.evals.annotation.plan import Plan
    from scenewright.evals.annotation.voters import TextModel, Voter

app = typer.Typer(help="Build sets of scene graphs from photos, and measure them.")

BuiltArgument = Annotated[
    Path,
    typer.Argument(
        metavar="BUILT",
        help="A folder of `scenewright data annotate`, or a file of graphs in the MegaSG style.",
        show_default=False,
    ),
]


@app.command()
def annotate(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            help="A TOML file: its paths begin at its own folder (docs/building-datasets.md).",
            show_default=False,
        ),
    ] = None,
    photos: Annotated[
        Path | None,
        typer.Option("--photos", help="Folder of photos, without CONFIG.", show_default=False),
    ] = None,
    detections: Annotated[
        Path | None,
        typer.Option(
            "--detections",
            help="Their detections in COCO's form (instances JSON), without CONFIG.",
            show_default=False,
        ),
    ] = None,
    panel: Annotated[
        list[str] | None,
        typer.Option(
            "--panel",
            metavar="ACCOUNT:MODEL[,…]",
            help="Multimodal language models that annotate; can be given several times.",
            show_default=False,
        ),
    ] = None,
    rare: Annotated[
        int | None,
        typer.Option("--rare", min=0, help="Drop rarer predicates.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder; by default built/NAME.", show_default=False),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what it will take, and stop.")
    ] = False,
    limit_usd: Annotated[
        float | None,
        typer.Option("--limit-usd", min=0.0, help="Ask above so many dollars.", show_default=False),
    ] = None,
    yes: YesOption = False,
    retry: Annotated[bool, typer.Option("--retry", help="Ask again what failed.")] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    address: AddressOption = "",
) -> None:
    """Build scene graphs from photos with detections, by a panel of language models.

    Shows photos, calls, tokens and dollars first, and asks above the limit. Started again it goes
    on, and pays for nothing twice; what failed is kept with its reason and asked again with
    --retry. Edit synonyms.json in the folder and run again to merge predicates in your own way.

    Examples:

      scenewright data annotate annotate.toml --plan

      scenewright data annotate --photos val2017 --detections instances_val2017.json \\
          --panel gemini:gemini-3.8-flash,openai:gpt-6-luna --out built/coco

    Exit codes: 0 built; 1 built, but some replies failed; 2 wrong input; 3 could not run;
    4 no photo got a graph; 130 interrupted.
    """
    quiet_libraries()
    with clear_errors("the same command goes on: what was paid for is kept"):
        from scenewright.evals.annotation.engines.registry import engine_of
        from scenewright.evals.annotation.pipeline import Building
        from scenewright.evals.datasets.registry import open_dataset

        place = engine_of(engine, workers, address)
        with _wrong_input():
            asked, root = _asked(config, photos, detections, panel, rare, limit_usd)
            voters, text, judges = _models(asked)
            dataset = open_dataset(asked.dataset, root)
        folder = out if out is not None else Path("built") / asked.name
        where = console(stderr=True)
        with show_annotation_progress(where, quiet) as told:
            building = Building(
                asked,
                dataset,
                folder,
                voters,
                text,
                judges,
                retry=retry,
                told=told,
                engine=place,
            )
            try:
                found = building.plan()
                if plan_only and as_json:
                    print_json(plan_data(found))
                    return
                if plan_only or not quiet:
                    print_plan(found, asked, console() if plan_only else where)
                if plan_only:
                    return
                agree(found.usd, asked.limit_usd, yes, "raise --limit-usd")
                made = asyncio.run(_run(building, found))
            finally:
                building.close()
        if as_json:
            print_json(summary_data(made))
        else:
            print_summary(made, console())
        if not made.graphs:
            raise typer.Exit(int(Exit.UNJUDGED))
        if made.problems:
            raise typer.Exit(int(Exit.MISSING))


async def _run(building: Building, found: Plan) -> Summary:
    try:
        return await building.run(found)
    finally:
        # Connections belong to this event loop.
        from scenewright.runs.model_factory.local_models import SHARED

        await SHARED.aclose()


@contextmanager
def _wrong_input() -> Iterator[None]:
    """A file that cannot be read is wrong input, whatever it was for."""
    from scenewright.evals.errors import AnnotationError

    try:
        yield
    except AnnotationError as error:
        raise fail(str(error), Exit.USAGE) from None


@app.command()
def quality(
    built: BuiltArgument,
    reference: Annotated[
        Path | None,
        typer.Argument(metavar="REFERENCE", help="Graphs of the same photos.", show_default=False),
    ] = None,
    spotcheck: Annotated[
        Path | None,
        typer.Option(
            "--spotcheck",
            help="Answers exported from the page of `scenewright data spotcheck` (CSV or JSON).",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a built set: R@K and mR@K against a REFERENCE, or what people found.

    Objects are matched by photo and id, predicates by their words. R@K and mR@K are those of
    predicate classification with graph constraint (one predicate a pair); ng- is without.

    Exit codes: 0 measured; 2 wrong input; 3 could not run.
    """
    with clear_errors(), _wrong_input():
        from scenewright.evals.annotation.graph_sets import read_graphs
        from scenewright.evals.annotation.quality import as_rows, by_id
        from scenewright.evals.annotation.quality import quality as measured
        from scenewright.evals.annotation.spotcheck import read_answers, spot_check

        if (reference is None) == (spotcheck is None):
            raise fail("name a REFERENCE, or --spotcheck with answers", Exit.USAGE)
        where = console()
        if spotcheck is not None:
            checked = spot_check(read_answers(spotcheck))
            if as_json:
                print_json(checked.model_dump(mode="json"))
                return
            where.print(Text(f"precision  {checked.precision.text()}", "bold"))
            where.print(f"{checked.answers} relations on {checked.photos} photos; "
                        f"{checked.unsure} unsure, which count in nothing")  # fmt: skip
            for predicate, (right, n) in checked.predicates.items():
                where.print(Text(f"  {predicate:<24}{right} of {n}"))
            return
        assert reference is not None
        found = measured(read_graphs(built), by_id(read_graphs(reference)))
        if as_json:
            print_json(found.model_dump(mode="json"))
            return
        for name, value in as_rows(found):
            where.print(Text(f"{name:<24}{value}"))
        where.print(
            f"\n{found.photos} photos in both sets, {found.built} relations against "
            f"{found.reference}; {found.missing} photos are missing in the built set (they count "
            f"as empty), {found.unknown} are not in the reference"
        )


@app.command()
def spotcheck(
    built: BuiltArgument,
    n: Annotated[int, typer.Option("-n", min=1, help="Photos.")] = 50,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the page.")] = Path(
        "spotcheck"
    ),
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="Of the sample.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Make a page on which people check a random sample of a built set.

    A folder of plain files: open index.html, answer with Y, N and U, export the answers, and count
    them with `scenewright data quality BUILT --spotcheck answers.csv`.

    Exit codes: 0 made; 2 wrong input; 3 could not run.
    """
    with clear_errors(), _wrong_input():
        from scenewright.evals.annotation.graph_sets import graphs_file, read_graphs
        from scenewright.evals.annotation.spotcheck import sample, write_page

        file = graphs_file(built)
        name = built.name if built.is_dir() else file.stem
        page = write_page(sample(read_graphs(built), n, seed), out, name or "set")
        if as_json:
            print_json(
                {
                    "page": str(page.path),
                    "photos": page.photos,
                    "relations": page.relations,
                    "lost": list(page.lost),
                }
            )
            return
        where = console()
        for lost in page.lost:
            console(stderr=True).print(Text(f"note: left out: {lost}"), soft_wrap=True)
        where.print(f"page       {page.path}", soft_wrap=True)
        where.print(f"to check   {page.relations} relations on {page.photos} photos")


def _asked(
    config: Path | None,
    photos: Path | None,
    detections: Path | None,
    panel: list[str] | None,
    rare: int | None,
    limit_usd: float | None,
) -> tuple[AnnotateConfig, Path]:
    """The configuration, and where its paths begin."""
    from pydantic import ValidationError

    from scenewright.core.validation import first_problem
    from scenewright.evals.annotation.config import AnnotateConfig, load_annotate_config

    changes: dict[str, Any] = {}
    named = tuple(one for text in panel or () for one in text.split(",") if one)
    if named:
        changes["panel"] = named
    if rare is not None:
        changes["rare"] = rare
    if limit_usd is not None:
        changes["limit_usd"] = limit_usd
    try:
        if config is not None:
            if photos is not None or detections is not None:
                raise fail("CONFIG names the photos: leave --photos and --detections out",
                           Exit.USAGE)  # fmt: skip
            if not config.exists():
                raise fail(f"there is no file {config}", Exit.USAGE)
            made = load_annotate_config(config)
            return AnnotateConfig.model_validate({**made.model_dump(), **changes}), config.parent
        if photos is None or detections is None or not named:
            raise fail("name a CONFIG, or --photos, --detections and --panel", Exit.USAGE)
        dataset = {
            "name": "coco",
            "path": str(detections.absolute()),
            "options": {"images": str(photos.absolute())},
        }
        name = "".join(c if c.isalnum() else "-" for c in photos.absolute().name).strip("-")
        given = {"name": name or "photos", "dataset": dataset, **changes}
        return AnnotateConfig.model_validate(given), Path()
    except ValidationError as error:
        raise fail(first_problem(error), Exit.USAGE) from None


def _models(
    asked: AnnotateConfig,
) -> tuple[tuple[Voter, ...], TextModel | None, tuple[Judge, ...]]:
    from scenewright.evals.annotation.voters import text_model_of, voters_of
    from scenewright.runs.model_factory.profiles import judge_of

    voters = voters_of(asked.panel)
    text = None
    if asked.synonyms or asked.diversity or asked.attributes:
        text = text_model_of(asked.text_model or asked.panel[0])
    return voters, text, tuple(judge_of(spec) for spec in asked.judges)


STAGES = {
    "photos": "looking at the photos",
    "cluster": "reaching the cluster",
    "workers": "loading the models of the workers",
    "annotate": "annotating",
    "synonyms": "merging synonyms",
    "consensus": "consensus",
    "classes": "classifying scenes",
    "attributes": "attributes of categories",
    "files": "writing files",
}


@contextmanager
def show_annotation_progress(
    where: Console, quiet: bool
) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield what is to be told of progress: stage, done, of how many."""
    with show_progress(where, "", quiet) as told:
        yield lambda stage, done, of: told(done, of, STAGES.get(stage, stage))


def print_plan(plan: Plan, config: AnnotateConfig, where: Console) -> None:
    """Photos, then a line a model and stage."""
    kept = plan.photos.get("kept", 0)
    where.print(Text(f"{kept:,} photos", "bold"))
    for why, count in sorted(plan.photos.items()):
        if why != "kept":
            where.print(Text(f"  left out: {count:,} × {why}"))
    if plan.done:
        failed = f", {plan.failed:,} of them failed (--retry asks again)" if plan.failed else ""
        where.print(Text(f"{plan.done:,} replies are there{failed}"))
    from scenewright.cli.costs import day_notes

    table = plain_table("to be asked", "calls", "tokens in", "tokens out", "dollars")
    for name, line in plan.lines.items():
        table.add_row(
            Text(name), f"{line.calls:,}", f"{line.usage.tokens_in:,}",
            f"{line.usage.tokens_out:,}", "?" if line.usd is None else dollars(line.usd),
        )  # fmt: skip
    total = plan.total
    table.add_row(
        Text("together", "bold"), f"{total.calls:,}", f"{total.usage.tokens_in:,}",
        f"{total.usage.tokens_out:,}", dollars(plan.usd),
    )  # fmt: skip
    where.print(table)
    if plan.unpriced:
        names = ", ".join(plan.unpriced)
        where.print(Text(f"no price is known of: {names}; it is not in the sum"), soft_wrap=True)
    # A line is named MODEL, or with what the model does before it.
    for note in day_notes((name.split()[-1], line.calls) for name, line in plan.lines.items()):
        where.print(Text(note), soft_wrap=True)


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON data."""
    return {
        "photos": plan.photos,
        "replies_there": plan.done,
        "replies_failed": plan.failed,
        "lines": {
            name: {
                "calls": line.calls,
                "tokens_in": line.usage.tokens_in,
                "tokens_out": line.usage.tokens_out,
                "usd": line.usd,
            }
            for name, line in plan.lines.items()
        },
        "usd": plan.usd,
        "unpriced": plan.unpriced,
    }


def print_summary(made: Summary, where: Console) -> None:
    """What was built and what failed."""
    found = made.statistics
    where.print(Text(f"{made.graphs:,} scene graphs in {made.folder}", "bold"), soft_wrap=True)
    where.print(
        f"{found['objects']:,} objects of {found['categories']} categories, "
        f"{found['relations']:,} relations with {found['predicates']} predicates"
    )
    where.print("  ".join(f"{part} {count:,}" for part, count in made.parts.items()))
    if made.synonyms:
        where.print(f"{len(made.synonyms)} predicates merged (synonyms.json, to be edited)")
    if made.dropped:
        where.print(
            f"{len(made.dropped)} rare predicates dropped, {sum(made.dropped.values())} relations"
        )
    if made.below_quorum:
        where.print(f"{made.below_quorum} photos without a graph: too few usable replies")
    for kind, model, reason, count in made.problems:
        where.print(Text(f"failed: {count} × {kind} by {model}: {reason}", "red"), soft_wrap=True)
    if made.problems:
        where.print("what failed is asked again with --retry")
    for change in made.model_changes:
        where.print(Text(change, "yellow"), soft_wrap=True)
    where.print(f"paid so far: {dollars(made.usd)}")


def summary_data(made: Summary) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "folder": str(made.folder),
        "graphs": made.graphs,
        "photos": made.photos,
        "below_quorum": made.below_quorum,
        "parts": made.parts,
        "dropped": made.dropped,
        "synonyms": made.synonyms,
        "statistics": made.statistics,
        "problems": [
            {"kind": kind, "model": model, "reason": reason, "count": count}
            for kind, model, reason, count in made.problems
        ],
        "usd": made.usd,
        "model_changes": list(made.model_changes),
    }
