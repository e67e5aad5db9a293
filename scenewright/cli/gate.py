"""``scenewright gate``: is a model worse than the one before? For releases and CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.costs import agree
from scenewright.cli.progress import show_progress
from scenewright.evals.reporting.words import count, dollars, score, signed

if TYPE_CHECKING:
    from scenewright.evals.gate.result import GateResult


@resumable("The same command goes on, and repeats no work.")
def gate(
    context: typer.Context,
    baseline: str,
    candidate: str,
    change: Annotated[list[str] | None, typer.Option("--set")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c")] = None,
    data: str | None = None,
    judges: options.Judges = None,
    labels: Path | None = None,
    margin: float = 0.03,
    alpha: float = 0.05,
    power: float = 0.9,
    metric: str = "",
    panel: str = "",
    limit: options.Limit = None,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0)] = 0,
    batch: options.Positive = 20,
    out: options.OptionalOut = None,
    force: bool = False,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    retry: options.Retry = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> terminal.Exit:
    """Test whether CANDIDATE is worse than BASELINE, with as few pictures as it takes.

    Both draw the same scenes with the same seeds, in random order, a batch at a time, and the same
    judges verify the facts. After each batch a sequential test looks at the paired differences and
    stops as soon as it knows: worse, not worse by the margin, or undecided at the end of the set.
    You may stop and resume at any time: the errors hold all the same. A finished evaluation as
    BASELINE saves its pictures; with two of them nothing is drawn.

    With --labels both sides are judges, and their score is the share of facts that they judge
    right.

    Unscored scenes are left out and counted; they are never a score of 0. Writes gate.json and
    report/index.html: the verdict, and the facts that were lost and gained, by kind.

    Examples of use:

      scenewright gate flux flux-lora --config gate.toml

      scenewright gate evals/release-1 my-profile --set steps=8

      scenewright gate evals/release-1 evals/release-2 --margin 0.02

      scenewright gate openai:gpt-6-luna openai:gpt-6.1-luna --labels labels.csv

    Exit codes: 0 not worse; 1 worse; 2 wrong input; 3 could not run; 4 undecided, or nothing could
    be scored; 130 interrupted.

    Args:
        baseline: A profile, or a finished evaluation (FOLDER, FOLDER:BACKEND/CONDITION); a judge
            with --labels.
        candidate: A profile, or a finished evaluation (FOLDER, FOLDER:BACKEND/CONDITION); a judge
            with --labels.
        change (KEY=VALUE): A changed field of the candidate's profile, such as steps=8 or
            composer=triplets; can be given several times.
        config (CONFIG): Evaluation (TOML) with set, judges, seeds and metrics; default: those of
            the finished side.
        data (NAME): Set of scenes, in place of CONFIG (`data list`).
        labels (FILE): Compare two judges, kind:model each, by their right answers about the
            labelled facts in FILE (CSV or parquet, as for `judges report`).
        margin: Loss of the mean score to find; 0.03 is three points.
        alpha: Highest probability of a false alarm.
        power: Probability, at least, of not passing a loss of --margin.
        metric: Score between 0 and 1, or a part of one, such as sgscore.fact_recall; default: the
            first of the evaluation.
        panel: Panel of judges; default: the first of the evaluation.
        seed: Seed of the order.
        batch: Scenes that are drawn between two looks at the scores.
        out: The folder; default: gates/CANDIDATE.
        force: Also compare what was measured differently, with a note.
    """
    from scenewright.evals.gate.judges import plan_judge_gate, run_judge_gate
    from scenewright.evals.gate.page import REPORT
    from scenewright.evals.gate.result import GateOptions
    from scenewright.evals.gate.running import RESULT, expected_cost, plan_gate, run_gate
    from scenewright.evals.gate.subjects import change_of, evaluation_of, subject_of

    values = {name: context.params[name] for name in GateOptions.model_fields}
    chosen = options.validated(GateOptions, values, "--")
    title = "".join(c if c.isalnum() or c in "._-" else "-" for c in candidate)
    folder = out or Path("gates") / (title.strip(".-") or "gate")
    if labels is not None:
        if change or config or data or judges:
            raise terminal.fail(
                "--labels compares judges: leave out --set, --config, --data and --judges"
            )
        of_judges = plan_judge_gate(baseline, candidate, labels, chosen, folder)
        # What it costs is known as it goes on; a price that nobody knows is told first.
        agree(None, limit_usd, yes, "raise --limit-usd", (baseline, candidate))
        with show_progress("comparing", quiet) as show:
            found = terminal.run_and_free(
                run_judge_gate(
                    of_judges, batch=batch, limit_usd=None if yes else limit_usd, show=show
                )
            )
    else:
        planned = plan_gate(
            subject_of(baseline),
            subject_of(candidate, dict(change_of(each) for each in change or ())),
            chosen,
            folder,
            config=evaluation_of(config, data, terminal.split_list(judges), panel),
            root=config.parent if config is not None else None,
            force=force,
        )
        if planned.configs:
            usd, unpriced = terminal.run_async(expected_cost(planned, retry))
            agree(usd, limit_usd, yes, "lower --limit, or raise --limit-usd", unpriced)
        with show_progress("comparing", quiet) as show:
            found = terminal.run_async(run_gate(planned, batch=batch, retry=retry, show=show))
    page = folder / REPORT / "index.html"
    terminal.print_if_json({**found.model_dump(mode="json"), "passed": found.passed, "page": page})
    if not as_json:
        print_result(found, f"{page}; {folder / RESULT}")
    return _EXITS[found.verdict]


_EXITS = {
    "not worse": terminal.Exit.OK,
    "worse": terminal.Exit.MISSING,
    "undecided": terminal.Exit.UNJUDGED,
}
_STYLES = {"not worse": "bold green", "worse": "bold red", "undecided": "bold yellow"}


def print_result(found: GateResult, files: str) -> None:
    """Print the verdict with its reason, warnings and figures, and the written ``files``."""
    style = _STYLES[found.verdict]
    terminal.say(
        Text.assemble((found.verdict, style), f"  {found.candidate} against {found.baseline}")
    )
    terminal.say(found.reason)
    for warning in found.warnings:
        terminal.note(f"measured differently: {warning}", "yellow")
    for why, n in found.left_out.items():
        terminal.note(f"{n:,} left out: {why}", "yellow")
    noun = "picture" if found.of_judges else "scene"
    if found.scenes:
        by = f" by {found.panel}" if found.panel else ""
        change = f"{score(found.before)} → {score(found.after)} ({signed(found.difference)}"
        ends = "" if found.low is None else f", 95% {signed(found.low)} to {signed(found.high)}"
        terminal.say(f"{found.metric}{by}: {change}{ends}) over {count(found.scenes, noun)}")
    names = ("lost", "gained", "kept", "absent", "unscored")
    rows = [(kind, *(str(getattr(n, name)) for name in names)) for kind, n in found.kinds.items()]
    terminal.print_table(("facts", *(f">{name}" for name in names)), rows)
    for text in found.notes:
        terminal.note(f"note: {text}", "yellow")
    if found.pictures:
        terminal.say(f"{count(found.pictures, 'picture')} drawn, {dollars(found.usd)}", "dim")
    if found.fixed_size is not None:
        terminal.say(f"a test of fixed size needs {count(found.fixed_size, noun)} for this", "dim")
    terminal.say(files)
