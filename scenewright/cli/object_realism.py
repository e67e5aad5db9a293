"""``scenewright object-realism``: score the realism of objects, train and measure scorers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import (
    Exit,
    debugging,
    fail,
    give,
    note,
    print_json,
    print_table,
    run_and_free,
    run_async,
    say,
    split_list,
)
from scenewright.cli.progress import each_picture, show_progress

if TYPE_CHECKING:
    from scenewright.core.ports.vision import Detector, RealismScorer
    from scenewright.evals.human_ratings.object_analysis import Group, Raters
    from scenewright.evals.human_ratings.rated_objects import RatedObject
    from scenewright.evals.statistics.figures import Figure
    from scenewright.evals.studies.olip.evaluation import Evaluation, Selected
    from scenewright.evals.studies.olip.scores_file import ScoresFile
    from scenewright.evals.studies.olip.training import Ablation, Prepared
    from scenewright.tools.vision.realism.blip import BlipEncoder
    from scenewright.tools.vision.realism.olip_training import Epoch
    from scenewright.tools.vision.realism.pictures import PictureRealism

app = App(
    help="Object-centric realism: score objects, train OLIP on rated ones, and measure scorers "
    "against people."
)
SetArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SET",
        help="Folder of rated objects: objects.jsonl and its pictures (docs/realism.md).",
        show_default=False,
    ),
]
EncoderOption = Annotated[
    str,
    typer.Option(
        "--encoder",
        "-e",
        metavar="BLIP",
        help="The frozen BLIP: miniature, a folder in transformers layout, or OWNER/NAME on this "
        "machine (for example Salesforce/blip-itm-base-coco).",
    ),
]
WorkOption = Annotated[
    Path | None,
    typer.Option(
        "--work",
        "-w",
        metavar="FOLDER",
        help="Folder of features, checkpoints or scores, from which the same command continues. "
        "Default: OUT/.work, or the user's cache.",
    ),
]
BatchOption = Annotated[int, typer.Option(min=1, help="Objects in a step.")]
EpochsOption = Annotated[int, typer.Option(min=1, help="Most passes over the training part.")]
RateOption = Annotated[float, typer.Option(help="Learning rate of AdamW.")]
PatienceOption = Annotated[
    int, typer.Option(min=1, help="Stop after this many epochs without gain in validation.")
]
WidthsOption = Annotated[
    str, typer.Option(metavar="A,B,…", help="Hidden layers of the MLPs; default the paper's.")
]
HeadsOption = Annotated[int, typer.Option(min=1, help="Heads of the attention.")]
_AGAIN = "Finished work is kept: the same command goes on from there."


@app.command()
def score(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Picture files.", show_default=False)
    ],
    scorer: Annotated[
        str,
        typer.Option(
            "--scorer",
            "-s",
            metavar="KIND:MODEL",
            help="Scorer: olip:FOLDER_OR_OWNER/NAME, vlm:ACCOUNT:MODEL, clip:MODEL, "
            "blip:MODEL, vqa:JUDGE, judge:JUDGE (docs/realism.md).",
        ),
    ] = "olip:miniature/olip-a",
    detector: options.Detector = "miniature",
    labels: options.Labels = None,
    most: Annotated[
        int, typer.Option(min=1, help="Score a picture by this many of its largest objects.")
    ] = 5,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write the scores here, one JSON line a picture; - is standard output, where "
            "nothing else is then printed.",
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> Exit:
    """Score the realism of the objects in pictures: shape and texture from 1 to 5.

    The score of a picture is the mean over its largest objects (OcR). Without models of your own
    it scores the miniature world.

    Examples of use:

      scenewright object-realism score painted.png

      scenewright object-realism score *.jpg --scorer olip:FOLDER --detector transformers:OWNER/NAME
      --json scores.jsonl

    Exit codes: 0 scored; 2 wrong input; 3 could not run, or a picture could not be scored (the
    others still are).
    """
    from scenewright.core.ports.vision import DetectionError, RealismError
    from scenewright.evals.studies.olip.scores_file import ScoresFile
    from scenewright.runs.model_factory.local_models import cached_detector_of
    from scenewright.runs.model_factory.realism_scorers import scorer_of

    names = split_list(labels)
    if labels is not None and not names:
        raise fail("--labels names no class: write for example --labels dog,ball")
    try:
        models = scorer_of(scorer), cached_detector_of(detector or "miniature")
        file = ScoresFile.of(json_file, *models, names)
        scored, failed = run_and_free(_scored(images, *models, names, most, file, quiet))
    except (DetectionError, RealismError) as error:
        if debugging():
            raise
        raise fail(str(error), Exit.FAILED) from None
    for at, (path, found) in enumerate(scored if not file.is_output else ()):
        if len(images) > 1:
            say(f"{chr(10) if at else ''}{path}", "bold underline")
        _print_scores(found)
    return Exit.FAILED if failed else Exit.OK


async def _scored(
    images: Sequence[Path],
    scorer: RealismScorer,
    detector: Detector,
    labels: Sequence[str],
    most: int,
    file: ScoresFile,
    quiet: bool,
) -> tuple[list[tuple[Path, PictureRealism]], int]:
    """Return the scored pictures, and how many could not be."""
    from scenewright.core.images import ImageError, hash_of_image, load_image
    from scenewright.core.ports.vision import DetectionError, RealismError
    from scenewright.tools.vision.realism.pictures import picture_realism

    async def scored(path: Path) -> tuple[Path, PictureRealism]:
        picture = await asyncio.to_thread(load_image, path)
        digest = await asyncio.to_thread(hash_of_image, picture)
        found = file.known(digest, most)
        if found is None:
            found = await picture_realism(
                picture, detector, scorer, labels=tuple(labels), most=most
            )
            file.add(path, picture.size, digest, found)
        return path, found

    return await each_picture(images, scored, (DetectionError, RealismError, ImageError), quiet)


def _print_scores(found: PictureRealism) -> None:
    from scenewright.runs.report import words

    rows = []
    for place, (item, realism) in enumerate(found.objects):
        box = " ".join(str(round(value)) for value in item.box)
        remark = realism.reason or ("" if place < found.most else "not among the largest")
        scores = (realism.shape, realism.texture, realism.average)
        rows.append((item.name, box, *map(_score, scores), remark))
    print_table(("object", "box", "shape", "texture", "OcR", "note"), rows)
    if rows:
        say("")
    if found.ocr is None:
        say(f"no realism: {found.reason}")
        return
    largest = words.count(min(found.most, len(found.objects)), "object")
    say(
        f"realism {_score(found.ocr)} of 5 (shape {_score(found.shape)}, texture "
        f"{_score(found.texture)}) by the largest {largest}; "
        f"{found.found - len(found.objects)} left out"
    )


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


@app.command()
@resumable(_AGAIN)
def train(
    rated: SetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the heads.")],
    encoder: EncoderOption = "miniature",
    epochs: EpochsOption = 60,
    batch: BatchOption = 64,
    rate: RateOption = 1e-4,
    patience: PatienceOption = 10,
    widths: WidthsOption = "1024,768,384",
    heads: HeadsOption = 8,
    literal: Annotated[
        bool,
        typer.Option(
            "--literal", help="Attention as the paper writes it, which ignores the full image."
        ),
    ] = False,
    seed: options.Seed = 0,
    work: WorkOption = None,
    device: options.Device = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train OLIP on a set of rated objects.

    Parts are drawn by picture: 5 % test, 5 % validation, unless the set names its own; they are
    saved with the heads. The encoder's features are computed once and kept. An interrupted
    training continues to the same weights.

    Examples of use:

      scenewright object-realism train rated/ olip/ --widths 128,96,48

      scenewright object-realism train rated/ olip/ --encoder Salesforce/blip-itm-base-coco

    Exit codes: 0 trained; 2 wrong input; 3 could not run; 130 interrupted.
    """
    from scenewright.evals.studies.olip.evaluation import floors
    from scenewright.evals.studies.olip.training import evaluate_heads, fit, training_report
    from scenewright.tools.vision.realism.olip import OlipConfig
    from scenewright.tools.vision.realism.olip_files import REPORT, save_olip
    from scenewright.tools.vision.realism.olip_training import TrainingOptions

    blip = _encoder(encoder, device)
    options = TrainingOptions(epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed)
    kept = work or out / ".work"
    prepared = _prepared(rated, blip, kept, seed, quiet)
    config = OlipConfig(
        embedding=prepared.features.full.shape[1],
        heads=heads,
        widths=_widths(widths),
        residual=not literal,
    )
    with show_progress("epoch", quiet) as show:

        def epoch_ends(epoch: Epoch) -> None:
            losses = f"loss {epoch.loss:.4f}  validation {epoch.validation:.4f}"
            show(epoch.number, epochs, more=losses)

        trained = fit(
            prepared, config, options, checkpoint=kept / "training.pt", on_epoch=epoch_ends
        )
    rows = [
        evaluate_heads("OLIP", trained.model, prepared, seed=seed),
        *floors(prepared.part("test"), prepared.part("train"), seed=seed).values(),
    ]
    report = training_report(trained, options, prepared, rows)
    save_olip(
        out,
        trained.model,
        encoder=blip.folder if encoder == "miniature" or Path(encoder).is_dir() else encoder,
        encoder_digest=blip.digest,
        trained_on=prepared.trained_on,
        report=report,
    )
    if as_json:
        print_json(report)
        return
    _print_evaluation(rows)
    say(f"best epoch {trained.best} of {len(trained.history)}; report {out / REPORT}")


