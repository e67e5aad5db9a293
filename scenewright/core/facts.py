"""The score card of an image: its verdicts, and the scores they make (Scene-Bench, Eq. 2–4).

A fact is one checkable statement of a scene graph. A judge gives an *answer* to a fact, the panel
turns answers into a *verdict*, and the verdicts of all facts make a *score card*. All of them are
imported from here. How facts are put into questions is the subject of
:mod:`scenewright.core.questions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.instances import missing_graph, settled, told_by
from scenewright.core.verdicts import (
    ASPECTS,
    FACT_KINDS,
    Answer,
    Fact,
    FactError,
    FactKind,
    ProbabilityMethod,
    RealismAspect,
    State,
    Verdict,
    is_realism,
)

__all__ = [
    "ASPECTS",
    "FACT_KINDS",
    "Answer",
    "CorrectedScores",
    "Fact",
    "FactError",
    "FactKind",
    "Interval",
    "ProbabilityMethod",
    "RealismAspect",
    "Recall",
    "ScoreCard",
    "ScoreIntervals",
    "State",
    "Verdict",
    "is_realism",
    "missing_graph",
    "settled",
    "told_by",
]


class Recall(BaseModel):
    """Counts of verdicts of one kind of fact, and the recall they give."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    yes: int = 0
    """Facts that hold."""
    no: int = 0
    """Facts that do not."""
    void: int = 0
    """Facts not asked because a parent is absent: counted as not satisfied."""
    unscored: int = 0
    """Facts nobody could judge: shown, and outside the recall."""

    @property
    def total(self) -> int:
        """All facts of the kind."""
        return self.yes + self.no + self.void + self.unscored

    @property
    def value(self) -> float | None:
        """``yes / (yes + no + void)`` (Scene-Bench Eq. 2, 3); none if nothing was scored."""
        scored = self.yes + self.no + self.void
        return self.yes / scored if scored else None


Interval = tuple[float, float]


class ScoreIntervals(BaseModel):
    """95 % intervals (low, high) of the scores of one image; None where a score is undefined.

    Over other facts of the same kinds and other judges of the same quality: see
    :mod:`scenewright.agents.panel.intervals`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    objects: Interval | None = None
    """Of the ObjectRecall."""
    attributes: Interval | None = None
    """Of the AttributeRecall."""
    relations: Interval | None = None
    """Of the RelationRecall."""
    sgscore: Interval | None = None
    """Of the SGScore."""
    fact_recall: Interval | None = None
    """Of the share of all facts that hold."""


class CorrectedScores(BaseModel):
    """Scores of one image corrected for the panel's measured errors, each in [0, 1].

    None where the score is undefined or the panel too near to guessing: see
    :mod:`scenewright.agents.panel.correction`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    objects: float | None = None
    """ObjectRecall."""
    attributes: float | None = None
    """AttributeRecall."""
    relations: float | None = None
    """RelationRecall."""
    sgscore: float | None = None
    """SGScore."""
    fact_recall: float | None = None
    """Share of all facts that hold."""


