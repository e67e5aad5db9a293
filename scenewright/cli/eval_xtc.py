"""``scenewright eval xtc run`` and ``report``: what models draw against what they understand."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import Exit, clear_errors, console, print_json, quiet_libraries
from scenewright.cli.costs import agree, day_notes
from scenewright.cli.options import JsonOption, QuietOption, YesOption
from scenewright.cli.progress import show_eval_progress
from scenewright.config import OnModelChange

if TYPE_CHECKING:
    from scenewright.config.settings import Settings
    from scenewright.evals.datasets.base import Item
    from scenewright.evals.studies.xtc.config import XtcConfig
    from scenewright.evals.studies.xtc.planning import XtcPlan
    from scenewright.evals.studies.xtc.results import XtcResults
    from scenewright.evals.studies.xtc.scores import XtcScores

app = typer.Typer(
    name="xtc",
    help="XTC-Bench: does a model understand what it draws, and draw what it understands? One "
    "scene graph gives the prompt and the questions; every fact is graded on both sides.",
    no_args_is_help=True,
)

ConfigArgument = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG",
        help="A TOML file: its paths begin at its own folder (docs/xtc.md).",
        show_default=False,
    ),
]


@app.command()
def run(
    config: ConfigArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder; by default evals/NAME.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, help="The first scenes alone.", show_default=False),
    ] = None,
    yes: YesOption = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again what failed or was left unscored.")
    ] = False,
    on_model_change: Annotated[
        OnModelChange | None,
        typer.Option(
            "--on-model-change",
            help="Where a judge is served by another version than before: stop with an error (what "
            "is done is kept), or accept the mixture and say so. Default: what CONFIG says, else "
            "stop.",
            show_default=False,
        ),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--plan", help="Show what it will take, and stop there.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the evaluation that CONFIG describes, or go on with it.

    Every unified model (a backend that draws with a judge or chat model that understands, or a
    class of your own) draws each scene and answers questions about its photo. Shows what it will
    take first, and asks above the limit (limit_usd). Started again it goes on and pays for nothing
    twice; a run with --limit can be continued without.

    A smallest CONFIG:

        name = "mine"

        dataset = { name = "miniature", options = { n = 20 } }

        vocabulary = "miniature"

        models.a.profile = "miniature"

        models.a.condition = "composition"

        models.a.understander = "judge:local:miniature/judge-c"

    Exit codes: 0 all is scored; 1 finished, but something failed or is unscored; 2 wrong input;
    3 could not run; 130 interrupted.
    """
    quiet_libraries()
    with clear_errors("the same command goes on: what is done is kept"):
        from scenewright.config.settings import load_settings
        from scenewright.evals.studies.xtc.config import load_xtc_config, with_on_model_change
        from scenewright.evals.studies.xtc.running import run_xtc, xtc_dataset

        asked = load_xtc_config(config)
        folder = out if out is not None else _folder_of(asked)
        if on_model_change is not None:
            asked = with_on_model_change(asked, on_model_change)
        if limit is not None:
            spec = asked.dataset.model_copy(update={"limit": limit})
            asked = asked.model_copy(update={"dataset": spec})
        settings = load_settings()
        items = _Listed(xtc_dataset(asked, folder, config.parent))
        plan = asyncio.run(_planned(asked, folder, config.parent, items, settings))
        where = console(stderr=not dry)
        if as_json and dry:
            print_json(_plan_as_json(plan))
            return
        if dry or not quiet:
            _tell(where, plan, asked, folder)
        if dry:
            return
        agree(plan.usd, asked.limit_usd, yes, "raise limit_usd")
        with show_eval_progress(console(stderr=True), len(items.found), quiet) as show:
            results = asyncio.run(
                run_xtc(
                    asked,
                    folder,
                    settings=settings,
                    root=config.parent,
                    retry=retry,
                    dataset=items,
                    on_progress=show,
                )
            )
        scores = results.scores()
        if as_json:
            print_json(_as_json(results, scores))
        else:
            _show(results, scores)
        lost = [s.overall.unscored_generation + s.overall.unscored_understanding
                for s in scores.values()]  # fmt: skip
        if any(lost):
            raise typer.Exit(int(Exit.MISSING))


