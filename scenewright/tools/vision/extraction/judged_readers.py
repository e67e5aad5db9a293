"""Attributes and relations by judges, in a world whose words are known.

An attribute is a yes/no question a value; a relation is a multiple-choice question about a pair
whose boxes allow it. Candidate relations are verified by judges that did not propose them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

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
from scenewright.core.questions import NO_RELATION, attribute_fact_id, relation_options
from scenewright.core.referring import option_text
from scenewright.core.vocabulary import DIRECTIONS
from scenewright.tools.digests import short_digest
from scenewright.tools.vision.extraction.pairs import (
    MOST_PAIRS,
    by_rivals,
    clear_directions,
    contact_options,
    contacts,
    distinguishing_phrases,
    nearest_pairs,
)
from scenewright.tools.vision.extraction.panel_questions import (
    ExtractionPanel,
    reason_of,
    relation_fact,
    without_rivals,
)
from scenewright.tools.vision.extraction.views import detail_crop
from scenewright.tools.vision.extraction.world import World

View = Literal["alone", "crop"]
"""``alone``: the picture with other things of the class painted over, for judges that were taught
on whole pictures; ``crop``: the detail crop of XTC-Bench, Sec. 3.2.3."""

_LIKELIER = 0.5
CONTACTS = ("inside", "on", "riding", "under", "wearing", "holding")
"""Predicates that boxes can rule out; others are asked of every pair that is looked at."""
Q = TypeVar("Q")
R = TypeVar("R")


@dataclass(frozen=True)
class JudgedAttributes:
    """Implements :class:`~scenewright.core.ports.vision.AttributeReader`.

    Each value of a key is one yes/no question; the likeliest is taken if the judges confirm it.
    """

    bench: ExtractionPanel
    """The judges."""
    values: Mapping[str, Sequence[str]]
    """Key → the values that there are; other keys are left out."""
    view: View = "alone"
    """View that the judges see."""
    sure: float = 0.5
    """A value whose probability is not above this is not taken."""

    @cached_property
    def fingerprint(self) -> str:
        """Judges, values, view and threshold."""
        values = {key: list(words) for key, words in self.values.items()}
        parts = self.bench.fingerprint, values, self.view, self.sure
        return f"judged attributes@2#{short_digest(*parts)}"

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
            raise ExtractionError(reason_of(verdicts[0]))
        best: dict[str, ReadAttribute] = {}
        silent: dict[str, Unread] = {}
        for (key, value), verdict in zip(facts, verdicts, strict=True):
            if verdict.state == "unscored":
                lost = Unread("attributes", reason_of(verdict), (thing.id,), (key,))
                silent.setdefault(key, lost)
                continue
            chance = verdict.likelihood
            known = best.get(key)
            if chance > self.sure and (known is None or chance > (known.confidence or 0.0)):
                best[key] = ReadAttribute(key, value, chance)
        for key in silent:
            # What is likelier than not is the key's value, whatever the others are.
            if key in best and (best[key].confidence or 0.0) <= _LIKELIER:
                del best[key]
        return (*best.values(), *(one for key, one in silent.items() if key not in best))

    def _shown(self, image: Image.Image, thing: Thing, things: Sequence[Thing]) -> Image.Image:
        if self.view == "crop":
            return detail_crop(image, thing.detection)
        name = thing.detection.name
        rivals = [one.id for one in things if one.detection.name == name and one.id != thing.id]
        return without_rivals(image, rivals, [thing], things)


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


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """One question about an ordered pair."""

    source: Thing
    target: Thing
    options: tuple[str, ...]
    """Without the last one, that there is no relation."""

    def fact(self, number: int, expected: str) -> Fact:
        return relation_fact(number, self.source, self.target, self.options, expected)


@dataclass(frozen=True, slots=True)
class _PairAnswer:
    """The panel's answer to a question about a pair."""

    look: PairQuestion
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
    """The judges."""
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
        digest = short_digest(
            self.bench.fingerprint, self.world.model_dump(mode="json"), MOST_PAIRS, self.touch
        )
        return f"judged relations@2#{digest}"

    async def score(
        self, image: Image.Image, things: Sequence[Thing]
    ) -> tuple[PairScores | Unread, ...]:
        """Score of the pairs that words can tell apart, each in one direction or both.

        What the judges gave no answer to is unread.

        Raises ``ExtractionError`` if the judges answer nothing.
        """
        side = max(image.size)
        looks: list[PairQuestion] = []
        for a, b in nearest_pairs(things, MOST_PAIRS):
            looks += [*self._contacts(a, b, side), *self._contacts(b, a, side)]
            some = self._known(a, clear_directions(a, b), b)
            looks += [PairQuestion(a, b, some)] if some else []
        ends = [(look.source, look.target) for look in looks]
        results = await _ask_by_view(image, looks, ends, things, self._answers)
        every_result = [one for results_of in results for one in results_of]
        seen = [one for one in every_result if isinstance(one, _PairAnswer)]
        lost = [one for one in every_result if isinstance(one, Unread)]
        if lost and not seen:
            raise ExtractionError(lost[0].reason)
        return (*_scores(seen), *lost)

    def _known(self, source: Thing, predicates: Sequence[str], target: Thing) -> tuple[str, ...]:
        hold = self.world.can_hold
        return tuple(p for p in predicates if hold(source.detection.name, p, target.detection.name))

    def _contacts(self, source: Thing, target: Thing, side: int) -> list[PairQuestion]:
        others = [p for p in self.world.predicates if p not in (*CONTACTS, *DIRECTIONS)]
        wanted = self._known(source, (*contacts(source, target, side, self.touch), *others), target)
        return [
            PairQuestion(source, target, self._known(source, options, target))
            for options in contact_options(source, target, wanted)
        ]

    async def _answers(
        self, shown: Image.Image, looks: Sequence[PairQuestion]
    ) -> list[list[_PairAnswer | Unread]]:
        """Return the panel's verdicts on each question, and what of it has no answer."""
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
        confirmed, _ = await self.bench.ask(shown, facts)
        results: list[list[_PairAnswer | Unread]] = []
        for at, (look, verdict) in enumerate(zip(looks, verdicts, strict=True)):
            if verdict.state == "unscored":
                results.append([_unread(look, look.options, verdict)])
                continue
            chances: dict[str, float] = {}
            unread: list[_PairAnswer | Unread] = []
            for (where, option), one in zip(again, confirmed, strict=True):
                if where == at and one.state == "unscored":
                    unread.append(_unread(look, (option,), one))
                elif where == at:
                    chances[option] = one.likelihood
            results.append([*unread, _PairAnswer(look, verdict.likelihood, chances)])
        return results


