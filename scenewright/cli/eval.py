"""``scenewright eval``: evaluate text-to-image models on facts, and report the results.

Args:
    config: A TOML file, whose paths are relative to its folder (docs/evaluating.md), or the name of
        a recipe (docs/public-benchmarks.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, option_groups, resumable
from scenewright.cli.costs import agree
from scenewright.cli.eval_plan import load_evaluation, plan, print_estimate
from scenewright.cli.eval_xtc import app as xtc
from scenewright.cli.options import without_none
from scenewright.cli.progress import show_eval_progress, show_progress
from scenewright.config import OnModelChange
from scenewright.evals.reporting.words import p_value, score, signed

if TYPE_CHECKING:
    from scenewright.evals.recipes.benchmark_scores import BenchmarkScores
    from scenewright.evals.store.results import Results


@resumable(
    lambda options: (
        "the same command goes on; `scenewright eval export "
        f"{options['out'] or 'evals/' + options['config'].stem}` writes tables of what is done"
    )
)
@option_groups(
    Recipe="models judge loop limit per_prompt",
    Evaluation="out retry include_doubtful on_model_change sentinels yes",
    Workers="engine workers address",
    Output="quiet as_json",
)
def run(
    config: Path,
    out: options.EvalOut = None,
    models: options.RecipeModels = "",
    judge: options.RecipeJudge = None,
    loop: options.Loop = None,
    limit: options.Limit = None,
    per_prompt: options.OptionalPositive = None,
    yes: options.Yes = False,
    retry: options.Retry = False,
    include_doubtful: bool = False,
    on_model_change: OnModelChange | None = None,
    sentinels: options.OptionalShare = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    engine: str = "local",
    workers: options.OptionalPositive = None,
    address: options.Address = "",
) -> terminal.Exit:
    """Run the evaluation that CONFIG describes, or continue it.

    CONFIG is a file or a public benchmark by name (`eval recipes`), whose published scores are then
    shown beside ours. Shows what it will take and asks above the limit (limit_usd). The same
    command continues an interrupted evaluation; failures are recorded with their reasons, and tried
    again with --retry.

    Exit codes: 0 all is scored; 1 finished, but something failed or is unscored; 2 wrong input;
    3 could not run; 130 interrupted.
    """
    from scenewright.evals.datasets.registry import open_dataset
    from scenewright.evals.runner.engines.ray_engine import engine_of
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.runner.runner import run_eval

    place = engine_of(engine, workers, address)
    asked, folder = load_evaluation(config, out, models, judge, loop, limit, per_prompt)
    changed = without_none(on_model_change=on_model_change, sentinels=sentinels)
    changed |= without_none(include_doubtful=include_doubtful or None)
    asked = asked.model_copy(update=changed)
    if not quiet:
        terminal.note(f"estimating {asked.name}: reading its data and building its models")
    # Opened once: some sets read all their files for their vocabulary.
    items = open_dataset(asked.dataset, config.parent)
    found = terminal.run_async(
        estimate(asked, folder, root=config.parent, dataset=items, retry=retry)
    )
    where = terminal.console(stderr=True)
    if not quiet:
        print_estimate(found, asked, folder, where)
    agree(found.rest.usd, asked.limit_usd, yes, "raise limit_usd", found.rest.unpriced)
    with show_eval_progress(found.items, quiet) as show:
        results = terminal.run_async(
            run_eval(
                asked,
                folder,
                root=config.parent,
                retry=retry,
                dataset=items,
                on_progress=show,
                engine=place,
            )
        )
    summary = summarize(results)
    if asked.recipe:
        from scenewright.evals.recipes.benchmark_scores import benchmark_scores, write

        scores = benchmark_scores(results)
        summary["benchmark"] = scores.table.records()
        write(scores, results.folder)
    terminal.print_if_json(summary)
    print_summary(results, summary)
    if asked.recipe:
        print_benchmark(scores)
    lost = summary["failed"] or summary["unscored"] or summary["partly"]
    return terminal.Exit.MISSING if lost else terminal.Exit.OK


def export(folder: options.EvalFolder) -> None:
    """Write the tables of the finished items in FOLDER, for an interrupted evaluation."""
    from scenewright.evals.runner.runner import export_folder
    from scenewright.evals.store.results import TABLES

    results = export_folder(folder)
    for table in TABLES:
        terminal.say(f"{results.path(table)}: {results.table(table).num_rows} rows")


def metrics(as_json: options.Json = False) -> None:
    """List the metrics that a configuration can name, with their options."""
    from scenewright.evals.metrics.registry import METRICS

    terminal.print_if_json(
        {name: terminal.fields_of(entry, "about", "options") for name, entry in METRICS.items()}
    )
    for name, entry in METRICS.items():
        terminal.say(Text.assemble((f"{name:<12} ", "bold"), entry.about))
        for option, meaning in entry.options.items():
            terminal.say(f"{'':<12}   {option}: {meaning}")


def recipes(
    name: Annotated[str | None, typer.Argument()] = None, as_json: options.Json = False
) -> None:
    """List the public benchmarks that `eval run` knows by name, or show the rules of one.

    Args:
        name ([NAME]): One of them, or a file.
    """
    from scenewright.evals.recipes.recipe import load_recipe, recipe_names

    found = {one: load_recipe(one) for one in ((name,) if name else recipe_names())}
    data = {k: one.model_dump() | {"licence": one.licence} for k, one in found.items() if one}
    if not data:
        raise terminal.fail(f"there is no recipe {name}: use one of {', '.join(recipe_names())}")
    terminal.print_if_json(data)
    for key, recipe in data.items():
        terminal.say(Text.assemble((f"{key:<14} ", "bold"), recipe["title"], ": ", recipe["about"]))
        shown = ("paper", "page", "licence", "version", "judge", "images", "differs", "untried")
        for field in shown if name else ():
            told = recipe[field]
            for sentence in told if isinstance(told, tuple) else (told,):
                terminal.say(f"{'':<14} {field}: {sentence}")


def benchmark(folder: options.EvalFolder, as_json: options.Json = False) -> None:
    """Show a public benchmark's published scores beside ours, and write benchmark.md and .csv."""
    from scenewright.evals.recipes.benchmark_scores import benchmark_scores, write
    from scenewright.evals.store.results import Results

    found = benchmark_scores(Results(folder))
    page = write(found, folder)
    terminal.print_if_json(found.table.records())
    print_benchmark(found)
    terminal.say(str(page))


