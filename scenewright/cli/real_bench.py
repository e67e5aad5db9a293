"""``scenewright real-bench``: realism of attributes, relations and style (REAL)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scenewright.cli import costs, options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import (
    Exit,
    fail,
    give,
    note,
    print_json,
    print_table,
    run_and_free,
    say,
    split_list,
)
from scenewright.cli.options import answers_file, chosen_profile
from scenewright.cli.progress import show_progress
from scenewright.cli.real_bench_schema import app as schema
from scenewright.cli.real_bench_style import app as style

if TYPE_CHECKING:
    from PIL import Image

    from scenewright.evals.studies.real.real_scorer import Picture, RealRow, RealScorer, Style
    from scenewright.evals.studies.real.schema import ClassSchema

app = App(
    help="Score whether pictures are real enough to train on: attributes, relations and style "
    "(REAL)."
)
app.add_typer(schema, name="schema")
app.add_typer(style, name="style")
Wording = Literal["published", "plain"]
WordingOption = Annotated[
    Wording | None,
    typer.Option(
        help="Wording of the questions: published (REAL's), or plain (for judges with a small "
        "vocabulary); default: what the judges know."
    ),
]
_SHOWN = 40


@app.command()
@resumable("the same command goes on: answers are kept")
def score(
    pictures: options.Pictures,
    schema_file: Annotated[Path, typer.Option("--schema", "-s", show_default=False)],
    label: Annotated[str | None, typer.Option("--class", "-c")] = None,
    profile: options.ProfileName = None,
    judges: options.Judges = None,
    wording: WordingOption = None,
    asking: Literal["waves", "together"] | None = None,
    weighting: Literal["probability", "hard"] = "probability",
    style: Path | None = None,
    out: Annotated[Path | None, typer.Option("--out", "-o")] = None,
    store: Path | None = None,
    at_once: options.Positive = 16,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> Exit:
    """Score pictures by the attributes and relations of their class.

    A picture's class is the name of its folder, or --class. The judges of the profile, or --judges,
    are asked whether each part is visible and then whether it is as described. Answers and rows are
    kept: the same command again asks only for what is new or was not answered.

    Examples of use:

      scenewright real-bench score generated/ --schema birds.json --judges openai:gpt-6.1-terra
      --out scores.jsonl

      scenewright real-bench score a.png b.png --schema birds.json --class "Laysan Albatross"

      scenewright real-bench score painted/ --schema kinds.toml --profile miniature

    Exit codes: 0 scored; 2 wrong input; 3 could not run; 4 some pictures have no score.

    Args:
        schema_file (FILE): Schemas of the classes, JSON or TOML.
        label (NAME): Class of all pictures; default: each picture's folder.
        asking: waves (nothing more is asked about invisible parts) or together (one call); default:
            the profile's.
        weighting: Weight of answers in S_att: their probability, or hard as published.
        style (FOLDER): Style scorer (`scenewright real-bench style train`); adds the combined
            score.
        out (FILE.jsonl): Rows of scores, which `scenewright real-bench filter` reads; with
            FILE.parquet both FILE.parquet and FILE.jsonl.
        store (FILE): File of answers; default: in your settings folder.
        at_once: Concurrent pictures.
    """
    rows = scored_rows(
        pictures,
        schema_file,
        out,
        label=label,
        profile=profile,
        judges=judges or (),
        wording=wording,
        asking=asking,
        weighting=weighting,
        style=style,
        store=store,
        at_once=at_once,
        confirm=lambda usd, models: costs.agree(usd, limit_usd, yes, "raise --limit-usd", models),
        quiet=quiet,
    )
    give(as_json, rows, _print, rows, out)
    unjudged = any(row.base is None for row in rows)
    return Exit.UNJUDGED if unjudged else Exit.OK


def scored_rows(
    pictures: Sequence[Path],
    schema_file: Path,
    out: Path | None,
    *,
    label: str | None = None,
    profile: str | None = None,
    judges: Sequence[str] = (),
    wording: Wording | None = None,
    asking: Literal["waves", "together"] | None = None,
    weighting: Literal["probability", "hard"] = "probability",
    style: Path | None = None,
    store: Path | None = None,
    at_once: int = 16,
    confirm: Callable[[float, Sequence[str]], None],
    quiet: bool,
) -> list[RealRow]:
    """Score the pictures as :func:`score` does and write the rows.

    ``confirm`` takes the dollars that are known, and the judges.
    """
    from scenewright.agents.panel.panel import Panel
    from scenewright.config.settings import load_settings
    from scenewright.evals.studies.real.real_scorer import (
        PARQUET,
        RealScorer,
        score_pictures,
        write_rows,
    )
    from scenewright.evals.studies.real.schema import read_schemas
    from scenewright.providers import AnswerStore
    from scenewright.runs.model_factory.profiles import panel_of

    if judges and profile:
        raise fail("give --judges or --profile, not both")
    if out is not None and out.suffix not in (".jsonl", PARQUET):
        raise fail(f"--out {out}: name a file that ends in .jsonl or .parquet")
    schemas = read_schemas(schema_file)
    found = _pictures(pictures, label, schemas, schema_file)
    settings, chosen = (load_settings(), None) if judges else chosen_profile(profile)
    specs = split_list(judges) if chosen is None else chosen.judges
    place = answers_file(store)
    place.parent.mkdir(parents=True, exist_ok=True)

    async def scored() -> list[RealRow]:
        made = await panel_of(list(specs), settings=settings)
        with closing(AnswerStore(place)) as answers:
            scorer = RealScorer(
                made,
                answers,
                panel=Panel() if chosen is None else Panel.of(chosen, made),
                wording=wording,
                asking=asking or ("waves" if chosen is None else chosen.asking),
                weighting=weighting,
                limit=settings.judge_timeout,
            )
            for label in dict.fromkeys(picture.label for picture in found):
                scorer.check(schemas[label])
            confirm(_forecast(scorer, found, schemas, place, quiet), specs)
            with show_progress("scoring", quiet, lines=False) as show:
                done, spent = 0, 0.0

                def scored_one(row: RealRow, kept: bool) -> None:
                    nonlocal done, spent
                    done += 1
                    spent += 0.0 if kept else row.usd
                    show(done, len(found), more=f"{spent:.2f} USD")

                return await score_pictures(
                    scorer,
                    found,
                    schemas,
                    None if out is None else out.with_suffix(".jsonl"),
                    style=None if style is None else _style(style),
                    at_once=at_once,
                    on_row=scored_one,
                )

    rows = run_and_free(scored())
    if out is not None and out.suffix == PARQUET:
        write_rows(out, rows)
    return rows


@app.command()
def agree(
    scores: Path,
    labels: Path,
    as_json: options.Json = False,
) -> Exit:
    """Compare scores with people's labels: Spearman's and Kendall's rank correlations.

    Pictures are matched by their path as in SCORES, or by their file name where it is unique.

    Example of use:

      scenewright real-bench agree scores.jsonl people.csv

    Exit codes: 0 compared; 2 wrong input; 4 nothing to compare.

    Args:
        scores: Rows of `scenewright real-bench score`.
        labels: CSV or JSON lines: image and label (a number), or image, question and answer (yes or
            no), one line a person.
    """
    from scenewright.evals.studies.real.ranking import agreement, read_labels
    from scenewright.evals.studies.real.real_scorer import read_rows
    from scenewright.evals.studies.real.schema import SchemaError

    rows, people = read_rows(scores), read_labels(labels)
    names = Counter(Path(row.image).name for row in rows)
    keys = {row.image: row.image for row in rows}
    keys |= {Path(row.image).name: row.image for row in rows if names[Path(row.image).name] == 1}
    if unknown := [image for image in people if image not in keys]:
        raise SchemaError(
            f"{labels}: {len(unknown)} pictures are not in {scores}, such as {unknown[0]}"
        )
    columns: dict[str, dict[str, Any]] = {
        name: {row.image: getattr(row, name) for row in rows}
        for name in ("s_att", "s_rel", "s_style", "combined")
    }
    known = {name: v for name, v in columns.items() if any(x is not None for x in v.values())}
    found = agreement(known, {keys[image]: label for image, label in people.items()})
    if as_json:
        print_json(found)
        return Exit.OK
    print_table(
        ("score", "Spearman", "Kendall", "pictures", "unscored"),
        [
            (one.name, one.spearman.text(), one.kendall.text(), str(one.spearman.n),
             str(one.unscored))
            for one in found
        ],
    )  # fmt: skip
    return Exit.UNJUDGED if not found else Exit.OK


def _pictures(
    places: Sequence[Path], label: str | None, schemas: dict[str, ClassSchema], schema_file: Path
) -> list[Picture]:
    from scenewright.evals.studies.real.real_scorer import Picture
    from scenewright.evals.studies.real.schema import SchemaError
    from scenewright.evals.studies.real.style import pictures_in

    found: dict[Path, Picture] = {}
    for place in places:
        for file in pictures_in(place) if place.is_dir() else [place]:
            found.setdefault(file, Picture(file, label or file.absolute().parent.name))
    if not found:
        raise SchemaError(f"no pictures in {', '.join(map(str, places))}")
    if unknown := sorted({picture.label for picture in found.values()} - set(schemas)):
        raise SchemaError(
            f"{schema_file} has no class {', '.join(map(repr, unknown[:5]))}: it has "
            f"{', '.join(map(repr, list(schemas)[:5]))}. Name the folder of each picture after its "
            "class, or give --class"
        )
    return list(found.values())


def _style(folder: Path) -> Style:
    from scenewright.evals.studies.real.style import StyleScorer

    scorer = StyleScorer(folder)

    async def scored(image: Image.Image) -> float | None:
        return (await scorer.score([image]))[0]

    return scored


def _forecast(
    scorer: RealScorer,
    pictures: Sequence[Picture],
    schemas: dict[str, ClassSchema],
    store: Path,
    quiet: bool,
) -> float:
    """Print the cost of the calls at most, and return the known dollars."""
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
                # Pictures of a class are assumed to be as large as its first one.
                found = estimate(sizes[picture.label], facts)
                calls += found.calls
                usd = None if usd is None or found.usd is None else usd + found.usd
    if not quiet:
        price = "price unknown" if usd is None else f"about {dollars(usd)} at most"
        paid = f", {calls} calls or a few more, {price}" if calls else ""
        note(
            f"{len(pictures)} pictures, at most {questions} questions{paid}; answers are kept in "
            f"{store}"
        )
    return usd or 0.0


def _print(rows: list[RealRow], out: Path | None) -> None:
    from scenewright.evals.reporting.words import dollars
    from scenewright.evals.reporting.words import score as number

    styled = any(row.s_style is not None for row in rows)
    lines = []
    for row in rows[:_SHOWN]:
        seen = f"{row.visible}/{row.attributes}" if row.attributes else ""
        wrong = [*(f"no {part}" for part in row.invisible), *row.wrong]
        if row.unscored or row.reason:
            wrong.append(f"{row.unscored} unscored: {row.reason}" if row.unscored else row.reason)
        cells = [Path(row.image).name, row.label, number(row.s_att), seen, number(row.s_rel)]
        cells += [number(row.s_style), number(row.combined)] if styled else []
        lines.append((*cells, "; ".join(wrong)))
    heads = ("picture", "class", "S_att", "visible", "S_rel")
    more = ("style", "combined") if styled else ()
    print_table((*heads, *more, "not as described"), lines, wraps=True)
    if len(rows) > _SHOWN:
        say(f"… and {len(rows) - _SHOWN} more: --out or --json gives all")
    say("")
    classes = []
    for label in sorted({row.label for row in rows}):
        inside = [row for row in rows if row.label == label]
        known = [row.base for row in inside if row.base is not None]
        mean = number(sum(known) / len(known) if known else None)
        classes.append((label, str(len(inside)), str(len(known)), mean))
    print_table(("class", "pictures", "scored", "mean"), classes)
    tokens, usd = sum(row.tokens for row in rows), sum(row.usd for row in rows)
    seconds = sum(row.seconds for row in rows) / len(rows)
    say(
        f"\na picture: {tokens / len(rows):,.0f} tokens, {dollars(usd / len(rows))}, "
        f"{seconds:.1f} s; in total {dollars(usd)}"
    )
    if out is not None:
        say(f"wrote {out}")
