"""What a rater is asked of a task, and when the task is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenewright.evals.rating.study import FACT_VALUES, POINTS, Kind, RatingError, Task
from scenewright.facts import Fact

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


def is_done(kind: Kind, task: Task, values: Mapping[str, str]) -> bool:
    """Whether ``values`` answer all of ``task``."""
    if kind != "facts":
        return WHOLE in values
    void = void_facts(task.facts, values)
    return all(fact.id in void or fact.id in values for fact in task.facts)


def next_fact(task: Task, values: Mapping[str, str], after: int = -1) -> int | None:
    """Index of the first open fact after ``after``, else of the first open one; none: all done."""
    void = void_facts(task.facts, values)
    still = [n for n, f in enumerate(task.facts) if f.id not in void and f.id not in values]
    return next((n for n in still if n > after), still[0] if still else None)


def checked_value(kind: Kind, task: Task, fact: str, value: str) -> str:
    """``value`` if it answers ``fact`` (empty: the whole task).

    Raises ``RatingError`` for what cannot be said.
    """
    if kind == "facts":
        if fact not in {known.id for known in task.facts}:
            raise RatingError("there is no such statement in this task: reload the page")
        allowed: Sequence[str] = FACT_VALUES
    else:
        if fact != WHOLE:
            raise RatingError("this task has no statements: reload the page")
        most = POINTS if kind == "score" else len(task.candidates)
        allowed = [str(number) for number in range(1, most + 1)]
    if value not in allowed:
        raise RatingError(f"{value[:40]!r} is no answer here: give one of {', '.join(allowed)}")
    return value
