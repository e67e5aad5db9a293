"""``scenewright miniature``: paint scenes, and train the models of the miniature world."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="The embedded world: paint scenes with exact truth, train its models.",
)

_WEIGHTS = Path(__file__).parent / "weights"


class TrainingTarget(StrEnum):
    """What can be trained, in the order in which one needs the other.

    The editor needs the generator, the segmenter and the BLIP need none, OLIP needs the
    autoencoder and the BLIP.
    """

    AUTOENCODER = "autoencoder"
    TEXT = "text"
    GENERATOR = "generator"
    READER = "reader"
    ADAPTER = "adapter"
    EDITOR = "editor"
    JUDGES = "judges"
    SEGMENTER = "segmenter"
    BLIP = "blip"
    OLIP = "olip"


@app.command()
def paint(
    scene: Annotated[str, typer.Argument(help="Triplets or a scene file of any format.")],
    out: Annotated[Path, typer.Argument(help="PNG to write.")] = Path("painting.png"),
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    setting: Annotated[
        str | None, typer.Option(help="meadow, beach, snow or room; default: by seed.")
    ] = None,
    style: Annotated[str, typer.Option(help="flat or pencil.")] = "flat",
    damage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OBJECT:KIND:LEVEL",
            help="Damage an object, as in dog.1:shape:3: KIND is shape or texture, LEVEL 0 to 5. "
            "Can be given several times.",
        ),
    ] = None,
) -> None:
    """Paint SCENE exactly: every object, colour and relation of it holds in the picture."""
    from scenewright.core.formats import load_scene
    from scenewright.core.layout import PlacementError
    from scenewright.core.scene import SceneError
    from scenewright.miniature.damage import damage as damage_painting
    from scenewright.miniature.damage import parse_damage
    from scenewright.miniature.painter import PaintError
    from scenewright.miniature.painter import paint as paint_scene

    try:
        painting = paint_scene(load_scene(scene), seed, setting, style)
        if damage:
            painting = damage_painting(painting, map(parse_damage, damage), seed)
        painting.image.save(out)
    except (SceneError, PaintError, PlacementError, OSError, ValueError) as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(2) from error
    typer.echo(str(out))


@app.command()
def train(
    part: Annotated[TrainingTarget, typer.Argument(help="What to train.")],
    work: Annotated[
        Path, typer.Option(help="Checkpoints: the same command continues from here.")
    ] = Path("training"),
    out: Annotated[
        Path, typer.Option(help="Weights folder; what a part needs of earlier parts lies here.")
    ] = _WEIGHTS,
    steps: Annotated[int | None, typer.Option(min=0, help="Steps; default: the recipe's.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of paintings, noise and weights.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop and save after this time.")
    ] = None,
    onward: Annotated[
        bool,
        typer.Option(
            "--onward",
            help="Begin with the trained weights in --out, not with random ones "
            "(autoencoder: its decoder alone; generator, reader, adapter, editor, judges).",
        ),
    ] = False,
) -> None:
    """Train or continue one part; a killed training loses at most two minutes."""
    if onward and part not in (
        TrainingTarget.AUTOENCODER,
        TrainingTarget.GENERATOR,
        TrainingTarget.READER,
        TrainingTarget.ADAPTER,
        TrainingTarget.EDITOR,
        TrainingTarget.JUDGES,
    ):
        raise typer.BadParameter(
            f"{part.value} always begins anew: leave --onward out", param_hint="--onward"
        )
    generator, adapter = out / "generator", out / "ip-adapter"
    shared: dict[str, Any] = {"seed": seed, "device": device, "max_seconds": max_seconds}
    match part:
        case TrainingTarget.AUTOENCODER:
            from scenewright.miniature.training.autoencoder import (
                train_autoencoder,
                train_decoder,
            )

            if onward:
                done = train_decoder(generator, work, steps or 2000, **shared)
            else:
                done = train_autoencoder(generator / "vae", work, steps or 2400, **shared)
        case TrainingTarget.TEXT:
            from scenewright.miniature.training.text import train_text_encoder

            done = train_text_encoder(generator, work, steps or 520, **shared)
        case TrainingTarget.GENERATOR:
            from scenewright.miniature.training.generator import train_generator

            done = train_generator(generator, work, steps or 6000, **shared, onward=onward)
        case TrainingTarget.READER:
            from scenewright.miniature.training.adapter import train_reader

            begun = adapter if onward else None
            done = train_reader(generator, work, steps or 700, **shared, adapter=begun)[1]
        case TrainingTarget.ADAPTER:
            from scenewright.miniature.training.adapter import load_reader, train_reader
            from scenewright.miniature.training.references import train_references

            if onward:
                reader = load_reader(adapter)
            else:
                # A finished first stage is read from its checkpoint and not trained again.
                reader = train_reader(generator, work, 700, seed=seed, device=device)[0]
            steps = 850 if steps is None else steps
            done = train_references(
                generator, work, adapter, reader, steps, **shared, onward=onward
            )
        case TrainingTarget.EDITOR:
            from scenewright.miniature.training.editor import STEPS as EDITOR_STEPS
            from scenewright.miniature.training.editor import train_editor

            done = train_editor(
                generator, work, out / "editor", steps or EDITOR_STEPS, **shared, onward=onward
            )
        case TrainingTarget.JUDGES:
            from scenewright.miniature.training.judges import RECIPES, train_judges

            done = train_judges(
                list(RECIPES), work, out / "judges", device, max_seconds, onward, steps
            )
        case TrainingTarget.SEGMENTER:
            from scenewright.miniature.training.segmenter import STEPS, train_segmenter

            done = train_segmenter(out / "segmenter", work, steps or STEPS, **shared)
        case TrainingTarget.BLIP:
            from scenewright.miniature.training import blip

            folder, steps = out / blip.FOLDER, steps or blip.STEPS
            done = blip.train_blip(folder, work, steps, weights=out, **shared)
        case TrainingTarget.OLIP:
            from scenewright.miniature.training import olip

            # A step is an epoch here.
            folder, epochs = out / olip.FOLDER, steps or olip.EPOCHS
            done = olip.train_heads(folder, work, weights=out, epochs=epochs, **shared)
    typer.echo("finished" if done else "stopped early: the same command continues")
