"""What a rater is asked of a task, and when the task is done.

Everywhere ``kind`` is :meth:`~scenewright.evals.human_ratings.study.RatingStudy.kind_of` the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenewright.core.facts import Fact
from scenewright.evals.human_ratings.study import (
    ASPECTS,
    FACT_VALUES,
    FIT,
    POINTS,
    UNFIT,
    Kind,
    RatingError,
    Task,
)

WHOLE = ""
"""In place of a fact's id: the rating is of the task as a whole."""


def void_facts(facts: Sequence[Fact], values: Mapping[str, str]) -> frozenset[str]:
    """Ids of the facts that are not asked, since the rater denies something that they need.

    ``values``: fact id → what the rater said.
    """
    void: set[str] = set()
    for fact in facts:
        if any(parent in void or values.get(parent) == "no" for parent in fact.parents):
            void.add(fact.id)
    return frozenset(void)


def asked_of(kind: Kind, task: Task) -> tuple[str, ...]:
    """Ids of what is asked one after the other: facts, or aspects of an object; empty for what
    is answered at once."""
    if kind == "facts":
        return tuple(fact.id for fact in task.facts)
    return ASPECTS if kind == "objects" else ()


def unasked(kind: Kind, task: Task, values: Mapping[str, str]) -> frozenset[str]:
    """Ids of what counts for nothing beside the other ``values``: facts whose ground is denied,
    and scores of an object that the rater takes out."""
    if kind == "facts":
        return void_facts(task.facts, values)
    if kind == "objects":
        return frozenset(ASPECTS if values.get(WHOLE) == UNFIT else (WHOLE,))
    return frozenset()


def is_done(kind: Kind, task: Task, values: Mapping[str, str]) -> bool:
    """Whether ``values`` answer all of ``task``."""
    if kind not in ("facts", "objects"):
        return WHOLE in values
    void = unasked(kind, task, values)
    return all(one in void or one in values for one in asked_of(kind, task))


def next_asked(kind: Kind, task: Task, values: Mapping[str, str], after: int = -1) -> int | None:
    """Index of the first open question after ``after``, else of the first open one; none: all
    done."""
    void = unasked(kind, task, values)
    asked = asked_of(kind, task)
    still = [n for n, one in enumerate(asked) if one not in void and one not in values]
    return next((n for n in still if n > after), still[0] if still else None)


def said_of(kind: Kind, task: Task, text: str) -> tuple[str, str, int]:
    """What a page sends, as (id of what is answered, value, its index or -1 for the whole task).

    ``3`` answers the whole task, ``2:yes`` its second question; ``0:cannot tell`` is about an
    object as a whole. What it does not fit is left to :func:`checked_value`.
    """
    asked = asked_of(kind, task)
    if not asked:
        return WHOLE, text, -1
    number, _, said = text.partition(":")
    if number.isascii() and number.isdecimal() and 0 < int(number[:6]) <= len(asked):
        return asked[int(number[:6]) - 1], said, int(number[:6]) - 1
    return WHOLE, said, -1


def implied(kind: Kind, fact: str) -> dict[str, str]:
    """What an answer to ``fact`` says besides: who scores an object can tell it."""
    return {WHOLE: FIT} if kind == "objects" and fact != WHOLE else {}


def checked_value(kind: Kind, task: Task, fact: str, value: str) -> str:
    """``value`` if it answers ``fact`` (empty: the whole task).

    Raises ``RatingError`` for what cannot be said.
    """
    scores = [str(number) for number in range(1, POINTS + 1)]
    if kind == "facts":
        if fact not in {known.id for known in task.facts}:
            raise RatingError("there is no such statement in this task: reload the page")
        allowed: Sequence[str] = FACT_VALUES
    elif kind == "objects":
        allowed = (UNFIT,) if fact == WHOLE else scores
    else:
        if fact != WHOLE:
            raise RatingError("this task has no statements: reload the page")
        choices = [str(number) for number in range(1, len(task.candidates) + 1)]
        allowed = scores if kind == "score" else choices
    if value not in allowed:
        raise RatingError(f"{value[:40]!r} is no answer here: give one of {', '.join(allowed)}")
    return value
