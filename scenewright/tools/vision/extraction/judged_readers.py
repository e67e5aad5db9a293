"""Attributes by judges, in a world whose values are known.

Relations by judges: multiple-choice questions about the pairs whose boxes allow any.

Candidate relations asked of judges that did not propose them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from PIL import Image

from scenewright.core.facts import Fact, Verdict
from scenewright.core.ports.vision import (
    Candidate,
    ExtractionError,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.predicate_statistics import DEFAULT, load_predicates
from scenewright.core.questions import NO_RELATION, attribute_fact_id, option_text, relation_options
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.tools.vision.extraction.pairs import (
    MOST_PAIRS,
    Boxed,
    by_rivals,
    clear_directions,
    contact_options,
    contacts,
    nearest_pairs,
    phrases,
)
from scenewright.tools.vision.extraction.panel_questions import (
    ExtractionPanel,
    boxed,
    digest,
    relation_fact,
    without_rivals,
)
from scenewright.tools.vision.extraction.views import detail_crop
from scenewright.tools.vision.extraction.world import World

View = Literal["alone", "crop"]
"""``alone``: the picture with other things of the class painted over, for judges that were taught
on whole pictures; ``crop``: the detail crop of XTC-Bench, Sec. 3.2.3."""

_LIKELIER = 0.5


@dataclass(frozen=True)
class JudgedAttributes:
    """Implements :class:`~scenewright.core.ports.vision.AttributeReader`.

    Each value of a key is one yes/no question; the likeliest is taken if the judges confirm it.
    """

    bench: ExtractionPanel
    """Who is asked."""
    values: Mapping[str, Sequence[str]]
    """Key → the values that there are; other keys are left out."""
    view: View = "alone"
    """What the judges are shown."""
    sure: float = 0.5
    """A value whose probability is not above this is not taken."""

    @cached_property
    def fingerprint(self) -> str:
        """Judges, values, view and threshold."""
        values = {key: list(words) for key, words in self.values.items()}
        return f"judged attributes@2#{digest(self.bench.fingerprint, values, self.view, self.sure)}"

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute | Unread, ...]:
        """Return the confirmed value of each of ``keys`` that the world has, with its probability.

        Unread is a key without one, of whose values some got no answer.

        Raises ``ExtractionError`` if the judges answer nothing.
        """
        facts = {
            (key, value): _fact(thing, key, value)
            for key in dict.fromkeys(keys)
            for value in self.values.get(key, ())
        }
        if not facts:
            return ()
        seen = await asyncio.to_thread(self._shown, image, thing, things)
        verdicts, _ = await self.bench.ask(seen, list(facts.values()))
        if all(verdict.state == "unscored" for verdict in verdicts):
            raise ExtractionError(verdicts[0].reason or "the judges gave no answer")
        best: dict[str, ReadAttribute] = {}
        silent: dict[str, Unread] = {}
        for (key, value), verdict in zip(facts, verdicts, strict=True):
            if verdict.state == "unscored":
                why = verdict.reason or "the judges gave no answer"
                silent.setdefault(key, Unread("attributes", why, (thing.id,), (key,)))
                continue
            chance = verdict.likelihood
            known = best.get(key)
            if chance > self.sure and (known is None or chance > (known.confidence or 0.0)):
                best[key] = ReadAttribute(key, value, chance)
        for key in silent:
            # What is likelier than not is the key's value, whatever the others are.
            if key in best and (best[key].confidence or 0.0) <= _LIKELIER:
                del best[key]
        lost = [one for key, one in silent.items() if key not in best]
        return (*best.values(), *lost)

    def _shown(self, image: Image.Image, thing: Thing, things: Sequence[Thing]) -> Image.Image:
        if self.view == "crop":
            return detail_crop(image, thing.detection)
        name = thing.detection.name
        rivals = [one.id for one in things if one.detection.name == name and one.id != thing.id]
        kept = [Boxed(thing.id, name, thing.detection.box)]
        return without_rivals(image, rivals, kept, boxed(things))


def _fact(thing: Thing, key: str, value: str) -> Fact:
    name = thing.detection.name
    return Fact(
        id=f"{attribute_fact_id(thing.id, key)}={value}",
        kind="attribute",
        subject=thing.id,
        key=key,
        value=value,
        classes=(name,),
        statement=f"{name} is {value}",
        question=f"Is the {name} {value}?",
    )


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
    """Implements :class:`~scenewright.core.ports.vision.RelationScorer`.

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
        """Score of the pairs that words can tell apart, each in one direction or both.

        What the judges gave no answer to is unread.

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
        """Return the panel's verdicts on each view, and the questions without an answer."""
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
    """Return the scores of ordered pairs.

    Alternatives of one unordered pair are weighed together.
    """
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


@dataclass(frozen=True)
class JudgedVerifier:
    """Implements :class:`~scenewright.core.ports.vision.RelationVerifier`.

    A candidate is one multiple-choice question of Scene-Bench's form: its predicate, two that it
    excludes, and that no relationship is visible. It sees the picture without the things that
    its words could mean as well.
    """

    bench: ExtractionPanel
    """Who is asked; for what it adds, others than those of the scorer."""
    predicates: str = DEFAULT
    """Where wrong options come from: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`."""

    @cached_property
    def fingerprint(self) -> str:
        """The judges'."""
        known = load_predicates(self.predicates).fingerprint
        return f"judged verifier@2#{digest(self.bench.fingerprint, known)}"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """Return one verification a candidate, in order, with the panel's probability.

        None without an answer for a pair that no words tell apart.
        """
        every = boxed(things.values())
        by_id = {one.id: one for one in every}
        ends = [(by_id[c.relation.source], by_id[c.relation.target]) for c in candidates]
        found: dict[int, Verification] = {
            at: Verification(None, reason=f"no question tells {source.id} from {target.id}")
            for at, (source, target) in enumerate(ends)
            if phrases(source, target) is None
        }
        asked = [at for at in range(len(candidates)) if at not in found]
        groups = by_rivals(asked, [ends[at] for at in asked], every)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._look(image, hidden, members, candidates, ends, every))
                for hidden, members in groups.items()
            ]
        for members, task in zip(groups.values(), tasks, strict=True):
            found |= dict(zip(members, task.result(), strict=True))
        return tuple(found[at] for at in range(len(candidates)))

    async def _look(
        self,
        image: Image.Image,
        hidden: frozenset[str],
        members: Sequence[int],
        candidates: Sequence[Candidate],
        ends: Sequence[tuple[Boxed, Boxed]],
        every: Sequence[Boxed],
    ) -> list[Verification]:
        kept = [end for at in members for end in ends[at]]
        shown = await asyncio.to_thread(without_rivals, image, hidden, kept, every)
        facts = []
        for at in members:
            relation = candidates[at].relation
            shuffled_by = (relation.source, relation.target)
            # Of a diagonal pair the other direction that its middles allow is right as well.
            also = {*DIRECTIONS} - {*clear_directions(*ends[at])}
            options = relation_options(
                relation.predicate,
                shuffled_by,
                (ends[at][0].name, ends[at][1].name),
                also,
                load_predicates(self.predicates),
            )
            facts.append(
                relation_fact(at, *ends[at], options[:-1], option_text(relation.predicate))
            )
        verdicts, _ = await self.bench.ask(shown, facts)
        return [
            Verification(None, reason=verdict.reason or "the judges gave no answer", failed=True)
            if verdict.state == "unscored"
            else Verification(verdict.state == "yes", verdict.probability)
            for verdict in verdicts
        ]