@app.command()
@resumable(_AGAIN)
def ablate(
    rated: SetArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder for ablations.json and ablations.md.")
    ],
    encoder: EncoderOption = "miniature",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each variant.")] = 1,
    epochs: EpochsOption = 60,
    batch: BatchOption = 64,
    rate: RateOption = 1e-4,
    patience: PatienceOption = 10,
    widths: WidthsOption = "1024,768,384",
    heads: HeadsOption = 8,
    seed: options.Seed = 0,
    work: WorkOption = None,
    device: options.Device = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the effect of each part of OLIP (Table 3b), on the test part of a set.

    Full OLIP; without the full image, with one head for all, with a linear projection, without
    all three; and attention as the paper writes it. The same features, parts and seeds for each;
    below them constant and random scores.

    Exit codes: 0 measured; 2 wrong input; 3 could not run; 130 interrupted.
    """
    from scenewright.core.flushing import write_text
    from scenewright.evals.studies.olip import training
    from scenewright.runs.folder import write_json
    from scenewright.tools.vision.realism.olip import OlipConfig
    from scenewright.tools.vision.realism.olip_training import TrainingOptions

    blip = _encoder(encoder, device)
    kept = work or out / ".work"
    prepared = _prepared(rated, blip, kept, seed, quiet)

    def begins(variant: str, number: int) -> None:
        if not quiet:
            note(f"{training.TITLES[variant]}, seed {number}")

    rows = training.ablate(
        prepared,
        OlipConfig(embedding=prepared.features.full.shape[1], heads=heads, widths=_widths(widths)),
        TrainingOptions(epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed),
        seeds=range(seed, seed + seeds),
        work=kept / "ablations",
        on_variant=begins,
    )
    out.mkdir(parents=True, exist_ok=True)
    content = [row.model_dump(mode="json") for row in rows]
    write_json(out / "ablations.json", content)
    write_text(out / "ablations.md", training.markdown(rows).rstrip())
    give(as_json, content, _print_ablations, rows)


@app.command()
@resumable(_AGAIN)
def evaluate(
    rated: SetArgument,
    scorers: Annotated[
        list[str],
        typer.Argument(
            metavar="SCORER...",
            help="Scorers, as olip:FOLDER, vlm:ACCOUNT:MODEL:few-shot-crop-s5 or "
            "few-shot:judge:local:miniature/judge-a (docs/realism.md).",
        ),
    ],
    part: Annotated[
        str,
        typer.Option(
            help="Part to measure on: test, validation, train, or all. Parts are those saved with "
            "the heads; if no scorer was trained on the set, they are drawn as `train` does."
        ),
    ] = "test",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for evaluation.json and evaluation.md."),
    ] = None,
    overlap: Annotated[
        bool,
        typer.Option(
            "--allow-overlap",
            help="Also measure heads on pictures that they were trained on, or that may have been "
            "used; the table says so.",
        ),
    ] = False,
    seed: options.Seed = 0,
    work: WorkOption = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure scorers against a set's ratings: MAE, 5-class accuracy (Table 3a), and ranks.

    With 95 % intervals over pictures, and with rows for floors that see no picture: constants of
    the training part, its most frequent class, and random scores. Heads are measured on the test
    part of their training, and refused on pictures that it used. Objects without a score are
    counted and left out, never counted as 0.

    Example of use:

      scenewright object-realism evaluate rated/ olip:olip/ few-shot:judge:local:miniature/judge-a

    Exit codes: 0 measured; 2 wrong input; 3 could not run; 130 interrupted.
    """
    from scenewright.core.flushing import write_text
    from scenewright.evals.studies.olip.evaluation import markdown, seen_text
    from scenewright.evals.studies.olip.measuring import evaluate_scorers
    from scenewright.runs.folder import write_json

    kept = work or (out / ".work" if out is not None else None)
    with show_progress("objects scored", quiet) as show:
        rows = run_and_free(
            evaluate_scorers(
                rated,
                scorers,
                part,
                seed,
                kept,
                allow=overlap,
                saved=lambda: None if quiet else note(_SAVED_PARTS),
                scored=show,
            )
        )
    content = [row.model_dump(mode="json") for row in rows]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "evaluation.json", content)
        write_text(out / "evaluation.md", markdown(rows).rstrip())
    if as_json:
        print_json(content)
    else:
        _print_evaluation(rows)
        for row in rows:
            if text := seen_text(row):
                say(f"{row.name}{text}")


