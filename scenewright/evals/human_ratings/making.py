"""Makes a study: draws items, lays their pictures into its folder, writes its tasks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from scenewright.core.facts import Fact
from scenewright.core.images import ImageError
from scenewright.evals.human_ratings.files import put_file
from scenewright.evals.human_ratings.pictures import Pictures
from scenewright.evals.human_ratings.sources import Entry, Source, match_arms
from scenewright.evals.human_ratings.study import (
    STUDY,
    Candidate,
    Kind,
    RatingError,
    RatingStudy,
    Task,
)

MOST_ARMS = 8
"""Candidates that a page can show and a row of keys can choose."""
Tick = Callable[[int, int], None]
"""Told after each item: how many tasks are made, and how many are wanted."""


@dataclass(frozen=True, slots=True)
class RatingStudySpec:
    """What a study is to be."""

    kind: Kind
    """What a rater does."""
    arms: tuple[str, ...] = ()
    """Which arms; empty: all."""
    n: int | None = None
    """Tasks; none: as many as there are."""
    seed: int = 0
    """Seed of the draw and of all orders."""
    repeats: float = 0.0
    """Share of the tasks shown twice."""
    question: str = ""
    """What is asked; empty: the usual question of the kind."""
    name: str = "Rating pictures"
    """What raters see as the title: it must not tell the arms."""
    scale: tuple[str, str] = ("not at all", "completely")
    """What 1 and 5 mean."""
    side: int | None = None
    """Pixels of the longest side that all pictures are scaled to."""


def make_study(
    source: Source, wish: RatingStudySpec, folder: Path, tick: Tick | None = None
) -> RatingStudy:
    """Make the study in ``folder`` and return it.

    Items come in an order drawn with the seed. One that lacks an arm's picture, a fact or a sound
    file is left out and counted; so is one of whose candidates two are the same picture, since
    nobody can choose between them. Pictures that are rated one by one come with all arms of
    an item, so that arms are compared on the same items. Raises ``RatingError`` for a wish that
    cannot be had and a folder that holds a study.
    """
    arms = match_arms(wish.arms, source.arms) if wish.arms else source.arms
    _check(wish, arms, folder)
    entries = list(source.entries)
    random.Random(f"items {wish.seed}").shuffle(entries)
    each = 1 if wish.kind == "choice" else len(arms)
    most = len(entries) * each if wish.n is None else wish.n
    pictures = Pictures(folder, wish.side)
    left_out = Counter(source.left_out)
    tasks: list[Task] = []
    for entry in entries:
        if len(tasks) >= most:
            break
        try:
            tasks.extend(_tasks(entry, wish.kind, arms, pictures, len(tasks) + 1))
        except _Unfit as unfit:
            left_out[str(unfit)] += 1
        if tick is not None:
            tick(min(len(tasks), most), most)
    tasks = tasks[:most]
    if not tasks:
        why = "; ".join(f"{n} × {reason}" for reason, n in left_out.items())
        raise RatingError(
            f"{source.about}: no item can be rated ({why}): name other arms (--arms) or another "
            "kind of task (--kind)"
        )
    try:
        study = RatingStudy(
            name=wish.name,
            kind=wish.kind,
            arms=arms,
            question=wish.question,
            scale=wish.scale,
            seed=wish.seed,
            repeats=wish.repeats,
            source=source.about,
            left_out=dict(left_out),
            tasks=tuple(tasks),
        )
    except ValidationError as error:
        raise RatingError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    put_file(folder / STUDY, study.model_dump_json(indent=1) + "\n")
    return study


class _Unfit(Exception):
    """Why an item cannot be rated."""


def _check(wish: RatingStudySpec, arms: Sequence[str], folder: Path) -> None:
    if (folder / STUDY).exists():
        raise RatingError(
            f"{folder} holds a study already, and ratings may belong to it: name another --out"
        )
    if wish.kind == "choice" and not 2 <= len(arms) <= MOST_ARMS:
        raise RatingError(
            f"a choice is between 2 and {MOST_ARMS} arms, not {len(arms)}: name them with --arms"
        )
    if wish.n is not None and wish.n < 1:
        raise RatingError(f"{wish.n} tasks cannot be rated: ask for one or more")
    if wish.side is not None and not 16 <= wish.side <= 4096:
        raise RatingError(f"a side of {wish.side} pixels: give one from 16 to 4096")


def _tasks(
    entry: Entry, kind: Kind, arms: Sequence[str], pictures: Pictures, number: int
) -> Iterator[Task]:
    lost = [arm for arm in arms if arm not in entry.pictures]
    if lost:
        raise _Unfit("an arm has no picture of it")
    if kind == "facts" and not entry.facts:
        raise _Unfit("it has no facts")
    try:
        candidates = [Candidate(arm=a, image=pictures.put(entry.pictures[a])) for a in arms]
        original = None if entry.original is None else pictures.put(entry.original)
    except ImageError as error:
        raise _Unfit("a picture of it cannot be read") from error
    except ValidationError as error:
        raise RatingError(error.errors()[0]["msg"].removeprefix("Value error, ")) from error
    if kind == "choice" and len({c.image for c in candidates}) < len(candidates):
        raise _Unfit("two arms give the same picture")
    groups = [candidates] if kind == "choice" else [[c] for c in candidates]
    phrases = _phrases(entry)
    worded = bool(entry.prompt or phrases)
    if not worded and (kind == "score" or (kind == "choice" and original is None)):
        raise _Unfit("there is nothing to compare it with")
    facts: tuple[Fact, ...] = entry.facts if kind == "facts" else ()
    for at, group in enumerate(groups):
        yield Task(
            id=f"t{number + at}",
            item=entry.item,
            candidates=tuple(group),
            # A single picture is held against words: the photo is but one way to show them.
            original=original if kind == "choice" else None,
            prompt=entry.prompt,
            phrases=phrases,
            facts=facts,
        )


def _phrases(entry: Entry) -> tuple[str, ...]:
    if entry.scene is None:
        return ()
    from scenewright.runs.report.words import scene_phrases

    return tuple(scene_phrases(entry.scene))
