"""What ``scenewright filter`` does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.text import Text

from scenewright.cli.console import Exit, console, print_json
from scenewright.cli.real_bench_progress import OnDone, show_image_progress

if TYPE_CHECKING:
    from scenewright.core.images import ImageError
    from scenewright.evals.studies.real.filtering import Filtered, FilterPlan
    from scenewright.evals.studies.real.rows import RealRow

TABLES = ("scores.jsonl", "scores.parquet")
"""Files of scores that a folder may hold."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of the command."""

    scores: Path
    """File of rows, or a folder."""
    out: Path
    """Folder of the result."""
    top: int | None
    """How many of each class."""
    least: float | None
    """Least score."""
    by: str
    """The score that ranks."""
    per: str
    """``class`` or ``all``."""
    style: str | None
    """Style scorer."""
    schema: Path | None
    """File of the schemas: score first."""
    profile: str | None
    """Whose judges."""
    judges: tuple[str, ...]
    """In place of the profile's."""
    wording: str
    """Of the questions."""
    limit_usd: float
    """Dollars above which to ask."""
    yes: bool
    """Do not ask."""
    pictures: str
    """``link``, ``copy`` or ``none``."""
    parquet: bool
    """Also as parquet."""
    page: bool
    """Write the page."""
    quiet: bool
    """No progress."""
    as_json: bool
    """Counts as JSON."""


def run(wanted: Wanted) -> Exit:
    """Score if that is asked for, filter, write and show; the exit code."""
    from scenewright.evals.studies.real.filter_writing import file_of, write_filtered
    from scenewright.evals.studies.real.filtering import FilterPlan, filter_rows
    from scenewright.evals.studies.real.rows import read_rows

    plan = FilterPlan.model_validate(
        {"by": wanted.by, "top": wanted.top, "least": wanted.least, "per": wanted.per}
    )
    table = _scored(wanted) if wanted.schema is not None else _table(wanted.scores)
    rows = read_rows(table)
    files = {row.image: file_of(row, table) for row in rows}
    with show_image_progress(wanted.quiet) as show:
        contents = _contents(files, show)
        if wanted.style is not None:
            rows = asyncio.run(_styled(wanted, rows, files, contents, show))
        filtered = filter_rows(rows, plan, contents)
        filtered = write_filtered(
            filtered, files, wanted.out, plan,
            pictures=cast(Any, wanted.pictures), parquet=wanted.parquet, source=table.name,
            page=wanted.page, tell=lambda doing: show(doing, 0, 0, ""),
        )  # fmt: skip
    if wanted.as_json:
        print_json(_as_json(filtered, plan, wanted))
    else:
        _show(filtered, wanted)
    kept = {one.label for one in filtered if one.kept}
    return Exit.OK if all(one.label in kept for one in filtered) else Exit.MISSING


def _table(scores: Path) -> Path:
    from scenewright.evals.studies.real.filtering import FilterError

    if scores.is_file():
        return scores
    for name in TABLES:
        if (scores / name).is_file():
            return scores / name
    if scores.is_dir():
        raise FilterError(
            f"{scores} holds neither {' nor '.join(TABLES)}: to score its pictures first, add "
            "--schema FILE"
        )
    raise FilterError(f"there are no scores {scores}: `scenewright real-bench score` makes them")


def _scored(wanted: Wanted) -> Path:
    """Score the pictures of the folder; rows that are there are kept."""
    from scenewright.cli.real_bench_score import Wanted as Scoring
    from scenewright.cli.real_bench_score import scored
    from scenewright.evals.studies.real.filter_writing import open_folder
    from scenewright.evals.studies.real.filtering import FilterError

    assert wanted.schema is not None
    if not wanted.scores.is_dir():
        raise FilterError(
            f"{wanted.scores} is no folder of pictures: leave --schema away to filter a file of "
            "scores"
        )
    if wanted.out.resolve().is_relative_to(wanted.scores.resolve()):
        raise FilterError(
            f"{wanted.out} lies in the folder of the pictures, and what is kept would be scored "
            "with them: name a folder outside of it"
        )
    open_folder(wanted.out)
    file = wanted.out / TABLES[0]
    scored(
        Scoring(
            pictures=(wanted.scores,), schema=wanted.schema, label=None, profile=wanted.profile,
            judges=wanted.judges, wording=wanted.wording, asking=None, style=None, out=file,
            store=None, at_once=16, limit_usd=wanted.limit_usd, yes=wanted.yes,
            quiet=wanted.quiet, as_json=False,
        )
    )  # fmt: skip
    return file


