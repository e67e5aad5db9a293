"""``scenewright rate``: studies in which people rate pictures, and reports on their ratings.

Args:
    folder (RATINGS): Folder of `scenewright rate make`.
    arms (ARM[,ARM…]): Arms, as backend/condition/seed or a part that only one has; default all.
    question: Your own question to raters.
    name: Title that raters see; it should not reveal the arms.
    side: Scale all pictures to this longest side, so that sizes reveal nothing.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.sources import Source
    from scenewright.evals.human_ratings.study import Kind, RatingStudy, Tick

app = App(
    help="Let people rate pictures: pages, tables, agreement, and labels to calibrate judges with."
)
QuestionOption = Annotated[str, typer.Option(show_default=False)]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="Folder of the study.")]
_AGAIN = "Nothing is lost: start it again."


@app.command()
@resumable(_AGAIN)
def make(
    source: Path,
    kind: Annotated[str, typer.Option("--kind", "-k")] = "choice",
    arms: str | None = None,
    n: Annotated[int | None, typer.Option("--n", "-n", min=1)] = None,
    seed: options.Seed = 0,
    repeats: options.Share = 0.05,
    question: QuestionOption = "",
    scale: str = "not at all,completely",
    name: str = "Rating pictures",
    side: int | None = None,
    out: OutOption = Path("ratings"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a study of pictures: draw items, copy their pictures, write the tasks.

    Raters never see an arm's name: addresses of pages and pictures are opaque, metadata is removed
    from files, and every rater has a different order of tasks and candidates.

    Examples of use:

      scenewright rate make evals/mine --kind choice --arms sd15,sd21,sdxl,ours --n 1000

      scenewright rate make evals/mine --kind facts --n 200 --out ratings-facts

    Exit codes: 0 the study is made; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        source (EVAL): Folder of an evaluation; or a folder with one subfolder an arm; or a CSV file
            with the columns item, arm, image, prompt, original and facts.
        kind: choice: one of several arms; facts: yes, no or cannot tell for each fact; score: 1 to
            5.
        n: Tasks; default all.
        repeats: Share of the tasks that every rater gets twice.
        scale (LOW,HIGH): Meanings of 1 and 5.
    """
    from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
    from scenewright.evals.human_ratings.sources import read_source

    ends = [part.strip() for part in scale.split(",")]
    if kind == "objects":
        raise terminal.fail("studies of objects are made by `scenewright rate objects`")
    if len(ends) != 2:
        raise terminal.fail("--scale takes two texts with a comma between them")
    spec = RatingStudySpec(
        kind=kind_named(kind),
        arms=terminal.split_list(arms),
        n=n,
        seed=seed,
        repeats=repeats,
        question=question.strip(),
        name=name.strip(),
        scale=(ends[0], ends[1]),
        side=side,
    )
    found = read_source(source)
    with show_progress("copying pictures", quiet or as_json, lines=False) as show:
        study = make_study(found, spec, out, show)
    names = ("name", "kind", "arms", "seed", "repeats", "source", "left_out")
    terminal.print_if_json(terminal.fields_of(study, *names, tasks=len(study.tasks), folder=out))
    terminal.say(f"{len(study.tasks)} tasks ({study.kind}) from {study.source}")
    print_study("arms", study, out)


