"""Facts, answers, verdicts and the score card: what is asked of an image and what came back.

A fact is one checkable statement of a scene graph. A judge gives an *answer* to a
fact, the panel turns answers into a *verdict*, and the verdicts of all facts make a
*score card* (Scene-Bench, Eq. 2–4). How facts are put into questions is the subject
of :mod:`scenewright.questions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.scene import SceneGraph

FactKind = Literal["object", "attribute", "relation", "realism"]
State = Literal["yes", "no", "void", "unscored"]
ProbabilityMethod = Literal["logprob", "verbalized", "binary", "regression"]
"""From token probabilities, in the judge's own words, a bare yes or no, or a regressed score."""
FACT_KINDS: tuple[FactKind, ...] = ("object", "attribute", "relation")
"""Kinds of the facts that a scene graph states, and that its scores are made of. Facts of the kind
``realism`` are asked besides: they say of an object that it looks real."""
RealismAspect = Literal["shape", "texture"]
ASPECTS: tuple[RealismAspect, ...] = ("shape", "texture")
"""What is asked of an object's realism: the ``key`` of a fact of that kind."""
_REALISM = "real:"


def is_realism(fact_id: str) -> bool:
    """Whether it is the id of a fact of realism, as ``questions.realism_fact_id`` makes them."""
    return fact_id.startswith(_REALISM)


class FactError(ValueError):
    """Answers, verdicts or facts that do not fit together."""


class Fact(BaseModel):
    """One statement of the scene, with the question that checks it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Stable within a scene: ``o:dog.1``, ``a:dog.1:color``, ``r:dog.1|left of|ball.1``,
    ``real:dog.1:shape`` (realism).
    A separator inside a part has a backslash before it, so that no two facts share an id."""
    kind: FactKind
    """What the fact is about."""
    subject: str
    """Id of the object (of the relation's source)."""
    target: str | None = None
    """Id of the relation's target."""
    predicate: str | None = None
    """The relation's predicate."""
    key: str | None = None
    """The attribute's key; of a fact of realism ``shape`` or ``texture``."""
    value: str | None = None
    """The attribute's value; of a fact of realism the class of its object."""
    classes: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Class labels of subject and target, where the question names them: what a judge with few
    words is checked for."""
    parents: tuple[str, ...] = ()
    """Facts that must hold before this one is asked; if one does not, this fact is void."""
    statement: str
    """The fact in words, for people: ``red dog left of ball``."""
    question: str
    """What a judge is asked, without the options."""
    options: tuple[str, ...] = ("yes", "no")
    """Possible answers, in the order in which they are offered."""
    expected: str = "yes"
    """The option that says the fact holds."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.expected not in self.options:
            raise FactError(f"fact {self.id}: expected {self.expected!r} not in {self.options}")
        if len(set(self.options)) != len(self.options) or len(self.options) < 2:
            raise FactError(f"fact {self.id}: options must be two or more, all different")
        return self

    @property
    def is_binary(self) -> bool:
        """Whether the question takes yes or no."""
        return set(self.options) == {"yes", "no"}


class Answer(BaseModel):
    """What one judge said of one fact. Never guessed: a failure is ``unscored`` with its reason."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fact_id: str
    """The fact that was asked."""
    judge_id: str
    """``provider:model`` of the judge."""
    state: State
    """yes, no, void (not asked: a parent is absent) or unscored (the judge gave nothing usable)."""
    choice: str | None = None
    """The option the judge picked."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """The judge's probability that the fact holds, if it gives one."""
    method: ProbabilityMethod | None = None
    """How the probability was obtained."""
    region: tuple[float, float, float, float] | None = None
    """Where in the image the judge looked: left, top, right, bottom in pixels; none: everywhere."""
    rationale: str = ""
    """The judge's reason, in its words."""
    reason: str = ""
    """Why the answer is unscored or void."""
    tokens_in: int = Field(default=0, ge=0)
    """Input tokens that this answer's share of the call took."""
    tokens_out: int = Field(default=0, ge=0)
    """Output tokens, likewise."""
    tokens_cached: int = Field(default=0, ge=0)
    """Those of the input tokens that the provider had in its cache."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Wall time of this answer's share of the call."""
    usd: float = Field(default=0.0, ge=0.0)
    """Cost of this answer's share of the call, in US dollars."""
    model: str = ""
    """Model id and fingerprint that answered."""
    prompt_id: str = ""
    """``id@version#hash`` of the prompt."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.state == "unscored" and not self.reason:
            raise FactError(f"unscored answer to {self.fact_id} by {self.judge_id} has no reason")
        if self.state in ("void", "unscored") and self.probability is not None:
            raise FactError(f"{self.state} answer to {self.fact_id} must not carry a probability")
        return self


class Verdict(BaseModel):
    """What the panel says of one fact."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fact_id: str
    """The fact."""
    state: State
    """yes, no, void or unscored."""
    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    """The panel's probability that the fact holds; none for void and unscored."""
    disagreement: float = Field(default=0.0, ge=0.0, le=1.0)
    """Entropy in bits of the judges' mean probability: 0 if all are certain and say the same, 1
    if the panel as a whole is undecided, whatever the aggregation makes of it."""
    n_scored: int = Field(default=0, ge=0)
    """How many judges gave a usable answer."""
    n_unscored: int = Field(default=0, ge=0)
    """How many did not."""
    methods: tuple[ProbabilityMethod, ...] = ()
    """How the probabilities behind it were obtained, sorted: several are different scales in
    one number."""
    reason: str = ""
    """Why the verdict is void or unscored."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.state in ("void", "unscored") and self.probability is not None:
            raise FactError(f"{self.state} verdict of {self.fact_id} must not carry a probability")
        return self

    @property
    def likelihood(self) -> float:
        """The probability; without one 1 for yes and 0 for anything else."""
        if self.probability is not None:
            return self.probability
        return 1.0 if self.state == "yes" else 0.0


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
    :mod:`scenewright.agents.intervals`.
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
    :mod:`scenewright.agents.correction`.
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

        A fact without a verdict is an error (``FactError``): nothing is dropped in silence.
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

        A scene without relations (or whose relations are all unscored) is scored by
        its objects alone, and the reverse; none if neither could be scored.
        """
        objects, relations = self.objects.value, self.relations.value
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


def missing_graph(
    scene: SceneGraph, facts: Sequence[Fact], verdicts: Iterable[Verdict]
) -> SceneGraph:
    """``G_miss``: the part of ``scene`` that the image was not found to hold (Scene-Bench, Sec. 4).

    Holds every object whose own fact or one of whose attributes was judged *no*, and
    every relation judged *no* or void, with both its ends so that it can be drawn.
    Unscored facts are unknown, not missing, and an object that does not look real is there all
    the same. Empty if nothing is missing.
    """
    states: Mapping[str, State] = {verdict.fact_id: verdict.state for verdict in verdicts}
    objects: set[str] = set()
    relations: set[tuple[str, str, str]] = set()
    for fact in facts:
        if fact.kind == "realism" or states.get(fact.id) not in ("no", "void"):
            continue
        objects.add(fact.subject)
        if fact.kind == "relation" and fact.target is not None and fact.predicate is not None:
            objects.add(fact.target)
            relations.add((fact.subject, fact.predicate, fact.target))
    return scene.subgraph(
        objects,
        [r for r in scene.relations if (r.source, r.predicate, r.target) in relations],
    )
