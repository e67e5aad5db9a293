"""``scenewright eval``: evaluate text-to-image models on facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from scenewright.cli import options
from scenewright.cli.app import App, option_groups, resumable
from scenewright.cli.console import (
    Exit,
    console,
    note,
    print_json,
    print_result_as,
    print_table,
    run_async,
    say,
)
from scenewright.cli.costs import agree
from scenewright.cli.eval_plan import ConfigArgument, load_evaluation, plan, print_estimate
from scenewright.cli.eval_report import compare, peers, report
from scenewright.cli.eval_xtc import app as xtc
from scenewright.cli.options import without_none
from scenewright.cli.progress import show_eval_progress

if TYPE_CHECKING:
    from scenewright.evals.store.results import Results


@resumable(
    lambda options: (
        "the same command goes on; `scenewright eval export "
        f"{options['out'] or 'evals/' + options['config'].stem}` writes tables of what is done"
    )
)
@option_groups(
    Evaluation="out retry include_doubtful on_model_change sentinels yes",
    Workers="engine workers address",
    Output="quiet as_json",
)
def run(
    config: ConfigArgument,
    out: options.EvalOut = None,
    yes: options.Yes = False,
    retry: options.Retry = False,
    include_doubtful: options.IncludeDoubtful = False,
    on_model_change: options.ModelChange = None,
    sentinels: options.Sentinels = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    engine: options.Engine = "local",
    workers: options.Workers = None,
    address: options.Address = "",
) -> Exit:
    """Run the evaluation that CONFIG describes, or continue it.

    Shows what it will take and asks above the limit (limit_usd). The same command continues an
    interrupted evaluation; failures are recorded with their reasons, and tried again with --retry.

    Exit codes: 0 all is scored; 1 finished, but something failed or is unscored; 2 wrong input;
    3 could not run; 130 interrupted.
    """
    from scenewright.evals.datasets.registry import open_dataset
    from scenewright.evals.runner.engines.ray_engine import engine_of
    from scenewright.evals.runner.estimating import estimate
    from scenewright.evals.runner.runner import run_eval

    place = engine_of(engine, workers, address)
    asked, folder = load_evaluation(config, out)
    changed = without_none(on_model_change=on_model_change, sentinels=sentinels)
    changed |= without_none(include_doubtful=include_doubtful or None)
    asked = asked.model_copy(update=changed)
    if not quiet:
        note(f"estimating {asked.name}: reading its data and building its models")
    # Opened once: some sets read all their files for their vocabulary.
    items = open_dataset(asked.dataset, config.parent)
    found = run_async(estimate(asked, folder, root=config.parent, dataset=items, retry=retry))
    where = console(stderr=True)
    if not quiet:
        print_estimate(found, asked, folder, where)
    agree(found.rest.usd, asked.limit_usd, yes, "raise limit_usd", found.rest.unpriced)
    with show_eval_progress(found.items, quiet) as show:
        results = run_async(
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
    print_result_as(as_json, summary, print_summary, results, summary)
    return (
        Exit.MISSING if summary["failed"] or summary["unscored"] or summary["partly"] else Exit.OK
    )


def export(folder: options.EvalFolder) -> None:
    """Write the tables of the finished items in FOLDER, for an interrupted evaluation."""
    from scenewright.evals.runner.runner import export_folder
    from scenewright.evals.store.results import TABLES

    results = export_folder(folder)
    for table in TABLES:
        say(f"{results.path(table)}: {results.table(table).num_rows} rows")


def metrics(as_json: options.Json = False) -> None:
    """List the metrics that a configuration can name, with their options."""
    from scenewright.evals.metrics.registry import METRICS

    if as_json:
        print_json(
            {name: {"about": e.about, "options": dict(e.options)} for name, e in METRICS.items()}
        )
        return
    for name, entry in METRICS.items():
        say(Text.assemble((f"{name:<12} ", "bold"), entry.about))
        for option, meaning in entry.options.items():
            say(f"{'':<12}   {option}: {meaning}")


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
        say(summary["answer"]["sentence"], "bold")
    elif sentence := summary["readings"]["sentence"]:
        say(sentence, "bold")
    rows = []
    for row in summary["scores"]:
        tokens, facts = row["tokens_dropped"], row["facts_dropped"]
        dropped = "" if tokens is None else "0"
        if tokens or (tokens is not None and facts):
            dropped = f"{'?' if facts is None else facts} ({tokens})"
        items = "all" if row["of"] == "set" else str(row["n"])
        value = f"{row['value']:.4g}"
        rows.append((row["arm"], row["panel"], row["metric"], value, items, dropped))
    print_table(("arm", "panel", "metric", ">value", ">items", ">dropped"), rows)
    for panel, arms in summary["self_reports"].items():
        for arm, models in arms.items():
            judges = f"{', '.join(models)} of {reporter(panel)}"
            say(f"self-report: {judges} steered the loop of {arm}: scores too good", "yellow")
    for change in summary["model_changes"]:
        say(change, "yellow")
    for sentence in summary["weighed"]:
        say(sentence, "dim")
    for judge, took in summary["sentinels"].items():
        counts = f"{took['pictures']} sentinel pictures, {took['questions']} questions answered"
        say(f"{judge}: {counts}, ${took['usd']:.4f}", "dim")
    if summary["blind"] is not None:
        say(f"{summary['blind']['sentence']} {summary['predicates']}".rstrip(), "dim")
    if any(row["tokens_dropped"] for row in summary["scores"]):
        say(
            "dropped: facts (tokens) of prompts that the image model did not read to the end; "
            "the column `dropped` of the table of verdicts marks these facts"
        )
    if summary["failed"] or summary["unscored"] or summary["partly"]:
        say(
            f"{summary['failed']} drawings failed, {summary['unscored']} scores are unscored, "
            f"{summary['partly']} leave out parts that failed: the tables hold the reasons; "
            "--retry tries again what another try may score"
        )
    totals = summary["totals"]
    if images := totals.get("images"):
        say(
            f"a picture took {totals['tokens_in'] / images:,.0f} tokens in, "
            f"{totals['tokens_out'] / images:,.0f} out, ${totals['usd'] / images:.5f}"
        )
    say(f"results in {results.folder}; `scenewright eval report {results.folder}`")


app = App(
    help="Evaluate text-to-image models on facts: a data set × models and strategies × judges × "
    "metrics, as configured in a TOML file."
)
for _command in (run, report, compare, metrics, export, peers, plan):
    app.command()(_command)
app.add_typer(xtc, name="xtc")
