"""What raters said of each object, together: from rows of ratings to objects with their scores."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from scenewright.evals.human_ratings.object_rule import Scores, far_apart, scores_of, still_needed
from scenewright.evals.human_ratings.study import RatingStudy, Rule, Task
from scenewright.evals.human_ratings.table import Rating


@dataclass(frozen=True, slots=True)
class RaterAnswer:
    """What one rater said of one object, or of a picture as a whole."""

    rater: str
    """Name."""
    scores: Scores | None
    """Shape and texture, or the one score; none: it is to be left out."""
    when: str
    """When it was shown, else when it was rated, ISO 8601 in UTC."""
    seconds: float | None
    """Time that all its answers took; none if it is not known of each."""
    changes: int
    """How often an answer was changed."""


@dataclass(frozen=True, slots=True)
class RatedUnit:
    """An object, or a picture as a whole, with all that was said of it."""

    task: Task
    """What was rated."""
    said: tuple[RaterAnswer, ...]
    """By finished raters, in the order in which they came."""
    rule: Rule
    """How many raters it gets."""

    @property
    def known(self) -> tuple[RaterAnswer, ...]:
        """What holds scores."""
        return tuple(one for one in self.said if one.scores is not None)

    @property
    def excluded(self) -> bool:
        """Whether a rater took it out."""
        return len(self.known) < len(self.said)

    @property
    def first(self) -> tuple[Scores, ...]:
        """The scores of the raters who everything gets, without those of a re-evaluation."""
        return tuple(one.scores for one in self.known[: self.rule.raters] if one.scores is not None)

    @property
    def apart(self) -> bool:
        """Whether these differ so widely that it is evaluated again."""
        return len(self.first) == self.rule.raters and far_apart(self.first, self.rule)

    @property
    def needed(self) -> int:
        """Raters that it still needs."""
        return still_needed([one.scores for one in self.said], self.rule)

    @property
    def means(self) -> tuple[float, ...]:
        """Mean of all raters for each question; empty without ratings."""
        scores = [one.scores for one in self.known if one.scores is not None]
        return tuple(statistics.fmean(column) for column in zip(*scores, strict=True))


def judged_of(study: RatingStudy, ratings: Iterable[Rating]) -> tuple[RatedUnit, ...]:
    """The tasks of ``study`` with what ``ratings`` say of them, in the study's order.

    What a rater has not finished counts for nothing.
    """
    tasks = {task.id: task for task in study.tasks}
    together: dict[tuple[str, str], list[Rating]] = {}
    for rating in ratings:
        if rating.task in tasks:
            together.setdefault((rating.task, rating.rater), []).append(rating)
    said: dict[str, list[RaterAnswer]] = {}
    for (task, rater), rows in together.items():
        values = {row.fact: row.value for row in rows}
        kind = study.kind_of(tasks[task])
        try:
            scores = scores_of(kind, tasks[task], values)
        except ValueError:
            continue
        times = [row.seconds for row in rows if row.seconds is not None]
        said.setdefault(task, []).append(
            RaterAnswer(
                rater=rater,
                scores=scores,
                when=min(row.shown_at or row.rated_at for row in rows),
                seconds=sum(times) if len(times) == len(rows) else None,
                changes=sum(row.changes for row in rows),
            )
        )
    return tuple(
        RatedUnit(
            task,
            tuple(sorted(said.get(task.id, ()), key=lambda one: (one.when, one.rater))),
            study.rule,
        )
        for task in study.tasks
    )
