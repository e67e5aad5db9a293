"""When an object is rated enough: two raters, and one more where these differ widely.

Liang et al., Sec. 3.2: each object is evaluated by two annotators; where they differ by three or
more in either question, a third one evaluates it again. Sec. 3.1: objects whose box shows no such
object are taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenewright.evals.human_ratings.asking import WHOLE, is_done
from scenewright.evals.human_ratings.study import ASPECTS, UNFIT, Kind, Rule, Task

Scores = tuple[int, ...]
"""Shape and texture, or the one score of a picture as a whole."""


def scores_of(kind: Kind, task: Task, values: Mapping[str, str]) -> Scores | None:
    """What one rater's ``values`` of a finished task say; none: the object is to be left out.

    ``kind`` is :meth:`~scenewright.evals.human_ratings.study.RatingStudy.kind_of` the task. Raises
    ``ValueError`` for a task that the rater has not finished.
    """
    if not is_done(kind, task, values):
        raise ValueError(f"the rater has not finished task {task.id}")
    if kind == "objects":
        return None if values.get(WHOLE) == UNFIT else tuple(int(values[a]) for a in ASPECTS)
    return (int(values[WHOLE]),)


def far_apart(given: Sequence[Scores], rule: Rule) -> bool:
    """Whether two raters differ by ``rule.apart`` or more in any question."""
    return any(max(said) - min(said) >= rule.apart for said in zip(*given, strict=True))


def still_needed(given: Sequence[Scores | None], rule: Rule) -> int:
    """How many more raters an object needs, whose finished ratings are ``given`` in any order."""
    known = [scores for scores in given if scores is not None]
    if len(known) < len(given):
        return 0
    if len(known) < rule.raters:
        return rule.raters - len(known)
    return int(len(known) == rule.raters and far_apart(known, rule))
