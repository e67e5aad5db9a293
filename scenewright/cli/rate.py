"""``scenewright rate``: people rate pictures, and what their ratings say."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli.console import Exit, clear_errors, console, fail, print_json, quiet_libraries
from scenewright.cli.judges import QuietOption
from scenewright.cli.rate_export import FolderArgument, export
from scenewright.cli.rate_objects import objects
from scenewright.cli.rate_report import kind_named, report
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.making import RatingStudySpec
    from scenewright.evals.human_ratings.sources import Source
    from scenewright.evals.human_ratings.study import RatingStudy, StudyFolder

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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from scenewright.evals.human_ratings.making import make_study

    where = console(stderr=True)
    if quiet or not where.is_terminal:
        return make_study(source, wish, out)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=where, transient=True) as bars:
        bar = bars.add_task("copying pictures", total=None)
        return make_study(
            source, wish, out, lambda done, of: bars.update(bar, completed=done, total=of)
        )


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
app.command()(export)
app.command()(report)
