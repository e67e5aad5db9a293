"""Ask a judge: read stored answers, ask once for what is missing, store the new answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from PIL import Image

from scenewright.config.model_identity import SINCE
from scenewright.core.answers import by_number
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import nothing_drawn
from scenewright.core.ports.judge import Judge, by_vocabulary, merged, unscored
from scenewright.providers.answer_store import Answers
from scenewright.providers.sdk_clients import identified
from scenewright.providers.versions import (
    note_served,
    served_name,
    served_version,
    storage_key,
    versions_of,
)

T = TypeVar("T")

_UNSEEN = {"id", "subject", "target", "classes", "parents", "guessable", "counting"}
"""Fields of a fact that a judge does not see."""
_AHEAD = ":ahead"
_USABLE = ("yes", "no")
_NO_COSTS: dict[str, float] = {
    "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "seconds": 0.0, "usd": 0.0
}  # fmt: skip


@lru_cache(maxsize=4096)
def fact_digest(fact: Fact) -> str:
    """Return the SHA-256 (hex) of everything that a judge may see of ``fact``.

    Ids are left out: the same question about the same image is one question, whichever
    scene or object instance it was made for. How the facts of several instances count is
    not seen either.
    """
    seen = fact.model_dump(mode="json", exclude=_UNSEEN)
    if fact.counts:
        seen["key"] = None
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _question(fact: Fact) -> tuple[object, ...]:
    """Return what a judge decides of ``fact``: those of which it is equal have one answer.

    Their digests may differ: a thing that is small in size and in age is asked whether it is small.
    """
    return fact.question, fact.options, fact.expected


def _shared(facts: Mapping[str, Fact], told: dict[tuple[object, ...], Answer]) -> dict[str, Answer]:
    """Return the answer to each of ``facts``, by digest; the first one that takes it has paid."""
    found = {}
    for digest, fact in facts.items():
        question = _question(fact)
        found[digest] = told[question]
        told[question] = told[question].model_copy(update=_NO_COSTS)
    return found


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """Answers of one judge about one image."""

    answers: tuple[Answer, ...]
    """One a fact, in the order of the facts."""
    seconds: float
    """Wall time of the judge's call; 0 if it was not called."""
    cached: bool
    """Whether this origin paid nothing: every answer was stored already."""
    empty: str = ""
    """Why the judge was not asked: nothing is drawn on the picture."""


async def ask(
    judge: Judge,
    image_hash: str,
    image: Image.Image,
    facts: Sequence[Fact],
    *,
    store: Answers,
    limit: float | None = None,
    origin: str = "",
    ahead: Sequence[Fact] = (),
    part_of: Image.Image | None = None,
) -> JudgeReply:
    """Return one answer a fact, from the store or from the judge, which is called at most once.

    A judge that counts is asked for a number once, which answers all facts about it
    (:attr:`~scenewright.core.facts.Fact.counted`).

    Facts outside of the judge's vocabulary, and all facts of a picture on which nothing is drawn
    (:func:`~scenewright.core.images.nothing_drawn`), are unscored at once, whatever the store
    holds. ``part_of`` is the whole picture where ``image`` is a part of one: a part may be even.
    A judge that raises, takes longer than ``limit`` seconds (unless its caps say that it bounds
    its calls itself) or returns rubbish gives unscored answers with the reason;
    ``CancelledError`` goes through. Facts that put the same question are asked once. Answers
    that another origin paid for carry no tokens, seconds or dollars. Answers in the store are
    found only if they are of the served version that answered last. Where a change without a new
    name is noted there, answers under the old name are of the new version. Raises ``StoreError``
    if the store fails.

    ``ahead``: facts that may be asked of the same image later. Where a judge whose caps say
    ``at_once`` is called, they go along: what it says of them is in the store for later, and what
    they cost counts now.
    """
    empty = await asyncio.to_thread(nothing_drawn, image if part_of is None else part_of)
    if empty:
        silent = tuple(unscored(judge.id, facts, empty))
        return JudgeReply(answers=silent, seconds=0.0, cached=True, empty=empty)
    vocabulary = judge.caps.vocabulary
    refused, rest = by_vocabulary(judge.id, vocabulary, facts)
    if not rest:
        return JudgeReply(answers=tuple(refused.values()), seconds=0.0, cached=True)
    later: tuple[Fact, ...] = ()
    if judge.caps.at_once:
        later = by_vocabulary(judge.id, vocabulary, ahead)[1]
    asked = rest
    if judge.caps.counts:
        asked, later = (tuple(one.counted or one for one in some) for some in (rest, later))
    found = await _asked(judge, image_hash, image, asked, store, limit, origin, later)
    told = zip(rest, asked, found.answers, strict=True)
    answers = [by_number(fact, one, answer) for fact, one, answer in told]
    found = replace(found, answers=tuple(answers))
    note_served(judge.id, judge.fingerprint, found.answers)
    return replace(found, answers=tuple(merged(refused, found.answers)))


