"""The one way to ask a judge: look in the store, ask once for what is missing, keep the answers.

Answers are content-addressed by (judge fingerprint, image hash, fact digest) in SQLite.
What failed is never kept: it is asked again next time. Every row names the *origin* that
paid for it, so that a step which runs again after a kill still counts as the one that
paid, and a later step that finds the answer counts as having paid nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from PIL import Image

from scenewright.agents.judges.base import Judge, unscored
from scenewright.facts import Answer, Fact
from scenewright.flushing import Flusher

T = TypeVar("T")

BUSY_SECONDS = 30.0
_REASON_LENGTH = 500
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    judge TEXT NOT NULL,
    image TEXT NOT NULL,
    fact TEXT NOT NULL,
    answer TEXT NOT NULL,
    origin TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (judge, image, fact)
) WITHOUT ROWID
"""


class StoreError(RuntimeError):
    """The store of answers cannot be opened or written; says what to do."""


class StoreBusy(StoreError):
    """The store cannot be used without waiting."""


@lru_cache(maxsize=4096)
def fact_digest(fact: Fact) -> str:
    """SHA-256 (hex) of all that a judge may see of ``fact``.

    Ids are left out: the same question about the same image is one question, whichever
    scene or object instance it was made for.
    """
    seen = fact.model_dump(mode="json", exclude={"id", "subject", "target", "parents"})
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


class AnswerStore:
    """A durable map from (judge, image, fact) to an answer; safe for threads and processes."""

    def __init__(self, path: Path | None, *, flusher: Flusher | None = None) -> None:
        """Opens or makes the database; None keeps it in memory. Raises ``StoreError``.

        With a ``flusher`` answers are safe from a power cut soon after they are put; without
        one, at once. A process that dies takes none back.
        """
        self.path = path
        self._flusher = flusher
        self._lock = threading.Lock()
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        try:
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            # With NORMAL a power cut could take the last paid answers back.
            self._db.execute(f"PRAGMA synchronous={'FULL' if flusher is None else 'NORMAL'}")
            self._db.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """The stored answers among ``digests``: fact digest → (answer, origin).

        Raises ``StoreBusy`` without ``wait`` where another thread is at work here.
        """
        found: dict[str, tuple[Answer, str]] = {}
        try:
            with self._alone(wait):
                for digest in dict.fromkeys(digests):
                    row = self._db.execute(
                        "SELECT answer, origin FROM answers WHERE judge=? AND image=? AND fact=?",
                        (judge, image, digest),
                    ).fetchone()
                    if row is not None:
                        found[digest] = (Answer.model_validate_json(row[0]), row[1])
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return found

    def put(
        self,
        judge: str,
        image: str,
        answers: Sequence[tuple[str, Answer]],
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """Keeps (fact digest, answer) pairs in one transaction; the first answer to a fact stays.

        Unscored and void answers are refused with ``ValueError``: they are no results. Raises
        ``StoreBusy`` without ``wait`` where the disk or another writer must be waited for.
        """
        for _, answer in answers:
            if answer.state not in ("yes", "no"):
                raise ValueError(f"a {answer.state} answer to {answer.fact_id} must not be kept")
        now = time.time()
        rows = [(judge, image, d, a.model_dump_json(), origin, now) for d, a in answers]
        if not wait and self.path is not None and self._flusher is None:
            raise StoreBusy("the answers are flushed to the disk at once")
        try:
            with self._alone(wait):
                self._begin(wait)
                try:
                    self._db.executemany(
                        "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows
                    )
                    self._db.execute("COMMIT")
                except BaseException:
                    self._db.rollback()
                    raise
            if self._flusher is not None and self.path is not None:
                # The database itself must not be opened beside SQLite: that drops its locks.
                self._flusher.note(self.path.with_name(f"{self.path.name}-wal"))
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM answers").fetchone()[0])

    def turn(self, judge: str, image: str) -> asyncio.Lock:
        """The lock that makes tasks asking the same judge of the same image go one by one."""
        return self._turns.setdefault((judge, image), asyncio.Lock())

    def close(self) -> None:
        """Close the database; a write under way in another thread is finished first."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _alone(self, wait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=wait):
            raise StoreBusy("another thread is at work in the store of answers")
        try:
            yield
        finally:
            self._lock.release()

    def _begin(self, wait: bool) -> None:
        if wait:
            self._db.execute("BEGIN IMMEDIATE")
            return
        self._db.execute("PRAGMA busy_timeout=0")
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StoreBusy("another process writes answers") from error
        finally:
            self._db.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")

    def _failed(self, error: sqlite3.Error | OSError) -> StoreError:
        place = "in memory" if self.path is None else str(self.path)
        return StoreError(
            f"the answers cannot be kept ({place}): {error}. "
            "Check that the folder is writable and the disk not full, then run the same again: "
            "what was answered before is kept"
        )


async def ask(
    judge: Judge,
    image_hash: str,
    image: Image.Image,
    facts: Sequence[Fact],
    *,
    store: AnswerStore,
    limit: float | None = None,
    origin: str = "",
) -> Asked:
    """One answer a fact, from the store or from at most one call of the judge.

    A judge that raises, takes longer than ``limit`` seconds or returns rubbish gives
    unscored answers with the reason; ``CancelledError`` goes through. Facts that put the
    same question are asked once. Answers that another origin paid for carry no tokens,
    seconds or dollars. Raises ``StoreError`` if the store fails.
    """
    if not facts:
        return Asked(answers=(), seconds=0.0, cached=True)
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
            given = await _call(judge, image, asked, limit)
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
            costs = {"tokens_in": 0, "tokens_out": 0, "seconds": 0.0, "usd": 0.0}
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
