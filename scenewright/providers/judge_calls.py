"""Ask a judge: read stored answers, ask once for what is missing, store the new answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from PIL import Image

from scenewright.config.model_identity import SINCE
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, by_vocabulary, merged, out_of_vocabulary, unscored
from scenewright.core.questions import NO_RELATION
from scenewright.providers.answer_store import Answers, StoreBusy
from scenewright.providers.versions import (
    note_served,
    served_name,
    served_version,
    storage_key,
    versions_of,
)

T = TypeVar("T")

_UNSEEN = {"id", "subject", "target", "classes", "parents", "by_label"}
"""Fields of a fact that a judge does not see."""
_AHEAD = ":ahead"
BY_LABEL = "asked once more, by class label"
"""Note of such an answer."""
_NO_COSTS: dict[str, float] = {
    "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "seconds": 0.0, "usd": 0.0
}  # fmt: skip


@lru_cache(maxsize=4096)
def fact_digest(fact: Fact) -> str:
    """Return the SHA-256 (hex) of everything that a judge may see of ``fact``.

    Ids are left out: the same question about the same image is one question, whichever
    scene or object instance it was made for. How the facts of several instances count, and how
    a relation is asked once more, is not seen either.
    """
    seen = fact.model_dump(mode="json", exclude=_UNSEEN)
    if fact.counts:
        seen["key"] = None
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """Answers of one judge about one image."""

    answers: tuple[Answer, ...]
    """One a fact, in the order of the facts."""
    seconds: float
    """Wall time of the judge's call; 0 if it was not called."""
    cached: bool
    """Whether this origin paid nothing: every answer was stored already."""


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
) -> JudgeReply:
    """Return one answer a fact, from the store or from the judge, which is called at most twice.

    The second call asks relations once more by class label: those in which the judge saw no
    relationship between the described objects. Its answer counts where it is usable, and carries
    the costs of both.

    Facts outside of the judge's vocabulary are unscored at once, whatever the store holds.
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
    refused, rest = by_vocabulary(judge.id, judge.caps.vocabulary, facts)
    if not rest:
        return JudgeReply(answers=tuple(refused.values()), seconds=0.0, cached=True)
    later = [
        fact
        for fact in ahead
        if judge.caps.at_once and out_of_vocabulary(judge.id, judge.caps.vocabulary, fact) is None
    ]
    if judge.caps.at_once:
        later += [again for fact in (*rest, *later) if (again := fact.asked_by_label) is not None]
    found = await _asked(judge, image_hash, image, rest, store, limit, origin, later)
    asked_again = {
        at: again
        for at, (fact, answer) in enumerate(zip(rest, found.answers, strict=True))
        if answer.choice == NO_RELATION and (again := fact.asked_by_label) is not None
    }
    if asked_again:
        more = await _asked(
            judge, image_hash, image, list(asked_again.values()), store, limit, origin, ()
        )
        found = _with_second(found, dict(zip(asked_again, more.answers, strict=True)), more)
    note_served(judge.id, judge.fingerprint, found.answers)
    return replace(found, answers=tuple(merged(refused, found.answers)))


def _with_second(found: JudgeReply, second: Mapping[int, Answer], more: JudgeReply) -> JudgeReply:
    """Return ``found`` with the ``second`` answers, by place, that ``more`` brought."""
    answers = list(found.answers)
    for at, answer in second.items():
        first = answers[at]
        usable = answer.state in ("yes", "no")
        kept, other = (answer, first) if usable else (first, answer)
        (kept,) = with_costs([kept], [other])
        note = f"{kept.note}; {BY_LABEL}" if kept.note else BY_LABEL
        answers[at] = kept.model_copy(update={"note": note})
    return JudgeReply(
        answers=tuple(answers),
        seconds=found.seconds + more.seconds,
        cached=found.cached and more.cached,
    )


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
        stored = await _StoredAnswers.of(store, judge.fingerprint, image_hash)
        known = await stored.get([*digests, *coming])
        missing: dict[str, Fact] = {}
        for digest, fact in zip(digests, facts, strict=True):
            if digest not in known:
                missing.setdefault(digest, fact)
        fresh: dict[str, Answer] = {}
        seconds = 0.0
        if missing:
            later = {d: f for d, f in coming.items() if d not in known and d not in missing}
            asked = [*missing.values(), *later.values()]
            started = time.perf_counter()
            bound = None if judge.caps.bounds_calls else limit
            given = await _call(judge, image, asked, bound)
            seconds = time.perf_counter() - started
            given = stored.marked(given)
            given = [
                answer
                if answer.seconds
                else answer.model_copy(update={"seconds": seconds / len(given)})
                for answer in given
            ]
            now, then = given[: len(missing)], given[len(missing) :]
            fresh = dict(zip(missing, with_costs(now, then), strict=True))
            # By another payer: their costs are counted already.
            gained = dict(zip(later, map(_free, then), strict=True))
            for payer, answered in ((origin, fresh), (f"{origin}{_AHEAD}", gained)):
                keep = [(d, a) for d, a in answered.items() if a.state in ("yes", "no")]
                await stored.put(keep, payer)
    answers: list[Answer] = []
    paid: set[str] = set()
    for digest, fact in zip(digests, facts, strict=True):
        if digest in fresh:
            answer, mine = fresh[digest], True
        else:
            answer, source = known[digest]
            mine = bool(origin) and source == origin
        if mine and digest not in paid:
            paid.add(digest)
            costs: dict[str, float] = {}
        else:
            costs = _NO_COSTS
        update = {"fact_id": fact.id, "judge_id": judge.id, **costs}
        same = all(getattr(answer, name) == value for name, value in update.items())
        answers.append(answer if same else answer.model_copy(update=update))
    if not missing:
        seconds = sum(answer.seconds for answer in answers)
    return JudgeReply(answers=tuple(answers), seconds=seconds, cached=not paid)


@dataclass(slots=True)
class _StoredAnswers:
    """Stored answers of one judge about one image, by served version."""

    store: Answers
    fingerprint: str
    image: str
    first: str
    """Version noted first for the judge; empty: none."""
    now: str
    """Version noted last: only its answers are found."""

    @classmethod
    async def of(cls, store: Answers, fingerprint: str, image: str) -> _StoredAnswers:
        first, now = await _at_once(store.noted_versions, fingerprint)
        return cls(store, fingerprint, image, first, now)

    def marked(self, answers: Sequence[Answer]) -> list[Answer]:
        """Return ``answers`` with the version noted last.

        It is set where the version changed and the replies do not name it.
        """
        if SINCE not in self.now:
            return list(answers)
        unchanged = ("", served_name(self.now))
        return [
            answer.model_copy(update={"model": self.now})
            if answer.state in ("yes", "no") and served_version(answer) in unchanged
            else answer
            for answer in answers
        ]

    async def get(self, digests: Sequence[str]) -> dict[str, tuple[Answer, str]]:
        place = storage_key(self.fingerprint, self.now, self.first)
        known = await _at_once(self.store.get, place, self.image, digests, many=len(digests))
        if not self.now:
            # A store that was made before versions were noted.
            for version in versions_of(answer for answer, _ in known.values()):
                await self._note(version)
        fits = ("", self.now)
        return {digest: kept for digest, kept in known.items() if served_version(kept[0]) in fits}

    async def put(self, answers: Sequence[tuple[str, Answer]], payer: str) -> None:
        by_version: dict[str, list[tuple[str, Answer]]] = {}
        for digest, answer in answers:
            by_version.setdefault(served_version(answer), []).append((digest, answer))
        for version, some in by_version.items():
            if version not in ("", self.now):
                await self._note(version)
            place = storage_key(self.fingerprint, version or self.now, self.first)
            await _at_once(self.store.put, place, self.image, some, payer, many=len(some))

    async def _note(self, version: str) -> None:
        await _at_once(self.store.note_version, self.fingerprint, version)
        self.first, self.now = self.first or version, version


def _free(answer: Answer) -> Answer:
    """Return ``answer`` without its costs."""
    return answer.model_copy(update=_NO_COSTS)


def with_costs(answers: Sequence[Answer], others: Sequence[Answer]) -> list[Answer]:
    """Return ``answers`` with the cost of ``others`` spread over them, remainders on the first."""
    if not others:
        return list(answers)
    found = []
    for at, answer in enumerate(answers):
        update: dict[str, float] = {}
        for name, none in _NO_COSTS.items():
            total = sum(getattr(other, name) for other in others)
            if isinstance(none, int):
                share = total // len(answers) + (at < total % len(answers))
            else:
                share = total / len(answers)
            update[name] = getattr(answer, name) + share
        found.append(answer.model_copy(update=update))
    return found


_MANY = 16
"""Answers beyond which a thread reads or writes them.

