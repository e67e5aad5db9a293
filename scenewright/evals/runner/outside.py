"""Facts of a set that the models of an evaluation have no words for, told before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scenewright.core.facts import Fact
from scenewright.core.ports.backend import ImageBackend
from scenewright.evals.runner.cast import Cast
from scenewright.runs.coverage import facts_outside

_NAMED = 6


@dataclass(frozen=True, slots=True)
class Outside:
    """Facts of which some models know nothing."""

    who: str
    """``panel NAME``, ``loop ARM`` or the image model's id."""
    does: str
    """What they cannot do with these facts: ``answer`` or ``draw`` them."""
    facts: int
    """How many facts of the set, in round numbers: they are counted on a sample."""
    of: int
    """Facts of the set, likewise."""
    words: tuple[str, ...]
    """The unknown words, the most frequent first."""

    @property
    def text(self) -> str:
        """The same on one line."""
        more = len(self.words) - _NAMED
        words = ", ".join(self.words[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        fate = "they stay unscored" if self.does == "answer" else "pictures will lack them"
        return (
            f"{self.who} has no words for about {self.facts:,} of {self.of:,} facts ({words}): "
            f"{fate}"
        )


def outside_of(cast: Cast, asked: Sequence[Sequence[Fact]], share: float) -> tuple[Outside, ...]:
    """What panels, loops and image models of ``cast`` do not know of the facts ``asked``, one list
    an item; ``share``: items of the set by those listed."""
    return tuple(_found(cast, asked, share))


def _found(cast: Cast, asked: Sequence[Sequence[Fact]], share: float) -> Iterator[Outside]:
    total = round(share * sum(map(len, asked)))
    judges = [
        (f"panel {seat.name}", [j.caps.vocabulary for j in seat.judges], seat.panel.quorum)
        for seat in cast.seats
    ]
    backends: dict[str, ImageBackend] = {}
    for arm in cast.arms:
        artist = cast.artists[arm.name]
        if artist is not None:
            backends[artist.backend.id] = artist.backend
            if arm.loops:
                words = [judge.caps.vocabulary for judge in artist.judges]
                judges.append((f"loop {arm.name}", words, arm.profile.quorum))
    groups = [
        (who, "answer", [facts_outside(facts, words, quorum) for facts in asked])
        for who, words, quorum in judges
    ]
    for who, backend in backends.items():
        words = [backend.features.vocabulary]
        groups.append((who, "draw", [facts_outside(facts, words, worded=False) for facts in asked]))
    for who, does, found in groups:
        count = sum(map(len, found))
        said = Counter(str(one) for each in found for unknown in each.values() for one in unknown)
        if count:
            names = tuple(word for word, _ in said.most_common())
            yield Outside(who, does, max(1, round(share * count)), total, names)
