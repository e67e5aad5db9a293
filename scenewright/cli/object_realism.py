"""``scenewright object-realism``: score the realism of objects, train and measure scorers.

Args:
    rated (SET): Folder of rated objects: objects.jsonl and its pictures (docs/realism.md).
    encoder (BLIP): The frozen BLIP: miniature, a folder in transformers layout, or OWNER/NAME on
        this machine (for example Salesforce/blip-itm-base-coco).
    work (FOLDER): Folder of features, checkpoints or scores, from which the same command continues.
        Default: OUT/.work, or the user's cache.
    batch: Objects in a step.
    epochs: Most passes over the training part.
    rate: Learning rate of AdamW.
    patience: Stop after this many epochs without gain in validation.
    widths (A,B,…): Hidden layers of the MLPs; default the paper's.
    heads: Heads of the attention.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import console as terminal
from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.progress import each_picture, show_progress
from scenewright.evals.reporting.words import count
from scenewright.evals.reporting.words import score as number

if TYPE_CHECKING:
    from scenewright.evals.human_ratings.rated_objects import RatedObject
    from scenewright.evals.studies.olip.evaluation import Evaluation
    from scenewright.evals.studies.olip.training import Prepared
    from scenewright.tools.vision.realism.blip import BlipEncoder
    from scenewright.tools.vision.realism.olip_training import Epoch
    from scenewright.tools.vision.realism.pictures import PictureRealism

app = App(
    help="Object-centric realism: score objects, train OLIP on rated ones, and measure scorers "
    "against people."
)
WorkOption = Annotated[Path | None, typer.Option("--work", "-w")]
EncoderOption = Annotated[str, typer.Option("--encoder", "-e")]
_AGAIN = "Finished work is kept: the same command goes on from there."


@app.command()
def score(
    images: list[Path],
    scorer: Annotated[str, typer.Option("--scorer", "-s")] = "olip:miniature/olip-a",
    detector: options.Detector = "miniature",
    labels: str | None = None,
    most: options.Positive = 5,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
    quiet: options.Quiet = False,
) -> terminal.Exit:
    """Score the realism of the objects in pictures: shape and texture from 1 to 5.

    The score of a picture is the mean over its largest objects (OcR). Without models of your own
    it scores the miniature world.

    Examples of use:

      scenewright object-realism score painted.png

      scenewright object-realism score *.jpg --scorer olip:FOLDER --detector transformers:OWNER/NAME
      --json scores.jsonl

    Exit codes: 0 scored; 2 wrong input; 3 could not run, or a picture could not be scored (the
    others still are).

    Args:
        images (IMAGE...): Picture files.
        scorer (KIND:MODEL): Scorer: olip:FOLDER_OR_OWNER/NAME, vlm:ACCOUNT:MODEL, clip:MODEL,
            blip:MODEL, vqa:JUDGE, judge:JUDGE (docs/realism.md).
        most: Score a picture by this many of its largest objects.
        json_file (FILE): Write the scores here, one JSON line a picture; - is standard output,
            where nothing else is then printed.
    """
    from scenewright.core.images import ImageError, hash_of_image, load_image
    from scenewright.core.ports.vision import DetectionError, RealismError
    from scenewright.evals.studies.olip.scores_file import ScoresFile
    from scenewright.runs.model_factory.local_models import cached_detector_of
    from scenewright.runs.model_factory.realism_scorers import scorer_of
    from scenewright.tools.vision.realism.pictures import picture_realism

    names = options.label_names(labels)

    async def score_picture(path: Path) -> tuple[Path, PictureRealism]:
        picture = await asyncio.to_thread(load_image, path)
        digest = await asyncio.to_thread(hash_of_image, picture)
        found = file.known(digest, most)
        if found is None:
            found = await picture_realism(picture, finder, model, labels=names, most=most)
            file.add(path, picture.size, digest, found)
        return path, found

    errors = (DetectionError, RealismError, ImageError)
    try:
        model, finder = scorer_of(scorer), cached_detector_of(detector or "miniature")
        file = ScoresFile.of(json_file, model, finder, names)
        scored, failed = terminal.run_and_free(each_picture(images, score_picture, errors, quiet))
    except (DetectionError, RealismError) as error:
        if terminal.debugging():
            raise
        raise terminal.fail(str(error), terminal.Exit.FAILED) from None
    for at, (path, found) in enumerate(scored if not file.is_output else ()):
        if len(images) > 1:
            terminal.say(f"{chr(10) if at else ''}{path}", "bold underline")
        rows = []
        for place, (item, realism) in enumerate(found.objects):
            box = " ".join(str(round(value)) for value in item.box)
            remark = realism.reason or ("" if place < found.most else "not among the largest")
            scores = (realism.shape, realism.texture, realism.average)
            rows.append((item.name, box, *(number(value, 2) for value in scores), remark))
        terminal.print_table(("object", "box", "shape", "texture", "OcR", "note"), rows)
        if rows:
            terminal.say("")
        if found.ocr is None:
            terminal.say(f"no realism: {found.reason}")
            continue
        terminal.say(
            f"realism {number(found.ocr, 2)} of 5 (shape {number(found.shape, 2)}, texture "
            f"{number(found.texture, 2)}) by the largest "
            f"{count(min(found.most, len(found.objects)), 'object')}; "
            f"{found.found - len(found.objects)} left out"
        )
    return terminal.Exit.FAILED if failed else terminal.Exit.OK


@app.command()
@resumable(_AGAIN)
def train(
    rated: Path,
    out: Path,
    encoder: EncoderOption = "miniature",
    epochs: options.Positive = 60,
    batch: options.Positive = 64,
    rate: float = 1e-4,
    patience: options.Positive = 10,
    widths: str = "1024,768,384",
    heads: options.Positive = 8,
    literal: bool = False,
    full_image: bool = False,
    seed: options.Seed = 0,
    work: WorkOption = None,
    device: str = "auto",
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

    Args:
        out: Folder of the heads.
        literal: Attention as the paper writes it, which ignores the full image.
        full_image: The heads see the full image too, not the crop alone.
    """
    from scenewright.evals.studies.olip.evaluation import floors
    from scenewright.evals.studies.olip.training import evaluate_heads, fit, training_report
    from scenewright.tools.vision.realism.olip import OlipConfig
    from scenewright.tools.vision.realism.olip_files import REPORT, save_olip
    from scenewright.tools.vision.realism.olip_training import TrainingOptions

    layers = options.whole_numbers("--widths", widths, 1, "1024,768,384")
    blip = open_encoder(encoder, device)
    plan = TrainingOptions(epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed)
    kept = work or out / ".work"
    prepared = compute_features(rated, blip, kept, seed, quiet)
    config = OlipConfig(
        embedding=prepared.features.full.shape[1],
        heads=heads,
        widths=layers,
        full_image=full_image or literal,
        residual=not literal,
    )
    with show_progress("epoch", quiet) as show:

        def epoch_ends(epoch: Epoch) -> None:
            losses = f"loss {epoch.loss:.4f}  validation {epoch.validation:.4f}"
            show(epoch.number, epochs, more=losses)

        trained = fit(prepared, config, plan, checkpoint=kept / "training.pt", on_epoch=epoch_ends)
    rows = [
        evaluate_heads("OLIP", trained.model, prepared, seed=seed),
        *floors(prepared.part("test"), prepared.part("train"), seed=seed).values(),
    ]
    report = training_report(trained, plan, prepared, rows)
    save_olip(
        out,
        trained.model,
        encoder=blip.folder if encoder == "miniature" or Path(encoder).is_dir() else encoder,
        encoder_digest=blip.digest,
        trained_on=prepared.trained_on,
        report=report,
    )
    terminal.print_if_json(report)
    _print_evaluation(rows)
    terminal.say(f"best epoch {trained.best} of {len(trained.history)}; report {out / REPORT}")


