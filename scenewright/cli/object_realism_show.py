"""``scenewright object-realism`` on the screen: progress of a training, tables of the paper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.objects.data import Split
    from scenewright.evals.studies.olip.ablations import Ablation
    from scenewright.evals.studies.olip.evaluation import Evaluation
    from scenewright.tools.vision.realism.olip_training import Epoch


@contextmanager
def counting(where: Console, title: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """What is told (done, of how many, a remark) is shown: a bar, or a line each tenth."""
    if quiet:
        yield lambda done, total, remark: None
        return
    if not where.is_terminal:
        said = -1

        def line(done: int, total: int, remark: str) -> None:
            nonlocal said
            tenth = 10 * done // max(1, total)
            if tenth > said:
                said = tenth
                where.print(Text(f"{title} {done}/{total}  {remark}".rstrip()), soft_wrap=True)

        yield line
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=where) as bars:
        task = bars.add_task(title, total=None)

        def moved(done: int, total: int, remark: str) -> None:
            bars.update(task, completed=done, total=total, description=f"{title} {remark}".rstrip())

        yield moved


@contextmanager
def telling_features(where: Console, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """How many objects the encoder has seen."""
    with counting(where, "features of objects", quiet) as told:
        yield lambda done, total: told(done, total, "")


@contextmanager
def telling_epochs(where: Console, epochs: int, quiet: bool) -> Iterator[Callable[[Epoch], None]]:
    """How far the training is, and its losses."""
    with counting(where, "epoch", quiet) as told:
        yield lambda epoch: told(
            epoch.number,
            epochs,
            f"loss {epoch.loss:.4f}  validation {epoch.validation:.4f}",
        )


_MEASURES = (("MAE ↓", "mae"), ("ACC ↑", "acc"), ("rank ↑", "spearman"))


def evaluation_table(rows: Sequence[Evaluation]) -> Table:
    """Table 3a: value and interval of each figure, one line a scorer and measure."""
    from scenewright.cli.tables import plain_table
    from scenewright.evals.studies.olip.evaluation import COLUMNS

    table = plain_table("method", "", *COLUMNS, "unscored")
    for row in rows:
        lost = f"{row.unscored} of {row.objects}"
        ends = (lost, "", "")
        for head, (name, shown), end in zip((row.name, "", ""), _MEASURES, ends, strict=True):
            cells = [getattr(row.columns[column], shown).text() for column in COLUMNS]
            table.add_row(head, name, *cells, end)
    return table


def ablation_table(rows: Sequence[Ablation]) -> Table:
    """Table 3b: the joint score, and how much worse than full OLIP."""
    from scenewright.cli.tables import plain_table
    from scenewright.evals.studies.olip.ablations import TITLES

    table = plain_table(
        "model design", "MAE ↓", "ACC ↑", "rank ↑", "MAE over full", "ACC under full"
    )
    for row in rows:
        joint = row.evaluation.columns["joint"]
        over = [figure.text() if figure else "" for figure in (row.worse_mae, row.worse_acc)]
        measured = (joint.mae.text(), joint.acc.text(), joint.spearman.text())
        table.add_row(TITLES[row.variant], *measured, *over)
    return table


async def evaluate_scorers(
    rated: Path,
    scorers: Sequence[str],
    part: str,
    seed: int,
    kept: Path | None,
    where: Console,
    quiet: bool,
    allow: bool = False,
) -> list[Evaluation]:
    """The row of each scorer on a part of the set, and those that look at no picture.

    ``kept``: where what was scored lies; None: in the user's cache. ``allow``: scorers may have
    been trained on what they are measured on, and their rows say so.
    """
    from scenewright.config.user_cache import user_cache
    from scenewright.core.ports.realism_scorer import RealismError
    from scenewright.evals.human_ratings.objects.data import read_objects
    from scenewright.evals.studies.olip.comparing import compare
    from scenewright.evals.studies.olip.evaluation import evaluate, floors
    from scenewright.evals.studies.olip.few_shot import (
        scorers_with,
        takes_examples,
        trained_scorers,
    )
    from scenewright.evals.studies.olip.splits import picture_digests
    from scenewright.evals.studies.olip.unseen import Chosen, choose, seen_of
    from scenewright.runs.model_factory.local_models import SHARED

    if part not in ("train", "validation", "test", "all"):
        raise RealismError(f"--part {part!r}: choose test, validation, train or all")
    if part in ("train", "all") and takes_examples(scorers):
        raise RealismError(
            f"--part {part} holds the training part, from which few-shot examples are taken: "
            "choose test or validation"
        )
    objects = read_objects(rated)
    digests = await asyncio.to_thread(picture_digests, rated, objects)
    records = [one.trained_on for one in trained_scorers(scorers)]
    known = [record for record in records if record is not None]
    chosen = (
        Chosen(tuple(objects), (), False)
        if part == "all"
        else choose(objects, digests, cast("Split", part), known, seed)
    )
    made = scorers_with(scorers, rated, chosen.training)
    try:
        seen = seen_of(made, chosen.objects, digests, allow=allow)
        if chosen.saved and not quiet:
            where.print(Text("parts: as saved with the heads; --seed does not draw them anew"))
        done = 0
        with counting(where, "objects scored", quiet) as told:

            def heard(_: str, count: int) -> None:
                nonlocal done
                done += count
                told(done, len(chosen.objects) * len(made), "")

            found = await compare(
                made, rated, chosen.objects, kept=kept or user_cache("realism"), heard=heard
            )
    finally:
        await SHARED.aclose()
    rows = [
        evaluate(one.scorer, chosen.objects, one.scores, seed=seed, seen=count)
        for one, count in zip(found, seen, strict=True)
    ]
    training = () if part == "train" else chosen.training
    return [*rows, *floors(chosen.objects, training, seed=seed).values()]