_SAVED_PARTS = "parts: as saved with the heads; --seed has no effect on them"


def _prepared(rated: Path, blip: BlipEncoder, kept: Path, seed: int, quiet: bool) -> Prepared:
    from scenewright.evals.studies.olip.training import prepare

    with show_progress("features of objects", quiet) as show:
        return run_async(prepare(rated, blip, cache=kept / "features", seed=seed, on_features=show))


def _encoder(name: str, device: str) -> BlipEncoder:
    from scenewright.core.ports.vision import RealismError
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
    from scenewright.tools.vision.realism.blip import BlipEncoder

    if name != "miniature":
        return BlipEncoder(name, device=device)
    folder = MINIATURE_WEIGHTS / "blip"
    if not (folder / "config.json").is_file():
        raise RealismError(
            f"the miniature's BLIP is not in {folder}: train it with `scenewright miniature train "
            "blip`, or name another with --encoder"
        )
    return BlipEncoder(folder, name="miniature/blip", device=device)


def _widths(text: str) -> tuple[int, ...]:
    from scenewright.core.ports.vision import RealismError

    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise RealismError(f"--widths {text!r}: write whole numbers, as in 1024,768,384")
    return found


_MEASURES = (("MAE ↓", "mae"), ("ACC ↑", "acc"), ("rank ↑", "spearman"))


