"""The figures of XTC-Bench (Sec. 3.3): generation, understanding, and how far they agree.

``u`` is how well a fact was drawn, ``v`` how well it was understood, both in [0, 1]::

    G = mean(u)                            Eq. 4
    U = mean(v)                            Eq. 5
    CCTA = mean(1 - |v - u|)               Eq. 6
    AW-CCTA = mean((1 - |v - u|) (v + u) / 2)   Eq. 7

Means are over facts, as in the paper. CCTA and AW-CCTA are over the facts that both sides scored.
With ``c = 1 - |v - u|`` and ``a = (v + u) / 2`` the second is ``mean(c) mean(a) + Cov(c, a)``: the
covariance tells whether a model agrees with itself where it is right (above 0) or where it is wrong
(below 0). It is reported beside them.

**Which facts count.** Objects are matched by their labels (Sec. 3.2.6), so the drawn answer to
"what object is red?" says no more than that the object has a partner, which the share of matched
nodes says already. The paper's printed overall figures of G (Table 2), CCTA and AW-CCTA (Table 4)
are means of attributes and relations at about their shares of the questions, without retrievals;
those of U (Table 3) are with them. So it is here: see :data:`COMPARED`.

Intervals are 95 % percentile bootstraps over scenes (:mod:`scenewright.evals.statistics.figures`).
Nothing is dropped in silence: what a side could not score is counted, and so is what no question
asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.core.validation import FiniteModel, FrozenModel
from scenewright.evals.statistics.estimates import RESAMPLES, Estimate, nothing
from scenewright.evals.statistics.figures import Bootstrap, Statistic
from scenewright.evals.studies.readings import PromptsRead
from scenewright.evals.studies.xtc.base import QUESTION_KINDS, FactScore, QuestionKind

Array = NDArray[np.float64]

Quadrant = Literal[
    "aligned-correct", "aligned-hallucination", "generation-deficit", "understanding-deficit"
]
"""Quadrant of a fact: both sides high, both low, understood but not drawn, drawn but not
understood."""
QUADRANTS: tuple[Quadrant, ...] = get_args(Quadrant)
THRESHOLD = 0.6
"""From here on a side counts as high: 3 of 5."""
COMPARED: tuple[QuestionKind, ...] = ("attribute", "relation")
"""Kinds of facts that count for G, CCTA and AW-CCTA of all kinds together."""


class NodeCount(FrozenModel):
    """How many objects of a scene have a partner in a drawn picture."""

    scene: str
    """Id of the item."""
    nodes: int = Field(ge=0)
    """Objects of the reference graph."""
    matched: int = Field(ge=0)
    """Those of them with a partner."""


class Scores(FiniteModel):
    """The figures of some facts."""

    generation: Estimate
    """G, in [0, 1]."""
    understanding: Estimate
    """U, in [0, 1]."""
    ccta: Estimate
    """CCTA, in [0, 1]."""
    aw_ccta: Estimate
    """AW-CCTA, in [0, 1]; never above CCTA."""
    covariance: Estimate
    """Cov(c, a), in [-1/4, 1/4]: AW-CCTA without what CCTA and the mean accuracy explain."""
    facts: int = Field(ge=0)
    """Questions that were asked."""
    both: int = Field(ge=0)
    """Those that both sides scored, of the kinds that are compared."""
    quadrants: dict[Quadrant, int]
    """Of those."""
    absent: int = Field(ge=0)
    """Questions whose object or edge is missing in the drawn picture: there u is 0."""
    unscored_generation: int = Field(ge=0)
    """Questions without u."""
    unscored_understanding: int = Field(ge=0)
    """Questions without v."""


class XtcScores(FiniteModel):
    """All figures of one model."""

    compared: tuple[QuestionKind, ...]
    """Kinds of facts that count for G, CCTA and AW-CCTA in :attr:`overall`, :attr:`matched` and
    :attr:`unmatched`."""
    overall: Scores
    """Of all questions."""
    kinds: dict[QuestionKind, Scores]
    """By what is asked for; each kind is compared in its own row."""
    categories: dict[str, Scores]
    """By attribute dimension and class of predicate (Sec. 6.4.1), as ``attribute: NAME``."""
    matched: Scores
    """Of questions whose objects, and edges, have a partner in the drawn picture."""
    unmatched: Scores
    """Of the others; questions without u are in neither."""
    matched_kinds: dict[QuestionKind, Scores]
    """Matched ones by what is asked for (the last columns of Tables 2 and 3)."""
    nodes: Estimate
    """Share of the scenes' objects that have a partner, in [0, 1]."""
    unasked: int = Field(default=0, ge=0)
    """Facts of the scenes that no question asks for."""
    prompts: PromptsRead | None = None
    """What of the prompts of its pictures was not read; None where that is not known."""
    reasons: dict[str, int] = Field(default_factory=dict)
    """Why sides are unscored → how often, the commonest first."""
    retryable: int = Field(default=0, ge=0)
    """Questions without a score of a side that another try could give one."""


