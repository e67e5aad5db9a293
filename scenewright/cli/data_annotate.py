"""``scenewright data annotate``, ``quality`` and ``spotcheck``: data sets from photos.

Args:
    built: A folder of `scenewright data annotate`, or a file of graphs in MegaSG's format.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.costs import agree, cost_data, print_costs
from scenewright.cli.options import validated, without_none
from scenewright.cli.progress import show_progress
from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.annotation.config import AnnotateConfig
    from scenewright.evals.annotation.pipeline import Summary

app = App(help="Build data sets of scene graphs from photos, and measure them.")


@app.command()
@resumable("the same command goes on: what was paid for is kept")
def annotate(
    config: Annotated[Path | None, typer.Argument()] = None,
    photos: Path | None = None,
    detections: Path | None = None,
    panel: list[str] | None = None,
    rare: Annotated[int | None, typer.Option(min=0)] = None,
    out: options.OptionalOut = None,
    plan_only: options.Plan = False,
    limit_usd: options.OptionalAmount = None,
    yes: options.Yes = False,
    retry: options.Retry = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    engine: str = "local",
    workers: options.OptionalPositive = None,
    address: options.Address = "",
) -> terminal.Exit:
    """Build scene graphs from photos with detections, by a panel of language models.

    Shows photos, calls, tokens and dollars first, and asks above the limit. The same command
    continues an interrupted one and pays for nothing twice; failures are recorded with their
    reasons and asked again with --retry. Edit synonyms.json in the folder and run again to merge
    predicates in your own way.

    Examples of use:

      scenewright data annotate annotate.toml --plan

      scenewright data annotate --photos val2017 --detections instances_val2017.json \\
          --panel gemini:gemini-3.8-flash,openai:gpt-6-luna --out built/coco

    Exit codes: 0 built; 1 built, but some replies failed; 2 wrong input; 3 could not run;
    4 no photo got a graph; 130 interrupted.

    Args:
        config (CONFIG): A TOML file; its paths are relative to its folder
            (docs/building-datasets.md).
        photos: Folder of photos, without CONFIG.
        detections: Their detections in COCO's format (instances JSON), without CONFIG.
        panel (ACCOUNT:MODEL[,…]): Multimodal language models that annotate; can be given several
            times.
        rare: Drop predicates with fewer relations.
        out: Folder; by default built/NAME.
        limit_usd: Ask before work that costs more than this many dollars.
    """
    from scenewright.evals.annotation.leakage import guarded
    from scenewright.evals.annotation.panel_queries import text_model_of, voters_of
    from scenewright.evals.annotation.pipeline import Building
    from scenewright.evals.datasets.registry import open_dataset
    from scenewright.evals.runner.engines.ray_engine import engine_of
    from scenewright.runs.model_factory.profiles import build_judge

    machines = engine_of(engine, workers, address)
    fields = without_none(panel=terminal.split_list(panel) or None, rare=rare, limit_usd=limit_usd)
    asked, root = _read_config(config, photos, detections, fields)
    voters, text = voters_of(asked.panel), None
    if asked.synonyms or asked.diversity or asked.attributes:
        text = text_model_of(asked.text_model or asked.panel[0])
    judges = tuple(build_judge(spec) for spec in asked.judges)
    dataset = open_dataset(asked.dataset, root)
    folder = out if out is not None else Path("built") / asked.name
    with show_progress("", quiet) as show:
        if asked.leakage is not None:
            dataset = checked = terminal.run_async(
                guarded(
                    *(dataset, asked.leakage, root, folder),
                    lambda done: show(done, None, "comparing with the test set"),
                )
            )
            if unread := len(checked.leaks.unread):
                terminal.note(f"note: not compared with the test set: {unread} unreadable photos")
        building = Building(
            asked,
            dataset,
            folder,
            voters,
            text,
            judges,
            retry=retry,
            told=lambda stage, done, of: show(done, of, STAGES.get(stage, stage)),
            engine=machines,
        )
        try:
            found = building.plan()
            if plan_only:
                who = {"annotates": "{who}", "judges": "judge {who}"}
                lines = {
                    who.get(n.what, "{what} by {who}").format(who=n.who, what=n.what): n.most
                    for n in found.costs.lines
                }
                terminal.print_if_json(
                    {
                        "photos": found.photos,
                        "replies_there": found.done,
                        "replies_failed": found.failed,
                        "lines": {name: cost_data(line) for name, line in lines.items()},
                        "usd": found.costs.usd,
                        "unpriced": [name for name, line in lines.items() if line.usd is None],
                    }
                )
            if plan_only or not quiet:
                where = terminal.console(stderr=not plan_only)
                terminal.say(f"{found.photos.get('kept', 0):,} photos", "bold", where)
                for why, count in sorted(found.photos.items()):
                    if why != "kept":
                        terminal.say(f"  left out: {count:,} × {why}", "", where)
                if found.done:
                    failed = f"{found.failed:,} of them failed (--retry asks again)"
                    more = f", {failed}" if found.failed else ""
                    terminal.say(f"{found.done:,} replies are stored{more}", "", where)
                print_costs(found.costs, None, where)
            if plan_only:
                return terminal.Exit.OK
            costs = found.costs
            agree(costs.usd, asked.limit_usd, yes, "raise --limit-usd", costs.unpriced)
            made = terminal.run_and_free(building.run(found))
        finally:
            building.close()
    names = ("kind", "model", "reason", "count")
    terminal.print_if_json(
        terminal.fields_of(
            made,
            *("folder", "graphs", "photos", "below_quorum", "parts", "dropped", "synonyms"),
            *("statistics", "usd", "model_changes"),
            problems=[dict(zip(names, problem, strict=True)) for problem in made.problems],
        )
    )
    print_summary(made)
    if not made.graphs:
        return terminal.Exit.UNJUDGED
    return terminal.Exit.MISSING if made.problems else terminal.Exit.OK


def _read_config(
    config: Path | None, photos: Path | None, detections: Path | None, changes: dict[str, Any]
) -> tuple[AnnotateConfig, Path]:
    """Return the configuration with ``changes``, and the folder that its paths are relative to."""
    from scenewright.evals.annotation.config import AnnotateConfig, load_annotate_config

    if config is not None:
        if photos is not None or detections is not None:
            raise terminal.fail("CONFIG names the photos: leave --photos and --detections out")
        if not config.exists():
            raise terminal.fail(f"{config} does not exist: check the path of CONFIG")
        fields = load_annotate_config(config).model_dump()
        return validated(AnnotateConfig, fields | changes), config.parent
    if photos is None or detections is None or "panel" not in changes:
        raise terminal.fail("name a CONFIG, or --photos, --detections and --panel")
    name = "".join(c if c.isalnum() else "-" for c in photos.absolute().name).strip("-")
    images = {"images": str(photos.absolute())}
    place = {"name": "coco", "path": str(detections.absolute()), "options": images}
    fields = {"name": name or "photos", "dataset": place, **changes}
    return validated(AnnotateConfig, fields), Path()


@app.command()
def quality(
    built: Path,
    reference: Annotated[Path | None, typer.Argument()] = None,
    spotcheck: Path | None = None,
    as_json: options.Json = False,
) -> None:
    """Measure a built set: R@K and mR@K against a REFERENCE, or precision by a spot check.

    Objects are matched by photo and id, predicates by their words. R@K and mR@K are those of
    predicate classification with graph constraint (one predicate a pair); ng- is without.

    Exit codes: 0 measured; 2 wrong input; 3 could not run.

    Args:
        reference (REFERENCE): Graphs of the same photos.
        spotcheck: Answers exported from the page of `scenewright data spotcheck` (CSV or JSON).
    """
    from scenewright.evals.annotation.graph_sets import read_graphs
    from scenewright.evals.annotation.quality import as_rows, by_id, read_answers, spot_check
    from scenewright.evals.annotation.quality import quality as measured

    if (reference is None) == (spotcheck is None):
        raise terminal.fail("name a REFERENCE, or --spotcheck with answers")
    where = terminal.console()
    if spotcheck is not None:
        checked = spot_check(read_answers(spotcheck))
        terminal.print_if_json(checked)
        terminal.say(f"precision  {checked.precision.text()}", "bold")
        where.print(f"{checked.answers} relations on {checked.photos} photos; "
                    f"{checked.unsure} unsure, which count in nothing")  # fmt: skip
        if checked.changed:
            where.print(f"{checked.changed} changed once the judges' votes were shown: "
                        "the first answers count")  # fmt: skip
        for predicate, (right, n) in checked.predicates.items():
            terminal.say(f"  {predicate:<24}{right} of {n}")
        return
    assert reference is not None
    found = measured(read_graphs(built), by_id(read_graphs(reference)))
    terminal.print_if_json(found)
    for name, value in as_rows(found):
        terminal.say(f"{name:<24}{value}")
    where.print(
        f"\n{found.photos} photos in both sets, {found.built} relations against "
        f"{found.reference}; {found.missing} photos are missing in the built set (they count "
        f"as empty), {found.unknown} are not in the reference"
    )


@app.command()
def spotcheck(
    built: Path,
    n: Annotated[int, typer.Option("-n", min=1)] = 50,
    out: options.Out = Path("spotcheck"),
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Make a page for people to check a random sample of a built set.

    A folder of plain files: open index.html, answer with Y, N and U, export the answers, and count
    them with `scenewright data quality BUILT --spotcheck answers.csv`.

    Exit codes: 0 made; 2 wrong input; 3 could not run.

    Args:
        n: Photos.
        out: Folder of the page.
    """
    from scenewright.evals.annotation.graph_sets import graphs_file, read_graphs
    from scenewright.evals.annotation.quality import sample, write_page

    file = graphs_file(built)
    name = built.name if built.is_dir() else file.stem
    page = write_page(sample(read_graphs(built), n, seed), out, name or "set")
    terminal.print_if_json(
        {"page": page.path, **terminal.fields_of(page, "photos", "relations", "lost")}
    )
    for lost in page.lost if not as_json else ():
        terminal.note(f"note: left out: {lost}")
    terminal.say(f"page       {page.path}")
    terminal.say(f"to check   {page.relations} relations on {page.photos} photos")


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


def print_summary(made: Summary) -> None:
    """Print what was built and what failed."""
    found = made.statistics
    terminal.say(f"{made.graphs:,} scene graphs in {made.folder}", "bold")
    terminal.say(
        f"{found['objects']:,} objects of {found['categories']} categories, "
        f"{found['relations']:,} relations with {found['predicates']} predicates"
    )
    terminal.say("  ".join(f"{part} {count:,}" for part, count in made.parts.items()))
    if made.synonyms:
        terminal.say(f"{len(made.synonyms)} predicates merged (edit synonyms.json to change that)")
    if made.dropped:
        terminal.say(
            f"{len(made.dropped)} rare predicates dropped, {sum(made.dropped.values())} relations"
        )
    if made.below_quorum:
        terminal.say(f"{made.below_quorum} photos without a graph: too few usable replies")
    for kind, model, reason, count in made.problems:
        terminal.say(f"failed: {count} × {kind} by {model}: {reason}", "red")
    if made.problems:
        terminal.say("--retry asks again for what failed")
    for change in made.model_changes:
        terminal.say(change, "yellow")
    terminal.say(f"paid so far: {dollars(made.usd)}")
