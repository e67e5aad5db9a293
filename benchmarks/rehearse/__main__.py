"""Rehearse a profile: published architectures with random weights, at full size.

``python -m benchmarks.rehearse PROFILE`` in a checkout; docs/local-models.md describes it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scenewright.cli import options
from scenewright.cli.app import App
from scenewright.cli.console import (
    console,
    fail,
    print_if_json,
    print_labelled,
    print_table,
    run_async,
    say,
)
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from benchmarks.rehearse.running import Rehearsal

app = App(help="Rehearse a profile without its weights.")
_SIZE = re.compile(r"(\d+)(?:[x×](\d+))?")


@app.command()
def rehearse(
    name: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A profile, or a model as diffusers:OWNER/NAME or local:OWNER/NAME (a judge).",
            show_default=False,
        ),
    ],
    size: Annotated[
        str, typer.Option(metavar="PIXELS", help="Size of the pictures: 256 or 512x384.")
    ] = "256",
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps of each picture.")] = 2,
    only: Annotated[
        Literal["images", "judges"] | None,
        typer.Option(help="Rehearse the image model alone, or the judges alone."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where the image model computes.")] = "auto",
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"],
        typer.Option(help="Number format of the weights."),
    ] = "bfloat16",
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PART.KEY=VALUE",
            help="Another value of a part's configuration, for a machine that is smaller than the "
            "model. May be repeated.",
        ),
    ] = None,
    architectures: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of further architecture files. May be repeated."),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Rehearse a profile at full size without its weights: does it fit, and does all of it run?

    Builds the published architecture of every local model of the profile with random weights and
    runs through it what the loop asks for: pictures from a prompt, references, masks, edits, region
    repair, and a judge's questions. The files that are loaded have published names and layouts, so
    the code that loads them is that of a real run. Nothing is fetched, and the weights take no
    disk. Each model has a process of its own; a model that does not fit is refused before it is
    built. The pictures show noise.

    The table compares the memory plan with the measured peak, and has the seconds of every shape:
    on a CPU a model of 4·10⁹ weights takes about a minute a shape.

    Exit codes: 0 all ran; 2 wrong input; 3 a model does not fit, or a shape failed.

    Examples: python -m benchmarks.rehearse flux2-klein --only images

    python -m benchmarks.rehearse z-image --set text_encoder.num_hidden_layers=4
    """
    from benchmarks.rehearse.running import RehearsalOptions, profile_of
    from benchmarks.rehearse.running import rehearse as run
    from scenewright.config.settings import load_settings

    profile, images, judges = profile_of(name, load_settings())
    given = RehearsalOptions(
        size=_size(size),
        steps=steps,
        device=device,
        dtype=dtype,
        images=images and only != "judges",
        judges=judges and only != "images",
        architectures=tuple(architectures or ()),
        changes=dict(_change(each) for each in change or ()),
    )
    with show_progress("rehearsing", quiet) as show:
        found = run_async(run(profile, given, lambda text: show(0, None, text)))
    print_if_json(_json(found))
    _print(found)


def _size(text: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise fail(f"--size {text!r}: write a side in pixels, or WIDTHxHEIGHT such as 512x384")
    width = int(match[1])
    height = int(match[2] or width)
    if not all(64 <= side <= 4096 and side % 8 == 0 for side in (width, height)):
        raise fail(f"--size {text!r}: sides are multiples of 8 from 64 to 4096 pixels")
    return width, height


def _change(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or "." not in key:
        raise fail(
            f"--set {text!r}: write PART.KEY=VALUE, such as text_encoder.num_hidden_layers=4"
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _json(found: Rehearsal) -> dict[str, Any]:
    models = [
        {**model.model_dump(mode="json"), "peak_over_planned": model.ratio}
        for model in found.models
    ]
    return {**found.model_dump(mode="json"), "models": models}


def _print(found: Rehearsal) -> None:
    from scenewright.tools.backends.memory import gib

    where = console()
    for model in found.models:
        say(model.model, "bold", where)
        ratio = model.ratio
        measured = (
            "not measured" if ratio is None else f"{gib(model.peak)}, {ratio:.2f} of the plan"
        )
        print_labelled(
            [
                ("  weights", f"{model.parameters / 1e9:.2f}·10⁹ in {model.dtype}"),
                ("  plan", f"{gib(model.planned)} on {model.device}: {model.plan}"),
                ("  peak", measured),
            ],
            12,
            where,
        )
        rows = [("loading", f"{model.loading:.1f}", "")]
        rows += [(s.name, f"{s.seconds:.1f}", gib(s.peak) if s.peak else "") for s in model.shapes]
        print_table(("  shape", ">seconds", ">peak"), [(f"  {a}", b, c) for a, b, c in rows], where)
        where.print()
    for name, reason in found.left_out.items():
        say(f"not rehearsed: {name}, {reason}", "yellow", where)
    if found.changes:
        changed = ", ".join(f"{key}={value}" for key, value in found.changes.items())
        say(f"not as published: {changed}", "yellow", where)


if __name__ == "__main__":
    app()
