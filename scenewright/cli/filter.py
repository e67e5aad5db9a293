"""``scenewright real-bench filter``: keep the best pictures of each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import Exit, fail, give, print_table, run_async, say
from scenewright.cli.costs import agree
from scenewright.cli.progress import Counter, show_progress
from scenewright.cli.real_bench import WordingOption, scored_rows

if TYPE_CHECKING:
    from scenewright.core.images import ImageError
    from scenewright.evals.studies.real.filtering import Filtered, FilterPlan
    from scenewright.evals.studies.real.real_scorer import RealRow

TABLES = ("scores.jsonl", "scores.parquet")
"""Files of scores that a folder may hold."""
By = Literal["combined", "s_att", "s_rel", "s_style"]


@resumable("the same command goes on: scores are kept")
def filter_pictures(
    scores: Path,
    out: Annotated[Path, typer.Option("--out", "-o")],
    top: Annotated[int | None, typer.Option("--top", "-k", min=1)] = None,
    least: options.OptionalShare = None,
    by: By = "combined",
    per: Literal["class", "all"] = "class",
    style: str | None = None,
    schema: Annotated[Path | None, typer.Option("--schema", "-s")] = None,
    profile: options.ProfileName = None,
    judges: options.Judges = None,
    wording: WordingOption = None,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    pictures: Literal["link", "copy", "none"] = "link",
    parquet: bool = False,
    page: bool = True,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> Exit:
    """Keep the best pictures of each class by their REAL scores.

    SCORES is a file of `scenewright real-bench score`, or a folder that holds one (scores.jsonl or
    scores.parquet). With --schema it is a folder of pictures, one folder a class, that is scored
    first. OUT gets manifest.jsonl with the rank, the score and the reason of every picture, links
    to the kept ones, and a page that shows kept and dropped pictures side by side. Unscored
    pictures are never kept and never counted as 0; of identical pictures of a class one is ranked.
    No picture is changed or deleted. The same command continues an interrupted one.

    Examples of use:

      scenewright real-bench filter scores.jsonl --top 5 --out best

      scenewright real-bench filter scores.jsonl --by s_att --least 0.8 --pictures copy --out good

      scenewright real-bench filter painted/ --schema kinds.toml --style style --top 5 --out best

    Exit codes: 0 filtered; 1 filtered, but nothing is kept of some class; 2 wrong input; 3 could
    not run.

    Args:
        scores: Rows of scores, or a folder of pictures.
        out: Folder of the result.
        top: Keep at most this many of each class.
        least: Keep only pictures with at least this score.
        by: Score to rank by; combined is S_att × S_style.
        per: Rank within each class, or all pictures.
        style (FOLDER_OR_OWNER/NAME): Style scorer (`scenewright real-bench style train`) for the
            style scores.
        schema (FILE): Schemas of the classes; SCORES is then a folder of pictures to score first.
        pictures: How OUT/kept holds the kept pictures.
        parquet: Also write manifest.parquet.
        page: Write index.html.
    """
    from scenewright.evals.studies.real.filtering import (
        FilterPlan,
        file_of,
        filter_rows,
        write_filtered,
    )
    from scenewright.evals.studies.real.real_scorer import read_rows

    if top is None and least is None:
        raise fail("choose what to keep: --top K, --least X, or both")
    if schema is None and (profile or judges):
        raise fail("--profile and --judges need --schema: existing scores are not made again")
    if judges and profile:
        raise fail("give --judges or --profile, not both")
    plan = FilterPlan.model_validate({"by": by, "top": top, "least": least, "per": per})
    if schema is None:
        table = _table(scores)
    else:
        table = _score_folder(scores, out)
        scored_rows(
            (scores,),
            schema,
            table,
            profile=profile,
            judges=judges or (),
            wording=wording,
            confirm=lambda usd, models: agree(usd, limit_usd, yes, "raise --limit-usd", models),
            quiet=quiet,
        )
    rows = read_rows(table)
    files = {row.image: file_of(row, table) for row in rows}
    with show_progress("", quiet) as show:
        contents = _contents(files, show)
        if style is not None:
            rows = run_async(_styled(style, out, rows, files, contents, show))
        filtered = write_filtered(
            filter_rows(rows, plan, contents), files, out, plan,
            pictures=pictures, parquet=parquet, source=table.name, page=page,
            tell=lambda doing: show(0, 0, doing),
        )  # fmt: skip
    give(as_json, _as_json(filtered, plan, out), _show, filtered, plan, out, page)
    kept = {one.label for one in filtered if one.kept}
    complete = all(one.label in kept for one in filtered)
    return Exit.OK if complete else Exit.MISSING


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
    raise FilterError(f"{scores} does not exist: make scores with `scenewright real-bench score`")


def _score_folder(scores: Path, out: Path) -> Path:
    """Return the file for the scores of a folder of pictures, after checking the folders."""
    from scenewright.evals.studies.real.filtering import FilterError, open_folder

    if not scores.is_dir():
        raise FilterError(
            f"{scores} is not a folder of pictures: leave out --schema to filter a file of scores"
        )
    if out.resolve().is_relative_to(scores.resolve()):
        raise FilterError(
            f"{out} is inside the folder of the pictures, so that kept pictures would be scored "
            "with them: name a folder outside of it"
        )
    open_folder(out)
    return out / TABLES[0]


def _contents(files: dict[str, Path], show: Counter) -> dict[str, str | ImageError]:
    from scenewright.evals.studies.real.style import digests

    found: dict[str, str | ImageError] = {}
    for image, (_, digest) in zip(files, digests(files.values()), strict=True):
        found[image] = digest
        show(len(found), len(files), "reading the pictures")
    return found


async def _styled(
    style: str,
    out: Path,
    rows: Sequence[RealRow],
    files: dict[str, Path],
    contents: dict[str, str | ImageError],
    show: Counter,
) -> list[RealRow]:
    """Return the rows with style scores, which are stored in ``out``."""
    from scenewright.evals.studies.real.filtering import STYLE_STORE, open_folder
    from scenewright.evals.studies.real.style import StyleScorer

    open_folder(out)
    scorer = StyleScorer(style, store=out / STYLE_STORE)
    images = [image for image in files if isinstance(contents[image], str)]
    scores: dict[str, float | None] = {}
    async for one in scorer.score_files([files[image] for image in images]):
        scores[images[len(scores)]] = one.score
        show(len(scores), len(images), "scoring the style")
    return [row.with_style(scores.get(row.image)) for row in rows]


def _as_json(filtered: Sequence[Filtered], plan: FilterPlan, out: Path) -> dict[str, Any]:
    from scenewright.evals.studies.real.filtering import answer_of, classes_in_numbers

    return {
        "out": str(out),
        "answer": answer_of(filtered, plan).model_dump(),
        "plan": plan.model_dump(mode="json"),
        "pictures": len(filtered),
        "kept": sum(one.kept for one in filtered),
        "classes": classes_in_numbers(filtered),
    }


def _show(filtered: Sequence[Filtered], plan: FilterPlan, out: Path, page: bool) -> None:
    from scenewright.evals.reporting.words import score
    from scenewright.evals.studies.real.filtering import MANIFEST, PAGE, WHY, answer_of, tallies

    say(answer_of(filtered, plan).sentence, "bold")
    counts = {why: sum(one.why == why for one in filtered) for why in WHY}
    shown = [why for why in WHY if counts[why] or why == "kept"]
    found = tallies(filtered)
    print_table(
        ("class", "pictures", *(WHY[why] for why in shown), "lowest kept", "mean kept",
         "mean ranked"),
        [
            (one.label, str(one.pictures), *(str(one.counts.get(why, 0)) for why in shown),
             score(one.lowest_kept), score(one.mean_kept), score(one.mean_ranked))
            for one in found
        ],
    )  # fmt: skip
    unscored = [one for one in filtered if one.why in ("unscored", "unreadable", "changed")]
    for lost in unscored[:10]:
        say(f"{lost.why}: {lost.image}: {lost.told}", "yellow")
    if len(unscored) > 10:
        say(f"and {len(unscored) - 10} more, in the manifest", "yellow")
    if tied := sum(one.tied for one in filtered):
        chosen = sum(one.tied and one.kept for one in filtered)
        say(
            f"{tied} pictures share the score at the cut of their class: {chosen} of them are "
            "kept by a hash of their content, not by their score",
            "yellow",
        )
    say(f"{out / MANIFEST}" + (f", {out / PAGE}" if page else ""))
