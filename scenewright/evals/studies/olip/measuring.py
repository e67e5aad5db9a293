"""Scorers of object realism measured on a part of a set of rated objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, get_args

from scenewright.config.settings import user_cache
from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import Split, read_objects
from scenewright.evals.studies.olip.comparing import (
    compare,
    scorers_with,
    takes_examples,
    trained_scorers,
)
from scenewright.evals.studies.olip.evaluation import Evaluation, evaluate, floors
from scenewright.evals.studies.olip.splits import Chosen, choose, picture_digests, seen_of


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
        evaluate(one.scorer, chosen.objects, one.scores, seed=seed, seen=n)
        for one, n in zip(found, seen, strict=True)
    ]
    training = () if part == "train" else chosen.training
    return [*rows, *floors(chosen.objects, training, seed=seed).values()]
