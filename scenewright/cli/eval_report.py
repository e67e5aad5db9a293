"""``scenewright eval report``, ``compare`` and ``peers``: results of evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import give, note, print_json, print_table, say
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.evals.reporting.comparison import Comparison, Difference
    from scenewright.evals.studies.peers.matrix import PeerMatrix


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
    if as_json:
        answer = built.answer
        print_json(
            {
                "page": str(built.page),
                "items": built.items,
                "lost": built.lost,
                "answer": None if answer is None else answer.model_dump(),
            }
        )
        return
    if built.answer is not None and not quiet:
        note(built.answer.sentence)
    say(str(built.page))
    if built.lost:
        note(f"{built.lost} pictures of the tables could not be read.", "yellow")


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
        from scenewright.evals.reporting.comparison import comparison_page

        write_text(html, comparison_page(found))
    if csv is not None:
        from scenewright.evals.reporting.grids import write_differences

        write_differences(csv, found)
    give(as_json, _as_json(found), _show, found)


def _as_json(found: Comparison) -> dict[str, object]:
    from scenewright.evals.statistics.answers import difference_answer

    data: dict[str, object] = {"answer": found.answer.model_dump(), **found.model_dump(mode="json")}
    data["differences"] = [
        {
            **each.model_dump(mode="json"),
            "significant": each.significant,
            "better": each.better,
            "answer": difference_answer(found.contrast(each)).model_dump(),
        }
        for each in found.differences
    ]
    return data


def _show(found: Comparison) -> None:
    from scenewright.evals.reporting.words import p_value, score, signed

    for warning in found.warnings:
        note(f"measured differently: {warning}", "yellow")
    say(found.answer.sentence, "bold")
    say("")
    heads = (
        *("score", "items", "n", "before", "after", "difference", "95% interval", "d_z", "p"),
        *("Holm", "BH", "better"),
    )
    for (before, after), differences in _by_pair(found.differences).items():
        say(f"{after} − {before}", "bold")
        rows = []
        for d in differences:
            r = d.result
            ends = "–" if r.low is None else f"{signed(r.low)} to {signed(r.high)}"
            scores = (score(d.score_before), score(d.score_after), signed(r.mean))
            p_values = (p_value(r.p), p_value(d.p_holm), p_value(d.p_bh))
            name, items = _score_name(d), d.scope or "all"
            rows.append(
                (name, items, str(r.n), *scores, ends, signed(r.dz, 2), *p_values, d.better)
            )
        print_table(heads, rows)
        for line in _remarks(differences):
            say(line, "dim")
        say("")
    for line in found.notes:
        say(line, "dim")
    say(
        f"Means over items; 95% intervals by paired bootstrap ({found.resamples:,} resamples); p "
        f"by sign flips. {found.correction}.",
        "dim",
    )


def _score_name(d: Difference) -> str:
    return " ".join(filter(None, (d.metric, d.part, d.panel and f"by {d.panel}")))


def _by_pair(differences: tuple[Difference, ...]) -> dict[tuple[str, str], list[Difference]]:
    found: dict[tuple[str, str], list[Difference]] = {}
    for each in differences:
        found.setdefault((each.before, each.after), []).append(each)
    return found


def _remarks(rows: list[Difference]) -> list[str]:
    """Return why items are left out, and which seeds were averaged."""
    lines = []
    for d in rows:
        score = _score_name(d)
        lines += [f"{score}: {n} left out, {why}" for why, n in d.left_out.items()]
        if d.seeds and not d.scope:
            lines.append(f"{score}: {d.seeds}")
    return list(dict.fromkeys(lines))


def peers(
    folder: options.EvalFolder,
    ratings: Path | None = None,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
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
    from scenewright.evals.studies.peers.matrix import findings, matrix_of, peer_scores, write

    scores = peer_scores(Results(folder))
    off = quiet or as_json
    with show_progress("voters", off, lines=False) as show:
        found = matrix_of(scores, ratings, resamples=resamples, seed=seed, on_progress=show)
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
        say(sentence)
    say(str(written.page))


def _show_matrix(matrix: PeerMatrix) -> None:
    from scenewright.evals.studies.peers.matrix import said

    rows = []
    for line in matrix.lines:
        cells = [estimate.text(3) for estimate in line.means.values()]
        if matrix.rated:
            cells.append("–" if line.spearman is None else line.spearman.text(3))
        rows.append((line.metric, said(line), *cells))
    last = ["Spearman"] if matrix.rated else []
    if any(matrix.prompts.values()):
        read = [matrix.prompts.get(arm) for arm in matrix.arms]
        dropped = ["" if one is None else one.text for one in read]
        rows.append(("prompts", "facts (tokens) dropped", *dropped, *("" for _ in last)))
    print_table(("metric", "voter", *(f">{name}" for name in (*matrix.arms, *last))), rows)