async def _asked(
    judge: Judge,
    image_hash: str,
    image: Image.Image,
    facts: Sequence[Fact],
    store: Answers,
    limit: float | None,
    origin: str,
    ahead: Sequence[Fact],
) -> JudgeReply:
    """Answer facts within the judge's vocabulary; see :func:`ask`."""
    digests = [fact_digest(fact) for fact in facts]
    coming = {fact_digest(fact): fact for fact in ahead}
    async with store.turn(judge.fingerprint, image_hash):
        stored = _StoredAnswers(store, judge.fingerprint, image_hash)
        known = await asyncio.to_thread(stored.get, list(dict.fromkeys([*digests, *coming])))
        missing = {d: f for d, f in zip(digests, facts, strict=True) if d not in known}
        fresh: dict[str, Answer] = {}
        seconds = 0.0
        if missing:
            later = {d: f for d, f in coming.items() if d not in known and d not in missing}
            started = time.perf_counter()
            bound = None if judge.caps.bounds_calls else limit
            # A model that is exchanged is asked anew: it must not get the reply of the one before.
            put: dict[tuple[object, ...], Fact] = {}
            for fact in (*missing.values(), *later.values()):
                put.setdefault(_question(fact), fact)
            with identified(stored.place):
                given = await _call(judge, image, list(put.values()), bound)
            seconds = time.perf_counter() - started
            each = {"seconds": seconds / len(given)}
            given = [a if a.seconds else a.model_copy(update=each) for a in stored.marked(given)]
            first = len({_question(fact) for fact in missing.values()})
            now, then = given[:first], given[first:]
            # By another payer: their costs are counted already.
            free = [answer.model_copy(update=_NO_COSTS) for answer in then]
            told = dict(zip(put, [*with_costs(now, then), *free], strict=True))
            fresh = _shared(missing, told)
            await _to_the_end(
                stored.put, [(fresh, origin), (_shared(later, told), f"{origin}{_AHEAD}")]
            )
    known |= {digest: (answer, origin) for digest, answer in fresh.items()}
    mine = {d for d, (_, payer) in known.items() if d in fresh or (origin and payer == origin)}
    cached = mine.isdisjoint(digests)
    answers: list[Answer] = []
    for digest, fact in zip(digests, facts, strict=True):
        answer, _ = known[digest]
        update: dict[str, object] = {"fact_id": fact.id, "judge_id": judge.id}
        if digest in mine:
            mine.remove(digest)
        else:
            update |= _NO_COSTS
        same = all(getattr(answer, name) == value for name, value in update.items())
        answers.append(answer if same else answer.model_copy(update=update))
    if not missing:
        seconds = sum(answer.seconds for answer in answers)
    return JudgeReply(answers=tuple(answers), seconds=seconds, cached=cached)


@dataclass(slots=True)
class _StoredAnswers:
    """Stored answers of one judge about one image, by served version; waits for the store."""

    store: Answers
    fingerprint: str
    image: str
    first: str = ""
    """Version noted first for the judge; empty: none."""
    now: str = ""
    """Version noted last: only its answers are found."""

    @property
    def place(self) -> str:
        """Name in the store of the judge as it is served now."""
        return storage_key(self.fingerprint, self.now, self.first)

    def get(self, digests: Sequence[str]) -> dict[str, tuple[Answer, str]]:
        self.first, self.now = self.store.noted_versions(self.fingerprint)
        known = self.store.get(self.place, self.image, digests)
        if not self.now:
            # A store that was made before versions were noted.
            for version in versions_of(answer for answer, _ in known.values()):
                self._note(version)
        fits = ("", self.now)
        return {digest: kept for digest, kept in known.items() if served_version(kept[0]) in fits}

    def marked(self, answers: Sequence[Answer]) -> Sequence[Answer]:
        """Return ``answers`` with the version noted last.

        It is set where the version changed and the replies do not name it.
        """
        if SINCE not in self.now:
            return answers
        unchanged = ("", served_name(self.now))
        return [
            answer.model_copy(update={"model": self.now})
            if answer.state in _USABLE and served_version(answer) in unchanged
            else answer
            for answer in answers
        ]

    def put(self, paid: Sequence[tuple[Mapping[str, Answer], str]]) -> None:
        """Store usable answers by fact digest, with the origin that paid for them."""
        for answers, payer in paid:
            by_version = defaultdict(list)
            for digest, answer in answers.items():
                if answer.state in _USABLE:
                    by_version[served_version(answer)].append((digest, answer))
            for version, some in by_version.items():
                if version not in ("", self.now):
                    self._note(version)
                place = storage_key(self.fingerprint, version or self.now, self.first)
                self.store.put(place, self.image, some, payer)

    def _note(self, version: str) -> None:
        self.store.note_version(self.fingerprint, version)
        self.first, self.now = self.first or version, version