def _contents(files: dict[str, Path], show: OnDone) -> dict[str, str | ImageError]:
    from scenewright.evals.studies.real.pixels import digests

    found: dict[str, str | ImageError] = {}
    for image, (_, digest) in zip(files, digests(files.values()), strict=True):
        found[image] = digest
        show("reading the pictures", len(found), len(files), "")
    return found


async def _styled(
    wanted: Wanted,
    rows: Sequence[RealRow],
    files: dict[str, Path],
    contents: dict[str, str | ImageError],
    show: OnDone,
) -> list[RealRow]:
    """The rows with the scorer's scores of style, which are kept beside the result."""
    from scenewright.evals.studies.real.filter_writing import STYLE_STORE, open_folder
    from scenewright.evals.studies.real.style import StyleScorer

    assert wanted.style is not None
    open_folder(wanted.out)
    scorer = StyleScorer(wanted.style, store=wanted.out / STYLE_STORE)
    images = [image for image in files if isinstance(contents[image], str)]
    scores: dict[str, float | None] = {}
    found = scorer.score_files([files[image] for image in images])
    async for one in found:
        scores[images[len(scores)]] = one.score
        show("scoring the style", len(scores), len(images), "")
    return [row.with_style(scores.get(row.image)) for row in rows]


def _as_json(filtered: Sequence[Filtered], plan: FilterPlan, wanted: Wanted) -> dict[str, Any]:
    from scenewright.evals.studies.real.filtering import tallies

    return {
        "out": str(wanted.out),
        "plan": plan.model_dump(mode="json"),
        "pictures": len(filtered),
        "kept": sum(one.kept for one in filtered),
        "classes": {
            one.label: {
                "pictures": one.pictures,
                "counts": dict(one.counts),
                "lowest_kept": one.lowest,
                "mean_kept": one.mean_kept,
                "mean_ranked": one.mean_scored,
                "tied_at_the_cut": one.tied,
            }
            for one in tallies(filtered)
        },
    }


def _show(filtered: Sequence[Filtered], wanted: Wanted) -> None:
    from scenewright.cli.tables import plain_table
    from scenewright.evals.reporting.words import score
    from scenewright.evals.studies.real.filter_page import PAGE
    from scenewright.evals.studies.real.filter_writing import MANIFEST
    from scenewright.evals.studies.real.filtering import WHY, tallies

    where = console()
    counts = {why: sum(one.why == why for one in filtered) for why in WHY}
    shown = [why for why in WHY if counts[why] or why == "kept"]
    heads = [WHY[why] for why in shown]
    table = plain_table("class", "pictures", *heads, "lowest kept", "mean kept", "mean ranked")
    for one in tallies(filtered):
        table.add_row(
            Text(one.label),
            str(one.pictures),
            *(str(one.counts.get(why, 0)) for why in shown),
            score(one.lowest),
            score(one.mean_kept),
            score(one.mean_scored),
        )
    where.print(table)
    unscored = [one for one in filtered if one.why in ("unscored", "unreadable", "changed")]
    for lost in unscored[:10]:
        where.print(Text(f"{lost.why}: {lost.image}: {lost.told}", "yellow"), soft_wrap=True)
    if len(unscored) > 10:
        where.print(Text(f"and {len(unscored) - 10} more, in the manifest", "yellow"))
    if tied := sum(one.tied for one in filtered):
        chosen = sum(one.tied and one.kept for one in filtered)
        where.print(
            Text(
                f"{tied} pictures share the score at the cut of their class: {chosen} of them are "
                "kept by a hash of their content, not by their score",
                "yellow",
            ),
            soft_wrap=True,
        )
    where.print(
        Text(
            f"{counts['kept']} of {len(filtered)} pictures kept. {wanted.out / MANIFEST}"
            + (f", {wanted.out / PAGE}" if wanted.page else "")
        ),
        soft_wrap=True,
    )