def print_benchmark(found: BenchmarkScores) -> None:
    """Print the scores of a benchmark, and what was not scored."""
    rows = [
        (row.title, *(cell.text(column.digits, False)
                      for cell, column in zip(row.cells, found.table.columns, strict=True)))
        for row in found.table.rows
    ]  # fmt: skip
    terminal.say(found.table.title, "bold")
    terminal.print_table(("score", *(f">{one.title}" for one in found.table.columns)), rows)
    for sentence in (*found.unscored, *found.notes):
        terminal.say(sentence)


def summarize(results: Results) -> dict[str, Any]:
    """Return the means of every metric by arm, and counts of failures."""
    from scenewright.evals.reporting.blind import blind_of
    from scenewright.evals.reporting.readings import Readings
    from scenewright.evals.reporting.report import answer_of
    from scenewright.evals.runner.dataset_predicates import told_of
    from scenewright.evals.runner.independence import told_self_reports
    from scenewright.evals.runner.served_versions import SERVED, version_notes
    from scenewright.evals.runner.weighing import weighing_notes

    sums: dict[tuple[str, str, str, str], list[float]] = {}
    unscored = partly = 0
    columns = ["item", "arm", "panel", "metric", "part", "scope", "value", "unscored"]
    for row in results.rows("scores", columns):
        if row["part"] or row["scope"]:
            continue
        if row["value"] is None:
            unscored += 1
            continue
        partly += bool(row["unscored"])
        key = (row["arm"], row["panel"], row["metric"], "set" if not row["item"] else "mean")
        sums.setdefault(key, []).append(row["value"])
    drawn = results.rows("rounds", ["arm", "state", "kept", "tokens_dropped", "facts_dropped"])
    states = [row["state"] for row in drawn]
    kept = [row for row in drawn if row["kept"]]

    def dropped(arm: str, column: str) -> int | None:
        known = [r[column] for r in kept if r["arm"] == arm and r[column] is not None]
        return sum(known) if known else None

    blind, answer = blind_of(results), answer_of(results)
    return {
        "folder": str(results.folder),
        "answer": None if answer is None else answer.model_dump(),
        "scores": [
            {
                "arm": arm,
                "panel": panel,
                "metric": metric,
                "of": of,
                "n": len(v),
                "value": sum(v) / len(v),
                "tokens_dropped": dropped(arm, "tokens_dropped"),
                "facts_dropped": dropped(arm, "facts_dropped"),
            }
            for (arm, panel, metric, of), v in sums.items()
        ],
        "self_reports": told_self_reports(results.manifest),
        "served": results.manifest.get(SERVED, {}),
        "model_changes": version_notes(results.manifest),
        "weighed": weighing_notes(results.manifest),
        "sentinels": results.manifest.get("sentinels", {}),
        "failed": states.count("failed"),
        "unscored": unscored,
        "partly": partly,
        "readings": Readings.of(results).as_json(),
        "blind": None if blind is None else {**blind.as_json(), "sentence": blind.sentence},
        "predicates": told_of(results.manifest),
        "totals": results.manifest.get("totals", {}),
    }


