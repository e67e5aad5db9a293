"""``scenewright rate``: people rate pictures, and what their ratings say."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from scenewright.cli.console import (
    Exit,
    clear_errors,
    console,
    fail,
    print_json,
    print_table,
    quiet_libraries,
)
from scenewright.cli.options import JsonOption, QuietOption
from scenewright.cli.progress import show_progress
from scenewright.cli.rate_objects import objects

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.making import RatingStudySpec
    from scenewright.evals.human_ratings.objects.report import ObjectReport
    from scenewright.evals.human_ratings.report import RatingReport
    from scenewright.evals.human_ratings.sources import Source
    from scenewright.evals.human_ratings.study import Kind, RatingStudy, StudyFolder
    from scenewright.evals.human_ratings.table import Rating

app = typer.Typer(
    no_args_is_help=True,
    help="People rate pictures: pages, tables, agreement, and labels to calibrate judges with.",
)


@app.callback()
def rate() -> None:
    """People rate pictures: pages, tables, agreement, and labels to calibrate judges with."""


@app.command()
def make(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="EVAL",
            help="Folder of an evaluation; or a folder with one subfolder an arm; or a CSV file "
            "with the columns item, arm, image, prompt, original and facts.",
        ),
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            "-k",
            help="choice: one of several arms; facts: yes, no or cannot tell for each fact; "
            "score: 1 to 5.",
        ),
    ] = "choice",
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms",
            metavar="ARM[,ARM…]",
            help="Which arms, as backend/condition/seed or a part that only one has; default all.",
            show_default=False,
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", "-n", min=1, help="Tasks; default all there are.", show_default=False),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", "-s", min=0, help="Of the draw and of all orders.")
    ] = 0,
    repeats: Annotated[
        float,
        typer.Option(
            "--repeats", min=0.0, max=1.0, help="Share of the tasks that every rater meets twice."
        ),
    ] = 0.05,
    question: Annotated[
        str, typer.Option("--question", help="Your own question.", show_default=False)
    ] = "",
    scale: Annotated[
        str, typer.Option("--scale", metavar="LOW,HIGH", help="What 1 and 5 mean.")
    ] = "not at all,completely",
    name: Annotated[
        str, typer.Option("--name", help="Title that raters see; it should not tell the arms.")
    ] = "Rating pictures",
    side: Annotated[
        int | None,
        typer.Option(
            "--side",
            help="Scale all pictures to this longest side, so that their size tells nothing.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study.")] = Path(
        "ratings"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a study: draw items, copy their pictures, write the tasks.

    Raters never see an arm's name: pages and addresses of pictures are opaque, files lose what
    generators write into them, and every rater has an own order of tasks and candidates.

    Examples:

      scenewright rate make evals/mine --kind choice --arms sd15,sd21,sdxl,ours --n 1000

      scenewright rate make evals/mine --kind facts --n 200 --out ratings-facts

    Exit codes: 0 the study is made; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(again="Nothing is lost: start it again."):
        from scenewright.evals.human_ratings.making import RatingStudySpec
        from scenewright.evals.human_ratings.sources import read_source

        ends = tuple(part.strip() for part in scale.split(","))
        if kind == "objects":
            raise fail("studies of objects are made by `scenewright rate objects`", Exit.USAGE)
        if len(ends) != 2:
            raise fail("--scale takes two texts with a comma between them", Exit.USAGE)
        wish = RatingStudySpec(
            kind=kind_named(kind),
            arms=tuple(part.strip() for part in (arms or "").split(",") if part.strip()),
            n=n,
            seed=seed,
            repeats=repeats,
            question=question.strip(),
            name=name.strip() or "Rating pictures",
            scale=(ends[0], ends[1]),
            side=side,
        )
        study = _made(read_source(source), wish, out, quiet or as_json)
        if as_json:
            print_json(_summary(study, out))
        else:
            where = console()
            where.print(_told(study), soft_wrap=True)
            where.print(f"rate it   scenewright rate serve {out}", soft_wrap=True)


def _made(source: Source, wish: RatingStudySpec, out: Path, quiet: bool) -> RatingStudy:
    from scenewright.evals.human_ratings.making import make_study

    where = console(stderr=True)
    with show_progress(where, "copying pictures", quiet, lines=False) as told:
        return make_study(source, wish, out, told)


def _summary(study: RatingStudy, out: Path) -> dict[str, Any]:
    fields = ("name", "kind", "arms", "seed", "repeats", "source", "left_out")
    found = study.model_dump(mode="json", include=set(fields))
    return {**found, "tasks": len(study.tasks), "folder": str(out)}


def _told(study: RatingStudy) -> str:
    lines = [
        f"{len(study.tasks)} tasks ({study.kind}) from {study.source}",
        f"arms      {', '.join(study.arms)}",
    ]
    lines.extend(f"left out  {n} × {why}" for why, n in study.left_out.items())
    return "\n".join(lines)


@app.command()
def serve(
    folder: FolderArgument = Path("ratings"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8650,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SCENEWRIGHT_RATE_TOKEN",
            help="What raters show once, in the address they open; made if others reach the host.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the rating pages until Ctrl-C.

    Each answer is on disk before the page goes on: raters stop and go on whenever they like, and
    a server that was killed lost nothing. Several raters can rate at once. A name is all that a
    rater gives; ADDRESS?rater=NAME leads straight to the tasks.

    Exit codes: 0 ended; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(again="Everything that was rated is kept."):
        quiet_libraries()
        from scenewright.evals.human_ratings.study import StudyFolder

        asyncio.run(_serve(StudyFolder(folder), host, port, token))


async def _serve(folder: StudyFolder, host: str, port: int, token: str | None) -> None:
    from scenewright.evals.human_ratings.serving import serving

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with serving(folder, host, port, token) as url:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        out = console()
        out.print(f"Rate at   {url}   (Ctrl-C ends it.)", soft_wrap=True)
        out.print(f"Kept in   {folder.database.resolve()}", soft_wrap=True)
        out.file.flush()
        await stop.wait()
    console(stderr=True).print("stopped; everything that was rated is kept.")


@app.command()
def labels(
    folder: FolderArgument = Path("ratings"),
    out: Annotated[Path, typer.Option("--out", "-o", help="CSV file to write.")] = Path(
        "labels.csv"
    ),
    fewest: Annotated[
        int, typer.Option("--fewest", min=1, help="Votes for yes or no that a label needs.")
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write what most raters say of each fact as labels for `scenewright judges`.

    Ties, facts that nobody could tell and facts about things that are not there are left out
    and counted.

    Examples:

      scenewright rate labels ratings-facts --out labels.csv

      scenewright judges calibrate -j local:miniature/judge-a --labels labels.csv

    Exit codes: 0 written; 2 wrong input; 3 could not run.
    """
    with clear_errors():
        from scenewright.evals.human_ratings.labels import write_labels
        from scenewright.evals.human_ratings.study import StudyFolder
        from scenewright.evals.human_ratings.table import ratings_of

        study = StudyFolder(folder)
        made = write_labels(study, ratings_of(study), out, fewest)
        if as_json:
            print_json(made.model_dump(mode="json"))
            return
        where = console()
        where.print(f"{made.labels} labels written to {out}; {made.holds} hold", soft_wrap=True)
        where.print(
            f"left out: {made.ties} ties, {made.undecided} nobody could tell, {made.too_few} with "
            f"too few votes, {made.absent} about things that are not there",
            soft_wrap=True,
        )
        where.print(f"use them  scenewright judges calibrate --labels {out}", soft_wrap=True)


