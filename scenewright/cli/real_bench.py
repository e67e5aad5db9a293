"""``scenewright real-bench``: realism of attributes, relations and style (REAL)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from scenewright.cli import costs
from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    fail,
    plain_table,
    print_json,
    quiet_libraries,
)
from scenewright.cli.options import QuietOption, YesOption
from scenewright.cli.progress import show_progress
from scenewright.cli.real_bench_schema import app as schema
from scenewright.cli.real_bench_style import app as style

if TYPE_CHECKING:
    from PIL import Image

    from scenewright.evals.studies.real.real_scorer import Picture, RealScorer, Style
    from scenewright.evals.studies.real.rows import RealRow
    from scenewright.evals.studies.real.schema_files import ClassSchema

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
    quiet: QuietOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the rows as JSON instead of a table.")
    ] = False,
) -> None:
    """Score pictures by the attributes and relations of their class."""
    with clear_errors("the same command goes on: what was answered is kept"):
        pass

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
        pass

        print_agreement(scores, labels, as_json)


_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of the command."""

    pictures: tuple[Path, ...]
    """Files and folders."""
    schema: Path
    """File of the schemas."""
    label: str | None
    """Class of all pictures."""
    profile: str | None
    """Whose judges."""
    judges: tuple[str, ...]
    """In place of the profile's."""
    wording: str
    """``published`` or ``plain``."""
    asking: str | None
    """``waves`` or ``together``; None: the profile's."""
    style: Path | None
    """Folder of the style scorer."""
    out: Path | None
    """File of the rows."""
    store: Path | None
    """File of the answers."""
    at_once: int
    """Pictures side by side."""
    limit_usd: float
    """Dollars above which to ask."""
    yes: bool
    """Do not ask."""
    quiet: bool
    """No progress."""
    as_json: bool
    """Rows as JSON."""
    weighting: str = "probability"
    """``probability`` or ``hard``: how answers count in S_att."""


def run(wanted: Wanted) -> Exit:
    """Score the pictures, print and write the rows; the exit code."""
    rows = scored(wanted)
    if wanted.as_json:
        print_json([row.model_dump(mode="json") for row in rows])
    else:
        _print(rows, wanted.out)
    return Exit.UNJUDGED if any(row.base is None for row in rows) else Exit.OK


def scored(wanted: Wanted) -> list[RealRow]:
    """Score the pictures and write the rows."""
    from scenewright.cli.judges_asking import run_and_free
    from scenewright.evals.studies.real.rows import PARQUET, write_rows
    from scenewright.evals.studies.real.schema_files import read_schemas

    schemas = read_schemas(wanted.schema)
    pictures = _pictures(wanted, schemas)
    out = wanted.out
    if out is not None and out.suffix not in (".jsonl", PARQUET):
        raise fail(f"--out {out}: name a file that ends in .jsonl or .parquet", Exit.USAGE)
    quiet_libraries()
    journal = out.with_suffix(".jsonl") if out is not None else None
    rows = run_and_free(_score(wanted, pictures, schemas, journal))
    if out is not None and out.suffix == PARQUET:
        write_rows(out, rows)
    return rows


def _pictures(wanted: Wanted, schemas: dict[str, ClassSchema]) -> list[Picture]:
    from scenewright.evals.studies.real.pixels import pictures_in
    from scenewright.evals.studies.real.real_scorer import Picture
    from scenewright.evals.studies.real.schema import SchemaError

    found: dict[Path, Picture] = {}
    for place in wanted.pictures:
        for file in pictures_in(place) if place.is_dir() else [place]:
            label = wanted.label or file.absolute().parent.name
            found.setdefault(file, Picture(file, label))
    if not found:
        raise SchemaError(f"no pictures in {', '.join(map(str, wanted.pictures))}")
    unknown = sorted({picture.label for picture in found.values()} - set(schemas))
    if unknown:
        raise SchemaError(
            f"{wanted.schema} has no class {', '.join(map(repr, unknown[:5]))}: it has "
            f"{', '.join(map(repr, list(schemas)[:5]))}. Name the folder of each picture after its "
            "class, or give --class"
        )
    return list(found.values())


async def _score(
    wanted: Wanted,
    pictures: list[Picture],
    schemas: dict[str, ClassSchema],
    journal: Path | None,
) -> list[RealRow]:
    from scenewright.agents.panel.panel import Panel
    from scenewright.cli.judges_asking import profile_of, split, store_of
    from scenewright.config.settings import Asking, load_settings
    from scenewright.evals.studies.real.questions import Wording
    from scenewright.evals.studies.real.real_scorer import RealScorer, score_pictures
    from scenewright.evals.studies.real.scoring import Weighting
    from scenewright.providers import AnswerStore
    from scenewright.runs.model_factory.profiles import panel_of

    settings = load_settings()
    profile = None if wanted.judges else profile_of(wanted.profile, settings)
    specs = split(wanted.judges) if profile is None else list(profile.judges)
    judges = await panel_of(specs, settings=settings)
    default = "waves" if profile is None else profile.asking
    place = store_of(wanted.store, None)
    place.parent.mkdir(parents=True, exist_ok=True)
    where = console(stderr=True)
    with closing(AnswerStore(place)) as store:
        scorer = RealScorer(
            judges,
            store,
            panel=Panel() if profile is None else Panel.of(profile, judges),
            wording=cast("Wording", wanted.wording),
            asking=cast("Asking", wanted.asking or default),
            weighting=cast("Weighting", wanted.weighting),
            limit=settings.judge_timeout,
        )
        _costs(wanted, scorer, pictures, schemas, place)
        style = None if wanted.style is None else _style(wanted.style)
        with show_progress(where, "looking", wanted.quiet, lines=False) as told:
            done, spent = 0, 0.0

            def scored_one(row: RealRow, kept: bool) -> None:
                nonlocal done, spent
                done += 1
                spent += 0.0 if kept else row.usd
                told(done, len(pictures), more=f"{spent:.2f} USD")

            return await score_pictures(
                scorer, pictures, schemas, journal,
                style=style, at_once=wanted.at_once, told=scored_one,
            )  # fmt: skip