@app.command()
@resumable(_AGAIN)
def ablate(
    rated: Path,
    out: Path,
    encoder: EncoderOption = "miniature",
    seeds: options.Positive = 1,
    epochs: options.Positive = 60,
    batch: options.Positive = 64,
    rate: float = 1e-4,
    patience: options.Positive = 10,
    widths: str = "1024,768,384",
    heads: options.Positive = 8,
    seed: options.Seed = 0,
    work: WorkOption = None,
    device: str = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the effect of each part of OLIP (Table 3b), on the test part of a set.

    Full OLIP; without the full image, with one head for all, with a linear projection, without
    all three; and attention as the paper writes it. The same features, parts and seeds for each;
    below them constant and random scores.

    Exit codes: 0 measured; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        out: Folder for ablations.json and ablations.md.
        seeds: Trainings of each variant.
    """
    from scenewright.core.flushing import write_text
    from scenewright.evals.studies.olip import training
    from scenewright.runs.folder import write_json
    from scenewright.tools.vision.realism.olip import OlipConfig
    from scenewright.tools.vision.realism.olip_training import TrainingOptions

    layers = options.whole_numbers("--widths", widths, 1, "1024,768,384")
    kept = work or out / ".work"
    prepared = compute_features(rated, open_encoder(encoder, device), kept, seed, quiet)

    def begins(variant: str, number: int) -> None:
        if not quiet:
            terminal.note(f"{training.TITLES[variant]}, seed {number}")

    rows = training.ablate(
        prepared,
        OlipConfig(embedding=prepared.features.full.shape[1], heads=heads, widths=layers),
        TrainingOptions(epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed),
        seeds=range(seed, seed + seeds),
        work=kept / "ablations",
        on_variant=begins,
    )
    out.mkdir(parents=True, exist_ok=True)
    content = [row.model_dump(mode="json") for row in rows]
    write_json(out / "ablations.json", content)
    table = training.ablation_table(rows)
    write_text(out / "ablations.md", table.markdown())
    terminal.print_if_json(content)
    terminal.print_table(table.titles, table.texts())


@app.command()
@resumable(_AGAIN)
def evaluate(
    rated: Path,
    scorers: list[str],
    part: str = "test",
    out: options.OptionalOut = None,
    overlap: Annotated[bool, typer.Option("--allow-overlap")] = False,
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

    Args:
        scorers (SCORER...): Scorers, as olip:FOLDER, vlm:ACCOUNT:MODEL:few-shot-crop-s5 or
            few-shot:judge:local:miniature/judge-a (docs/realism.md).
        part: Part to measure on: test, validation, train, or all. Parts are those saved with the
            heads; if no scorer was trained on the set, they are drawn as `train` does.
        out: Folder for evaluation.json and evaluation.md.
        overlap: Also measure heads on pictures that they were trained on, or that may have been
            used; the table says so.
    """
    from scenewright.core.flushing import write_text
    from scenewright.evals.studies.olip.comparing import evaluate_scorers
    from scenewright.evals.studies.olip.evaluation import seen_text, table
    from scenewright.runs.folder import write_json

    kept = work or (out / ".work" if out is not None else None)
    saved = "parts: as saved with the heads; --seed has no effect on them"
    with show_progress("objects scored", quiet) as show:
        rows = terminal.run_and_free(
            evaluate_scorers(
                rated,
                scorers,
                part,
                seed,
                kept,
                allow=overlap,
                saved=lambda: None if quiet else terminal.note(saved),
                scored=show,
            )
        )
    content = [row.model_dump(mode="json") for row in rows]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "evaluation.json", content)
        write_text(out / "evaluation.md", table(rows).markdown())
    terminal.print_if_json(content)
    _print_evaluation(rows)
    for row in rows:
        if text := seen_text(row):
            terminal.say(f"{row.name}{text}")


