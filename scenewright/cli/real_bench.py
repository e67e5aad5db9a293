"""``scenewright real-bench``: score and filter pictures by attributes, relations, style.

Args:
    wording: Wording of the questions: published (REAL's), or plain (for judges with a small
        vocabulary); default: what the judges know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scenewright.cli import console as terminal
from scenewright.cli import costs, options
from scenewright.cli.app import App, resumable
from scenewright.cli.options import answers_file, judges_or_profile
from scenewright.cli.progress import show_progress
from scenewright.cli.real_bench_schema import app as schema
from scenewright.cli.real_bench_style import app as style
from scenewright.evals.reporting.words import dollars
from scenewright.evals.reporting.words import score as number

if TYPE_CHECKING:
    from PIL import Image

    from scenewright.core.images import ImageError
    from scenewright.evals.studies.real.filtering import Filtered
    from scenewright.evals.studies.real.real_scorer import Picture, RealRow, RealScorer
    from scenewright.evals.studies.real.schema import ClassSchema

app = App(
    help="Score whether pictures are real enough to train on: attributes, relations and style "
    "(REAL)."
)
app.add_typer(schema, name="schema")
app.add_typer(style, name="style")
Wording = Literal["published", "plain"]
_SHOWN = 40


@app.command()
@resumable("the same command goes on: answers are kept")
def score(
    pictures: options.Pictures,
    schema_file: Annotated[Path, typer.Option("--schema", "-s", show_default=False)],
    label: Annotated[str | None, typer.Option("--class", "-c")] = None,
    profile: options.ProfileName = None,
    judges: options.Judges = None,
    wording: Wording | None = None,
    asking: Literal["waves", "together"] | None = None,
    weighting: Literal["probability", "hard"] = "probability",
    style: Path | None = None,
    out: options.OptionalOut = None,
    store: Path | None = None,
    at_once: options.Positive = 16,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> terminal.Exit:
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
        judges=judges,
        wording=wording,
        asking=asking,
        weighting=weighting,
        style=style,
        store=store,
        at_once=at_once,
        limit_usd=limit_usd,
        yes=yes,
        quiet=quiet,
    )
    terminal.print_if_json(rows)
    print_rows(rows, out)
    return terminal.Exit.UNJUDGED if any(row.base is None for row in rows) else terminal.Exit.OK


def scored_rows(
    pictures: Sequence[Path],
    schema_file: Path,
    out: Path | None,
    *,
    label: str | None = None,
    profile: str | None = None,
    judges: Sequence[str] | None = None,
    wording: Wording | None = None,
    asking: Literal["waves", "together"] | None = None,
    weighting: Literal["probability", "hard"] = "probability",
    style: Path | None = None,
    store: Path | None = None,
    at_once: int = 16,
    limit_usd: float,
    yes: bool,
    quiet: bool,
) -> list[RealRow]:
    """Score the pictures as :func:`score` does and write the rows."""
    from scenewright.agents.panel.panel import Panel
    from scenewright.evals.studies.real import real_scorer as real
    from scenewright.evals.studies.real.schema import SchemaError, read_schemas
    from scenewright.evals.studies.real.style import StyleScorer, pictures_in
    from scenewright.providers import AnswerStore
    from scenewright.runs.model_factory.profiles import build_panel

    if out is not None and out.suffix not in (".jsonl", real.PARQUET):
        raise terminal.fail(f"--out {out}: name a file that ends in .jsonl or .parquet")
    schemas = read_schemas(schema_file)
    found = list(
        {
            file: real.Picture(file, label or file.absolute().parent.name)
            for place in pictures
            for file in (pictures_in(place) if place.is_dir() else [place])
        }.values()
    )
    if not found:
        raise SchemaError(f"no pictures in {', '.join(map(str, pictures))}")
    if unknown := sorted({picture.label for picture in found} - set(schemas)):
        raise SchemaError(
            f"{schema_file} has no class {', '.join(map(repr, unknown[:5]))}: it has "
            f"{', '.join(map(repr, list(schemas)[:5]))}. Name the folder of each picture after its "
            "class, or give --class"
        )
    settings, chosen = judges_or_profile(judges, profile)
    specs = terminal.split_list(judges) if chosen is None else chosen.judges
    place = answers_file(store)
    place.parent.mkdir(parents=True, exist_ok=True)
    style_scorer = None if style is None else StyleScorer(style)

    async def style_score(image: Image.Image) -> float | None:
        assert style_scorer is not None
        return (await style_scorer.score([image]))[0]

    async def scored() -> list[RealRow]:
        made = await build_panel(list(specs), settings=settings)
        with closing(AnswerStore(place)) as answers:
            scorer = real.RealScorer(
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
            usd = _forecast(scorer, found, schemas, place, quiet)
            costs.agree(usd, limit_usd, yes, "raise --limit-usd", specs)
            with show_progress("scoring", quiet, lines=False) as show:
                done, spent = 0, 0.0

                def scored_one(row: RealRow, kept: bool) -> None:
                    nonlocal done, spent
                    done += 1
                    spent += 0.0 if kept else row.usd
                    show(done, len(found), more=f"{spent:.2f} USD")

                return await real.score_pictures(
                    scorer,
                    found,
                    schemas,
                    None if out is None else out.with_suffix(".jsonl"),
                    style=None if style is None else style_score,
                    at_once=at_once,
                    on_row=scored_one,
                )

    rows = terminal.run_and_free(scored())
    if out is not None and out.suffix == real.PARQUET:
        real.write_rows(out, rows)
    return rows


@app.command()
def agree(scores: Path, labels: Path, as_json: options.Json = False) -> terminal.Exit:
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
    terminal.print_if_json(found)
    if as_json:
        return terminal.Exit.OK
    terminal.print_table(
        ("score", "Spearman", "Kendall", "pictures", "unscored"),
        [
            (one.name, one.spearman.text(), one.kendall.text(), str(one.spearman.n),
             str(one.unscored))
            for one in found
        ],
    )  # fmt: skip
    return terminal.Exit.UNJUDGED if not found else terminal.Exit.OK


def _forecast(
    scorer: RealScorer,
    pictures: Sequence[Picture],
    schemas: Mapping[str, ClassSchema],
    store: Path,
    quiet: bool,
) -> float:
    """Print what the calls take at most, and return the dollars that are known."""
    from scenewright.core.images import ImageError, load_image

    usd: float | None = 0.0
    calls = questions = 0
    sizes: dict[str, tuple[int, int]] = {}
    for picture in pictures:
        questions += len(scorer.questions(schemas[picture.label]).facts) * len(scorer.judges)
        try:
            # Pictures of a class are assumed to be as large as its first one.
            size = sizes.get(picture.label) or load_image(picture.path).size
        except ImageError:
            continue
        sizes[picture.label] = size
        for one in scorer.expected(schemas[picture.label], size).values():
            calls += one.calls
            usd = None if usd is None or one.usd is None else usd + one.usd
    if not quiet:
        price = "price unknown" if usd is None else f"about {dollars(usd)} at most"
        paid = f", {calls} calls or a few more, {price}" if calls else ""
        counts = f"{len(pictures)} pictures, at most {questions} questions{paid}"
        terminal.note(f"{counts}; answers are kept in {store}")
    return usd or 0.0


def print_rows(rows: Sequence[RealRow], out: Path | None) -> None:
    """Print the scores of pictures, the means of classes, and what a picture took."""
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
    more = ("style", "combined") if styled else ()
    heads = ("picture", "class", "S_att", "visible", "S_rel", *more, "not as described")
    terminal.print_table(heads, lines, wraps=True)
    if len(rows) > _SHOWN:
        terminal.say(f"… and {len(rows) - _SHOWN} more: --out or --json gives all")
    terminal.say("")
    classes = []
    for label in sorted({row.label for row in rows}):
        inside = [row for row in rows if row.label == label]
        known = [row.base for row in inside if row.base is not None]
        mean = number(sum(known) / len(known) if known else None)
        classes.append((label, str(len(inside)), str(len(known)), mean))
    terminal.print_table(("class", "pictures", "scored", "mean"), classes)
    tokens, usd = sum(row.tokens for row in rows), sum(row.usd for row in rows)
    seconds = sum(row.seconds for row in rows) / len(rows)
    terminal.say(
        f"\na picture: {tokens / len(rows):,.0f} tokens, {dollars(usd / len(rows))}, "
        f"{seconds:.1f} s; in total {dollars(usd)}"
    )
    if out is not None:
        terminal.say(f"wrote {out}")


TABLES = ("scores.jsonl", "scores.parquet")
"""Files of scores that a folder may hold."""
By = Literal["combined", "s_att", "s_rel", "s_style"]


@app.command("filter")
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
    wording: Wording | None = None,
    limit_usd: options.LimitUsd = 5.0,
    yes: options.Yes = False,
    pictures: Literal["link", "copy", "none"] = "link",
    parquet: bool = False,
    page: bool = True,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> terminal.Exit:
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
        raise terminal.fail("choose what to keep: --top K, --least X, or both")
    if schema is None and (profile or judges):
        raise terminal.fail(
            "--profile and --judges need --schema: existing scores are not made again"
        )
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
            judges=judges,
            wording=wording,
            limit_usd=limit_usd,
            yes=yes,
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
            styles = terminal.run_async(score_styles(style))
            rows = [row.with_style(styles.get(row.image)) for row in rows]
        filtered = filtering.write_filtered(
            filtering.filter_rows(rows, plan, contents), files, out, plan,
            pictures=pictures, parquet=parquet, source=table.name, page=page,
            tell=lambda doing: show(0, 0, doing),
        )  # fmt: skip
    answer, kept = filtering.answer_of(filtered, plan), [one for one in filtered if one.kept]
    counts = {"pictures": len(filtered), "kept": len(kept)}
    classes = filtering.classes_in_numbers(filtered)
    terminal.print_if_json(
        {"out": out, "answer": answer, "plan": plan, **counts, "classes": classes}
    )
    _print_filtered(filtered, answer.sentence)
    terminal.say(f"{out / filtering.MANIFEST}" + (f", {out / filtering.PAGE}" if page else ""))
    complete = {one.label for one in filtered} == {one.label for one in kept}
    return terminal.Exit.OK if complete else terminal.Exit.MISSING


def _print_filtered(filtered: Sequence[Filtered], sentence: str) -> None:
    from scenewright.evals.studies.real.filtering import WHY, tallies

    terminal.say(sentence, "bold")
    shown = {
        why: title
        for why, title in WHY.items()
        if why == "kept" or any(one.why == why for one in filtered)
    }
    terminal.print_table(
        ("class", "pictures", *shown.values(), "lowest kept", "mean kept", "mean ranked"),
        [
            (one.label, str(one.pictures), *(str(one.counts.get(why, 0)) for why in shown),
             number(one.lowest_kept), number(one.mean_kept), number(one.mean_ranked))
            for one in tallies(filtered)
        ],
    )  # fmt: skip
    unscored = [one for one in filtered if one.why in ("unscored", "unreadable", "changed")]
    for lost in unscored[:10]:
        terminal.say(f"{lost.why}: {lost.image}: {lost.told}", "yellow")
    if len(unscored) > 10:
        terminal.say(f"and {len(unscored) - 10} more, in the manifest", "yellow")
    if tied := sum(one.tied for one in filtered):
        terminal.say(
            f"{tied} pictures share the score at the cut of their class: "
            f"{sum(one.tied and one.kept for one in filtered)} of them are kept by a hash of "
            "their content, not by their score",
            "yellow",
        )