@app.command()
def report(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG|FOLDER",
            help="The folder of results, or the TOML file of an evaluation in evals/NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where to; by default report in the folder.", show_default=False
        ),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option(help="With the paper's figures of its own models below those measured."),
    ] = True,
    facts: Annotated[
        int | None,
        typer.Option("--facts", min=0, help="How many disagreements to show (24).",
                     show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Write the report: XTC-Bench's Tables 2 to 4, generation against understanding, where facts
    lie, and the facts on which a model's two sides differ most, with their pictures."""
    quiet_libraries()
    with clear_errors():
        from scenewright.evals.studies.xtc.config import load_xtc_config
        from scenewright.evals.studies.xtc.report import write_report
        from scenewright.evals.studies.xtc.results import XtcResults

        folder = _folder_of(load_xtc_config(place)) if place.suffix == ".toml" else place
        results = XtcResults(folder)
        page = write_report(results, out, paper=paper, most=facts)
        if as_json:
            print_json({"page": str(page), **_as_json(results, results.scores())})
        else:
            console().print(Text(str(page)), soft_wrap=True)


class _Listed:
    """A set whose items are read once: for the plan, then for the run."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.found: list[Item] = list(dataset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __iter__(self) -> Any:
        return iter(self.found)


def _folder_of(config: XtcConfig) -> Path:
    return Path("evals") / config.name


async def _planned(
    config: XtcConfig, folder: Path, root: Path, items: _Listed, settings: Settings
) -> XtcPlan:
    from scenewright.evals.runner.dataset_predicates import dataset_predicates, relates
    from scenewright.evals.studies.xtc.model_setup import XtcModelOverrides, build_xtc_models
    from scenewright.evals.studies.xtc.planning import plan_of

    scenes = [item.scene for item in items.found if item.scene is not None]
    own = dataset_predicates(config.predicates, config.dataset, items, folder, needed=relates)
    xtc_models = await build_xtc_models(config, settings, XtcModelOverrides(), root, scenes, own)
    return await plan_of(config, xtc_models, items.found, settings)


def _tell(where: Any, plan: XtcPlan, config: XtcConfig, folder: Path) -> None:
    """The plan, for people."""
    where.print(Text.assemble((config.name, "bold"), f"  {config.about}" if config.about else ""))
    where.print(Text(f"folder     {folder}"))
    said = f"{plan.items:,} scenes × {plan.models} models × {len(config.seeds)} seeds"
    where.print(Text(f"set        {config.dataset.name}: {said}"))
    for reason, count in plan.left_out.items():
        where.print(Text(f"           left out: {count:,} ({reason})"))
    where.print(Text(f"questions  {plan.questions:,}; {plan.unasked:,} facts cannot be asked for"))
    for reason, count in plan.outside.items():
        where.print(Text(f"           will be unscored: {count:,} ({reason})", "yellow"))
    where.print(Text(f"pictures   {plan.pictures:,} to be drawn and read"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("model")
    table.add_column("does")
    for name in ("times", "calls", "tokens in", "tokens out", "dollars"):
        table.add_column(name, justify="right")
    for line in plan.lines:
        table.add_row(line.who, line.what, f"{line.times:,}", *_cells(line.expected))
    where.print(table)
    for name in plan.unpriced:
        where.print(Text(f"note: no price is known for {name}: its dollars are not counted"))
    for note in day_notes((line.who, line.expected.calls) for line in plan.lines):
        where.print(Text(note), soft_wrap=True)


def _cells(expected: Any) -> list[str]:
    from scenewright.evals.reporting.words import dollars

    if not expected.calls and expected.usd is not None:
        return ["here", "", "", ""]
    return [
        f"{expected.calls:,}",
        f"{expected.usage.tokens_in:,}",
        f"{expected.usage.tokens_out:,}",
        "?" if expected.usd is None else dollars(expected.usd),
    ]


def _plan_as_json(plan: XtcPlan) -> dict[str, Any]:
    return {
        "items": plan.items,
        "questions": plan.questions,
        "unasked": plan.unasked,
        "models": plan.models,
        "pictures": plan.pictures,
        "left_out": plan.left_out,
        "outside": plan.outside,
        "usd": plan.usd,
        "lines": [
            {
                "model": line.who,
                "does": line.what,
                "times": line.times,
                "calls": line.expected.calls,
                "tokens_in": line.expected.usage.tokens_in,
                "tokens_out": line.expected.usage.tokens_out,
                "usd": line.expected.usd,
            }
            for line in plan.lines
        ],
    }


def _as_json(results: XtcResults, scores: dict[str, XtcScores]) -> dict[str, Any]:
    return {
        "folder": str(results.folder),
        "models": {name: found.model_dump(mode="json") for name, found in scores.items()},
        "totals": results.manifest.get("totals", {}),
        "left_out": results.manifest.get("left_out", {}),
        "model_changes": results.manifest.get("model_changes", []),
    }


def _show(results: XtcResults, scores: dict[str, XtcScores]) -> None:
    where = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("model")
    for name in ("G", "U", "CCTA", "AW-CCTA", "nodes"):
        table.add_column(name, justify="right")
    table.add_column("facts", justify="right")
    table.add_column("dropped", justify="right")
    for model, found in scores.items():
        whole = found.overall
        table.add_row(
            model,
            *(e.text(2) for e in (whole.generation, whole.understanding, whole.ccta)),
            whole.aw_ccta.text(2),
            "–" if found.nodes.value is None else f"{found.nodes.value:.0%}",
            f"{whole.both:,}",
            "" if found.prompts is None else found.prompts.text,
        )
    where.print(table)
    if any(found.prompts is not None and found.prompts.tokens for found in scores.values()):
        said = "dropped: facts (tokens) of prompts that the image model did not read to the end"
        where.print(Text(said))
    for model, found in scores.items():
        for reason, count in found.reasons.items():
            line = f"{model}: {count} facts unscored: {reason}"
            where.print(Text(line, "yellow"), soft_wrap=True)
    if any(found.reasons for found in scores.values()):
        where.print(Text("--retry tries them again"))
    for reason, count in results.manifest.get("left_out", {}).items():
        where.print(Text(f"left out: {count} ({reason})"), soft_wrap=True)
    for change in results.manifest.get("model_changes", []):
        where.print(Text(change, "yellow"), soft_wrap=True)
    where.print(
        Text(f"results in {results.folder}; `scenewright eval xtc report {results.folder}`"),
        soft_wrap=True,
    )
