"""``scenewright object-realism``: how real the objects of pictures look, and who can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.console import clear_errors, console, plain_table, print_json, quiet_libraries
from scenewright.cli.object_realism_score import HELP as SCORE_HELP
from scenewright.cli.object_realism_score import score
from scenewright.cli.options import JsonOption, QuietOption
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from rich.table import Table

    from scenewright.evals.human_ratings.objects.analysis import Group, Raters
    from scenewright.evals.human_ratings.objects.data import RatedObject, Split
    from scenewright.evals.statistics.figures import Figure
    from scenewright.evals.studies.olip.ablations import Ablation
    from scenewright.evals.studies.olip.evaluation import Evaluation
    from scenewright.evals.studies.olip.salience import Selected
    from scenewright.tools.vision.realism.olip import BlipEncoder
    from scenewright.tools.vision.realism.olip_training import Epoch

app = typer.Typer(
    no_args_is_help=True,
    help="Object-centric realism: score objects, train OLIP on rated ones, and measure scorers "
    "against people.",
)
app.command(help=SCORE_HELP)(score)

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
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--work",
        "-w",
        metavar="FOLDER",
        help="Features and checkpoints: the same command goes on from here. Default: OUT/.work.",
        show_default=False,
    ),
]
DeviceOption = Annotated[str, typer.Option("--device", help="Of the encoder: cpu, cuda or auto.")]
BatchOption = Annotated[int, typer.Option("--batch", min=1, help="Objects in a step.")]
EpochsOption = Annotated[
    int, typer.Option("--epochs", min=1, help="Most passes over the training part.")
]
RateOption = Annotated[float, typer.Option("--rate", help="Learning rate of AdamW.")]
PatienceOption = Annotated[
    int,
    typer.Option("--patience", min=1, help="Epochs without gain in validation that end it."),
]
WidthsOption = Annotated[
    str,
    typer.Option("--widths", metavar="A,B,…", help="Hidden layers of the MLPs; the paper's."),
]
HeadsOption = Annotated[int, typer.Option("--heads", min=1, help="Heads of the attention.")]
SeedOption = Annotated[
    int, typer.Option("--seed", "-s", min=0, help="Of the parts, the weights and the order.")
]
_TRAIN_AGAIN = "What is done is kept: the same command goes on from there."


@app.command()
def train(
    rated: SetArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder of the heads.", show_default=False)
    ],
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
            "--literal", help="Attention as it is written, which does not see the full image."
        ),
    ] = False,
    seed: SeedOption = 0,
    work: CacheOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train OLIP on a set of rated objects.

    Parts are drawn by picture: 5 % test, 5 % validation, unless the set names its own; they are
    saved with the heads. The encoder's features are computed once and kept. An interrupted
    training goes on to the same weights.

    Examples:

      scenewright object-realism train rated/ olip/ --widths 128,96,48

      scenewright object-realism train rated/ olip/ --encoder Salesforce/blip-itm-base-coco

    Exit codes: 0 trained; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(_TRAIN_AGAIN):
        quiet_libraries()
        from scenewright.evals.studies.olip.evaluation import floors
        from scenewright.evals.studies.olip.training import (
            evaluate_heads,
            fit,
            prepare,
            training_report,
        )
        from scenewright.tools.vision.realism.olip import OlipConfig
        from scenewright.tools.vision.realism.olip_files import REPORT, save_olip
        from scenewright.tools.vision.realism.olip_training import TrainingOptions

        blip = _encoder(encoder, device)
        options = TrainingOptions(
            epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed
        )
        kept = work or out / ".work"
        where = console(stderr=True)
        with show_progress(where, "features of objects", quiet) as told:
            prepared = asyncio.run(
                prepare(rated, blip, cache=kept / "features", seed=seed, on_features=told)
            )
        config = OlipConfig(
            embedding=prepared.features.full.shape[1],
            heads=heads,
            widths=_widths(widths),
            residual=not literal,
        )
        with show_progress(where, "epoch", quiet) as told:

            def epoch_ends(epoch: Epoch) -> None:
                losses = f"loss {epoch.loss:.4f}  validation {epoch.validation:.4f}"
                told(epoch.number, epochs, more=losses)

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
        shown = console()
        shown.print(evaluation_table(rows))
        shown.print(
            Text(f"best epoch {trained.best} of {len(trained.history)}; report {out / REPORT}"),
            soft_wrap=True,
        )


@app.command()
def ablate(
    rated: SetArgument,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for ablations.json and ablations.md.", show_default=False
        ),
    ],
    encoder: EncoderOption = "miniature",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Trainings of each variant.")] = 1,
    epochs: EpochsOption = 60,
    batch: BatchOption = 64,
    rate: RateOption = 1e-4,
    patience: PatienceOption = 10,
    widths: WidthsOption = "1024,768,384",
    heads: HeadsOption = 8,
    seed: SeedOption = 0,
    work: CacheOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """What each part of OLIP is worth (Table 3b), on the test part of a set.

    Full OLIP; without the full image, with one head for all, with a linear projection, without
    all three; and attention as it is written. The same features, parts and seeds for each; below
    them constant and random scores.

    Exit codes: 0 measured; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(_TRAIN_AGAIN):
        quiet_libraries()
        from scenewright.core.flushing import write_text
        from scenewright.evals.studies.olip import ablations
        from scenewright.evals.studies.olip.training import prepare
        from scenewright.runs.folder import write_json
        from scenewright.tools.vision.realism.olip import OlipConfig
        from scenewright.tools.vision.realism.olip_training import TrainingOptions

        blip = _encoder(encoder, device)
        kept = work or out / ".work"
        where = console(stderr=True)
        with show_progress(where, "features of objects", quiet) as told:
            prepared = asyncio.run(
                prepare(rated, blip, cache=kept / "features", seed=seed, on_features=told)
            )

        def begins(variant: str, number: int) -> None:
            if not quiet:
                where.print(Text(f"{ablations.TITLES[variant]}, seed {number}"), soft_wrap=True)

        rows = ablations.ablate(
            prepared,
            OlipConfig(
                embedding=prepared.features.full.shape[1], heads=heads, widths=_widths(widths)
            ),
            TrainingOptions(epochs=epochs, batch=batch, rate=rate, patience=patience, seed=seed),
            seeds=range(seed, seed + seeds),
            work=kept / "ablations",
            on_variant=begins,
        )
        out.mkdir(parents=True, exist_ok=True)
        content = [row.model_dump(mode="json") for row in rows]
        write_json(out / "ablations.json", content)
        write_text(out / "ablations.md", ablations.markdown(rows).rstrip())
        if as_json:
            print_json(content)
        else:
            console().print(ablation_table(rows))