app.command()(objects)


def print_rating_report(report: RatingReport, where: Console) -> None:
    """Print the tables of ``report``."""
    from scenewright.evals.human_ratings.plots import MEANS
    from scenewright.evals.human_ratings.report_page import figure_text as shown
    from scenewright.evals.human_ratings.report_page import number_text

    where.print(
        f"{len(report.raters)} raters, {report.items} items, {report.ratings} ratings "
        f"({report.kind}); in brackets 95 % intervals over items"
    )
    agreement = report.agreement
    rows = [
        ("Krippendorff's α" + (" (interval)" if report.kind == "score" else ""),
         shown(agreement.alpha)),
        ("Fleiss' κ", shown(agreement.fleiss)),
        ("mean of the pairs' κ" + (" (quadratic)" if report.kind == "score" else ""),
         number_text(agreement.mean_kappa)),
        ("pairs who said the same", shown(agreement.same)),
    ]  # fmt: skip
    print_table(
        where, ("agreement", f"{report.shared} of {report.units} rated twice or more"), rows
    )
    print_table(
        where,
        ("arm", MEANS[report.kind]),
        [(arm.arm, shown(arm.value)) for arm in report.arms],
    )
    print_table(
        where,
        ("rater", "ratings", "median s", "κ with others", "rated twice", "same again"),
        [
            (
                card.rater,
                str(card.ratings),
                "–" if card.median_seconds is None else f"{card.median_seconds:.1f}",
                shown(card.with_others, 2),
                str(card.repeats),
                shown(card.same_again, 2),
            )
            for card in report.raters
        ],
    )
    print_table(
        where,
        ("people and machine choose the same", "share", "by chance", "κ", "items"),
        [
            (
                c.metric,
                shown(c.same),
                number_text(c.chance),
                shown(c.kappa),
                str(c.items),
            )
            for c in report.confusions
        ],
    )
    print_table(
        where,
        ("panel against people", "same", "κ", "sensitivity", "specificity", "facts"),
        [
            (p.panel, shown(p.same), shown(p.kappa), shown(p.sensitivity), shown(p.specificity),
             str(p.same.n))
            for p in report.panels
        ],
    )  # fmt: skip
    print_table(
        where,
        ("metric and people", "Spearman", "Kendall τ-b", "τ-b within items", "τ-b of arms", "n"),
        [
            (c.metric, shown(c.spearman), shown(c.kendall), shown(c.within),
             shown(c.arms_kendall, 2), str(c.spearman.n))
            for c in report.correlations
        ],
    )  # fmt: skip


