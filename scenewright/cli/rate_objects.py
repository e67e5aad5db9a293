"""``scenewright rate objects``: makes a study of how real objects look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.objects.analysis import Group
    from scenewright.evals.human_ratings.objects.report import ObjectReport
    from scenewright.evals.human_ratings.objects.sources import ObjectSource, Tick
    from scenewright.evals.human_ratings.study import RatingStudy


def objects(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder of an evaluation, folder with one subfolder an arm, or CSV file (all with "
            "--detector); a JSON or COCO file of detections; or a set of rated objects, whose "
            "ratings are not looked at.",
        ),
    ],
    detector: Annotated[
        str | None,
        typer.Option(
            "--detector",
            help="What finds the objects: miniature, json:FILE, or transformers:MODEL.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="LABEL[,…]",
            help="Classes that the detector looks for; default its own.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            help="Folder of the pictures that a file of detections names; default its own.",
            show_default=False,
        ),
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms", metavar="ARM[,ARM…]", help="Which arms; default all.", show_default=False
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", "-n", min=1, help="Objects; default all.", show_default=False),
    ] = None,
    raters: Annotated[
        int, typer.Option("--raters", min=1, max=20, help="So many rate each object.")
    ] = 2,
    apart: Annotated[
        int,
        typer.Option(
            "--apart",
            min=1,
            max=5,
            help="Where two scores differ by so much one more rater is asked; 5: never.",
        ),
    ] = 3,
    whole: Annotated[
        float,
        typer.Option(
            "--whole", min=0.0, max=1.0, help="Share of the pictures also rated as a whole."
        ),
    ] = 0.0,
    least_share: Annotated[
        float,
        typer.Option(
            "--least-share", min=0.0, max=1.0, help="Least share of the picture in an object's box."
        ),
    ] = 0.01,
    least_score: Annotated[
        float,
        typer.Option("--least-score", min=0.0, max=1.0, help="Least confidence of a detection."),
    ] = 0.5,
    seed: Annotated[
        int, typer.Option("--seed", "-s", min=0, help="Of the draw and of all orders.")
    ] = 0,
    question: Annotated[
        str, typer.Option("--question", help="Your own question.", show_default=False)
    ] = "",
    name: Annotated[
        str, typer.Option("--name", help="Title that raters see; it should not tell the sources.")
    ] = "Rating objects",
    side: Annotated[
        int | None,
        typer.Option("--side", help="Scale all pictures to this longest side.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the study.")] = Path(
        "ratings"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a study of objects: people say how real the shape and the texture of each look.

    Two raters an object, and a third where they differ by three or more (Liang et al., Sec. 3.2).
    Raters see the picture, the object's box, its crop and its class, but not what made the picture.

    Examples:

      scenewright rate objects evals/mine --detector miniature --n 500 --out ratings-objects

      scenewright rate objects detections.json --images pictures --whole 0.1

    Exit codes: 0 the study is made; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(again="Nothing is lost: start it again."):
        from scenewright.evals.human_ratings.objects.making import (
            ObjectStudySpec,
            make_object_study,
        )
        from scenewright.evals.human_ratings.study import Rule

        wish = ObjectStudySpec(
            n=n,
            whole_share=whole,
            least_share=least_share,
            least_score=least_score,
            rule=Rule(raters=raters, apart=apart),
            seed=seed,
            question=question.strip(),
            name=name.strip() or "Rating objects",
            side=side,
        )
        where, off = console(stderr=True), quiet or as_json
        with show_progress(where, "finding objects", off, lines=False) as tick:
            found = _read(source, detector, _parts(labels), images, _parts(arms), out, tick)
        with show_progress(where, "copying pictures", off, lines=False) as tick:
            study = make_object_study(found, wish, out, tick)
        if as_json:
            print_json(_summary(study, out))
            return
        where = console()
        made = _summary(study, out)
        where.print(
            f"{made['objects']} objects of {made['pictures']} pictures from {study.source}",
            soft_wrap=True,
        )
        where.print(f"sources   {', '.join(study.arms)}", soft_wrap=True)
        if made["whole_pictures"]:
            where.print(f"as a whole {made['whole_pictures']} pictures", soft_wrap=True)
        for why, count in study.left_out.items():
            where.print(f"left out  {count} × {why}", soft_wrap=True)
        where.print(f"rate it   scenewright rate serve {out}", soft_wrap=True)


def _read(
    source: Path,
    detector: str | None,
    labels: tuple[str, ...],
    images: Path | None,
    arms: tuple[str, ...],
    out: Path,
    tick: Tick | None,
) -> ObjectSource:
    from scenewright.evals.human_ratings.objects.sources import (
        is_detections,
        is_rated_set,
        read_detected,
        read_rated,
    )

    if detector is not None:
        return asyncio.run(_detect(source, detector, labels, images, arms, out, tick))
    if labels or arms:
        raise fail("--labels and --arms are for --detector: leave them out", Exit.USAGE)
    if is_rated_set(source):
        return read_rated(source)
    if is_detections(source):
        return read_detected(source, images)
    raise fail(
        f"{source} tells of no objects: name a file of detections or a set of rated objects, or "
        "what finds them (--detector miniature)",
        Exit.USAGE,
    )


async def _detect(
    source: Path,
    spec: str,
    labels: tuple[str, ...],
    images: Path | None,
    arms: tuple[str, ...],
    out: Path,
    tick: Tick | None,
) -> ObjectSource:
    quiet_libraries()
    import hashlib

    from scenewright.core.ports.vision import DetectionError
    from scenewright.evals.human_ratings.objects.sources import detect_all
    from scenewright.evals.human_ratings.sources import read_source
    from scenewright.runs.model_factory.local_models import DetectorSettings, detector_of

    pictures = read_source(source)
    try:
        found = detector_of(spec, DetectorSettings(images=images))
    except DetectionError as error:
        raise fail(str(error), Exit.USAGE) from error
    try:
        # Another detector, or other labels, detects anew.
        key = hashlib.sha256(f"{found.fingerprint} {sorted(labels)}".encode()).hexdigest()[:12]
        record = out / f"detections-{key}.jsonl"
        return await detect_all(pictures, found, record, arms, labels, tick)
    finally:
        await found.aclose()


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _summary(study: RatingStudy, out: Path) -> dict[str, object]:
    things = [task for task in study.tasks if task.thing is not None]
    return {
        "name": study.name,
        "kind": study.kind,
        "objects": len(things),
        "pictures": len({task.candidates[0].image for task in things}),
        "whole_pictures": len(study.tasks) - len(things),
        "categories": len({task.thing.category for task in things if task.thing}),
        "sources": list(study.arms),
        "rule": study.rule.model_dump(),
        "seed": study.seed,
        "source": study.source,
        "left_out": study.left_out,
        "folder": str(out),
    }


def print_object_report(report: ObjectReport, where: Console) -> None:
    """Print the tables of ``report``."""
    from scenewright.evals.human_ratings.report_page import figure_text as shown
    from scenewright.evals.human_ratings.study import ASPECTS

    counts = report.counts
    where.print(
        f"{len(report.raters)} raters, {counts.objects} objects: {counts.finished} finished, "
        f"{counts.once} begun, {counts.waiting} waiting for a re-evaluation, {counts.excluded} "
        f"taken out, {counts.untouched} untouched; in brackets 95 % intervals over pictures",
        soft_wrap=True,
    )
    rows = [
        (aspect, shown(a.kappa), f"{report.paper[f'kappa_{aspect}']:.2f}", shown(a.weighted),
         shown(a.same), str(a.kappa.n))
        for aspect, a in report.agreement.items()
    ]  # fmt: skip
    heads = ("agreement", "Cohen's κ", "paper", "quadratic κ", "same score", "pairs")
    print_table(where, heads, rows)
    print_table(
        where,
        ("over objects", "here", "paper"),
        [
            ("rate of re-evaluation", shown(report.reevaluation),
             f"{report.paper['reevaluation']:.2f}"),
            ("Spearman, shape and texture", shown(report.shape_and_texture),
             f"{report.paper['shape_and_texture']:.2f}"),
            ("two or more apart", shown(report.overall.high),
             f"{report.paper['high_discrepancy']:.2f}"),
        ],
    )  # fmt: skip
    print_table(
        where,
        ("rater", "objects", "out", "median s",
         *(f"{what} {a}" for what in ("bias", "κ") for a in ASPECTS)),
        [
            (r.rater, str(r.objects), str(r.taken_out),
             "–" if r.median_seconds is None else f"{r.median_seconds:.1f}",
             *(shown(r.bias[a], 2) for a in ASPECTS),
             *(shown(r.agreement[a], 2) for a in ASPECTS))
            for r in report.raters
        ],
    )  # fmt: skip
    _groups(where, "source", (*report.sources, report.overall))
    _groups(where, "category", report.categories)


def _groups(where: Console, head: str, groups: Sequence[Group]) -> None:
    from scenewright.evals.human_ratings.report_page import figure_text as shown

    print_table(
        where,
        (head, "shape", "texture", "OcR", "2 or more apart", "objects"),
        [
            (g.name, *(shown(g.mean[a], 2) for a in g.mean), shown(g.ocr, 2), shown(g.high, 2),
             str(g.ocr.n))
            for g in groups
        ],
    )  # fmt: skip
