"""``scenewright filter``: keep the best pictures of each class, and show why others went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, fail, quiet_libraries
from scenewright.cli.costs import YesOption
from scenewright.cli.refine import JsonOption

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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the best pictures of each class by their REAL scores."""
    quiet_libraries()
    with clear_errors("the same command goes on: what is scored is kept"):
        from scenewright.cli.filter_run import Wanted, run

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
