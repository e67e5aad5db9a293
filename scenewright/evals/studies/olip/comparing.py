"""Run several scorers over the same rated objects, side by side, and measure them.

Scores are kept by picture (:class:`~scenewright.evals.metrics.ocr.CachedScorer`): a run that starts
again asks for the rest, and for what failed. Scorers may be shown rated examples of the set.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

from scenewright.config.settings import Settings, user_cache
from scenewright.core.images import ImageError, load_image, nothing_drawn
from scenewright.core.ports.vision import ObjectRealism, RealismError, RealismScorer
from scenewright.evals.human_ratings.rated_objects import RatedObject, Split, read_objects
from scenewright.evals.metrics.ocr import CachedScorer
from scenewright.evals.runner.engines.worker_pool import first_error
from scenewright.evals.runner.progress import side_by_side
from scenewright.evals.studies.olip.evaluation import Evaluation, evaluate, floors
from scenewright.evals.studies.olip.splits import Chosen, choose, picture_digests, seen_of
from scenewright.runs.model_factory.realism_scorers import scorer_of
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.examples import MOST, Example, Examples
from scenewright.tools.vision.realism.trained_on import TrainedScorer
from scenewright.tools.vision.realism.vlm import STRATEGIES, VlmScorer

AT_ONCE = 4
"""Pictures that one scorer works on at a time."""
OnScored = Callable[[str, int], None]
"""Gets a scorer's id and how many objects it has done, now or before."""


def examples_of(folder: str | os.PathLike[str], objects: Sequence[RatedObject]) -> Examples:
    """Return examples from a set in ``folder``: from training, or objects without a part.

    Raises ``RealismError`` if all objects are of other parts.
    """
    root = Path(folder)
    usable = [item for item in objects if item.split in (None, "train")]
    if objects and not usable:
        raise RealismError(
            f"all {len(objects)} objects are for validation or test: examples come from training"
        )
    return Examples(
        tuple(Example(o.id, root / o.image, o.category, o.box, o.shape, o.texture) for o in usable),
        MOST,
    )


async def compare(
    scorers: Sequence[RealismScorer],
    folder: str | os.PathLike[str],
    objects: Sequence[RatedObject],
    *,
    kept: str | os.PathLike[str],
    at_once: int = AT_ONCE,
    on_scored: OnScored = lambda scorer, n: None,
) -> list[list[ObjectRealism]]:
    """Return the scores of ``objects``, whose pictures are in ``folder``, by each of ``scorers``.

    All scorers work at the same time, each on ``at_once`` pictures. ``kept`` is the folder of
    scores of earlier runs. A picture that cannot be read fails its objects. Raises ``RealismError``
    for a scorer that cannot be loaded, two scorers of one fingerprint, or a folder that cannot be
    written; what was done by then is kept.
    """
    prints = [scorer.fingerprint for scorer in scorers]
    if len(set(prints)) < len(prints):
        raise RealismError("two of the scorers are the same: give each once")
    pictures: dict[str, list[int]] = {}
    for at, item in enumerate(objects):
        pictures.setdefault(item.image, []).append(at)

    async def of(scorer: RealismScorer) -> list[ObjectRealism]:
        cached = CachedScorer(scorer, Path(kept))
        scores: dict[int, ObjectRealism] = {}

        async def work(picture: tuple[str, list[int]]) -> None:
            image, members = picture
            try:
                shown = await asyncio.to_thread(load_image, Path(folder) / image)
                if empty := await asyncio.to_thread(nothing_drawn, shown):
                    raise ImageError(f"{image}: {empty}")
                said = await cached.score(shown, [objects[at].detection for at in members])
            except ImageError as error:
                said = [ObjectRealism(None, None, reason=str(error)) for _ in members]
            scores.update(zip(members, said, strict=True))
            on_scored(scorer.id, len(members))

        await side_by_side(pictures.items(), work, max(1, at_once))
        return [scores[at] for at in range(len(objects))]

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(of(scorer)) for scorer in scorers]
    except* RealismError as several:
        # Whichever came first says what to mend; the others would come again.
        raise first_error(several) from None
    return [task.result() for task in tasks]


CALIBRATED = "few-shot:"
"""Before a scorer's name: its scores, mapped onto the ratings by a few examples."""
TRAINED = "olip:"
"""Before heads: scorers that were trained on rated pictures."""
ALL_STRATEGIES = "strategies:"
"""Before a chat model's name: all eight strategies."""