@app.command()
def evaluate(
    rated: SetArgument,
    scorers: Annotated[
        list[str],
        typer.Argument(
            metavar="SCORER...",
            help="Who scores, as olip:FOLDER, vlm:ACCOUNT:MODEL:few-shot-crop-s5 or "
            "few-shot:judge:local:miniature/judge-a (docs/realism.md).",
            show_default=False,
        ),
    ],
    part: Annotated[
        str,
        typer.Option(
            "--part",
            help="test, validation, train, or all: of the parts saved with the heads; where none "
            "of the scorers was trained on the set, drawn as `train` does.",
        ),
    ] = "test",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for evaluation.json and evaluation.md.", show_default=False
        ),
    ] = None,
    overlap: Annotated[
        bool,
        typer.Option(
            "--allow-overlap",
            help="Measure heads also on pictures that they were trained on, or of which that is "
            "not recorded; the table says so.",
        ),
    ] = False,
    seed: SeedOption = 0,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work",
            "-w",
            metavar="FOLDER",
            help="Where scores are kept: nothing is scored twice. Default: OUT/.work, or the "
            "user's cache.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure scorers against a set's ratings: MAE, 5-class accuracy (Table 3a), and ranks.

    With 95 % intervals over pictures, and beside rows that look at no picture: constants of the
    training part, its most frequent class, and random scores. Heads are measured on the test part
    of their training, and refused on pictures that it used. What a scorer cannot tell is counted
    and left out, never taken for 0.

    Example:

      scenewright object-realism evaluate rated/ olip:olip/ few-shot:judge:local:miniature/judge-a

    Exit codes: 0 measured; 2 wrong input; 3 could not run; 130 interrupted.
    """
    with clear_errors(_TRAIN_AGAIN):
        quiet_libraries()
        pass
        from scenewright.core.flushing import write_text
        from scenewright.evals.studies.olip.evaluation import markdown, seen_text
        from scenewright.runs.folder import write_json

        kept = work or (out / ".work" if out is not None else None)
        rows = asyncio.run(
            evaluate_scorers(rated, scorers, part, seed, kept, console(stderr=True), quiet, overlap)
        )
        content = [row.model_dump(mode="json") for row in rows]
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_json(out / "evaluation.json", content)
            write_text(out / "evaluation.md", markdown(rows).rstrip())
        if as_json:
            print_json(content)
        else:
            shown = console()
            shown.print(evaluation_table(rows))
            for row in rows:
                if told := seen_text(row):
                    shown.print(Text(f"{row.name}{told}"), soft_wrap=True)


def _encoder(name: str, device: str) -> BlipEncoder:
    from scenewright.core.ports.vision import RealismError
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
    from scenewright.tools.vision.realism.olip import BlipEncoder

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


def evaluation_table(rows: Sequence[Evaluation]) -> Table:
    """Table 3a: value and interval of each figure, one line a scorer and measure."""
    from scenewright.evals.studies.olip.evaluation import COLUMNS

    table = plain_table("method", "", *COLUMNS, "unscored")
    for row in rows:
        lost = f"{row.unscored} of {row.objects}"
        ends = (lost, "", "")
        for head, (name, shown), end in zip((row.name, "", ""), _MEASURES, ends, strict=True):
            cells = [getattr(row.columns[column], shown).text() for column in COLUMNS]
            table.add_row(head, name, *cells, end)
    return table


def ablation_table(rows: Sequence[Ablation]) -> Table:
    """Table 3b: the joint score, and how much worse than full OLIP."""
    from scenewright.evals.studies.olip.ablations import TITLES

    table = plain_table(
        "model design", "MAE ↓", "ACC ↑", "rank ↑", "MAE over full", "ACC under full"
    )
    for row in rows:
        joint = row.evaluation.columns["joint"]
        over = [figure.text() if figure else "" for figure in (row.worse_mae, row.worse_acc)]
        measured = (joint.mae.text(), joint.acc.text(), joint.spearman.text())
        table.add_row(TITLES[row.variant], *measured, *over)
    return table


async def evaluate_scorers(
    rated: Path,
    scorers: Sequence[str],
    part: str,
    seed: int,
    kept: Path | None,
    where: Console,
    quiet: bool,
    allow: bool = False,
) -> list[Evaluation]:
    """The row of each scorer on a part of the set, and those that look at no picture.

    ``kept``: where what was scored lies; None: in the user's cache. ``allow``: scorers may have
    been trained on what they are measured on, and their rows say so.
    """
    from scenewright.config.settings import user_cache
    from scenewright.core.ports.vision import RealismError
    from scenewright.evals.human_ratings.objects.data import read_objects
    from scenewright.evals.studies.olip.comparing import compare
    from scenewright.evals.studies.olip.evaluation import evaluate as evaluation_of
    from scenewright.evals.studies.olip.evaluation import floors
    from scenewright.evals.studies.olip.few_shot import (
        scorers_with,
        takes_examples,
        trained_scorers,
    )
    from scenewright.evals.studies.olip.splits import picture_digests
    from scenewright.evals.studies.olip.unseen import Chosen, choose, seen_of
    from scenewright.runs.model_factory.local_models import SHARED

    if part not in ("train", "validation", "test", "all"):
        raise RealismError(f"--part {part!r}: choose test, validation, train or all")
    if part in ("train", "all") and takes_examples(scorers):
        raise RealismError(
            f"--part {part} holds the training part, from which few-shot examples are taken: "
            "choose test or validation"
        )
    objects = read_objects(rated)
    digests = await asyncio.to_thread(picture_digests, rated, objects)
    records = [one.trained_on for one in trained_scorers(scorers)]
    known = [record for record in records if record is not None]
    chosen = (
        Chosen(tuple(objects), (), False)
        if part == "all"
        else choose(objects, digests, cast("Split", part), known, seed)
    )
    made = scorers_with(scorers, rated, chosen.training)
    try:
        seen = seen_of(made, chosen.objects, digests, allow=allow)
        if chosen.saved and not quiet:
            where.print(Text("parts: as saved with the heads; --seed does not draw them anew"))
        done = 0
        with show_progress(where, "objects scored", quiet) as told:

            def heard(_: str, count: int) -> None:
                nonlocal done
                done += count
                told(done, len(chosen.objects) * len(made))

            found = await compare(
                made, rated, chosen.objects, kept=kept or user_cache("realism"), heard=heard
            )
    finally:
        await SHARED.aclose()
    rows = [
        evaluation_of(one.scorer, chosen.objects, one.scores, seed=seed, seen=count)
        for one, count in zip(found, seen, strict=True)
    ]
    training = () if part == "train" else chosen.training
    return [*rows, *floors(chosen.objects, training, seed=seed).values()]


HELP = """What a set of rated objects says: image realism by objects, discrepancy, agreement.