def _print_evaluation(rows: Sequence[Evaluation]) -> None:
    """Print Table 3a: value and interval of each figure, one line a scorer and measure."""
    from scenewright.evals.studies.olip.evaluation import COLUMNS

    lines = []
    for row in rows:
        ends = (f"{row.unscored} of {row.objects}", "", "")
        for head, (name, field), end in zip((row.name, "", ""), _MEASURES, ends, strict=True):
            cells = [getattr(row.columns[column], field).text() for column in COLUMNS]
            lines.append((head, name, *cells, end))
    print_table(("method", "", *COLUMNS, "unscored"), lines)


def _print_ablations(rows: Sequence[Ablation]) -> None:
    """Print Table 3b: the joint score, and how much worse than full OLIP."""
    from scenewright.evals.studies.olip.training import TITLES

    lines = []
    for row in rows:
        joint = row.evaluation.columns["joint"]
        worse = [figure.text() if figure else "" for figure in (row.worse_mae, row.worse_acc)]
        measured = (joint.mae.text(), joint.acc.text(), joint.spearman.text())
        lines.append((TITLES[row.variant], *measured, *worse))
    heads = ("model design", "MAE ↓", "ACC ↑", "rank ↑", "MAE over full", "ACC under full")
    print_table(heads, lines)