@app.command()
@resumable(_AGAIN)
def objects(
    source: Path,
    detector: options.Detector = None,
    labels: str | None = None,
    images: Path | None = None,
    arms: str | None = None,
    n: Annotated[int | None, typer.Option("--n", "-n", min=1)] = None,
    raters: Annotated[int, typer.Option(min=1, max=20)] = 2,
    apart: Annotated[int, typer.Option(min=1, max=5)] = 3,
    whole: options.Share = 0.0,
    least_share: options.Share = 0.01,
    least_score: options.Share = 0.5,
    seed: options.Seed = 0,
    question: QuestionOption = "",
    name: str = "Rating objects",
    side: int | None = None,
    out: OutOption = Path("ratings"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a study of objects: people rate how real the shape and the texture of each look.

    Two raters an object, and a third where they differ by three or more (Liang et al., Sec. 3.2).
    Raters see the picture, the object's box, its crop and its class, but not the picture's source.

    Examples of use:

      scenewright rate objects evals/mine --detector miniature --n 500 --out ratings-objects

      scenewright rate objects detections.json --images pictures --whole 0.1

    Exit codes: 0 the study is made; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        source: With --detector the folder of an evaluation, a folder with one subfolder an arm, or
            a CSV file; otherwise a JSON or COCO file of detections, or a set of rated objects,
            whose ratings are ignored.
        images: Folder of the pictures of a file of detections; default its own.
        n: Objects; default all.
        raters: Raters of each object.
        apart: Ask one more rater where two scores differ by this much; 5: never.
        whole: Share of the pictures also rated as a whole.
        least_share: Least share of the picture that a box covers.
        least_score: Least confidence of a detection.
    """
    from scenewright.core.ports.vision import DetectionError
    from scenewright.evals.human_ratings import sources
    from scenewright.evals.human_ratings.making import RatingStudySpec, make_study
    from scenewright.evals.human_ratings.study import Rule
    from scenewright.runs.model_factory.local_models import DetectorSettings, detector_of

    spec = RatingStudySpec(
        kind="objects",
        n=n,
        whole_share=whole,
        least_share=least_share,
        least_score=least_score,
        rule=Rule(raters=raters, apart=apart),
        seed=seed,
        question=question.strip(),
        name=name.strip(),
        side=side,
    )
    off = quiet or as_json

    async def detect(spec: str, show: Tick) -> Source:
        pictures, classes = sources.read_source(source), terminal.split_list(labels)
        try:
            finder = detector_of(spec, DetectorSettings(images=images))
        except DetectionError as error:
            raise terminal.fail(str(error)) from error
        try:
            # Another detector, or other labels, detects anew.
            key = f"{finder.fingerprint} {sorted(classes)}"
            digest = hashlib.sha256(key.encode()).hexdigest()[:12]
            record = out / f"detections-{digest}.jsonl"
            return await sources.detect_all(
                pictures, finder, record, terminal.split_list(arms), classes, show
            )
        finally:
            await finder.aclose()

    if detector is not None:
        with show_progress("finding objects", off, lines=False) as show:
            found = terminal.run_async(detect(detector, show))
    elif labels or arms:
        raise terminal.fail("--labels and --arms are for --detector: leave them out")
    elif sources.is_rated_set(source):
        found = sources.read_rated(source)
    elif sources.is_detections(source):
        found = sources.read_detected(source, images)
    else:
        raise terminal.fail(
            f"{source} holds no objects: name a file of detections or a set of rated objects, or "
            "add a detector (--detector miniature)"
        )
    with show_progress("copying pictures", off, lines=False) as show:
        study = make_study(found, spec, out, show)
    things = [task for task in study.tasks if task.thing is not None]
    pictures = len({task.candidates[0].image for task in things})
    wholes = len(study.tasks) - len(things)
    categories = len({task.thing.category for task in things if task.thing})
    terminal.print_if_json(
        {
            **terminal.fields_of(study, "name", "kind", objects=len(things), pictures=pictures),
            **{"whole_pictures": wholes, "categories": categories, "sources": study.arms},
            **terminal.fields_of(study, "rule", "seed", "source", "left_out", folder=out),
        }
    )
    terminal.say(f"{len(things)} objects of {pictures} pictures from {study.source}")
    if wholes:
        terminal.say(f"{wholes} pictures are also rated as a whole")
    print_study("sources", study, out)


def print_study(label: str, study: RatingStudy, out: Path) -> None:
    """Print the arms or sources of a new study, what it leaves out, and the next command."""
    terminal.say(f"{label:<10}{', '.join(study.arms)}")
    for why, count in study.left_out.items():
        terminal.say(f"left out  {count} × {why}")
    terminal.say(f"rate it   scenewright rate serve {out}")


@app.command()
@resumable("All ratings are kept.")
def serve(
    folder: Annotated[Path, typer.Argument()] = Path("ratings"),
    host: str = "127.0.0.1",
    port: options.Port = 8650,
    token: Annotated[str | None, typer.Option(envvar="SCENEWRIGHT_RATE_TOKEN")] = None,
) -> None:
    """Serve the rating pages until Ctrl-C.

    Each answer is on disk before the next page is shown: raters can stop and continue at any time,
    and nothing is lost if the server is killed. Several raters can rate at once. Raters give only
    a name; ADDRESS?rater=NAME leads straight to the tasks.

    Exit codes: 0 ended; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        token: Token in the address that raters open; by default a new one is made if other machines
            can reach the host.
    """
    from scenewright.evals.human_ratings.app import serving
    from scenewright.evals.human_ratings.study import StudyFolder

    study = StudyFolder(folder)

    kept = f"Kept in   {study.database.resolve()}"
    terminal.serve_until_signal(
        serving(study, host, port, token),
        lambda url: f"Rate at   {url}   (Ctrl-C ends it.)\n{kept}",
    )
    terminal.note("stopped; all ratings are kept.")


@app.command()
def labels(
    folder: Annotated[Path, typer.Argument()] = Path("ratings"),
    out: options.Out = Path("labels.csv"),
    fewest: options.Positive = 1,
    as_json: options.Json = False,
) -> None:
    """Write the raters' majority for each fact as labels for `scenewright judges`.

    Ties, facts that nobody could tell and facts about absent objects are left out and counted.

    Examples of use:

      scenewright rate labels ratings-facts --out labels.csv

      scenewright judges calibrate -j local:miniature/judge-a --labels labels.csv

    Exit codes: 0 written; 2 wrong input; 3 could not run.

    Args:
        out: CSV file to write.
        fewest: Votes for yes or no that a label needs.
    """
    from scenewright.evals.human_ratings.labels import write_labels
    from scenewright.evals.human_ratings.study import StudyFolder
    from scenewright.evals.human_ratings.table import ratings_of

    study = StudyFolder(folder)
    made = write_labels(study, ratings_of(study), out, fewest)
    terminal.print_if_json(made)
    terminal.say(f"{made.labels} labels written to {out}; {made.holds} hold")
    terminal.say(
        f"left out: {made.ties} ties, {made.undecided} that nobody could tell, {made.too_few} with "
        f"too few votes, {made.absent} about absent objects"
    )
    terminal.say(f"use them  scenewright judges calibrate --labels {out}")


@app.command()
def report(
    source: Annotated[Path, typer.Argument()] = Path("ratings"),
    evaluation: Annotated[Path | None, typer.Argument()] = None,
    out: options.OptionalOut = None,
    lower: list[str] | None = None,
    kind: Annotated[str | None, typer.Option("--kind", "-k")] = None,
    columns: str | None = None,
    resamples: Annotated[int, typer.Option(min=2)] = 1000,
    seed: options.Seed = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Report on ratings: agreement, arms, consistency, and people against metrics and panels.

    Examples of use:

      scenewright rate report ratings evals/mine

      scenewright rate report likert.csv --kind score \\
        --columns rater=worker_id,item=item_id,arm=t2i_model,value=answer

    Exit codes: 0 written; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        source (RATINGS): Folder of `rate make`, or a table of ratings (CSV).
        evaluation ([EVAL]): Evaluation whose metrics and panels are compared with people.
        out: Folder of the page, the JSON and the plots; default RATINGS/report.
        lower: A metric for which lower is better; can be given several times.
        kind: Kind of a table from elsewhere: choice, facts or score.
        columns (OURS=THEIRS[,…]): Columns of such a table, as in rater=worker_id,value=answer.
        resamples: Bootstrap resamples.
    """
    from scenewright.evals.human_ratings.comparison import machine_of
    from scenewright.evals.human_ratings.report import rating_report, write_rating_report
    from scenewright.evals.human_ratings.study import StudyFolder
    from scenewright.evals.human_ratings.table import ratings_of, read_csv
    from scenewright.evals.store.results import Results

    study: RatingStudy | None = None
    if source.is_dir():
        if columns or kind:
            raise terminal.fail("--columns and --kind are for tables: a study has its own")
        rated = StudyFolder(source)
        ratings, study = ratings_of(rated), rated.study
    else:
        names = options.named_values(
            "--columns", terminal.split_list(columns), "OURS=THEIRS", "rater=worker_id"
        )
        ratings = read_csv(source, names, None if kind is None else kind_named(kind))
    where = terminal.console(stderr=True)
    show = (lambda text: terminal.note(f"{text} …")) if where.is_terminal and not quiet else None
    place = out or (source / "report" if source.is_dir() else source.with_suffix(".report"))
    if study is not None and study.kind == "objects" and (evaluation is not None or lower):
        raise terminal.fail("ratings of objects have no evaluation: leave EVAL out")
    machine = None if evaluation is None else machine_of(Results(evaluation), lower or ())
    made = rating_report(
        ratings, study, machine, about=source.name, resamples=resamples, seed=seed, tick=show
    )
    page = write_rating_report(made, place)
    terminal.print_if_json(made)
    for answer in made.answers:
        terminal.say(answer.sentence, "bold")
    over = "pictures" if made.kind == "objects" else "items"
    counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in made.counts.items())
    terminal.say(f"{made.kind}: {counts}")
    terminal.print_measured(made, over)
    terminal.say(f"\nreport   {page}")


def kind_named(text: str) -> Kind:
    """Return the kind of that name; an unknown name ends the command."""
    from scenewright.evals.human_ratings.study import KINDS

    for known in KINDS:
        if text == known:
            return known
    raise terminal.fail(f"unknown kind {text!r}: use one of {', '.join(KINDS)}")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument()] = Path("ratings"),
    place: Annotated[Path | None, typer.Argument()] = None,
    out: options.OptionalOut = None,
    fewest: options.OptionalPositive = None,
) -> None:
    """Write all ratings as CSV, one row a rating; or rated objects, to train and measure with.

    For a study of objects and an OUT that does not end in .csv, OUT becomes a folder with
    objects.jsonl (each object's mean and single ratings) and the pictures.

    Examples of use:

      scenewright rate export ratings ratings.csv

      scenewright rate export ratings-objects rated

    Exit codes: 0 written; 2 wrong input; 3 could not run.

    Args:
        place ([OUT]): CSV file to write, or for a study of objects a folder; default ratings.csv.
        out: The same, as an option.
        fewest: Ratings that an object needs; default all that its study asks for.
    """
    from scenewright.evals.human_ratings.study import StudyFolder
    from scenewright.evals.human_ratings.table import ratings_of, write_csv

    if place is not None and out is not None:
        raise terminal.fail("OUT and --out are the same: give one of them")
    target = place or out or Path("ratings.csv")
    study = StudyFolder(folder)
    if study.study.kind == "objects" and target.suffix.lower() != ".csv":
        from scenewright.evals.human_ratings.rated_units import export_objects

        made = export_objects(study, target, fewest)
        terminal.say(
            f"{made.objects} objects of {made.pictures} pictures written to {target}; left "
            f"out: {made.excluded} that a rater took out, {made.unfinished} that need more "
            "raters"
        )
        return
    if fewest is not None:
        raise terminal.fail("--fewest is for folders of rated objects: leave it out")
    count = write_csv(ratings_of(study), target)
    terminal.say(f"{count} ratings written to {target}")