def quadrant_of(u: float, v: float, threshold: float = THRESHOLD) -> Quadrant:
    """Return the quadrant of a fact; a side is high from ``threshold`` on."""
    if u >= threshold:
        return "aligned-correct" if v >= threshold else "understanding-deficit"
    return "generation-deficit" if v >= threshold else "aligned-hallucination"


class FactArrays:
    """The facts of one model as arrays (facts,), NaN where a side has no score."""

    def __init__(self, facts: Sequence[FactScore]) -> None:
        """Read ``facts`` once."""
        self.scenes = [fact.scene for fact in facts]
        self.kinds = np.array([fact.kind for fact in facts], str)
        self.u, self.v = (
            np.array([getattr(fact, side) for fact in facts], np.float64) for side in "uv"
        )
        self.matched = np.array([fact.u is not None and is_matched(fact) for fact in facts], bool)
        self.ccta = 1.0 - np.abs(self.v - self.u)
        self.accuracy = (self.v + self.u) / 2
        self.aw = self.ccta * self.accuracy


class _Resamples:
    """Figures over rows of scenes, all of the same resamples of scenes."""

    def __init__(self, scenes: Sequence[str]) -> None:
        """Note the scene of each row."""
        places = {name: at for at, name in enumerate(dict.fromkeys(scenes))}
        self._at = np.array([places[scene] for scene in scenes], np.intp)
        self._boot = Bootstrap(max(1, len(places)), resamples=RESAMPLES)

    def mean(self, values: Array, chosen: NDArray[np.bool_]) -> Estimate:
        """Return the mean of the ``chosen`` values (rows,) that are there."""
        return self.figure([values, np.ones(len(values))], _ratio, chosen & ~np.isnan(values))

    def figure(
        self, columns: Sequence[Array], statistic: Statistic, chosen: NDArray[np.bool_]
    ) -> Estimate:
        """Return ``statistic`` of the sums of ``columns`` over the ``chosen`` rows."""
        at = self._at[chosen]
        if not len(at):
            return nothing("nothing was scored")
        found = self._boot.figure(at, [column[chosen] for column in columns], statistic)
        n = len(np.unique(at))
        # One scene alone has no spread, however many others were left out.
        low, high = (found.low, found.high) if n > 1 else (None, None)
        return Estimate(value=found.value, low=low, high=high, n=n)


def _ratio(sums: Array) -> Array:
    found: Array = sums[:, 0] / sums[:, 1]
    return found


def _covariance(sums: Array) -> Array:
    means = sums[:, :3] / sums[:, 3:]
    found: Array = means[:, 2] - means[:, 0] * means[:, 1]
    return found


