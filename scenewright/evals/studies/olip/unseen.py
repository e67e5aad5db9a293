"""What scorers are measured on: the part that their training saved, and nothing that it used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scenewright.core.ports.vision import RealismError, RealismScorer
from scenewright.evals.human_ratings.objects.data import RatedObject, Split
from scenewright.evals.studies.olip.splits import Digests, split_objects
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.trained_on import TrainedOn, TrainedScorer

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

    Unless ``allow``, raises ``RealismError`` for a scorer that was trained on some, or of which
    nobody can tell.
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
                    f"{scorer.id} was saved without the pictures it was trained on, so nobody can "
                    "tell whether they are among these: train it again (`scenewright "
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