def _unread(look: PairQuestion, options: tuple[str, ...], verdict: Verdict) -> Unread:
    return Unread("relations", reason_of(verdict), (look.source.id, look.target.id), options)


def _scores(seen: Sequence[_PairAnswer]) -> tuple[PairScores, ...]:
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
    """The judges; for a second opinion, others than those of the scorer."""
    predicates: str = DEFAULT
    """Source of wrong options: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`."""

    @cached_property
    def fingerprint(self) -> str:
        """The judges'."""
        known = load_predicates(self.predicates).fingerprint
        return f"judged verifier@2#{short_digest(self.bench.fingerprint, known)}"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """Return one verification a candidate, in order, with the panel's probability.

        None without an answer for a pair that no words tell apart.
        """
        ends = [(things[c.relation.source], things[c.relation.target]) for c in candidates]
        found: dict[int, Verification] = {
            at: Verification(None, reason=f"no question tells {source.id} from {target.id}")
            for at, (source, target) in enumerate(ends)
            if distinguishing_phrases(source, target) is None
        }
        asked = [at for at in range(len(candidates)) if at not in found]

        async def verify(shown: Image.Image, members: Sequence[int]) -> list[Verification]:
            facts = [self._fact(at, candidates[at], ends[at]) for at in members]
            verdicts, _ = await self.bench.ask(shown, facts)
            return [
                Verification(None, reason=reason_of(verdict), failed=True)
                if verdict.state == "unscored"
                else Verification(verdict.state == "yes", verdict.probability)
                for verdict in verdicts
            ]

        checks = await _ask_by_view(
            image, asked, [ends[at] for at in asked], [*things.values()], verify
        )
        found |= dict(zip(asked, checks, strict=True))
        return tuple(found[at] for at in range(len(candidates)))

    def _fact(self, number: int, candidate: Candidate, ends: tuple[Thing, Thing]) -> Fact:
        relation = candidate.relation
        # Of a diagonal pair the other direction that its middles allow is right as well.
        also = {*DIRECTIONS} - {*clear_directions(*ends)}
        options = relation_options(
            relation.predicate,
            (relation.source, relation.target),
            (ends[0].detection.name, ends[1].detection.name),
            also,
            load_predicates(self.predicates),
        ).offered
        return relation_fact(number, *ends, options[:-1], option_text(relation.predicate))


async def _ask_by_view(
    image: Image.Image,
    questions: Sequence[Q],
    ends: Sequence[tuple[Thing, Thing]],
    every: Sequence[Thing],
    ask: Callable[[Image.Image, Sequence[Q]], Awaitable[Sequence[R]]],
) -> list[R]:
    """Return the results of ``ask`` for ``questions`` about the pairs ``ends``, in their order.

    Questions that hide the same things share a view, and are asked together.
    """
    groups = by_rivals(ends, every)

    async def results_of(hidden: frozenset[str], members: Sequence[int]) -> Sequence[R]:
        kept = [end for at in members for end in ends[at]]
        shown = await asyncio.to_thread(without_rivals, image, hidden, kept, every)
        return await ask(shown, [questions[at] for at in members])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(results_of(*one)) for one in groups.items()]
    found: dict[int, R] = {}
    for members, task in zip(groups.values(), tasks, strict=True):
        found |= zip(members, task.result(), strict=True)
    return [found[at] for at in range(len(questions))]
