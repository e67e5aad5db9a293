"""The answers of several judges to the facts of many images, as arrays: what every study reads.

Rows are facts, grouped by image, parents before their children; columns are judges. A fact that a
judge was asked and gave nothing usable for is *unscored* (``asked`` and NaN); one that it was not
asked at all is *unasked*. Neither counts as a no.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.agents.panel.aggregation import Array, checked_probabilities
from scenewright.agents.panel.answer_arrays import two_way_probability
from scenewright.core.facts import Answer, Fact, FactKind
from scenewright.evals.errors import EvalError


class PanelStudyError(EvalError):
    """A study of panels that cannot be planned, run or read; says what to do."""


Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class JudgeColumn:
    """A judge."""

    id: str
    """``provider:model``, or any name that a table gives it."""
    family: str = ""
    """Judges of one family may err together (one base model, one provider); empty: its own."""
    fingerprint: str = ""
    """Changes whenever a question could get another answer; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class ImageRow:
    """An image."""

    id: str
    """Content hash, or any name of its own."""
    item: str
    """The prompt or scene that it was drawn for. Images of one item share its questions, so
    resamples draw items."""
    model: str = ""
    """What drew it: a text-to-image model, or an arm of an evaluation; empty if not known."""
    round: int | None = None
    """Round of a loop, from 0; None where there was no loop."""
    ratings: tuple[float, ...] = ()
    """What people gave it, one a rater, higher is better; empty without ratings."""

    @property
    def rating(self) -> float:
        """Mean over raters; NaN without ratings."""
        return float(np.mean(self.ratings)) if self.ratings else float("nan")


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact of an image."""

    id: str
    """Its own within the image."""
    image: int
    """Number of the image."""
    kind: FactKind = "object"
    """What it is about."""
    group: str = ""
    """The set's own class of the question, such as ``action``; free, or empty."""
    question: str = ""
    """As the judges were asked; empty if not known."""
    parents: tuple[int, ...] = ()
    """Rows of the facts that it depends on: of the same image, and before it."""


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers of judges to facts. Raises ``PanelStudyError`` for parts that do not fit together."""

    name: str
    """For reports."""
    judges: tuple[JudgeColumn, ...]
    """The columns; ids are different."""
    images: tuple[ImageRow, ...]
    """The images; some may have no facts."""
    facts: tuple[FactRow, ...]
    """The rows, image by image in the order of ``images``."""
    said: Array
    """Probability that the fact holds, (n_facts, n_judges), NaN where there is no answer. A judge
    that gives bare votes has 0 and 1."""
    votes: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """What was chosen, 1 yes, 0 no, NaN; empty: whether ``said`` is above ½, which counts as no."""
    asked: Mask = field(default_factory=lambda: np.zeros((0, 0), bool))
    """Whether the judge was asked; empty: where it answered, and everywhere that some judge of the
    table did."""
    truth: Array = field(default_factory=lambda: np.zeros(0))
    """1 where the fact holds, 0 where not, NaN where that is not known, (n_facts,); empty: NaN."""
    usd: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Dollars of each answer; empty: 0."""
    seconds: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Seconds of each answer; empty: 0."""
    tokens: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Tokens of each answer, in and out; empty: 0."""

    def __post_init__(self) -> None:
        shape = (len(self.facts), len(self.judges))
        try:
            said = checked_probabilities(np.asarray(self.said, float).reshape(shape))
        except ValueError as error:
            raise PanelStudyError(f"{self.name}: {error}") from error
        known = ~np.isnan(said)
        votes = np.where(known, said > 0.5, np.nan)
        defaults: dict[str, tuple[tuple[int, ...], ArrayLike]] = {
            "votes": (shape, votes),
            "asked": (shape, known | known.any(1, keepdims=True)),
            "truth": (shape[:1], np.full(shape[0], np.nan)),
            **{name: (shape, np.zeros(shape)) for name in ("usd", "seconds", "tokens")},
        }
        object.__setattr__(self, "said", said)
        for name, (wanted, default) in defaults.items():
            given = getattr(self, name)
            found = np.asarray(default) if given.size == 0 else np.asarray(given)
            if found.shape != wanted:
                raise PanelStudyError(
                    f"{self.name}: {name} has the shape {found.shape}, not {wanted}"
                )
            object.__setattr__(self, name, found)
        self._check()

    def _check(self) -> None:
        ids = [judge.id for judge in self.judges]
        if len(set(ids)) != len(ids) or not ids:
            raise PanelStudyError(f"{self.name}: judges must be one or more, all different: {ids}")
        last = 0
        for row, fact in enumerate(self.facts):
            if not last <= fact.image < len(self.images):
                raise PanelStudyError(f"{self.name}: fact {fact.id} is not in its image's place")
            last = fact.image
            for parent in fact.parents:
                if not 0 <= parent < row or self.facts[parent].image != fact.image:
                    raise PanelStudyError(
                        f"{self.name}: fact {fact.id} depends on row {parent}, which is not an "
                        "earlier fact of its image"
                    )
        if not np.array_equal(np.isnan(self.votes), np.isnan(self.said)):
            raise PanelStudyError(f"{self.name}: votes and probabilities are not of the same facts")

    @cached_property
    def image_of(self) -> Places:
        """Number of each fact's image, (n_facts,)."""
        return np.array([fact.image for fact in self.facts], np.intp)

    @cached_property
    def item_of_image(self) -> Places:
        """Number of each image's item, (n_images,), counted from 0 in the order of appearance."""
        seen: dict[str, int] = {}
        return np.array([seen.setdefault(image.item, len(seen)) for image in self.images], np.intp)

    @cached_property
    def item_of(self) -> Places:
        """Number of each fact's item, (n_facts,): the unit of resampling."""
        return self.item_of_image[self.image_of]

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return int(self.item_of_image.max()) + 1 if len(self.images) else 0

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """Kind of each fact, (n_facts,)."""
        return np.array([fact.kind for fact in self.facts], dtype=np.str_)

    @property
    def is_labelled(self) -> bool:
        """Whether facts are known to hold, and others not to hold."""
        return bool((self.truth == 1.0).any() and (self.truth == 0.0).any())

    @cached_property
    def ratings(self) -> Array:
        """Mean human rating of each image, (n_images,); NaN without."""
        return np.array([image.rating for image in self.images])

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Ids of the columns."""
        return tuple(judge.id for judge in self.judges)

    @property
    def families(self) -> tuple[str, ...]:
        """Family of each column; a judge without one is its own."""
        return tuple(judge.family or judge.id for judge in self.judges)

    @cached_property
    def waves(self) -> tuple[Places, ...]:
        """Rows by the length of their line of ancestors: those without parents first."""
        depth = np.zeros(len(self.facts), np.intp)
        for row, fact in enumerate(self.facts):
            depth[row] = 1 + max((depth[parent] for parent in fact.parents), default=-1)
        return tuple(
            np.flatnonzero(depth == level) for level in range(int(depth.max(initial=-1)) + 1)
        )

    @cached_property
    def _links(self) -> tuple[tuple[Places, Places], ...]:
        """For every wave but the first (child rows, parent rows), one pair a link."""
        found = []
        for rows in self.waves[1:]:
            pairs = [(row, parent) for row in rows for parent in self.facts[row].parents]
            both = np.array(pairs, np.intp).reshape(-1, 2)
            found.append((both[:, 0], both[:, 1]))
        return tuple(found)

    def with_judges(
        self, columns: Sequence[int], judges: Sequence[JudgeColumn] = ()
    ) -> AnswerTable:
        """Return the table of these columns, in this order.

        ``judges`` gives them other names, as where one column is taken twice.
        """
        at = list(columns)
        return replace(
            self,
            judges=tuple(judges) or tuple(self.judges[column] for column in at),
            **{
                name: getattr(self, name)[:, at]
                for name in ("said", "votes", "asked", "usd", "seconds", "tokens")
            },
        )

    def with_said(self, said: ArrayLike, votes: ArrayLike | None = None) -> AnswerTable:
        """Return the same questions with other answers, (n_facts, n_judges)."""
        given = np.asarray(said, float)
        chosen = np.zeros((0, 0)) if votes is None else np.asarray(votes, float)
        return replace(self, said=given, votes=chosen)

    def of_images(self, chosen: ArrayLike) -> AnswerTable:
        """Return the table of some images, in the table's own order.

        ``images`` are their numbers, or a mask (n_images,).
        """
        given = np.asarray(chosen)
        mask = np.zeros(len(self.images), bool)
        mask[given] = True
        number = np.cumsum(mask) - 1
        kept = np.flatnonzero(mask[self.image_of]) if len(self.facts) else np.zeros(0, np.intp)
        row_of = {int(row): at for at, row in enumerate(kept)}
        facts = tuple(
            replace(
                self.facts[row],
                image=int(number[self.facts[row].image]),
                parents=tuple(row_of[parent] for parent in self.facts[row].parents),
            )
            for row in kept
        )
        return replace(
            self,
            images=tuple(image for image, there in zip(self.images, mask, strict=True) if there),
            facts=facts,
            **{
                name: getattr(self, name)[kept]
                for name in ("said", "votes", "asked", "truth", "usd", "seconds", "tokens")
            },
        )

    def voided(self, likely: ArrayLike, threshold: float = 0.5) -> Array:
        """``likely`` (n_facts,) with 0 for every fact under a parent that does not hold.

        A parent does not hold where its own value, voided likewise, is at ``threshold`` or below.
        A parent that nobody could judge (NaN) voids nothing.
        """
        found = np.array(likely, float)
        if found.shape != (len(self.facts),):
            raise PanelStudyError(f"{found.shape} is not one number a fact of {self.name}")
        for children, parents in self._links:
            found[children[found[parents] <= threshold]] = 0.0
        return found

    def image_means(self, values: ArrayLike) -> Array:
        """Return the mean over each image's facts of ``values`` (n_facts,), (n_images,).

        NaN is left out, and an image without any value is NaN.
        """
        given = np.asarray(values, float)
        known = ~np.isnan(given)
        n = np.bincount(self.image_of[known], minlength=len(self.images))
        sums = np.bincount(self.image_of[known], given[known], minlength=len(self.images))
        result: Array = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
        return result

    def image_scores(self, likely: ArrayLike, *, void: bool = True) -> Array:
        """Return the score of each image, (n_images,).

        Its mean probability of a fact, in which facts under an absent parent count 0 (``void``), as
        in ``ScoreCard.expected_recall``.
        """
        return self.image_means(self.voided(likely) if void else likely)


def numbers_of(fact: Fact, answer: Answer) -> tuple[float, float]:
    """Return the probability that the fact holds, and the vote; NaN of an unusable answer."""
    if answer.state not in ("yes", "no"):
        return np.nan, np.nan
    vote, lead = float(answer.state == "yes"), two_way_probability(fact, answer)
    return vote if lead is None else lead, vote


def answer_arrays(
    facts: Sequence[Fact], cells: Sequence[Sequence[Answer | None]]
) -> dict[str, Any]:
    """Return the arrays of a table, (n_facts, n_judges), by its field.

    ``cells`` has one row a fact and one answer a judge; None: the judge was not asked.
    """
    shape = (len(cells), len(cells[0]) if cells else 0)
    found = {name: np.full(shape, np.nan) for name in ("said", "votes")}
    found |= {name: np.zeros(shape) for name in ("seconds", "tokens", "usd")}
    for row, (fact, line) in enumerate(zip(facts, cells, strict=True)):
        for column, answer in enumerate(line):
            if answer is not None:
                at = row, column
                found["said"][at], found["votes"][at] = numbers_of(fact, answer)
                found["seconds"][at], found["usd"][at] = answer.seconds, answer.usd
                found["tokens"][at] = answer.tokens_in + answer.tokens_out
    asked = np.array([[answer is not None for answer in line] for line in cells], bool)
    return {**found, "asked": asked.reshape(shape)}
