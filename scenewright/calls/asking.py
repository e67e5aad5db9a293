"""The one way to ask a judge: look in the store, ask once for what is missing, keep the answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from PIL import Image

from scenewright.agents.judges.base import Judge, outside, unscored
from scenewright.calls.answers import Answers
from scenewright.calls.store import StoreBusy
from scenewright.facts import Answer, Fact

T = TypeVar("T")

_REASON_LENGTH = 500


@lru_cache(maxsize=4096)
def fact_digest(fact: Fact) -> str:
    """SHA-256 (hex) of all that a judge may see of ``fact``.

    Ids are left out: the same question about the same image is one question, whichever
    scene or object instance it was made for. How the facts of several instances count is not
    seen either.
    """
    seen = fact.model_dump(mode="json", exclude={"id", "subject", "target", "classes", "parents"})
    if fact.counts:
        seen["key"] = None
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Asked:
    """What one judge said of some facts of one image."""

    answers: tuple[Answer, ...]
    """One a fact, in the order of the facts."""
    seconds: float
    """Wall time of the judge's call; 0 if it was not called."""
    cached: bool
    """Nothing was paid by this origin: every answer was already in the store."""


async def ask(
    judge: Judge,
    image_hash: str,
    image: Image.Image,
    facts: Sequence[Fact],
    *,
    store: Answers,
    limit: float | None = None,
    origin: str = "",
) -> Asked:
    """One answer a fact, from the store or from at most one call of the judge.

    Facts outside of the judge's vocabulary are unscored at once, whatever the store holds.
    A judge that raises, takes longer than ``limit`` seconds (unless its caps say that it bounds
    its calls itself) or returns rubbish gives unscored answers with the reason;
    ``CancelledError`` goes through. Facts that put the same question are asked once. Answers
    that another origin paid for carry no tokens, seconds or dollars. Raises ``StoreError`` if
    the store fails.
    """
    refused = {
        at: answer
        for at, fact in enumerate(facts)
        if (answer := outside(judge.id, judge.caps.vocabulary, fact)) is not None
    }
    rest = [fact for at, fact in enumerate(facts) if at not in refused]
    if not rest:
        return Asked(answers=tuple(refused.values()), seconds=0.0, cached=True)
    found = await _asked(judge, image_hash, image, rest, store, limit, origin)
    if not refused:
        return found
    given = iter(found.answers)
    return replace(found, answers=tuple(refused.get(at) or next(given) for at in range(len(facts))))


async def _asked(
    judge: Judge,
    image_hash: str,
    image: Image.Image,
    facts: Sequence[Fact],
    store: Answers,
    limit: float | None,
    origin: str,
) -> Asked:
    """:func:`ask` for facts in words that the judge knows."""
    digests = [fact_digest(fact) for fact in facts]
    async with store.turn(judge.fingerprint, image_hash):
        known = await _at_once(store.get, judge.fingerprint, image_hash, digests)
        missing: dict[str, Fact] = {}
        for digest, fact in zip(digests, facts, strict=True):
            if digest not in known:
                missing.setdefault(digest, fact)
        fresh: dict[str, Answer] = {}
        seconds = 0.0
        if missing:
            asked = list(missing.values())
            started = time.perf_counter()
            bound = None if judge.caps.bounds_calls else limit
            given = await _call(judge, image, asked, bound)
            seconds = time.perf_counter() - started
            given = [
                answer
                if answer.seconds
                else answer.model_copy(update={"seconds": seconds / len(given)})
                for answer in given
            ]
            fresh = dict(zip(missing, given, strict=True))
            keep = [(d, a) for d, a in fresh.items() if a.state in ("yes", "no")]
            if keep:
                await _at_once(store.put, judge.fingerprint, image_hash, keep, origin)
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
            costs = {}
        else:
            costs = {
                "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "seconds": 0.0, "usd": 0.0
            }  # fmt: skip
        update = {"fact_id": fact.id, "judge_id": judge.id, **costs}
        same = all(getattr(answer, name) == value for name, value in update.items())
        answers.append(answer if same else answer.model_copy(update=update))
    if not missing:
        seconds = sum(answer.seconds for answer in answers)
    return Asked(answers=tuple(answers), seconds=seconds, cached=not paid)


async def _at_once(work: Callable[..., T], *args: object) -> T:
    """``work`` of the store here and now, which wakes no thread; in a thread if it must wait.

    A thread finishes its write even if this task is cancelled meanwhile.
    """
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
        return unscored(judge.id, facts, _reason(error))
    except Exception as error:
        return unscored(judge.id, facts, _reason(error))
    return checked(judge.id, facts, given)


def checked(judge_id: str, facts: Sequence[Fact], given: object) -> list[Answer]:
    """``given`` if it is a sound list of answers to ``facts``, else unscored ones with the reason.

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
        return _refused(answer, "said void, which only the panel decides")
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


def _reason(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"