async def _to_the_end(work: Callable[[T], None], argument: T) -> None:
    """Call ``work`` in a thread, and return or raise only when it is finished.

    What was paid for is stored even if this task is cancelled meanwhile.
    """
    running = asyncio.get_running_loop().run_in_executor(None, work, argument)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def with_costs(answers: Sequence[Answer], others: Sequence[Answer]) -> list[Answer]:
    """Return ``answers`` with the cost of ``others`` spread over them, remainders on the first."""
    totals = {name: sum(getattr(other, name) for other in others) for name in _NO_COSTS}
    return with_totals(answers, totals) if others else list(answers)


def with_totals(answers: Sequence[Answer], totals: Mapping[str, float]) -> list[Answer]:
    """Return ``answers`` with the costs in ``totals`` spread over them besides their own."""
    count = len(answers)
    shares = {
        name: spread(total, count) if isinstance(total, int) else [total / count] * count
        for name, total in totals.items()
    }
    return [
        answer.model_copy(
            update={name: getattr(answer, name) + share[at] for name, share in shares.items()}
        )
        for at, answer in enumerate(answers)
    ]


def spread(total: int, count: int) -> list[int]:
    """Split ``total`` into ``count`` whole parts that differ by one at most."""
    share, rest = divmod(total, count)
    return [share + (at < rest) for at in range(count)]


async def _call(
    judge: Judge, image: Image.Image, facts: list[Fact], limit: float | None
) -> list[Answer]:
    try:
        async with asyncio.timeout(limit) as deadline:
            given: object = await judge.answer(image, facts)
    except TimeoutError as error:
        if deadline.expired():
            return unscored(judge.id, facts, f"no answer within {limit:g} s")
        return unscored(judge.id, facts, error_text(error))
    except Exception as error:
        return unscored(judge.id, facts, error_text(error))
    return checked(judge.id, facts, given)


def checked(judge_id: str, facts: Sequence[Fact], given: object) -> list[Answer]:
    """Return ``given`` if it is a valid list of answers to ``facts``, else unscored answers.

    What cannot be matched to the facts voids the whole list; an answer that contradicts
    itself is unscored alone.
    """
    if not isinstance(given, list | tuple):
        reason = f"returned {type(given).__name__} instead of a list of answers"
        return unscored(judge_id, facts, reason)
    if len(given) != len(facts):
        return unscored(judge_id, facts, f"returned {len(given)} answers to {len(facts)} facts")
    result: list[Answer] = []
    for fact, answer in zip(facts, given, strict=True):
        reason = ""
        if not isinstance(answer, Answer):
            reason = f"returned a {type(answer).__name__} among its answers"
        elif answer.fact_id != fact.id:
            reason = f"answered {answer.fact_id!r} where {fact.id!r} was asked"
        elif answer.judge_id != judge_id:
            reason = f"signed its answer as {answer.judge_id!r}"
        if reason:
            return unscored(judge_id, facts, reason)
        if reason := _contradiction(fact, answer):
            update = {"state": "unscored", "probability": None, "method": None, "reason": reason}
            answer = answer.model_copy(update=update)
        result.append(answer)
    return result


def _contradiction(fact: Fact, answer: Answer) -> str:
    """Return how an answer contradicts itself or its question; empty if it does not."""
    if answer.state == "void":
        return "answered void, which only the panel decides"
    if answer.state == "unscored" or answer.choice is None:
        return ""
    if answer.choice not in fact.options:
        return f"chose {answer.choice!r}, which is not an option"
    if (answer.choice == fact.expected) != (answer.state == "yes"):
        return f"chose {answer.choice!r} but said {answer.state} to {fact.expected!r}"
    return ""
