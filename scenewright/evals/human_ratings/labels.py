"""Ratings of facts as labels: the majority of raters becomes the truth for measuring judges.

:func:`scenewright.evals.judge_reports.labelled_facts.read_labels` reads the table, so that
``scenewright judges calibrate --labels`` and ``judges report --labels`` work with it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from scenewright.agents.judges.replay import LIST_SEPARATOR
from scenewright.core.facts import Fact
from scenewright.core.validation import FrozenModel
from scenewright.evals.human_ratings.study import (
    RatingError,
    StudyFolder,
    Task,
    put_csv,
    question_of,
)
from scenewright.evals.human_ratings.table import Rating, first_of

LABEL_COLUMNS = (
    *("image", "question", "options", "expected", "holds", "kind", "fact_id"),
    *("votes_yes", "votes_no", "cannot_tell"),
)

Question = tuple[str, str, str]
"""Picture, question, and the answer to it that people confirm or deny."""


class LabelCount(FrozenModel):
    """Numbers of facts with a label, and of those left out."""

    labels: int = Field(ge=0)
    """Facts with a label."""
    holds: int = Field(ge=0)
    """Labels of facts that hold."""
    ties: int = Field(ge=0)
    """As many said yes as no: left out."""
    undecided: int = Field(ge=0)
    """Nobody could tell: left out."""
    too_few: int = Field(ge=0)
    """Fewer said yes or no than were asked for: left out."""
    absent: int = Field(ge=0)
    """Their object is absent for most raters: left out, since no run asks them."""


def write_labels(
    folder: StudyFolder, ratings: Sequence[Rating], path: Path, fewest: int = 1
) -> LabelCount:
    """Write the raters' majority for each fact of each picture as a CSV table at ``path``.

    Each rater has one vote: the first one for a repeated task. Identical pictures share their
    votes. ``fewest``: votes for yes or no that a label needs. Raises ``RatingError`` for ratings of
    another kind, ratings without any label, and a file that cannot be written.
    """
    study = folder.study
    if study.kind != "facts":
        raise RatingError(
            f"{folder.folder} asks for {study.kind}: labels come from a study of facts "
            "(`scenewright rate make … --kind facts`)"
        )
    # Studies of before may ask one question of a picture several times: it has one label.
    asked: dict[Question, Fact] = {}
    above: dict[Question, set[Question]] = {}
    votes: dict[Question, dict[str, str]] = {}
    sheets = {task.id: _questions(task) for task in study.tasks}
    # Two arms may give one picture: then the rater's earlier answer counts.
    for rating in sorted(first_of(ratings), key=lambda r: r.rated_at):
        fact, question, on = sheets[rating.task][rating.fact]
        asked.setdefault(question, fact)
        above.setdefault(question, set()).update(on)
        votes.setdefault(question, {}).setdefault(rating.rater, rating.value)
    counts = {key: Counter(given.values()) for key, given in votes.items()}
    absent = {key for key, count in counts.items() if count["no"] > count["yes"]}
    left_out: Counter[str] = Counter()
    rows: list[tuple[str | int, ...]] = []
    holds = 0
    for number, (question, fact) in enumerate(asked.items(), start=1):
        count = counts[question]
        yes, no = count["yes"], count["no"]
        why = (
            "absent" if above[question] & absent
            else "undecided" if yes + no == 0
            else "too_few" if yes + no < fewest
            else "ties" if yes == no
            else ""
        )  # fmt: skip
        if why:
            left_out[why] += 1
            continue
        holds += yes > no
        place = Path(os.path.relpath(folder.picture(question[0]), path.parent)).as_posix()
        rows.append(
            (
                *(place, fact.question, LIST_SEPARATOR.join(fact.options), fact.expected),
                *(int(yes > no), fact.kind, f"l{number}", yes, no, count["cannot tell"]),
            )
        )
    if not rows:
        raise RatingError(
            f"{folder.folder} has no fact that enough raters agree on: rate first with "
            f"`scenewright rate serve {folder.folder}`"
        )
    put_csv(path, LABEL_COLUMNS, rows)
    return LabelCount(
        labels=len(rows),
        holds=holds,
        ties=left_out["ties"],
        undecided=left_out["undecided"],
        too_few=left_out["too_few"],
        absent=left_out["absent"],
    )


def _questions(task: Task) -> dict[str, tuple[Fact, Question, set[Question]]]:
    """Return each fact of ``task`` by its id, with its question and those that it depends on."""
    image = task.candidates[0].image
    of = {fact.id: (image, *question_of(fact)) for fact in task.facts}
    return {
        fact.id: (fact, of[fact.id], {of[on] for on in fact.depends_on if on in of})
        for fact in task.facts
    }