def print_summary(results: Results, summary: dict[str, Any]) -> None:
    """Print the scores by arm, then notes on what was dropped, failed or changed."""
    from scenewright.evals.runner.independence import reporter

    if summary["answer"] is not None:
        terminal.say(summary["answer"]["sentence"], "bold")
    elif sentence := summary["readings"]["sentence"]:
        terminal.say(sentence, "bold")
    rows = []
    for row in summary["scores"]:
        tokens, facts = row["tokens_dropped"], row["facts_dropped"]
        dropped = "" if tokens is None else "0"
        if tokens or (tokens is not None and facts):
            dropped = f"{'?' if facts is None else facts} ({tokens})"
        items = "all" if row["of"] == "set" else str(row["n"])
        value = f"{row['value']:.4g}"
        rows.append((row["arm"], row["panel"], row["metric"], value, items, dropped))
    terminal.print_table(("arm", "panel", "metric", ">value", ">items", ">dropped"), rows)
    for panel, arms in summary["self_reports"].items():
        for arm, models in arms.items():
            judges = f"{', '.join(models)} of {reporter(panel)}"
            terminal.say(
                f"self-report: {judges} steered the loop of {arm}: scores too good", "yellow"
            )
    for change in summary["model_changes"]:
        terminal.say(change, "yellow")
    for sentence in summary["weighed"]:
        terminal.say(sentence, "dim")
    for judge, took in summary["sentinels"].items():
        counts = f"{took['pictures']} sentinel pictures, {took['questions']} questions answered"
        terminal.say(f"{judge}: {counts}, ${took['usd']:.4f}", "dim")
    if summary["blind"] is not None:
        terminal.say(f"{summary['blind']['sentence']} {summary['predicates']}".rstrip(), "dim")
    if any(row["tokens_dropped"] for row in summary["scores"]):
        terminal.say(
            "dropped: facts (tokens) of prompts that the image model did not read to the end; "
            "the column `dropped` of the table of verdicts marks these facts"
        )
    if summary["failed"] or summary["unscored"] or summary["partly"]:
        terminal.say(
            f"{summary['failed']} drawings failed, {summary['unscored']} scores are unscored, "
            f"{summary['partly']} leave out parts that failed: the tables hold the reasons; "
            "--retry tries again what another try may score"
        )
    totals = summary["totals"]
    if images := totals.get("images"):
        terminal.say(
            f"a picture took {totals['tokens_in'] / images:,.0f} tokens in, "
            f"{totals['tokens_out'] / images:,.0f} out, ${totals['usd'] / images:.5f}"
        )
    terminal.say(f"results in {results.folder}; `scenewright eval report {results.folder}`")