@app.command()
def analyse(rated: SetArgument, seed: options.Seed = 0, as_json: options.Json = False) -> None:
    """Analyse a set of rated objects: image realism by objects, discrepancy, agreement.

    Table 2 (rank correlation of object and image realism), Figure 8 (how many of the largest
    objects predict the image), the discrepancy of shape and texture by source and category, and
    the agreement of raters. Parts without ratings are left out, with the reason.

    Example of use:

      scenewright object-realism analyse rated/

    Exit codes: 0 done; 2 wrong input; 130 interrupted.
    """
    from scenewright.core.ports.vision import RealismError
    from scenewright.evals.human_ratings.object_analysis import (
        discrepancy,
        image_correlations,
        raters,
    )
    from scenewright.evals.human_ratings.rated_objects import read_objects
    from scenewright.evals.studies.olip.evaluation import select_ranks

    objects = read_objects(rated)
    if not objects:
        raise RealismError(
            f"{rated} holds no objects: name a set of rated objects (docs/realism.md)"
        )

    def apart() -> dict[str, dict[str, Group]]:
        keys: dict[str, Callable[[RatedObject], str] | None] = {
            "all": None,
            "source": lambda o: o.source or "unknown",
            "category": lambda o: o.category,
        }
        return {name: discrepancy(objects, by=by, seed=seed) for name, by in keys.items()}

    parts: dict[str, tuple[Callable[[], Any], Callable[[Any], _Table]]] = {
        "correlation": (lambda: image_correlations(objects, seed=seed), _correlation_table),
        "salience": (lambda: select_ranks(objects, seed=seed), _salience_table),
        "discrepancy": (apart, _discrepancy_table),
        "raters": (lambda: raters(objects, seed=seed), _raters_table),
    }
    data: dict[str, Any] = {"objects": len(objects), "left_out": {}}
    for name, (work, table) in parts.items():
        try:
            found = work()
        except RealismError as error:
            data["left_out"][name] = str(error)
            if not as_json:
                say(f"{name}: {error}")
            continue
        data[name] = _plain(found)
        if not as_json:
            print_table(*table(found))
    if as_json:
        print_json(data)


_Table = tuple[Sequence[str], Iterable[Sequence[str]]]
"""Heads and rows."""


def _plain(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found.model_dump(mode="json")


def _correlation_table(found: Mapping[str, Mapping[str, Figure]]) -> _Table:
    aspects = ("shape", "texture", "joint")
    return ("objects", *aspects, "n"), [
        (row.replace("_", " "), *(figures[a].text(2) for a in aspects), str(figures["joint"].n))
        for row, figures in found.items()
    ]


def _salience_table(found: Sequence[Selected]) -> _Table:
    return ("objects", "MSE ↓", "R² ↑", "ranks by size"), [
        (str(len(one.kept)), one.mse.text(2), one.r2.text(2),
         ", ".join(map(str, one.kept)) or "none: a constant")
        for one in found
    ]  # fmt: skip


def _discrepancy_table(found: Mapping[str, Mapping[str, Group]]) -> _Table:
    return ("by", "", "0", "1", "2", "≥ 3", "share ≥ 2", "shape ~ texture"), [
        (by if not at else "", name, *map(str, one.counts), one.high.text(2),
         one.correlation.text(2))
        for by, groups in found.items()
        for at, (name, one) in enumerate(groups.items())
    ]  # fmt: skip


def _raters_table(found: Raters) -> _Table:
    figures = {
        "Cohen's κ": found.kappa,
        "κ, quadratic": found.weighted,
        "same score": found.same,
        "mean difference": found.distance,
    }
    return ("two raters", "shape", "texture"), [
        *((name, both["shape"].text(2), both["texture"].text(2)) for name, both in figures.items()),
        ("3 or more apart", found.reviewed.text(2), ""),
        ("of them seen by a third", str(found.third), ""),
    ]