def compute_features(
    rated: Path, blip: BlipEncoder, kept: Path, seed: int, quiet: bool
) -> Prepared:
    """Return the set with the encoder's features, which are stored in ``kept``."""
    from scenewright.evals.studies.olip.training import prepare

    with show_progress("features of objects", quiet) as show:
        return terminal.run_async(
            prepare(rated, blip, cache=kept / "features", seed=seed, on_features=show)
        )


def open_encoder(name: str, device: str) -> BlipEncoder:
    """Return the frozen BLIP of ``--encoder``."""
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


def _print_evaluation(rows: Sequence[Evaluation]) -> None:
    """Print Table 3a: value and interval of each figure, one line a scorer and measure."""
    from scenewright.evals.studies.olip.evaluation import COLUMNS, MEASURES

    lines = []
    for row in rows:
        ends = (f"{row.unscored} of {row.objects}", "", "")
        for head, (field, name), end in zip(
            (row.name, "", ""), MEASURES.items(), ends, strict=True
        ):
            cells = [getattr(row.columns[column], field).text() for column in COLUMNS]
            lines.append((head, name, *cells, end))
    terminal.print_table(("method", "", *COLUMNS, "unscored"), lines)


@app.command()
def analyse(rated: Path, seed: options.Seed = 0, as_json: options.Json = False) -> None:
    """Analyse a set of rated objects: image realism by objects, discrepancy, agreement.

    Table 2 (rank correlation of object and image realism), Figure 8 (how many of the largest
    objects predict the image), the discrepancy of shape and texture by source and category, and
    the agreement of raters. Parts without ratings are left out, with the reason.

    Example of use:

      scenewright object-realism analyse rated/

    Exit codes: 0 done; 2 wrong input; 130 interrupted.
    """
    from scenewright.core.ports.vision import RealismError
    from scenewright.evals.human_ratings import object_analysis as analysis
    from scenewright.evals.human_ratings.rated_objects import read_objects
    from scenewright.evals.studies.olip.evaluation import select_ranks

    objects = read_objects(rated)
    if not objects:
        raise RealismError(
            f"{rated} holds no objects: name a set of rated objects (docs/realism.md)"
        )

    keys: dict[str, Callable[[RatedObject], str] | None] = {
        "all": None,
        "source": lambda o: o.source or "unknown",
        "category": lambda o: o.category,
    }
    measures: dict[str, Callable[[], Any]] = {
        "correlation": lambda: analysis.image_correlations(objects, seed=seed),
        "salience": lambda: select_ranks(objects, seed=seed),
        "discrepancy": lambda: {
            name: analysis.discrepancy(objects, by=by, seed=seed) for name, by in keys.items()
        },
        "raters": lambda: analysis.raters(objects, seed=seed),
    }
    parts: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, measure in measures.items():
        try:
            parts[name] = measure()
        except RealismError as error:
            left_out[name] = str(error)
    terminal.print_if_json({"objects": len(objects), "left_out": left_out, **parts})
    for name in measures:
        if name in left_out:
            terminal.say(f"{name}: {left_out[name]}")
        else:
            terminal.print_table(*analysis_table(name, parts[name]))