Classes = Literal["level", "group", "category", "complexity", "none"]
"""Classes of items to compare within."""


@resumable("The old report is unchanged; the same command goes on with the thumbnails.")
def report(
    folder: options.EvalFolder,
    out: Path | None = None,
    copy_pictures: bool = False,
    resamples: options.Resamples = 10_000,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Make the static HTML report of an evaluation: tables, plots, and every item with its facts.

    The pages open from the disk, without a server or the network. A new report replaces the old
    one and reuses its thumbnails.

    Args:
        out: Folder of the report; default: report in FOLDER.
        copy_pictures: Copy full pictures into the report, so that it can be moved.
    """
    from scenewright.evals.reporting.report import build_report
    from scenewright.evals.store.results import Results

    with show_progress("items", quiet or as_json, lines=False) as show:
        built = build_report(
            Results(folder), out, copy_pictures=copy_pictures, resamples=resamples,
            progress=show,
        )  # fmt: skip
    terminal.print_if_json(terminal.fields_of(built, "page", "items", "lost", "answer"))
    if built.answer is not None and not (quiet or as_json):
        terminal.note(built.answer.sentence)
    terminal.say(str(built.page))
    if built.lost and not as_json:
        terminal.note(f"{built.lost} pictures of the tables could not be read.", "yellow")


def compare(
    sides: list[str],
    by: Classes = "level",
    metric: list[str] | None = None,
    panel: list[str] | None = None,
    parts: bool = False,
    baseline: bool = False,
    force: bool = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    html: Path | None = None,
    csv: Path | None = None,
    as_json: options.Json = False,
) -> None:
    """Test the differences of arms on the items that both have scored.

    Paired bootstrap intervals, sign-flip permutation tests, and p-values corrected for the number
    of comparisons (Holm; Benjamini–Hochberg beside it). The leading score over all items is tested
    first and alone, classes of items and other scores after it.

    Args:
        sides: Evaluations or their arms: FOLDER, FOLDER:BACKEND/CONDITION or
            FOLDER:BACKEND/CONDITION/SEED. One folder: compare its arms.
        by: Classes of items, besides all items.
        metric: Only this metric; can be given several times.
        panel: Only this panel of judges; can be given several times.
        parts: Also compare the parts of scores (objects, relations).
        baseline: Compare with the first side only.
        force: Also compare what was measured differently, with a note.
        html: Write an HTML page to this file.
        csv: Write the table to this file.
    """
    from scenewright.evals.reporting import comparison as compared
    from scenewright.evals.reporting.evaluations import open_sides, pairs_of
    from scenewright.evals.statistics.answers import difference_answer

    found = compared.compare(
        pairs_of(open_sides(sides), baseline),
        by=None if by == "none" else by,
        metrics=metric or (),
        panels=panel or (),
        parts=parts,
        force=force,
        resamples=resamples,
        seed=seed,
    )
    if html is not None:
        from scenewright.core.flushing import write_text

        write_text(html, compared.comparison_page(found))
    if csv is not None:
        from scenewright.evals.reporting.grids import write_differences

        write_differences(csv, found)
    differences = [
        each.model_dump(mode="json")
        | terminal.fields_of(
            each, "significant", "better", answer=difference_answer(found.contrast(each))
        )
        for each in found.differences
    ]
    data = {"answer": found.answer, **found.model_dump(mode="json")}
    terminal.print_if_json(data | {"differences": differences})
    for warning in found.warnings if not as_json else ():
        terminal.note(f"measured differently: {warning}", "yellow")
    terminal.say(found.answer.sentence, "bold")
    terminal.say("")
    pairs = dict.fromkeys((each.before, each.after) for each in found.differences)
    for before, after in pairs:
        terminal.say(f"{after} − {before}", "bold")
        rows, remarks = [], []
        for d in found.differences:
            if (d.before, d.after) != (before, after):
                continue
            r = d.result
            name = " ".join(filter(None, (d.metric, d.part, d.panel and f"by {d.panel}")))
            ends = "–" if r.low is None else f"{signed(r.low)} to {signed(r.high)}"
            scores = (score(d.score_before), score(d.score_after), signed(r.mean))
            p_values = (p_value(r.p), p_value(d.p_holm), p_value(d.p_bh))
            cells = (*scores, ends, signed(r.dz, 2), *p_values, d.better)
            rows.append((name, d.scope or "all", str(r.n), *cells))
            remarks += [f"{name}: {n} left out, {why}" for why, n in d.left_out.items()]
            remarks += [f"{name}: {d.seeds}"] if d.seeds and not d.scope else []
        heads = ("score", "items", "n", "before", "after", "difference", "95% interval", "d_z")
        terminal.print_table((*heads, "p", "Holm", "BH", "better"), rows)
        for line in dict.fromkeys(remarks):
            terminal.say(line, "dim")
        terminal.say("")
    for line in found.notes:
        terminal.say(line, "dim")
    terminal.say(
        f"Means over items; 95% intervals by paired bootstrap ({found.resamples:,} resamples); p "
        f"by sign flips. {found.correction}.",
        "dim",
    )


def peers(
    folder: options.EvalFolder,
    ratings: Path | None = None,
    out: options.OptionalOut = None,
    resamples: options.Resamples = 1000,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Compare every metric of an evaluation with the others: by judge, by aggregator, by arm.

    Writes peers.md, peers.csv, peers.parquet and peers.svg next to the evaluation's tables: means
    and paired differences of the arms with 95 % intervals and, with ratings, the rank correlation
    of each metric and voter with people.

    Examples of use:

      scenewright eval peers evals/peers

      scenewright eval peers evals/peers --ratings ratings.csv

    Exit codes: 0 written; 2 wrong input; 3 could not run.

    Args:
        ratings: Ratings of the pictures by people: CSV or parquet with item, arm and rating, or the
            output of `scenewright rate export`.
        out: Folder of the files; default: FOLDER.
    """
    from scenewright.evals.store.results import Results
    from scenewright.evals.studies.peers.matrix import findings, matrix_of, peer_scores, said, write

    scores = peer_scores(Results(folder))
    off = quiet or as_json
    with show_progress("voters", off, lines=False) as show:
        found = matrix_of(scores, ratings, resamples=resamples, seed=seed, on_progress=show)
    written = write(found, out or folder)
    terminal.print_if_json(
        terminal.fields_of(
            found,
            "name",
            "items",
            "arms",
            "rated",
            findings=list(findings(found)),
            figures=found.records(),
            files=list(written.files),
        )
    )
    rows = []
    for line in found.lines:
        cells = [estimate.text(3) for estimate in line.means.values()]
        if found.rated:
            cells.append(line.agreement["Spearman"].text(3) if line.agreement else "–")
        rows.append((line.metric, said(line), *cells))
    last = ["Spearman"] if found.rated else []
    if any(found.prompts.values()):
        prompts = [found.prompts.get(arm) for arm in found.arms]
        dropped = ["" if one is None else one.text for one in prompts]
        rows.append(("prompts", "facts (tokens) dropped", *dropped, *("" for _ in last)))
    terminal.print_table(("metric", "voter", *(f">{name}" for name in (*found.arms, *last))), rows)
    for sentence in findings(found):
        terminal.say(sentence)
    terminal.say(str(written.page))


app = App(
    help="Evaluate text-to-image models on facts: a data set × models and strategies × judges × "
    "metrics, as configured in a TOML file."
)
for _command in (run, report, compare, metrics, export, peers, plan, recipes, benchmark):
    app.command()(_command)
app.add_typer(xtc, name="xtc")
