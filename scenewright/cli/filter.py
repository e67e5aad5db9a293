"""``scenewright real-bench filter``: keep the best pictures of each class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scenewright.cli import options
from scenewright.cli.app import resumable
from scenewright.cli.console import Exit, fail, print_json, print_table, run_async, say
from scenewright.cli.costs import agree
from scenewright.cli.progress import show_progress
from scenewright.cli.real_bench import WordingOption, scored_rows
from scenewright.evals.reporting.words import score

if TYPE_CHECKING:
    from scenewright.core.images import ImageError
    from scenewright.evals.studies.real.filtering import Filtered

TABLES = ("scores.jsonl", "scores.parquet")
"""Files of scores that a folder may hold."""
By = Literal["combined", "s_att", "s_rel", "s_style"]


@resumable("the same command goes on: scores are kept")
def filter_pictures(
    scores: Path,
    out: options.Out,
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
    from scenewright.evals.studies.real import filtering
    from scenewright.evals.studies.real.real_scorer import read_rows
    from scenewright.evals.studies.real.style import StyleScorer, digests

    if top is None and least is None:
        raise fail("choose what to keep: --top K, --least X, or both")
    if schema is None and (profile or judges):
        raise fail("--profile and --judges need --schema: existing scores are not made again")
    plan = filtering.FilterPlan.model_validate({"by": by, "top": top, "least": least, "per": per})
    if schema is not None:
        if not scores.is_dir():
            raise filtering.FilterError(
                f"{scores} is not a folder of pictures: leave out --schema to filter a file of "
                "scores"
            )
        if out.resolve().is_relative_to(scores.resolve()):
            raise filtering.FilterError(
                f"{out} is inside the folder of the pictures, so that kept pictures would be "
                "scored with them: name a folder outside of it"
            )
        filtering.open_folder(out)
        table = out / TABLES[0]
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
    elif not scores.exists():
        raise filtering.FilterError(
            f"{scores} does not exist: make scores with `scenewright real-bench score`"
        )
    else:
        places = [scores] if scores.is_file() else [scores / name for name in TABLES]
        found = [place for place in places if place.is_file()]
        if not found:
            raise filtering.FilterError(
                f"{scores} holds neither {' nor '.join(TABLES)}: to score its pictures first, add "
                "--schema FILE"
            )
        table = found[0]
    rows = read_rows(table)
    files = {row.image: filtering.file_of(row, table) for row in rows}
    with show_progress("", quiet) as show:
        contents: dict[str, str | ImageError] = {}
        for image, (_, digest) in zip(files, digests(files.values()), strict=True):
            contents[image] = digest
            show(len(contents), len(files), "reading the pictures")

        async def score_styles(spec: str) -> dict[str, float | None]:
            filtering.open_folder(out)
            scorer = StyleScorer(spec, store=out / filtering.STYLE_STORE)
            images = [image for image in files if isinstance(contents[image], str)]
            values: dict[str, float | None] = {}
            async for one in scorer.score_files([files[image] for image in images]):
                values[images[len(values)]] = one.score
                show(len(values), len(images), "scoring the style")
            return values

        if style is not None:
            styles = run_async(score_styles(style))
            rows = [row.with_style(styles.get(row.image)) for row in rows]
        filtered = filtering.write_filtered(
            filtering.filter_rows(rows, plan, contents), files, out, plan,
            pictures=pictures, parquet=parquet, source=table.name, page=page,
            tell=lambda doing: show(0, 0, doing),
        )  # fmt: skip
    answer, kept = filtering.answer_of(filtered, plan), [one for one in filtered if one.kept]
    if as_json:
        print_json(
            {
                "out": str(out),
                "answer": answer,
                "plan": plan,
                "pictures": len(filtered),
                "kept": len(kept),
                "classes": filtering.classes_in_numbers(filtered),
            }
        )
    else:
        _print_filtered(filtered, answer.sentence)
        say(f"{out / filtering.MANIFEST}" + (f", {out / filtering.PAGE}" if page else ""))
    complete = {one.label for one in filtered} == {one.label for one in kept}
    return Exit.OK if complete else Exit.MISSING


def _print_filtered(filtered: Sequence[Filtered], sentence: str) -> None:
    from scenewright.evals.studies.real.filtering import WHY, tallies

    say(sentence, "bold")
    shown = {
        why: title
        for why, title in WHY.items()
        if why == "kept" or any(one.why == why for one in filtered)
    }
    print_table(
        ("class", "pictures", *shown.values(), "lowest kept", "mean kept", "mean ranked"),
        [
            (one.label, str(one.pictures), *(str(one.counts.get(why, 0)) for why in shown),
             score(one.lowest_kept), score(one.mean_kept), score(one.mean_ranked))
            for one in tallies(filtered)
        ],
    )  # fmt: skip
    unscored = [one for one in filtered if one.why in ("unscored", "unreadable", "changed")]
    for lost in unscored[:10]:
        say(f"{lost.why}: {lost.image}: {lost.told}", "yellow")
    if len(unscored) > 10:
        say(f"and {len(unscored) - 10} more, in the manifest", "yellow")
    if tied := sum(one.tied for one in filtered):
        say(
            f"{tied} pictures share the score at the cut of their class: "
            f"{sum(one.tied and one.kept for one in filtered)} of them are kept by a hash of "
            "their content, not by their score",
            "yellow",
        )