Table 2 (rank correlation of object and image realism), Figure 8 (how many of the largest objects
tell of the image), the discrepancy of shape and texture by source and category, and how far the
raters agree. What the set has no ratings for is left out, with the reason.

Example:

  scenewright object-realism analyse rated/

Exit codes: 0 done; 2 wrong input; 130 interrupted.
"""


@app.command(help=HELP)
def analyse(
    rated: Annotated[
        Path,
        typer.Argument(
            metavar="SET",
            help="Folder of rated objects: objects.jsonl and its pictures (docs/realism.md).",
            show_default=False,
        ),
    ],
    seed: Annotated[
        int, typer.Option("--seed", "-s", min=0, help="Of the resamples and the folds.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Registered with :data:`HELP`."""
    with clear_errors():
        from scenewright.core.ports.vision import RealismError
        from scenewright.evals.human_ratings.objects.analysis import (
            discrepancy,
            image_correlations,
            raters,
        )
        from scenewright.evals.human_ratings.objects.data import read_objects
        from scenewright.evals.studies.olip.salience import select_ranks

        objects = read_objects(rated)
        if not objects:
            raise RealismError(f"{rated} holds no objects: there is nothing to analyse")

        def apart() -> dict[str, dict[str, Group]]:
            keys: dict[str, Callable[[RatedObject], str] | None] = {
                "all": None,
                "source": lambda o: o.source or "unknown",
                "category": lambda o: o.category,
            }
            return {name: discrepancy(objects, by=by, seed=seed) for name, by in keys.items()}

        parts: dict[str, tuple[Callable[[], Any], Callable[[Any], Table]]] = {
            "correlation": (lambda: image_correlations(objects, seed=seed), _correlation_table),
            "salience": (lambda: select_ranks(objects, seed=seed), _salience_table),
            "discrepancy": (apart, _discrepancy_table),
            "raters": (lambda: raters(objects, seed=seed), _raters_table),
        }
        shown = console()
        told: dict[str, Any] = {"objects": len(objects), "left_out": {}}
        for name, (work, table) in parts.items():
            try:
                found = work()
            except RealismError as error:
                told["left_out"][name] = str(error)
                if not as_json:
                    shown.print(Text(f"{name}: {error}"), soft_wrap=True)
                continue
            told[name] = _plain(found)
            if not as_json:
                shown.print(table(found))
        if as_json:
            print_json(told)


