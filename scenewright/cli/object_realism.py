"""``scenewright object-realism``: how real the objects of pictures look, and who can tell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from scenewright.cli.console import clear_errors, console, print_json, quiet_libraries
from scenewright.cli.judges import QuietOption
from scenewright.cli.object_realism_analysis import HELP as ANALYSE_HELP
from scenewright.cli.object_realism_analysis import analyse
from scenewright.cli.object_realism_score import HELP as SCORE_HELP
from scenewright.cli.object_realism_score import score
from scenewright.cli.object_realism_show import (
    ablation_table,
    evaluation_table,
    telling_epochs,
    telling_features,
)
from scenewright.cli.refine import JsonOption

if TYPE_CHECKING:
    from scenewright.tools.vision.realism.olip_encoder import BlipEncoder

app = typer.Typer(
    no_args_is_help=True,
    help="Object-centric realism: score objects, train OLIP on rated ones, and measure scorers "
    "against people.",
)
app.command(help=SCORE_HELP)(score)
app.command(help=ANALYSE_HELP)(analyse)

SetArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SET",
        help="Folder of rated objects: objects.jsonl and its pictures (docs/olip.md).",
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
        with telling_features(where, quiet) as told:
            prepared = asyncio.run(
                prepare(rated, blip, cache=kept / "features", seed=seed, on_features=told)
            )
        config = OlipConfig(
            embedding=prepared.features.full.shape[1],
            heads=heads,
            widths=_widths(widths),
            residual=not literal,
        )
        with telling_epochs(where, epochs, quiet) as epoch_told:
            trained = fit(
                prepared, config, options, checkpoint=kept / "training.pt", on_epoch=epoch_told
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
        with telling_features(where, quiet) as told:
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
            "few-shot:judge:local:miniature/judge-a (docs/realism.md, docs/object-scorers.md).",
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
        from scenewright.cli.object_realism_show import evaluate_scorers
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
    from scenewright.core.ports.realism_scorer import RealismError
    from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
    from scenewright.tools.vision.realism.olip_encoder import BlipEncoder

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
    from scenewright.core.ports.realism_scorer import RealismError

    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise RealismError(f"--widths {text!r}: write whole numbers, as in 1024,768,384")
    return found
