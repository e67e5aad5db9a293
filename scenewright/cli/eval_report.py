"""``scenewright eval report``, ``compare`` and ``peers``: the results of evaluations."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import clear_errors, console, plain_table, print_json
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.evals.reporting.comparison import Comparison, Difference
    from scenewright.evals.reporting.facets import Facet
    from scenewright.evals.studies.peers.matrix import PeerMatrix


class Classes(StrEnum):
    """By which classes of items differences are told apart."""

    level = "level"
    group = "group"
    category = "category"
    complexity = "complexity"
    none = "none"


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `scenewright eval run` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the report goes; default: report in FOLDER.")
    ] = None,
    copy_pictures: Annotated[
        bool,
        typer.Option(
            "--copy-pictures",
            help="Copy full pictures into the report, so that it can be moved or sent.",
        ),
    ] = False,
    resamples: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Resamples for tests of differences.")
    ] = 10_000,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the static HTML report of an evaluation: tables, plots, and every item with its facts.

    The pages open from the disk, without a server or the network. Made anew, a report replaces the
    old one; small pictures that are there are kept.
    """
    again = "The old report is as it was; the same command goes on with the small pictures."
    with clear_errors(again):
        from scenewright.evals.reporting.report import build_report
        from scenewright.evals.store.results import Results

        where = console(stderr=True)
        with show_progress(where, "items", quiet or as_json, lines=False) as told:
            built = build_report(
                Results(folder), out, copy_pictures=copy_pictures, resamples=resamples,
                progress=told,
            )  # fmt: skip
        if as_json:
            print_json({"page": str(built.page), "items": built.items, "lost": built.lost})
            return
        console().print(Text(str(built.page)), soft_wrap=True)
        if built.lost:
            lost = f"{built.lost} pictures that the tables name could not be read."
            where.print(Text(lost, "yellow"), soft_wrap=True)


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            help="Evaluations or their arms: FOLDER, FOLDER:BACKEND/CONDITION or "
            "FOLDER:BACKEND/CONDITION/SEED. One folder: its arms with each other.",
        ),
    ],
    by: Annotated[
        Classes, typer.Option(help="Classes of items, besides all items.")
    ] = Classes.level,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this score; can be given again.")
    ] = None,
    panel: Annotated[
        list[str] | None, typer.Option(help="Only this panel of judges; can be given again.")
    ] = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="Also what scores are made of (objects, relations).")
    ] = False,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Compare with the first side only.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Compare what was not measured in the same way, with a note."),
    ] = False,
    resamples: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Resamples of the bootstrap.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page into this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Test the differences of arms on the items that both have scored.

    Paired bootstrap intervals, sign-flip permutation tests, and p-values corrected for the number
    of comparisons (Holm; Benjamini–Hochberg beside it).
    """
    with clear_errors():
        from scenewright.evals.reporting import comparison as compared
        from scenewright.evals.reporting.sides import open_sides, pairs_of

        found = compared.compare(
            pairs_of(open_sides(sides), baseline),
            by=None if by is Classes.none else cast("Facet", by.value),
            metrics=metric or (),
            panels=panel or (),
            parts=parts,
            force=force,
            resamples=resamples,
            seed=seed,
        )
        if html is not None:
            from scenewright.core.flushing import write_text
            from scenewright.evals.reporting.comparison_page import comparison_page

            write_text(html, comparison_page(found))
        if csv is not None:
            from scenewright.evals.reporting.tables import write_differences

            write_differences(csv, found)
        if as_json:
            print_json(_as_json(found))
            return
        _show(found, console(), console(stderr=True))


def _as_json(found: Comparison) -> dict[str, object]:
    data: dict[str, object] = found.model_dump(mode="json")
    data["differences"] = [
        {**each.model_dump(mode="json"), "significant": each.significant, "better": each.better}
        for each in found.differences
    ]
    return data


def _show(found: Comparison, out: Console, where: Console) -> None:
    from scenewright.evals.reporting.words import p_value, score, signed

    for warning in found.warnings:
        where.print(Text(f"not measured in the same way: {warning}", "yellow"), soft_wrap=True)
    for (before, after), rows in _by_pair(found.differences).items():
        out.print(Text(f"{after} − {before}", "bold"), soft_wrap=True)
        table = plain_table(
            "score", "items", "n", "before", "after", "difference", "95% interval", "d_z", "p",
            "Holm", "BH", "better",
        )  # fmt: skip
        for d in rows:
            r = d.result
            ends = "–" if r.low is None else f"{signed(r.low)} to {signed(r.high)}"
            table.add_row(
                " ".join(filter(None, (d.metric, d.part, d.panel and f"by {d.panel}"))),
                d.scope or "all",
                str(r.n),
                score(d.score_before),
                score(d.score_after),
                signed(r.mean),
                ends,
                signed(r.dz, 2),
                p_value(r.p),
                p_value(d.p_holm),
                p_value(d.p_bh),
                d.better,
            )
        out.print(table)
        for line in _remarks(rows):
            out.print(Text(line, "dim"), soft_wrap=True)
        out.print()
    for note in found.notes:
        out.print(Text(note, "dim"), soft_wrap=True)
    method = (
        f"Means over items; 95% intervals by paired bootstrap ({found.resamples:,} resamples); p "
        f"by sign flips; Holm and BH correct for all {len(found.differences)} differences."
    )
    out.print(Text(method, "dim"), soft_wrap=True)


def _by_pair(differences: tuple[Difference, ...]) -> dict[tuple[str, str], list[Difference]]:
    found: dict[tuple[str, str], list[Difference]] = {}
    for each in differences:
        found.setdefault((each.before, each.after), []).append(each)
    return found


def _remarks(rows: list[Difference]) -> list[str]:
    """Why items are left out, and which seeds were averaged."""
    lines = []
    for d in rows:
        score = " ".join(filter(None, (d.metric, d.part, d.panel and f"by {d.panel}")))
        lines += [f"{score}: {n} left out, {why}" for why, n in d.left_out.items()]
        if d.seeds and not d.scope:
            lines.append(f"{score}: {d.seeds}")
    return list(dict.fromkeys(lines))


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
        off = quiet or as_json
        with show_progress(console(stderr=True), "voters", off, lines=False) as told:
            found = matrix_of(scores, ratings, resamples=resamples, seed=seed, told=told)
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
        _show_matrix(found)
        for sentence in findings(found):
            console().print(Text(sentence))
        console().print(Text(str(written.page)), soft_wrap=True)


def _show_matrix(matrix: PeerMatrix) -> None:
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
