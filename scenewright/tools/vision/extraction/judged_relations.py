"""Relations by judges: multiple-choice questions about the pairs whose boxes allow any."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PIL import Image

from scenewright.core.facts import Fact, Verdict
from scenewright.core.ports.extractor import ExtractionError, PairScores, Thing, Unread
from scenewright.core.questions import NO_RELATION
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.tools.vision.extraction.judge_questions import (
    ExtractionPanel,
    boxed,
    digest,
    relation_fact,
    without_rivals,
)
from scenewright.tools.vision.extraction.pairs import (
    MOST_PAIRS,
    Boxed,
    by_rivals,
    clear_directions,
    contact_options,
    contacts,
    nearest_pairs,
)
from scenewright.tools.vision.extraction.world import World

CONTACTS = ("inside", "on", "riding", "under", "wearing", "holding")
"""Predicates that boxes can rule out; others are asked of every pair that is looked at."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One question about an ordered pair."""

    source: Boxed
    target: Boxed
    options: tuple[str, ...]
    """Without the last one, that there is no relation."""

    def fact(self, number: int, expected: str) -> Fact:
        return relation_fact(number, self.source, self.target, self.options, expected)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the panel says of a look."""

    look: _Look
    none: float
    """Probability of no visible relationship."""
    predicates: dict[str, float]
    """Of the options that some judge chose."""


@dataclass(frozen=True)
class JudgedRelations:
    """Implements :class:`~scenewright.core.ports.extractor.RelationScorer`.

    A question sees the picture without the things that its words could mean as well; two of one
    class are told apart by their attributes, or not asked about. Its last option, that no
    relationship is visible, gives the score of no relation. A contact and a direction of one pair
    are alternatives: a direction's score is that of no contact times its own, and of several
    contacts the likeliest counts whole.
    """

    bench: ExtractionPanel
    """Who is asked."""
    world: World
    """The predicates, and between whom they can be."""
    touch: float = 0.02
    """Most that may lie between the boxes of things in contact, as a share of the picture's longer
    side: detectors' boxes are tight."""

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that it scores; there are no others."""
        return self.world.predicates

    @cached_property
    def fingerprint(self) -> str:
        """Judges, world and bound."""
        told = digest(
            self.bench.fingerprint, self.world.model_dump(mode="json"), MOST_PAIRS, self.touch
        )
        return f"judged relations@2#{told}"

    async def score(
        self, image: Image.Image, things: Sequence[Thing]
    ) -> tuple[PairScores | Unread, ...]:
        """Scores of the pairs that words can tell apart, each in one direction or both; what the
        judges gave no answer to is unread.

        Raises ``ExtractionError`` if the judges answer nothing.
        """
        every = boxed(things)
        side = max(image.size)
        looks: list[_Look] = []
        for a, b in nearest_pairs(every, MOST_PAIRS):
            looks += [*self._contacts(a, b, side), *self._contacts(b, a, side)]
            some = self._known(a, clear_directions(a, b), b)
            looks += [_Look(a, b, some)] if some else []
        groups = by_rivals(looks, [(look.source, look.target) for look in looks], every)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._look(image, hidden, members, every))
                for hidden, members in groups.items()
            ]
        said = [one for task in tasks for one in task.result()]
        seen = [one for one in said if isinstance(one, _Seen)]
        lost = [one for one in said if isinstance(one, Unread)]
        if lost and not seen:
            raise ExtractionError(lost[0].reason)
        return (*_scores(seen), *lost)

    def _known(self, source: Boxed, predicates: Sequence[str], target: Boxed) -> tuple[str, ...]:
        hold = self.world.can_hold
        return tuple(p for p in predicates if hold(source.name, p, target.name))

    def _contacts(self, source: Boxed, target: Boxed, side: int) -> list[_Look]:
        others = [p for p in self.world.predicates if p not in (*CONTACTS, *DIRECTIONS)]
        wanted = self._known(source, (*contacts(source, target, side, self.touch), *others), target)
        looks = []
        for options in contact_options(source, target, wanted):
            known = self._known(source, options, target)
            looks.append(_Look(source, target, known))
        return looks

    async def _look(
        self,
        image: Image.Image,
        hidden: frozenset[str],
        looks: Sequence[_Look],
        every: Sequence[Boxed],
    ) -> list[_Seen | Unread]:
        """What the panel says of each look, and what it gave no answer to."""
        kept = [end for look in looks for end in (look.source, look.target)]
        shown = await asyncio.to_thread(without_rivals, image, hidden, kept, every)
        nones = [look.fact(at, NO_RELATION) for at, look in enumerate(looks)]
        verdicts, chosen = await self.bench.ask(shown, nones)
        # A probability comes for the expected option alone: what was chosen is asked again.
        again = [
            (at, option)
            for at, options in enumerate(chosen)
            for option in looks[at].options
            if option in options
        ]
        facts = [looks[at].fact(number, option) for number, (at, option) in enumerate(again)]
        sure, _ = await self.bench.ask(shown, facts)
        found: list[_Seen | Unread] = []
        for at, (look, verdict) in enumerate(zip(looks, verdicts, strict=True)):
            if verdict.state == "unscored":
                found.append(_unread(look, look.options, verdict))
                continue
            chances: dict[str, float] = {}
            for (where, option), one in zip(again, sure, strict=True):
                if where == at and one.state == "unscored":
                    found.append(_unread(look, (option,), one))
                elif where == at:
                    chances[option] = one.likelihood
            found.append(_Seen(look, verdict.likelihood, chances))
        return found


def _unread(look: _Look, options: tuple[str, ...], verdict: Verdict) -> Unread:
    why = verdict.reason or "the judges gave no answer"
    return Unread("relations", why, (look.source.id, look.target.id), options)


def _scores(seen: Sequence[_Seen]) -> tuple[PairScores, ...]:
    """The scores of ordered pairs; alternatives of one unordered pair are weighed together."""
    contact: dict[frozenset[str], list[float]] = {}
    for one in seen:
        pair = frozenset((one.look.source.id, one.look.target.id))
        for predicate, chance in one.predicates.items():
            if predicate not in DIRECTIONS:
                contact.setdefault(pair, []).append(chance)
    nones: dict[tuple[str, str], float] = {}
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for one in seen:
        ends = (one.look.source.id, one.look.target.id)
        rivals = sorted(contact.get(frozenset(ends), []), reverse=True)
        is_contact = any(option not in DIRECTIONS for option in one.look.options)
        found = scores.setdefault(ends, {})
        nones[ends] = min(one.none, nones.get(ends, 1.0))
        for predicate, chance in one.predicates.items():
            if predicate in DIRECTIONS:
                # In a question about contacts a direction says no more than that there is none.
                if is_contact:
                    continue
                value = chance * (1.0 - (rivals[0] if rivals else 0.0))
            else:
                best = chance == rivals[0]
                value = chance if best else chance * (1.0 - rivals[0])
            found[predicate] = max(value, found.get(predicate, 0.0))
    return tuple(
        PairScores(source, target, nones[source, target], found)
        for (source, target), found in scores.items()
    )
