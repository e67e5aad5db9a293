"""``scenewright real-bench style``: train and use a CLIP that tells photos from illustrations.

Args:
    model (FOLDER_OR_OWNER/NAME): A CLIP: a folder, or a fetched repository. miniature: a small
        untrained one, for the painted world.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenewright.cli import options
from scenewright.cli.app import App, resumable
from scenewright.cli.console import Exit, print_json, print_table, run_async, say
from scenewright.cli.progress import show_progress

if TYPE_CHECKING:
    from scenewright.evals.studies.real.style import StyleScore
    from scenewright.evals.studies.real.style_training import StyleProgress

app = App(
    help="Style realism: train a CLIP on photos and illustrations, and score pictures with it."
)

MINIATURE = "miniature"
ModelOption = Annotated[str, typer.Option("--model", "-m")]


@app.command()
@resumable("the same command goes on from the last checkpoint")
def train(
    data: Path,
    out: options.Out,
    model: ModelOption = "openai/clip-vit-base-patch32",
    photo: str = "a photo",
    illustration: str = "an illustration",
    rate: float | None = None,
    batch: Annotated[int | None, typer.Option(min=2)] = None,
    epochs: options.OptionalPositive = None,
    held_out: float = 0.2,
    seed: options.Seed = 0,
    save_seconds: Annotated[float, typer.Option(min=1.0)] = 120.0,
    device: str = "auto",
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Train a style scorer, and measure it on held-out pictures before and after.

    OUT is a folder that transformers loads as a CLIP, with report.json next to the weights. The
    same command continues an interrupted training, and ends with the same weights.

    Example, the painted world: `scenewright real-bench style paint set`, then
    `scenewright real-bench style train set --model miniature --out style`.

    Exit codes: 0 trained; 2 wrong input; 3 could not run; 130 interrupted.

    Args:
        data (SET): A folder with the folders photo and illustration, or JSON lines {"image": …,
            "label": "photo"}.
        out: Folder of the scorer.
        photo: Text of photos.
        illustration: Text of illustrations.
        rate: Learning rate; by default 5e-5, as published.
        batch: Pictures in a step; by default 8.
        epochs: Passes over the set; by default 5.
        held_out: Share held out for the test, if SET defines no parts.
        save_seconds: Save a checkpoint at least this often, in seconds.
    """
    from pydantic import ValidationError

    from scenewright.core.validation import first_problem
    from scenewright.evals.studies.real.style import StyleError, checked, read_labelled
    from scenewright.evals.studies.real.style_training import StylePlan, train_style

    pictures = read_labelled(data)
    with show_progress("", quiet) as show:
        total = len(pictures)
        found = checked(
            pictures, held_out, seed, lambda done: show(done, total, "reading the pictures")
        )

        def tell(stand: StyleProgress) -> None:
            more = "" if stand.loss is None else f"loss {stand.loss:.3f}"
            show(stand.step, stand.steps, stand.doing, more)

        with _model(model, seed) as (source, usual):
            try:
                plan = StylePlan.model_validate(
                    usual
                    | options.without_none(rate=rate, batch=batch, epochs=epochs)
                    | {"texts": {"photo": photo, "illustration": illustration}, "seed": seed}
                )
            except ValidationError as error:
                raise StyleError(first_problem(error)) from error
            report = train_style(
                source, found, out, plan, device=device, save_seconds=save_seconds,
                name=model, tell=tell,
            )  # fmt: skip
    assert report is not None
    if as_json:
        print_json(report)
        return
    print_table(
        ("held-out pictures", "before", "after"),
        [
            (name, getattr(report.before, name).text(), getattr(report.after, name).text())
            for name in ("accuracy", "auc", "spearman", "kendall")
        ],
    )
    train, test = (sum(report.pictures[part].values()) for part in ("train", "test"))
    say(
        f"{report.steps} steps on {train} pictures in {report.seconds:.0f} s; {test} held out. "
        f"Scorer: {out}"
    )


@app.command()
@resumable("with --store the same command goes on")
def score(
    pictures: options.Pictures,
    model: ModelOption,
    out: options.OptionalOut = None,
    store: Path | None = None,
    batch: options.Positive = 32,
    device: str = "auto",
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> Exit:
    """Score pictures: P(photo), from 0 to 1.

    Exit codes: 0 scored; 2 wrong input; 3 could not run; 4 some pictures could not be read.

    Args:
        out (FILE): JSON lines to write.
        store (FILE): File of stored scores, so that nothing is computed twice.
        batch: Pictures in one pass.
    """
    from scenewright.core.flushing import write_text
    from scenewright.evals.studies.real.style import StyleError, StyleScorer, pictures_in

    scorer = StyleScorer(model, device=device, batch=batch, store=store)
    inside = [pictures_in(one) if one.is_dir() else [one] for one in pictures]
    files = list(dict.fromkeys(file for found in inside for file in found))
    if not files:
        raise StyleError("no pictures found: name picture files, or folders of them")

    async def score_all() -> list[StyleScore]:
        found = []
        async for one in scorer.score_files(files):
            found.append(one)
            show(len(found), len(files), "scoring")
        return found

    with show_progress("", quiet) as show:
        found = run_async(score_all())
    rows = [{"image": str(one.file), "s_style": one.score, "reason": one.reason} for one in found]
    if out is not None:
        write_text(out, "\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    if as_json:
        print_json({"scorer": scorer.id, "fingerprint": scorer.fingerprint, "pictures": rows})
    else:
        scores = ["unscored" if one.score is None else f"{one.score:.3f}" for one in found]
        names = [str(one.file) for one in found]
        print_table(("picture", "P(photo)"), list(zip(names, scores, strict=True)))
        for one in found:
            if one.score is None:
                say(f"unscored: {one.reason}")
    return Exit.UNJUDGED if any(one.score is None for one in found) else Exit.OK


@app.command()
@resumable("the same command goes on")
def paint(
    out: Path,
    n: Annotated[int, typer.Option("--n", "-n", min=1)] = 500,
    seed: options.Seed = 0,
) -> None:
    """Paint a set of the miniature world: paintings as photos, pencil drawings as illustrations.

    The same command continues an interrupted one. Exit codes: 0 painted; 2 wrong input; 3 could not
    run.

    Args:
        out (FOLDER): Folder of the set.
        n: Pictures of each class.
    """
    from scenewright.evals.studies.real.style_training import paint_styles

    made = paint_styles(out, n, seed)
    say(f"{made} of {2 * n} pictures painted, in {out}")


@contextmanager
def _model(model: str, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the model to train and its usual options."""
    if model != MINIATURE:
        yield model, {}
        return
    import tempfile

    from scenewright.evals.studies.real.style_training import PLAN, new_style_clip

    with tempfile.TemporaryDirectory() as folder:
        yield str(new_style_clip(Path(folder), seed)), PLAN.model_dump(exclude={"texts", "seed"})
