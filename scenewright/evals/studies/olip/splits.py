"""Split a set of rated objects into training, validation and test by picture.

The paper keeps 5 % of the objects for testing (Sec. 3.2). Parts are drawn by picture here: objects
of one picture look alike, and a picture in two parts would be learned by heart. A picture is its
pixels: the same one in two files belongs to one part. The parts are saved with the heads
(:class:`~scenewright.tools.vision.realism.trained_on.TrainedOn`), and decide on what these are
measured: on the saved test part, and on nothing that their training used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import RealismError, RealismScorer
from scenewright.evals.human_ratings.rated_objects import RatedObject, Split
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.trained_on import TrainedOn, TrainedScorer, picture_digest

SHARE = 0.05
"""Of the pictures, for the test; as many again for validation."""
Digests = Mapping[str, str]
"""File of a picture, as the set names it → digest of its content."""
_THREADS = 4


@dataclass(frozen=True, slots=True)
class Splits:
    """Places of objects in their set, by part; in the set's order."""

    train: tuple[int, ...]
    """What the weights are fitted to."""
    validation: tuple[int, ...]
    """What decides when to stop."""
    test: tuple[int, ...]
    """What is reported."""

    def of(self, part: Split) -> tuple[int, ...]:
        """Return the places of one part."""
        found: tuple[int, ...] = getattr(self, part)
        return found


def picture_digests(
    folder: str | os.PathLike[str], objects: Sequence[RatedObject]
) -> dict[str, str]:
    """Return the digest of each picture of ``objects``, whose files are in ``folder``.

    A file that is not a picture has the digest of its name, which no training can have seen; its
    error is raised where its pixels are needed.
    """
    names = list(dict.fromkeys(item.image for item in objects))

    def digest(name: str) -> str:
        try:
            return picture_digest(load_image(Path(folder) / name))
        except ImageError:
            return hashlib.sha256(f"unreadable {name}".encode()).hexdigest()[:32]

    with ThreadPoolExecutor(_THREADS) as threads:
        return dict(zip(names, threads.map(digest, names), strict=True))


def split_objects(
    objects: Sequence[RatedObject],
    digests: Digests | None = None,
    *,
    seed: int = 0,
    test: float = SHARE,
    validation: float = SHARE,
) -> Splits:
    """Assign each object to a part; no picture is in two parts.

    A part that the set itself names for some objects holds these pictures and no others; the other
    of test and validation is drawn from what is left, ``test`` and ``validation`` as shares of all
    pictures; the rest is trained on. What is drawn depends on ``digests`` of the pictures (without
    them on their names) and ``seed`` alone, not on their order. Raises ``RealismError`` if a part
    would be empty or a picture is named for two.
    """
    own = digests or {item.image: item.image for item in objects}
    if not objects:
        raise RealismError("the set holds no objects: rate some first (docs/reports.md)")
    given: dict[str, Split] = {}
    for item in objects:
        if item.split is None:
            continue
        before = given.setdefault(own[item.image], item.split)
        if before != item.split:
            raise RealismError(
                f"{item.image} has objects in {before} and in {item.split}, there or in another "
                "file of the same pixels: all objects of a picture belong to one part"
            )
    images = dict.fromkeys(own[item.image] for item in objects)
    free = sorted(images.keys() - given.keys(), key=lambda name: _lot(seed, name))
    named = set(given.values())
    drawn: dict[str, Split] = dict(given)
    for part, share in (("test", test), ("validation", validation)):
        if part not in named and share > 0:
            count = max(1, round(share * len(images)))
            drawn.update(dict.fromkeys(free[:count], part))  # type: ignore[arg-type]
            free = free[count:]
    drawn.update(dict.fromkeys(free, "train"))
    parts = {
        part: tuple(at for at, item in enumerate(objects) if drawn[own[item.image]] == part)
        for part in get_args(Split)
    }
    for part, share in (("train", 1.0), ("validation", validation), ("test", test)):
        if share > 0 and not parts[part]:
            raise RealismError(
                f"no picture is left for {part} of the {len(images)} in the set: it takes at least "
                "one each to train, validate and test on"
            )
    return Splits(**parts)


