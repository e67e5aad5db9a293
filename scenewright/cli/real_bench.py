"""``scenewright real-bench``: realism of attributes, relations and style (REAL)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, fail
from scenewright.cli.costs import YesOption
from scenewright.cli.real_bench_schema import app as schema
from scenewright.cli.real_bench_style import app as style

app = typer.Typer(
    no_args_is_help=True,
    help="How real pictures look and whether they are fit to train on: attributes, relations and "
    "style (REAL).",
)
app.add_typer(schema, name="schema")
app.add_typer(style, name="style")

SCORE_HELP = (
    "Score pictures by the attributes and relations of their class.\n\n"
    "A picture's class is the name of its folder, or --class. The judges of the profile, or "
    "--judges, are asked whether each part can be seen and then whether it is as described. "
    "Answers and rows are kept: started again, only what is new or was not answered is asked "
    "for.\n\n"
    "Examples:\n\n"
    "  scenewright real-bench score generated/ --schema birds.json --judges openai:gpt-6.1-terra "
    "--out scores.jsonl\n\n"
    '  scenewright real-bench score a.png b.png --schema birds.json --class "Laysan Albatross"\n\n'
    "  scenewright real-bench score painted/ --schema kinds.toml --profile miniature "
    "--wording plain\n\n"
    "Exit codes: 0 scored; 2 wrong input; 3 could not run; 4 some pictures have no score."
)


@app.command(help=SCORE_HELP)
def score(
    pictures: Annotated[
        list[Path],
        typer.Argument(
            metavar="PICTURE...", help="Picture files, or folders of them.", show_default=False
        ),
    ],
    schema_file: Annotated[
        Path,
        typer.Option(
            "--schema",
            "-s",
            metavar="FILE",
            help="Schemas of the classes, JSON or TOML.",
            show_default=False,
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(
            "--class",
            "-c",
            metavar="NAME",
            help="Class of all pictures; default: each picture's folder.",
            show_default=False,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", "-p", help="Whose judges are asked (default: yours).", show_default=False
        ),
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
        str,
        typer.Option(
            "--wording", help="published (as REAL asks), or plain (for judges with few words)."
        ),
    ] = "published",
    asking: Annotated[
        str | None,
        typer.Option(
            "--asking",
            help="waves (what is not visible is not asked further) or together (one call); "
            "default: the profile's.",
            show_default=False,
        ),
    ] = None,
    weighting: Annotated[
        str,
        typer.Option(
            "--weighting",
            help="How answers count in S_att: by their probability, or hard as in the paper.",
        ),
    ] = "probability",
    style: Annotated[
        Path | None,
        typer.Option(
            "--style",
            metavar="FOLDER",
            help="Style scorer (`scenewright real-bench style train`); adds the combined score.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.jsonl",
            help="Rows of scores, which `scenewright filter` reads; FILE.parquet writes parquet "
            "beside FILE.jsonl.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FILE",
            help="Where answers are kept; default: in your own folder.",
            show_default=False,
        ),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="Pictures looked at side by side.")
    ] = 16,
    limit_usd: Annotated[
        float, typer.Option("--limit-usd", min=0.0, help="Ask above so many dollars.")
    ] = 5.0,
    yes: YesOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows as JSON instead of a table.")
    ] = False,
) -> None:
    """Score pictures by the attributes and relations of their class."""
    with clear_errors("the same command goes on: what was answered is kept"):
        from scenewright.cli.real_bench_score import Wanted, run

        if judges and profile:
            raise fail("give --judges or --profile, not both", Exit.USAGE)
        for name, value, known in (
            ("--wording", wording, ("published", "plain")),
            ("--asking", asking or "waves", ("waves", "together")),
            ("--weighting", weighting, ("probability", "hard")),
        ):
            if value not in known:
                raise fail(f"{name} {value}: use {' or '.join(known)}", Exit.USAGE)
        wanted = Wanted(
            tuple(pictures), schema_file, label, profile, tuple(judges or ()), wording, asking,
            style, out, store, at_once, limit_usd, yes, quiet, as_json, weighting,
        )  # fmt: skip
        raise typer.Exit(int(run(wanted)))


@app.command()
def agree(
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES", help="Rows of `scenewright real-bench score`.")
    ],
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="CSV or JSON lines: image and label (a number), or image, question and answer "
            "(yes or no), one line a person.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare scores with people's labels: Spearman's and Kendall's rank correlations.

    A picture is known by its path as in SCORES, or by its file name where that is the only one of
    its kind.

    Example:

      scenewright real-bench agree scores.jsonl people.csv

    Exit codes: 0 compared; 2 wrong input.
    """
    with clear_errors():
        from scenewright.cli.real_bench_score import print_agreement

        print_agreement(scores, labels, as_json)
