"""What ``scenewright data annotate`` shows: the plan, the progress, what was built."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from scenewright.evals.reporting.words import dollars

if TYPE_CHECKING:
    from scenewright.evals.annotation.config import AnnotateConfig
    from scenewright.evals.annotation.pipeline import Summary
    from scenewright.evals.annotation.plan import Plan

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
_EVERY = 15.0
"""Seconds between two lines where there is no terminal."""

OnProgress = Callable[[str, int, int | None], None]


@contextmanager
def show_annotation_progress(where: Console, quiet: bool) -> Iterator[OnProgress]:
    """What is to be told of progress: a bar with the time left on a terminal, else lines."""
    if quiet:
        yield lambda stage, done, of: None
        return
    if not where.is_terminal:
        yield _Lines(where)
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=where,
        transient=True,
    ) as bars:
        tasks: dict[str, Any] = {}

        def told(stage: str, done: int, of: int | None) -> None:
            if stage not in tasks:
                for other in tasks.values():
                    bars.update(other, visible=False)
                tasks[stage] = bars.add_task(STAGES.get(stage, stage), total=of)
            bars.update(tasks[stage], completed=done, total=of)

        yield told


class _Lines:
    def __init__(self, where: Console) -> None:
        self._where = where
        self._stage = ""
        self._began = self._told = 0.0
        self._first = 0

    def __call__(self, stage: str, done: int, of: int | None) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, done
        elif now - self._told < _EVERY:
            return
        self._told = now
        line = STAGES.get(stage, stage)
        if of:
            line += f": {done:,} of {of:,}"
            if done > self._first:
                left = (now - self._began) / (done - self._first) * (of - done)
                line += f", about {max(1, round(left / 60))} min left"
        self._where.print(Text(line), soft_wrap=True)


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
    from scenewright.cli.tables import plain_table

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