@app.command()
def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RATINGS", help="Folder that `rate make` wrote, or a table of ratings (CSV)."
        ),
    ] = Path("ratings"),
    evaluation: Annotated[
        Path | None,
        typer.Argument(
            metavar="[EVAL]",
            help="Evaluation whose metrics and panels stand beside the people.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the page, the JSON and the plots; default RATINGS/report.",
            show_default=False,
        ),
    ] = None,
    lower: Annotated[
        list[str] | None,
        typer.Option(
            "--lower", help="A metric of which less is better; can be given several times."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            help="What a table of another make holds: choice, facts or score.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="OURS=THEIRS[,…]",
            help="Columns of such a table, as in rater=worker_id,value=answer.",
            show_default=False,
        ),
    ] = None,
    resamples: Annotated[
        int, typer.Option("--resamples", min=2, help="Of the bootstrap behind the intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="Of the bootstrap.")] = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Report on ratings: agreement, arms, steadiness, and people beside metrics and panels.

    Examples:

      scenewright rate report ratings evals/mine

      scenewright rate report likert.csv --kind score \\
        --columns rater=worker_id,item=item_id,arm=t2i_model,value=answer

    Exit codes: 0 written; 2 wrong input; 3 could not run; 130 interrupted.
    """  # fmt: skip
    with clear_errors():
        from scenewright.evals.human_ratings.machine import machine_of
        from scenewright.evals.human_ratings.objects.report import object_report
        from scenewright.evals.human_ratings.report import rating_report
        from scenewright.evals.human_ratings.report_page import write_report
        from scenewright.evals.store.results import Results

        ratings, study = _read(source, columns, None if kind is None else kind_named(kind))
        where = console(stderr=True)
        tick = (lambda text: where.print(f"{text} …")) if where.is_terminal and not quiet else None
        if study is not None and study.kind == "objects":
            if evaluation is not None or lower:
                raise fail("objects stand beside no evaluation: leave EVAL out", Exit.USAGE)
            found = object_report(
                ratings, study, about=source.name, resamples=resamples, seed=seed, tick=tick
            )
            _tell_objects(found, out or source / "report", as_json)
            return
        machine = None if evaluation is None else machine_of(Results(evaluation), lower or ())
        made = rating_report(
            ratings, study, machine, about=source.name, resamples=resamples, seed=seed, tick=tick
        )
        place = out or (source / "report" if source.is_dir() else source.with_suffix(".report"))
        page = write_report(made, place)
        if as_json:
            print_json(made.model_dump(mode="json"))
        else:
            pass

            print_rating_report(made, console())
            console().print(f"\nreport   {page}", soft_wrap=True)


def _tell_objects(made: ObjectReport, place: Path, as_json: bool) -> None:
    from scenewright.evals.human_ratings.objects.report_page import write_object_report

    page = write_object_report(made, place)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    from scenewright.cli.rate_objects import print_object_report

    print_object_report(made, console())
    console().print(f"\nreport   {page}", soft_wrap=True)


def _read(
    source: Path, columns: str | None, kind: Kind | None
) -> tuple[tuple[Rating, ...], RatingStudy | None]:
    from scenewright.evals.human_ratings.study import StudyFolder
    from scenewright.evals.human_ratings.table import ratings_of, read_csv

    if source.is_dir():
        if columns or kind:
            raise fail("--columns and --kind are for tables: a study knows its own", Exit.USAGE)
        folder = StudyFolder(source)
        return ratings_of(folder), folder.study
    names = {}
    for part in filter(None, (columns or "").split(",")):
        ours, sign, theirs = part.partition("=")
        if not sign or not ours.strip() or not theirs.strip():
            raise fail(f"--columns: {part!r} is not OURS=THEIRS", Exit.USAGE)
        names[ours.strip()] = theirs.strip()
    return read_csv(source, names, kind), None


def kind_named(text: str) -> Kind:
    """The kind of that name; fails with the list of kinds."""
    from scenewright.evals.human_ratings.study import KINDS

    for known in KINDS:
        if text == known:
            return known
    raise fail(f"there is no kind {text!r}: use one of {', '.join(KINDS)}", Exit.USAGE)


FolderArgument = Annotated[
    Path, typer.Argument(metavar="RATINGS", help="Folder that `rate make` wrote.")
]


@app.command()
def export(
    folder: FolderArgument = Path("ratings"),
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[OUT]",
            help="CSV file to write, or for a study of objects a folder; default ratings.csv.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The same, as an option.", show_default=False),
    ] = None,
    fewest: Annotated[
        int | None,
        typer.Option(
            "--fewest",
            min=1,
            help="Of objects: ratings that one needs; default all that its study asks for.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write all ratings as CSV, one row a rating; or rated objects, to train and measure with.

    For a study of objects and an OUT that does not end in .csv, OUT becomes a folder with
    objects.jsonl (each object's mean and single ratings) and the pictures.

    Examples:

      scenewright rate export ratings ratings.csv

      scenewright rate export ratings-objects rated

    Exit codes: 0 written; 2 wrong input; 3 could not run.
    """
    with clear_errors():
        from scenewright.evals.human_ratings.study import StudyFolder
        from scenewright.evals.human_ratings.table import ratings_of, write_csv

        if place is not None and out is not None:
            raise fail("OUT and --out are the same: give one of them", Exit.USAGE)
        target = place or out or Path("ratings.csv")
        study = StudyFolder(folder)
        if study.study.kind == "objects" and target.suffix.lower() != ".csv":
            from scenewright.evals.human_ratings.objects.export import export_objects

            made = export_objects(study, target, fewest)
            told = f"{made.objects} objects of {made.pictures} pictures written to {target}"
            lost = f"{made.excluded} that a rater took out, {made.unfinished} that need more raters"
            console().print(f"{told}; left out: {lost}", soft_wrap=True)
            return
        if fewest is not None:
            raise fail("--fewest is for folders of rated objects: leave it out", Exit.USAGE)
        count = write_csv(ratings_of(study), target)
        console().print(f"{count} ratings written to {target}", soft_wrap=True)