def analysis_table(name: str, found: Any) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return heads and rows of one part of :func:`analyse`."""
    aspects = ("shape", "texture")
    if name == "correlation":
        return ("objects", *aspects, "joint", "n"), [
            (row.replace("_", " "), *(figures[a].text(2) for a in (*aspects, "joint")),
             str(figures["joint"].n))
            for row, figures in found.items()
        ]  # fmt: skip
    if name == "salience":
        return ("objects", "MSE ↓", "R² ↑", "ranks by size"), [
            (str(len(one.kept)), one.mse.text(2), one.r2.text(2),
             ", ".join(map(str, one.kept)) or "none: a constant")
            for one in found
        ]  # fmt: skip
    if name == "discrepancy":
        return ("by", "", "0", "1", "2", "≥ 3", "share ≥ 2", "shape ~ texture"), [
            (by if not at else "", group, *map(str, one.counts), one.high.text(2),
             one.correlation.text(2))
            for by, groups in found.items()
            for at, (group, one) in enumerate(groups.items())
        ]  # fmt: skip
    figures = {
        "Cohen's κ": found.kappa,
        "κ, quadratic": found.weighted,
        "same score": found.same,
        "mean difference": found.distance,
    }
    return ("two raters", *aspects), [
        *((title, *(both[a].text(2) for a in aspects)) for title, both in figures.items()),
        ("3 or more apart", found.reviewed.text(2), ""),
        ("of them seen by a third", str(found.third), ""),
    ]
