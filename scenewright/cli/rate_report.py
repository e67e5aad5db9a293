"""``scenewright rate report``: what ratings say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json
from scenewright.cli.judges import QuietOption
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.objects.report import ObjectReport
    from scenewright.evals.human_ratings.study import Kind, RatingStudy
    from scenewright.evals.human_ratings.table import Rating


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
            from scenewright.cli.rate_show import print_rating_report

            print_rating_report(made, console())
            console().print(f"\nreport   {page}", soft_wrap=True)


def _tell_objects(made: ObjectReport, place: Path, as_json: bool) -> None:
    from scenewright.evals.human_ratings.objects.report_page import write_object_report

    page = write_object_report(made, place)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    from scenewright.cli.rate_objects_show import print_object_report

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
