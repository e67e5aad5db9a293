"""Parts of a set of rated objects: what is trained on, what stops the training, what is reported.

The paper keeps 5 % of the objects for testing (Sec. 3.2). Parts are drawn by picture here: objects
of one picture look alike, and a picture in two parts would be learned by heart. A picture is its
pixels: the same one in two files belongs to one part. What was drawn is saved with the heads
(:class:`~scenewright.tools.vision.realism.trained_on.TrainedOn`), and decides what they are
measured on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.objects.data import RatedObject, Split
from scenewright.tools.vision.realism.trained_on import TrainedOn, picture_digest

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
    """What tells when to stop."""
    test: tuple[int, ...]
    """What is reported."""

    def of(self, part: Split) -> tuple[int, ...]:
        """The places of one part."""
        found: tuple[int, ...] = getattr(self, part)
        return found


def picture_digests(
    folder: str | os.PathLike[str], objects: Sequence[RatedObject]
) -> dict[str, str]:
    """Return the digest of each picture of ``objects``, whose files are in ``folder``.

    A file that is no picture has the digest of its name, which no training can have seen; whoever
    needs its pixels tells why.
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
    """Where each object belongs; no picture is in two parts.

    A part that the set itself names for some objects holds these pictures and no others; the other
    of test and validation is drawn from what is left, ``test`` and ``validation`` as shares of all
    pictures; the rest is trained on. What is drawn hangs on ``digests`` of the pictures (without
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