def _plain(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    return found.model_dump(mode="json")


def _correlation_table(found: Mapping[str, Mapping[str, Figure]]) -> Table:

    table = plain_table("objects", "shape", "texture", "joint", "n")
    for row, figures in found.items():
        n = str(figures["joint"].n)
        shown = row.replace("_", " ")
        table.add_row(shown, *(figures[a].text(2) for a in ("shape", "texture", "joint")), n)
    return table


def _salience_table(found: Sequence[Selected]) -> Table:

    table = plain_table("objects", "MSE ↓", "R² ↑", "ranks by size")
    for one in found:
        ranks = ", ".join(map(str, one.kept)) or "none: a constant"
        table.add_row(str(len(one.kept)), one.mse.text(2), one.r2.text(2), ranks)
    return table


def _discrepancy_table(found: Mapping[str, Mapping[str, Group]]) -> Table:

    table = plain_table("of", "", "0", "1", "2", "≥ 3", "share ≥ 2", "shape ~ texture")
    for by, groups in found.items():
        for at, (name, one) in enumerate(groups.items()):
            cells = [*map(str, one.counts), one.high.text(2), one.correlation.text(2)]
            table.add_row(by if not at else "", name, *cells)
    return table


def _raters_table(found: Raters) -> Table:

    table = plain_table("two raters", "shape", "texture")
    for title, kappas in (
        ("Cohen's κ", found.kappa),
        ("κ, quadratic", found.weighted),
        ("same score", found.same),
        ("mean difference", found.distance),
    ):
        table.add_row(title, kappas["shape"].text(2), kappas["texture"].text(2))
    table.add_row("3 or more apart", found.reviewed.text(2), "")
    table.add_row("of them seen by a third", str(found.third), "")
    return table