def trained_on(objects: Sequence[RatedObject], digests: Digests, splits: Splits) -> TrainedOn:
    """Return the record of a training on ``splits`` of ``objects``, to be saved with the heads."""
    return TrainedOn.of(
        (digests[objects[at].image], part) for part in get_args(Split) for at in splits.of(part)
    )


def _lot(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()


ALLOW = "--allow-overlap"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Objects to measure on."""

    objects: tuple[RatedObject, ...]
    """They, in the order of their set."""
    training: tuple[RatedObject, ...]
    """The training part of the set: few-shot examples and constants come from it."""
    saved: bool
    """Whether the parts are those of trained heads; False: the set's own, or drawn by seed."""


def trained_of(scorer: RealismScorer) -> TrainedScorer | None:
    """Return the trained scorer in ``scorer``, or None if none of it was fitted to pictures."""
    inner = scorer.scorer if isinstance(scorer, CalibratedScorer) else scorer
    return inner if isinstance(inner, TrainedScorer) else None


def choose(
    objects: Sequence[RatedObject],
    digests: Digests,
    part: Split,
    records: Iterable[TrainedOn] = (),
    seed: int = 0,
) -> Chosen:
    """Return the objects of ``part``.

    Where a training of ``records`` knows pictures of the set, a picture belongs to the part that
    all such trainings gave it; those that they disagree on, or do not know, are in no part. Else
    the set's own parts hold, or those that ``seed`` draws. Raises ``RealismError`` if no picture is
    left, and as :func:`~scenewright.evals.studies.olip.splits.split_objects`.
    """
    pictures = set(digests.values())
    known = [one for one in records if any(one.part_of(digest) for digest in pictures)]
    if not known:
        splits = split_objects(objects, digests, seed=seed)
        return Chosen(
            tuple(objects[at] for at in splits.of(part)),
            tuple(objects[at] for at in splits.train),
            False,
        )

    def of(wanted: Split) -> tuple[RatedObject, ...]:
        parts = {digest: {one.part_of(digest) for one in known} - {None} for digest in pictures}
        return tuple(item for item in objects if parts[digests[item.image]] == {wanted})

    found = of(part)
    if not found:
        raise RealismError(
            f"no picture of the set is in the {part} part of the heads' training: choose another "
            "part or another set"
            if len(known) == 1
            else f"no picture of the set is in the {part} part of all {len(known)} trainings: "
            "measure their heads one after the other"
        )
    return Chosen(found, of("train"), True)


def seen_of(
    scorers: Sequence[RealismScorer],
    objects: Sequence[RatedObject],
    digests: Digests,
    *,
    allow: bool = False,
) -> list[int | None]:
    """Return how many of ``objects`` each scorer was trained on; None if that was not recorded.

    Unless ``allow``, raises ``RealismError`` for a scorer that was trained on some, or for which
    that is unknown.
    """
    found: list[int | None] = []
    for scorer in scorers:
        trained = trained_of(scorer)
        if trained is None:
            found.append(0)
            continue
        record = trained.trained_on
        if record is None:
            if not allow:
                raise RealismError(
                    f"{scorer.id} was saved without the pictures it was trained on: it is unknown "
                    "whether they are among these. Train it again (`scenewright "
                    f"object-realism train`), or measure it all the same with {ALLOW}, and the "
                    "table says so"
                )
            found.append(None)
            continue
        seen = [item for item in objects if record.seen(digests[item.image])]
        if seen and not allow:
            raise RealismError(
                f"{scorer.id} was trained on {len(seen)} of the {len(objects)} objects, "
                f"{seen[0].image} first: measure it on its test part (--part test) or on another "
                f"set, or all the same with {ALLOW}, and the table says so"
            )
        found.append(len(seen))
    return found