def _style(folder: Path) -> Style:
    from scenewright.evals.studies.real.style import StyleScorer

    scorer = StyleScorer(folder)

    async def graded(image: Image.Image) -> float | None:
        return (await scorer.score([image]))[0]

    return graded


def _costs(
    wanted: Wanted,
    scorer: RealScorer,
    pictures: list[Picture],
    schemas: dict[str, ClassSchema],
    store: Path,
) -> None:
    """Say what the calls may cost at most, and ask above the limit."""
    from scenewright.core.images import ImageError, load_image
    from scenewright.evals.reporting.words import dollars

    usd: float | None = 0.0
    calls = questions = 0
    sizes: dict[str, tuple[int, int]] = {}
    for picture in pictures:
        facts = scorer.questions(schemas[picture.label]).facts
        questions += len(facts) * len(scorer.judges)
        if picture.label not in sizes:
            try:
                sizes[picture.label] = load_image(picture.path).size
            except ImageError:
                continue
        for judge in scorer.judges:
            estimate = getattr(judge, "expected", None)
            if estimate is not None:
                # Pictures of a class are taken to be as large as its first one.
                found = estimate(sizes[picture.label], facts)
                calls += found.calls
                usd = None if usd is None or found.usd is None else usd + found.usd
    if not wanted.quiet:
        price = "of unknown price" if usd is None else f"about {dollars(usd)} at most"
        paid = f", {calls} calls or a few more, {price}" if calls else ""
        line = (
            f"{len(pictures)} pictures, at most {questions} questions{paid}; "
            f"answers are kept in {store}"
        )
        console(stderr=True).print(Text(line), soft_wrap=True)
    costs.agree(usd or 0.0, wanted.limit_usd, wanted.yes, "raise --limit-usd")


def _print(rows: list[RealRow], out: Path | None) -> None:
    from scenewright.evals.reporting.words import dollars
    from scenewright.evals.reporting.words import score as number

    where = console()
    styled = any(row.s_style is not None for row in rows)
    heads = ["picture", "class", "S_att", "visible", "S_rel"]
    table = plain_table(*heads, *(["style", "combined"] if styled else []), "not as described")
    table.columns[-1].no_wrap = False
    for row in rows[:_SHOWN]:
        seen = f"{row.visible}/{row.attributes}" if row.attributes else ""
        wrong = [*(f"no {part}" for part in row.invisible), *row.wrong]
        if row.unscored or row.reason:
            wrong.append(f"{row.unscored} unscored: {row.reason}" if row.unscored else row.reason)
        cells = [Path(row.image).name, row.label, number(row.s_att), seen, number(row.s_rel)]
        cells += [number(row.s_style), number(row.combined)] if styled else []
        table.add_row(*map(Text, (*cells, "; ".join(wrong))))
    where.print(table)
    if len(rows) > _SHOWN:
        where.print(Text(f"… and {len(rows) - _SHOWN} more: --out or --json gives all"))
    where.print()
    classes = plain_table("class", "pictures", "scored", "mean")
    for label in sorted({row.label for row in rows}):
        inside = [row for row in rows if row.label == label]
        known = [row.base for row in inside if row.base is not None]
        mean = number(sum(known) / len(known) if known else None)
        classes.add_row(Text(label), str(len(inside)), str(len(known)), mean)
    where.print(classes)
    tokens, usd = sum(row.tokens for row in rows), sum(row.usd for row in rows)
    seconds = sum(row.seconds for row in rows) / len(rows)
    where.print()
    where.print(
        Text(f"a picture: {tokens / len(rows):,.0f} tokens, {dollars(usd / len(rows))}, "
             f"{seconds:.1f} s; in all {dollars(usd)}"),
        soft_wrap=True,
    )  # fmt: skip
    if out is not None:
        where.print(Text(f"wrote {out}"), soft_wrap=True)


def print_agreement(scores: Path, labels: Path, as_json: bool) -> None:
    """Compare rows with people's labels and print what comes out."""
    from collections import Counter

    from scenewright.evals.studies.real.agreement import agreement, read_labels
    from scenewright.evals.studies.real.rows import read_rows
    from scenewright.evals.studies.real.schema import SchemaError

    rows, people = read_rows(scores), read_labels(labels)
    names = Counter(Path(row.image).name for row in rows)
    keys: dict[str, str] = {row.image: row.image for row in rows}
    keys |= {Path(row.image).name: row.image for row in rows if names[Path(row.image).name] == 1}
    unknown = [image for image in people if image not in keys]
    if unknown:
        raise SchemaError(
            f"{labels}: {len(unknown)} pictures are not in {scores}, such as {unknown[0]}"
        )
    told = {keys[image]: label for image, label in people.items()}
    ways = ("s_att", "s_rel", "s_style", "combined")
    given: dict[str, dict[str, Any]] = {
        way: {row.image: getattr(row, way) for row in rows} for way in ways
    }
    known = {way: v for way, v in given.items() if any(one is not None for one in v.values())}
    found = agreement(known, told)
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
        return
    table = plain_table("score", "Spearman", "Kendall", "pictures", "unscored")
    for one in found:
        cells = (one.name, one.spearman.text(), one.kendall.text(), str(one.spearman.n))
        table.add_row(*map(Text, (*cells, str(one.unscored))))
    console().print(table)
    if not found:
        raise typer.Exit(int(Exit.UNJUDGED))