SQLite lets go of the interpreter at each row: beside busy threads the event loop would wait as
often to get it back.
"""


async def _at_once(work: Callable[..., T], *args: object, many: int = 1) -> T:
    """Call ``work`` of the store at once, or in a thread if it must wait or has ``many`` answers.

    A thread finishes its write even if this task is cancelled meanwhile.
    """
    if many > _MANY:
        return await asyncio.to_thread(work, *args)
    try:
        return work(*args, wait=False)
    except StoreBusy:
        return await asyncio.to_thread(work, *args)


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
        return unscored(
            judge_id, facts, f"returned {type(given).__name__} instead of a list of answers"
        )
    if len(given) != len(facts):
        return unscored(judge_id, facts, f"returned {len(given)} answers to {len(facts)} facts")
    result: list[Answer] = []
    for fact, answer in zip(facts, given, strict=True):
        if not isinstance(answer, Answer):
            return unscored(
                judge_id, facts, f"returned a {type(answer).__name__} among its answers"
            )
        if answer.fact_id != fact.id:
            return unscored(
                judge_id, facts, f"answered {answer.fact_id!r} where {fact.id!r} was asked"
            )
        if answer.judge_id != judge_id:
            return unscored(judge_id, facts, f"signed its answer as {answer.judge_id!r}")
        result.append(_consistent(fact, answer))
    return result


def _consistent(fact: Fact, answer: Answer) -> Answer:
    if answer.state == "unscored":
        return answer
    if answer.state == "void":
        return _refused(answer, "answered void, which only the panel decides")
    if answer.choice is not None:
        if answer.choice not in fact.options:
            return _refused(answer, f"chose {answer.choice!r}, which is not an option")
        if (answer.choice == fact.expected) != (answer.state == "yes"):
            return _refused(
                answer, f"chose {answer.choice!r} but said {answer.state} to {fact.expected!r}"
            )
    return answer


def _refused(answer: Answer, reason: str) -> Answer:
    return answer.model_copy(
        update={"state": "unscored", "probability": None, "method": None, "reason": reason}
    )