def scores_of(
    facts: Sequence[FactScore],
    compared: Collection[QuestionKind] = QUESTION_KINDS,
    threshold: float = THRESHOLD,
) -> Scores:
    """Return the figures of ``facts``.

    U is over all of them that have a ``v``; G, CCTA, AW-CCTA and quadrants over those of the kinds
    ``compared`` that have what they need. Facts of several seeds belong to their scene.
    """
    one, over = FactArrays(facts), _Resamples([fact.scene for fact in facts])
    of_kind = np.isin(one.kinds, list(compared))
    both = of_kind & ~np.isnan(one.ccta)
    found = Counter(
        quadrant_of(a, b, threshold) for a, b in zip(one.u[both], one.v[both], strict=True)
    )
    columns = [one.ccta, one.accuracy, one.aw, np.ones(len(facts))]
    return Scores(
        generation=over.mean(one.u, of_kind),
        understanding=over.mean(one.v, np.ones(len(facts), bool)),
        ccta=over.mean(one.ccta, of_kind),
        aw_ccta=over.mean(one.aw, of_kind),
        covariance=over.figure(columns, _covariance, both),
        facts=len(facts),
        both=int(both.sum()),
        quadrants={name: found[name] for name in QUADRANTS},
        absent=sum(map(is_absent, facts)),
        unscored_generation=int(np.isnan(one.u).sum()),
        unscored_understanding=int(np.isnan(one.v).sum()),
    )


def is_absent(fact: FactScore) -> bool:
    """Return whether what the question asks for is missing in the drawn picture's graph."""
    return fact.u == 0.0 and not fact.drawn


def is_matched(fact: FactScore) -> bool:
    """Return whether the question's objects, and edge, have a partner in the drawn picture.

    Edges are matched where they are present (Sec. 3.2.6).
    """
    return fact.matched and not (fact.kind == "relation" and is_absent(fact))


def xtc_scores(
    facts: Sequence[FactScore],
    nodes: Sequence[NodeCount] = (),
    unasked: int = 0,
    compared: Sequence[QuestionKind] = COMPARED,
    threshold: float = THRESHOLD,
    *,
    prompts: PromptsRead | None = None,
) -> XtcScores:
    """Return all figures of one model.

    ``nodes`` has one entry a drawn picture that was read, ``prompts`` tells how much of the
    pictures' prompts was read. Raises ``ValueError`` for a threshold outside (0, 1] and for nothing
    to compare.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"the threshold is {threshold}: it must be above 0 and at most 1")
    if not compared:
        raise ValueError(f"nothing is compared: name one or more of {', '.join(QUESTION_KINDS)}")
    read = [fact for fact in facts if fact.u is not None]
    matched = [fact for fact in read if is_matched(fact)]
    unmatched = [fact for fact in read if not is_matched(fact)]
    unscored = [fact for fact in facts if fact.u is None or fact.v is None]
    reasons = Counter(fact.reason for fact in unscored)

    def by_kind(chosen: Sequence[FactScore]) -> dict[QuestionKind, Scores]:
        return {
            kind: scores_of([fact for fact in chosen if fact.kind == kind], threshold=threshold)
            for kind in QUESTION_KINDS
        }

    named = sorted({(fact.kind, fact.category) for fact in facts if fact.category})
    return XtcScores(
        compared=tuple(compared),
        overall=scores_of(facts, compared, threshold),
        kinds=by_kind(facts),
        categories={
            f"{kind}: {category}": scores_of(
                [fact for fact in facts if (fact.kind, fact.category) == (kind, category)],
                threshold=threshold,
            )
            for kind, category in named
        },
        matched=scores_of(matched, compared, threshold),
        unmatched=scores_of(unmatched, compared, threshold),
        matched_kinds=by_kind(matched),
        nodes=_share(nodes),
        unasked=unasked,
        prompts=prompts,
        reasons=dict(reasons.most_common()),
        retryable=sum(not fact.final for fact in unscored),
    )


def _share(nodes: Sequence[NodeCount]) -> Estimate:
    if not nodes:
        return nothing("no drawn picture was read")
    counts = [
        np.array([getattr(one, name) for one in nodes], float) for name in ("matched", "nodes")
    ]
    over = _Resamples([count.scene for count in nodes])
    return over.figure(list(counts), _ratio, np.ones(len(nodes), bool))
