"""Which object of a picture looks least real, and where it is drawn anew.

Realism is repaired after all that is missing. The object with the least realism comes first; one
that was tried :data:`TRIES` times without gain gives way to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.regions import Region
from scenewright.graphs.strategies.base import Attempt, RoundContext, UnrealisticObject
from scenewright.graphs.strategies.places import planned

TRIES = 2
"""Rounds in a row that may fail at one object."""
MARGIN = 0.1
"""What is drawn anew around an object, as a share of the sides of its box: its outline may move."""


def unreal_of(
    facts: Sequence[Fact],
    card: ScoreCard,
    answers: Iterable[Answer],
    size: tuple[int, int],
    tried: Sequence[Attempt] = (),
) -> tuple[UnrealisticObject, ...]:
    """The objects that ``card`` finds there and not real, the next one to repair first.

    ``answers`` are the judges' of the same picture, of ``size`` (width, height) in pixels; an
    object's region is the median of those that they give. ``tried`` are earlier rounds.
    """
    verdicts = {verdict.fact_id: verdict for verdict in card.verdicts}
    seen: dict[str, list[tuple[float, float, float, float]]] = {}
    for answer in answers:
        if answer.region is not None and answer.state in ("yes", "no"):
            seen.setdefault(answer.fact_id, []).append(answer.region)
    asked: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.kind == "realism":
            asked.setdefault(fact.subject, []).append(fact)
    found: list[UnrealisticObject] = []
    for name, mine in asked.items():
        judged = [(fact, verdicts[fact.id]) for fact in mine if fact.id in verdicts]
        lacking = tuple((fact.key or "", v.likelihood) for fact, v in judged if v.state == "no")
        if not lacking:
            continue
        boxes = [box for fact in mine for box in seen.get(fact.id, ())]
        found.append(
            UnrealisticObject(
                object=name,
                lacking=lacking,
                realism=mean(v.likelihood for _, v in judged if v.state in ("yes", "no")),
                region=_between(boxes, size),
                tries=_tries(name, tried),
            )
        )
    return tuple(sorted(found, key=lambda item: (item.tries // TRIES, item.realism)))


def only_unreal(round_context: RoundContext) -> bool:
    """Whether nothing is known to be missing, and objects do not look real."""
    return bool(round_context.unrealistic) and not round_context.missing


def region_of_worst(round_context: RoundContext) -> Region | None:
    """Where the object to repair next is drawn anew: where the judges saw it, or else where it
    was planned, a little wider; None if neither is known."""
    item = round_context.unrealistic[0]
    places: Mapping[str, Region] = {} if item.region is not None else planned(round_context)
    region = item.region or places.get(item.object)
    return None if region is None else _wider(region)


def said_of_worst(round_context: RoundContext) -> str:
    """``dog.1 does not look real: shape .22``: the object to repair next, with the probability of
    each aspect that was judged no."""
    item = round_context.unrealistic[0]
    aspects = ", ".join(
        f"{aspect} {likely:.2f}".replace(" 0.", " .") for aspect, likely in item.lacking
    )
    more = round_context.unrealistic[1:]
    others = f"; nor do {len(more)} others" if len(more) > 1 else ""
    if len(more) == 1:
        others = f"; nor does {more[0].object}"
    return f"{item.object} does not look real: {aspects}{others}"


def _tries(name: str, tried: Sequence[Attempt]) -> int:
    """Attempts at this object since one of them, or one at the whole picture, gained something."""
    count = 0
    for attempt in tried:
        if attempt.better and attempt.object in (name, None):
            count = 0
        elif attempt.object == name:
            count += 1
    return count


def _between(
    boxes: Sequence[tuple[float, float, float, float]], size: tuple[int, int]
) -> Region | None:
    """The median box in shares of ``size``; None without boxes, or if nothing of it is inside."""
    if not boxes:
        return None
    width, height = size
    left, top, right, bottom = (median(box[side] for box in boxes) for side in range(4))
    shares = (left / width, top / height, right / width, bottom / height)
    return _region(*(min(1.0, max(0.0, share)) for share in shares))


def _region(left: float, top: float, right: float, bottom: float) -> Region | None:
    return Region(left, top, right, bottom) if left < right and top < bottom else None


def _wider(region: Region) -> Region:
    across = MARGIN * (region.right - region.left)
    down = MARGIN * (region.bottom - region.top)
    return Region(
        max(0.0, region.left - across),
        max(0.0, region.top - down),
        min(1.0, region.right + across),
        min(1.0, region.bottom + down),
    )
