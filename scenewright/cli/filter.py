"""``scenewright filter``: keep the best pictures of each class, and show why others went."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    fail,
    plain_table,
    print_json,
    quiet_libraries,
)
from scenewright.cli.options import JsonOption, QuietOption, YesOption
from scenewright.cli.progress import Counter, show_progress

if TYPE_CHECKING:
    from scenewright.core.images import ImageError
    from scenewright.evals.studies.real.filtering import Filtered, FilterPlan
    from scenewright.evals.studies.real.rows import RealRow

HELP = (
    "Keep the best pictures of each class by their REAL scores.\n\n"
    "SCORES is a file of `scenewright real-bench score`, or a folder that holds one (scores.jsonl "
    "or scores.parquet). With --schema it is a folder of pictures, one folder a class, that is "
    "scored first. OUT gets manifest.jsonl with the rank, the score and the reason of every "
    "picture, links to the kept ones, and a page that shows kept and dropped side by side. "
    "Unscored pictures are never kept and never counted as 0; of equal pictures of a class one is "
    "ranked. No picture is changed or deleted. Started again it goes on.\n\n"
    "Examples:\n\n"
    "  scenewright filter scores.jsonl --top 5 --out best\n\n"
    "  scenewright filter scores.jsonl --by s_att --least 0.8 --pictures copy --out good\n\n"
    "  scenewright filter painted/ --schema kinds.toml --style style --top 5 --out best\n\n"
    "Exit codes: 0 filtered; 1 filtered, but nothing is kept of some class; 2 wrong input; 3 could "
    "not run."
)


def filter_pictures(
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES", help="Rows of scores, or a folder of pictures.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the result.", show_default=False)
    ],
    top: Annotated[
        int | None,
        typer.Option(
            "--top", "-k", min=1, help="Keep at most so many of each class.", show_default=False
        ),
    ] = None,
    least: Annotated[
        float | None,
        typer.Option("--least", min=0.0, max=1.0, help="Least score.", show_default=False),
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="combined (S_att × S_style), s_att, s_rel or s_style.")
    ] = "combined",
    per: Annotated[
        str, typer.Option("--per", help="Rank within each class, or all pictures: class or all.")
    ] = "class",
    style: Annotated[
        str | None,
        typer.Option(
            "--style",
            metavar="FOLDER_OR_OWNER/NAME",
            help="Style scorer (`scenewright real-bench style train`) whose scores are taken.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE",
            help="Schemas of the classes: SCORES is a folder of pictures, and is scored first.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", help="Whose judges score.", show_default=False),
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judges",
            "-j",
            metavar="ACCOUNT:MODEL,…",
            help="Judges in place of the profile's.",
            show_default=False,
        ),
    ] = None,
    wording: Annotated[
        str, typer.Option("--wording", help="Of the questions: published or plain.")
    ] = "published",
    limit_usd: Annotated[
        float, typer.Option("--limit-usd", min=0.0, help="Ask above so many dollars.")
    ] = 5.0,
    yes: YesOption = False,
    pictures: Annotated[
        str,
        typer.Option("--pictures", help="Kept pictures in OUT/kept: link, copy or none."),
    ] = "link",
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also write manifest.parquet.")
    ] = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write index.html.")] = True,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the best pictures of each class by their REAL scores."""
    quiet_libraries()
    with clear_errors("the same command goes on: what is scored is kept"):
        pass

        for name, value, known in (
            ("--by", by, ("combined", "s_att", "s_rel", "s_style")),
            ("--per", per, ("class", "all")),
            ("--pictures", pictures, ("link", "copy", "none")),
            ("--wording", wording, ("published", "plain")),
        ):
            if value not in known:
                raise fail(f"{name} {value}: use {', '.join(known)}", Exit.USAGE)
        if top is None and least is None:
            raise fail("say what is kept: --top K, --least X, or both", Exit.USAGE)
        if schema is None and (profile or judges):
            raise fail(
                "--profile and --judges need --schema: scores that are there are not made anew",
                Exit.USAGE,
            )
        if judges and profile:
            raise fail("give --judges or --profile, not both", Exit.USAGE)
        wanted = Wanted(
            scores, out, top, least, by, per, style, schema, profile, tuple(judges or ()), wording,
            limit_usd, yes, pictures, parquet, page, quiet, as_json,
        )  # fmt: skip
        raise typer.Exit(int(run(wanted)))


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
    with show_progress(console(stderr=True), "", wanted.quiet) as show:
        contents = _contents(files, show)
        if wanted.style is not None:
            rows = asyncio.run(_styled(wanted, rows, files, contents, show))
        filtered = filter_rows(rows, plan, contents)
        filtered = write_filtered(
            filtered, files, wanted.out, plan,
            pictures=cast(Any, wanted.pictures), parquet=wanted.parquet, source=table.name,
            page=wanted.page, tell=lambda doing: show(0, 0, doing),
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
    from scenewright.cli.real_bench import Wanted as Scoring
    from scenewright.cli.real_bench import scored
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


def _contents(files: dict[str, Path], show: Counter) -> dict[str, str | ImageError]:
    from scenewright.evals.studies.real.pixels import digests

    found: dict[str, str | ImageError] = {}
    for image, (_, digest) in zip(files, digests(files.values()), strict=True):
        found[image] = digest
        show(len(found), len(files), "reading the pictures")
    return found


async def _styled(
    wanted: Wanted,
    rows: Sequence[RealRow],
    files: dict[str, Path],
    contents: dict[str, str | ImageError],
    show: Counter,
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
        show(len(scores), len(images), "scoring the style")
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
