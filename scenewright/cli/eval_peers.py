"""``scenewright eval peers``: the table metric × judge × aggregator of an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import clear_errors, console, print_json

if TYPE_CHECKING:
    from scenewright.evals.studies.peers.matrix import PeerMatrix


def peers(
    folder: Annotated[Path, typer.Argument(help="Folder that `scenewright eval run` wrote.")],
    ratings: Annotated[
        Path | None,
        typer.Option(
            help="What people said of the pictures: CSV or parquet with item, arm and rating, or "
            "what `scenewright rate export` wrote.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the files go; default: FOLDER.", show_default=False
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option(min=100, max=100_000, help="Resamples behind the correlations.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put every metric of an evaluation beside the others: by judge, by aggregator, by arm.

    Writes peers.md, peers.csv, peers.parquet and peers.svg beside the evaluation's tables: means
    and paired differences of the arms with 95 % intervals and, with ratings, the rank correlation
    of each metric and voter with people.

    Examples:

      scenewright eval peers evals/peers

      scenewright eval peers evals/peers --ratings ratings.csv

    Exit codes: 0 written; 2 wrong input; 3 could not run.
    """
    with clear_errors():
        from scenewright.evals.store.results import Results
        from scenewright.evals.studies.peers.matrix import matrix_of
        from scenewright.evals.studies.peers.matrix_page import findings, write
        from scenewright.evals.studies.peers.scores import peer_scores

        scores = peer_scores(Results(folder))
        with Progress(
            TextColumn("voters"), BarColumn(), MofNCompleteColumn(),
            console=console(stderr=True), transient=True, disable=quiet or as_json,
        ) as bar:  # fmt: skip
            task = bar.add_task("voters", total=len(scores.voted))
            found = matrix_of(
                scores, ratings, resamples=resamples, seed=seed,
                told=lambda done, total: bar.update(task, completed=done),
            )  # fmt: skip
        written = write(found, out or folder)
        if as_json:
            print_json(
                {
                    "name": found.name,
                    "items": found.items,
                    "arms": list(found.arms),
                    "rated": found.rated,
                    "findings": list(findings(found)),
                    "figures": found.records(),
                    "files": [str(file) for file in written.files],
                }
            )
            return
        _show(found)
        for sentence in findings(found):
            console().print(Text(sentence))
        console().print(Text(str(written.page)), soft_wrap=True)


def _show(matrix: PeerMatrix) -> None:
    from scenewright.evals.studies.peers.matrix_page import said

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("metric", "voter"):
        table.add_column(name)
    columns = [*matrix.arms, *(["Spearman"] if matrix.rated else [])]
    for name in columns:
        table.add_column(name, justify="right")
    for line in matrix.lines:
        cells = [estimate.text(3) for estimate in line.means.values()]
        if matrix.rated:
            cells.append("–" if line.spearman is None else line.spearman.text(3))
        table.add_row(line.metric, said(line), *cells)
    if any(matrix.prompts.values()):
        read = [matrix.prompts.get(arm) for arm in matrix.arms]
        cells = ["" if one is None else one.text for one in read]
        table.add_row("prompts", "facts (tokens) dropped", *cells, *([""] if matrix.rated else []))
    console().print(table)