def expanded(specs: Sequence[str]) -> list[str]:
    """Return ``specs``, each once, with ``strategies:ACCOUNT:MODEL`` as its eight scorers."""
    found: list[str] = []
    for spec in specs:
        model = spec.removeprefix(ALL_STRATEGIES)
        found += [spec] if model == spec else [f"vlm:{model}:{name}" for name in STRATEGIES]
    return list(dict.fromkeys(found))


def takes_examples(specs: Sequence[str]) -> bool:
    """Return whether one of ``specs`` is shown rated examples, or calibrated on them."""
    few = {name for name, strategy in STRATEGIES.items() if strategy.few_shot}
    return any(
        spec.startswith(CALIBRATED) or spec.rpartition(":")[2] in few for spec in expanded(specs)
    )


def trained_scorers(specs: Sequence[str]) -> list[TrainedScorer]:
    """Return the scorers of ``specs`` whose weights were fitted to pictures.

    Scorers that are calibrated on a few examples are included if they wrap such a scorer. Raises
    ``RealismError`` as :func:`scorers_with`.
    """
    inner = [spec.removeprefix(CALIBRATED) for spec in expanded(specs)]
    made = [scorer_of(spec) for spec in inner if spec.startswith(TRAINED)]
    return [one for one in made if isinstance(one, TrainedScorer)]


def scorers_with(
    specs: Sequence[str],
    folder: str | os.PathLike[str],
    training: Sequence[RatedObject],
    settings: Settings | None = None,
) -> list[RealismScorer]:
    """Return the scorers of ``specs``, see :func:`expanded`.

    Examples come from ``training``, whose pictures are in ``folder``. Beyond what
    :func:`~scenewright.runs.model_factory.realism_scorers.scorer_of` knows,
    ``vlm:ACCOUNT:MODEL:STRATEGY`` may name a few-shot strategy, and ``few-shot:SCORER`` is any
    scorer calibrated on the examples. Raises ``RealismError`` as it does, and where there are no
    examples.
    """
    return [_scorer_of(spec, folder, training, settings) for spec in expanded(specs)]


def _scorer_of(
    spec: str,
    folder: str | os.PathLike[str],
    training: Sequence[RatedObject],
    settings: Settings | None,
) -> RealismScorer:
    if spec.startswith(CALIBRATED):
        inner = spec.removeprefix(CALIBRATED)
        scorer = scorer_of(inner, settings)
        return CalibratedScorer(scorer, examples_of(folder, training))
    before, _, last = spec.rpartition(":")
    strategy = STRATEGIES.get(last)
    if strategy is None or not strategy.few_shot:
        return scorer_of(spec, settings)
    zero = dataclasses.replace(strategy, few_shot=False)
    made = scorer_of(f"{before}:{zero.name}", settings)
    if not isinstance(made, VlmScorer):
        raise RealismError(
            f"{spec!r}: only a language model (vlm:) takes a strategy; write {CALIBRATED}{before}"
        )
    return dataclasses.replace(made, strategy=strategy, examples=examples_of(folder, training))


async def evaluate_scorers(
    rated: Path,
    scorers: Sequence[str],
    part: str,
    seed: int,
    kept: Path | None,
    *,
    allow: bool = False,
    saved: Callable[[], None] = lambda: None,
    scored: Callable[[int, int], None] = lambda done, total: None,
) -> list[Evaluation]:
    """Return the row of each scorer on a part of the set, and those of floors without pictures.

    ``kept`` is the folder of stored scores; None: the user's cache. With ``allow`` scorers may have
    been trained on the objects, and their rows say so. ``saved`` is called if the parts are those
    saved with the heads, ``scored`` with the number of scores so far and in total. Raises
    ``RealismError`` for an unknown part, or one that few-shot examples are taken from.
    """
    parts = (*get_args(Split), "all")
    if part not in parts:
        raise RealismError(f"--part {part!r}: use one of {', '.join(parts)}")
    if part in ("train", "all") and takes_examples(scorers):
        raise RealismError(
            f"--part {part} contains the training part, from which few-shot examples are taken: "
            "use test or validation"
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
    seen = seen_of(made, chosen.objects, digests, allow=allow)
    if chosen.saved:
        saved()
    done, total = 0, len(chosen.objects) * len(made)

    def count(_: str, n: int) -> None:
        nonlocal done
        done += n
        scored(done, total)

    found = await compare(
        made, rated, chosen.objects, kept=kept or user_cache("realism"), on_scored=count
    )
    rows = [
        evaluate(scorer.id, chosen.objects, scores, seed=seed, seen=n)
        for scorer, scores, n in zip(made, found, seen, strict=True)
    ]
    training = () if part == "train" else chosen.training
    return [*rows, *floors(chosen.objects, training, seed=seed).values()]
