"""``scenewright eval xtc``: generation against understanding (XTC-Bench)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.costs import agree, cost_data, print_costs
from scenewright.cli.progress import show_eval_progress
from scenewright.config import OnModelChange

if TYPE_CHECKING:
    from scenewright.evals.studies.xtc.report import XtcResults
    from scenewright.evals.studies.xtc.scores import XtcScores

app = App(
    help="XTC-Bench: does a model understand what it draws, and draw what it understands? One "
    "scene graph gives the prompt and the questions; every fact is graded for both."
)


@app.command()
@resumable("the same command goes on: what is done is kept")
def run(
    config: Path,
    out: options.EvalOut = None,
    limit: options.Limit = None,
    yes: options.Yes = False,
    retry: options.Retry = False,
    on_model_change: OnModelChange | None = None,
    dry: options.Plan = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    engine: str = "local",
    workers: options.OptionalPositive = None,
    address: options.Address = "",
) -> terminal.Exit:
    """Run the evaluation that CONFIG describes, or continue it.

    Every unified model (an image backend with a judge or chat model that understands, or a class
    of your own) draws each scene and answers questions about its photo. Shows what it will take
    first, and asks above the limit (limit_usd). The same command continues an interrupted
    evaluation and pays for nothing twice; a run with --limit can be continued without.

    The smallest CONFIG:

        name = "mine"

        dataset = { name = "miniature", options = { n = 20 } }

        vocabulary = "miniature"

        models.a.profile = "miniature"

        models.a.condition = "composition"

        models.a.understander = "judge:local:miniature/judge-c"

    Exit codes: 0 all is scored; 1 finished, but something failed or is unscored; 2 wrong input;
    3 could not run; 130 interrupted.

    Args:
        config: A TOML file; its paths are relative to its folder (docs/xtc.md).
        on_model_change: If a judge is served by another version than before: stop with an error
            (what is done is kept), or accept the mixture and say so. Default: what CONFIG says,
            else stop.
    """
    from scenewright.config.settings import load_settings
    from scenewright.evals.runner.engines.ray_engine import engine_of
    from scenewright.evals.studies.xtc.config import load_xtc_config, with_on_model_change
    from scenewright.evals.studies.xtc.running import plan_xtc, run_xtc, xtc_dataset

    at_work = engine_of(engine, workers, address)
    asked = load_xtc_config(config)
    folder = out if out is not None else Path("evals") / asked.name
    if on_model_change is not None:
        asked = with_on_model_change(asked, on_model_change)
    if limit is not None:
        spec = asked.dataset.model_copy(update={"limit": limit})
        asked = asked.model_copy(update={"dataset": spec})
    settings = load_settings()
    items = xtc_dataset(asked, folder, config.parent)
    plan = terminal.run_async(plan_xtc(asked, settings, config.parent, folder, items))
    if dry:
        lines = [
            {"model": n.who, "does": n.what, "times": n.times, **cost_data(n.most)}
            for n in plan.costs.lines
        ]
        names = ("items", "questions", "unasked", "models", "pictures", "left_out", "outside")
        terminal.print_if_json(terminal.fields_of(plan, *names, usd=plan.costs.usd, lines=lines))
    if dry or not quiet:
        where = terminal.console(stderr=not dry)
        terminal.print_heading(asked.name, asked.about, where)
        size = f"{plan.items:,} scenes × {plan.models} models × {len(asked.seeds)} seeds"
        terminal.say(f"folder     {folder}", "", where)
        terminal.say(f"set        {asked.dataset.name}: {size}", "", where)
        for reason, n in plan.left_out.items():
            terminal.say(f"           left out: {n:,} ({reason})", "", where)
        terminal.say(
            f"questions  {plan.questions:,}; {plan.unasked:,} facts have no question", "", where
        )
        for reason, n in plan.outside.items():
            terminal.say(f"           will be unscored: {n:,} ({reason})", "yellow", where)
        terminal.say(f"pictures   {plan.pictures:,} to draw and read", "", where)
        print_costs(plan.costs, None, where)
    if dry:
        return terminal.Exit.OK
    agree(plan.costs.usd, asked.limit_usd, yes, "raise limit_usd", plan.costs.unpriced)
    with show_eval_progress(plan.items + plan.left_out.total(), quiet) as show:
        results = terminal.run_async(
            run_xtc(
                asked,
                folder,
                settings=settings,
                root=config.parent,
                retry=retry,
                dataset=items,
                on_progress=show,
                engine=at_work,
            )
        )
    scores = results.scores()
    terminal.print_if_json(results_data(results, scores))
    print_results(results, scores)
    overall = [found.overall for found in scores.values()]
    lost = any(one.unscored_generation or one.unscored_understanding for one in overall)
    return terminal.Exit.MISSING if lost else terminal.Exit.OK


@app.command()
def report(
    place: Path,
    out: options.OptionalOut = None,
    paper: bool = True,
    facts: Annotated[int | None, typer.Option(min=0)] = None,
    as_json: options.Json = False,
) -> None:
    """Write the report: XTC-Bench's Tables 2 to 4, plots, and facts of the largest difference.

    The last section shows, with their pictures, the facts on which generation and understanding of
    a model differ most.

    Args:
        place (CONFIG|FOLDER): The folder of results, or the TOML file of an evaluation in
            evals/NAME.
        out: Folder of the report; by default report in the folder.
        paper: Show the paper's own figures below those measured.
        facts: How many differing facts to show; default 24.
    """
    from scenewright.evals.studies.xtc.config import load_xtc_config
    from scenewright.evals.studies.xtc.report import XtcResults, write_report

    folder = Path("evals") / load_xtc_config(place).name if place.suffix == ".toml" else place
    results = XtcResults(folder)
    page = write_report(results, out, paper=paper, most=facts)
    terminal.print_if_json({"page": page, **results_data(results, results.scores())})
    terminal.say(str(page))


def results_data(results: XtcResults, scores: dict[str, XtcScores]) -> dict[str, Any]:
    """Return results as JSON data."""
    from scenewright.evals.studies.xtc.report import answer_of

    told: dict[str, Any] = {"totals": {}, "left_out": {}, "model_changes": []}
    told = {name: results.manifest.get(name, empty) for name, empty in told.items()}
    answer = answer_of(results, scores)
    return {"folder": results.folder, "answer": answer, "models": scores, **told}


def print_results(results: XtcResults, scores: dict[str, XtcScores]) -> None:
    """Print the scores by model, then what is unscored or changed."""
    from scenewright.evals.studies.xtc.report import answer_of

    terminal.say(answer_of(results, scores).sentence, "bold")
    rows = []
    for model, found in scores.items():
        whole = found.overall
        figures = (whole.generation, whole.understanding, whole.ccta, whole.aw_ccta)
        nodes = "–" if found.nodes.value is None else f"{found.nodes.value:.0%}"
        dropped = "" if found.prompts is None else found.prompts.text
        rows.append((model, *(e.text(2) for e in figures), nodes, f"{whole.both:,}", dropped))
    heads = ("model", ">G", ">U", ">CCTA", ">AW-CCTA", ">nodes", ">facts", ">dropped")
    terminal.print_table(heads, rows)
    if any(found.prompts is not None and found.prompts.tokens for found in scores.values()):
        terminal.say(
            "dropped: facts (tokens) of prompts that the image model did not read to the end"
        )
    for model, found in scores.items():
        for reason, count in found.reasons.items():
            terminal.say(f"{model}: {count} facts unscored: {reason}", "yellow")
    if retryable := sum(found.retryable for found in scores.values()):
        terminal.say(f"--retry tries {retryable:,} of them again")
    elif any(found.reasons for found in scores.values()):
        terminal.say("no other try could score them: a model has no words for them")
    for reason, count in results.manifest.get("left_out", {}).items():
        terminal.say(f"left out: {count} ({reason})")
    for change in results.manifest.get("model_changes", []):
        terminal.say(change, "yellow")
    terminal.say(f"results in {results.folder}; `scenewright eval xtc report {results.folder}`")