class ScoreCard(BaseModel):
    """The verdicts of one image and the scores they make."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdicts: tuple[Verdict, ...]
    """One a fact, in the order of the facts."""
    objects: Recall
    """ObjectRecall (Eq. 2)."""
    attributes: Recall
    """AttributeRecall: the same for attributes."""
    relations: Recall
    """RelationRecall (Eq. 3)."""
    realism: Recall = Recall()
    """The facts of realism, of which no score of facts is made; empty if none were asked."""
    alpha: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the objects in SGScore."""
    intervals: ScoreIntervals | None = None
    """How sure the scores are; none if that was not worked out."""
    corrected: CorrectedScores | None = None
    """The scores without the panel's measured errors; none without a calibration of the panel."""

    @classmethod
    def of(
        cls, facts: Sequence[Fact], verdicts: Iterable[Verdict], alpha: float = 0.5
    ) -> ScoreCard:
        """The card of ``facts`` judged by ``verdicts``.

        Verdicts that cannot hold together become void (:func:`settled`). A fact without a verdict
        is an error (``FactError``): nothing is dropped in silence.
        """
        by_id: dict[str, Verdict] = {}
        for verdict in verdicts:
            if verdict.fact_id in by_id:
                raise FactError(f"two verdicts for {verdict.fact_id}")
            by_id[verdict.fact_id] = verdict
        repeated = sorted(id_ for id_, n in Counter(fact.id for fact in facts).items() if n > 1)
        if repeated:
            raise FactError(f"the facts {repeated} are listed twice: give each once")
        missing = [fact.id for fact in facts if fact.id not in by_id]
        extra = sorted(set(by_id) - {fact.id for fact in facts})
        if missing or extra:
            raise FactError(f"verdicts do not fit the facts: missing {missing}, unknown {extra}")
        by_id = settled(facts, by_id)
        counts: dict[FactKind, dict[State, int]] = {
            kind: {"yes": 0, "no": 0, "void": 0, "unscored": 0} for kind in get_args(FactKind)
        }
        for fact in facts:
            counts[fact.kind][by_id[fact.id].state] += 1
        return cls(
            verdicts=tuple(by_id[fact.id] for fact in facts),
            objects=Recall(**counts["object"]),
            attributes=Recall(**counts["attribute"]),
            relations=Recall(**counts["relation"]),
            realism=Recall(**counts["realism"]),
            alpha=alpha,
        )

    @property
    def sgscore(self) -> float | None:
        """``α·ObjectRecall + (1−α)·RelationRecall`` (Eq. 4).

        A scene without relations is scored by its objects alone, and the reverse. None if neither
        was asked, or if nobody could judge any fact of one: half of the sum is then unknown.
        """
        objects, relations = self.objects.value, self.relations.value
        if any(part.total and part.value is None for part in (self.objects, self.relations)):
            return None
        if objects is None or relations is None:
            return objects if relations is None else relations
        return self.alpha * objects + (1.0 - self.alpha) * relations

    @property
    def methods(self) -> tuple[ProbabilityMethod, ...]:
        """How the probabilities of all verdicts were obtained, sorted; several: they are mixed."""
        return tuple(sorted({method for v in self.verdicts for method in v.methods}))

    @property
    def satisfied(self) -> bool:
        """Whether every fact holds."""
        return all(verdict.state == "yes" for verdict in self.verdicts)

    @property
    def stated(self) -> tuple[Verdict, ...]:
        """The verdicts of what the scene states: all but those of realism."""
        return tuple(v for v in self.verdicts if not is_realism(v.fact_id))

    @property
    def unscored(self) -> int:
        """How many stated facts nobody could judge: they are outside all scores."""
        return sum(verdict.state == "unscored" for verdict in self.stated)

    @property
    def fact_recall(self) -> float | None:
        """Share of all stated facts of whatever kind that hold; unscored left out."""
        scored = [v for v in self.stated if v.state != "unscored"]
        return sum(v.state == "yes" for v in scored) / len(scored) if scored else None

    @property
    def expected_recall(self) -> float | None:
        """Mean probability over scored stated facts, void as 0: a finer order than
        :attr:`fact_recall`.

        A verdict without probability counts as what it says: yes 1, no 0.
        """
        scored = [v for v in self.stated if v.state != "unscored"]
        if not scored:
            return None
        return sum(v.likelihood for v in scored) / len(scored)

    @property
    def ocr(self) -> float | None:
        """Object-centric realism: mean probability of the facts of realism, in [0, 1].

        Over objects that are there and could be scored; none if no such fact was scored.
        """
        realism = [v for v in self.verdicts if is_realism(v.fact_id)]
        scored = [v.likelihood for v in realism if v.state in ("yes", "no")]
        return sum(scored) / len(scored) if scored else None

    @property
    def rank(self) -> tuple[float, float, float, float]:
        """Order of candidates: SGScore, then all stated facts, then realism, then the facts' mean
        probability (−1 if unscored): realism decides only between pictures that hold as much."""

        def known(value: float | None) -> float:
            return -1.0 if value is None else value

        return (
            known(self.sgscore),
            known(self.fact_recall),
            known(self.ocr),
            known(self.expected_recall),
        )
