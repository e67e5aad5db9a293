"""From counts of verdicts to scores with intervals, as judged and corrected for the judge.

A measure is a weighted sum of recalls by kind of fact (objects, attributes, relations), so a
scene is one array: for each kind, the weight times the share of facts judged *yes*, and
the weight times the share judged *no*. Void facts are in the shares' denominator and in
neither share.

**Correction.** A judge of sensitivity Se and specificity Sp finds a share
``q = Se·π + (1−Sp)·(1−π)`` of facts of which the share π holds. Rogan & Gladen (1978) turn it
round: ``π = (q + Sp − 1) / (Se + Sp − 1)``. Applied to ``yes`` of ``yes + no`` asked facts that
is ``(Sp·yes − (1−Sp)·no) / (Se + Sp − 1)`` facts that hold. It is linear, so it is taken of means
over scenes and never clipped scene by scene, which would bias it.

**Voids.** Se and Sp are measured on facts whose objects are there, which are the ones a run
asks. So asked facts alone are corrected; a void fact stays void and counts as not satisfied,
as in the score itself. What is left uncorrected: an object wrongly called absent keeps its
dependants void (the corrected score is then too low), and a fact that was asked because an
absent object was called present is corrected as if that object were there.

**Intervals** are 95% percentile intervals of a bootstrap over scenes. Those of corrected
figures also redraw Se and Sp (Jeffreys posterior of the counts behind them), so that a judge
measured on few facts gives wide intervals. Scores and their interval ends are clipped to
[0, 1], differences are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks._strategies import Marks
from scenewright.agents.panel.intervals import LEAST_YOUDEN, rogan_gladen
from scenewright.core.facts import FACT_KINDS, FactKind, Recall

Measure = Literal["sgscore", "objects", "attributes", "relations", "facts"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Figure = dict[str, float]

_KIND_OF: dict[Measure, FactKind] = {
    "objects": "object",
    "attributes": "attribute",
    "relations": "relation",
}

RESAMPLES = 2000
_FLOOR = 0.02


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A judge's accuracy on one kind of fact."""

    sensitivity: float
    """Share of facts that hold which it confirms."""
    specificity: float
    """Share of facts that do not hold which it denies."""
    n_true: int = 0
    """Facts behind the sensitivity; 0: it is exact."""
    n_false: int = 0
    """Facts behind the specificity; 0: it is exact."""

    @property
    def youden(self) -> float:
        """Se + Sp − 1: 0 is guessing, 1 is never wrong."""
        return self.sensitivity + self.specificity - 1.0

    def drawn(self, rng: np.random.Generator, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """``size`` pairs of Se and Sp that the counts behind them allow."""
        pairs = ((self.sensitivity, self.n_true), (self.specificity, self.n_false))
        se, sp = (
            rng.beta(share * n + 0.5, (1.0 - share) * n + 0.5, size) if n else np.full(size, share)
            for share, n in pairs
        )
        return se, sp


def accuracies(report: Mapping[str, Any]) -> dict[FactKind, Accuracy]:
    """The accuracy by kind in a judge's ``report.json``, on pictures as painted.

    A kind without ``sensitivity`` and ``specificity`` is left out.
    """
    found: dict[FactKind, Accuracy] = {}
    for kind in FACT_KINDS:
        figures = report.get("painted", {}).get(kind, {})
        if "sensitivity" in figures and "specificity" in figures:
            found[kind] = Accuracy(
                float(figures["sensitivity"]),
                float(figures["specificity"]),
                int(figures.get("true", 0)),
                int(figures.get("false", 0)),
            )
    return found


def recalls(marks: Marks) -> dict[FactKind, Recall]:
    """The counts by kind of fact."""
    return {"object": marks.objects, "attribute": marks.attributes, "relation": marks.relations}


def weights(marks: Marks, measure: Measure) -> dict[FactKind, float] | None:
    """Weight of each kind in the measure: sums to 1; None if nothing in it was scored.

    SGScore is Eq. 4 with α of the card; without facts of one side it is the other, as in
    ``ScoreCard``;
    ``facts`` weighs every scored fact alike.
    """
    scored = {kind: r.yes + r.no + r.void for kind, r in recalls(marks).items()}
    wanted: dict[FactKind, float]
    if measure == "sgscore":
        wanted = {"object": marks.alpha, "relation": 1.0 - marks.alpha}
    elif measure == "facts":
        wanted = {kind: float(n) for kind, n in scored.items()}
    else:
        wanted = {_KIND_OF[measure]: 1.0}
    known = {kind: weight for kind, weight in wanted.items() if scored[kind]}
    lost = [kind for kind in wanted if recalls(marks)[kind].total and not scored[kind]]
    if not known or (measure == "sgscore" and lost):
        return None
    if measure == "sgscore" and len(known) == 1:
        return dict.fromkeys(known, 1.0)
    total = sum(known.values())
    return {kind: weight / total for kind, weight in known.items()}


def parts(marks: Marks, measure: Measure) -> NDArray[Any] | None:
    """Array (kinds, 2): weight times share of *yes*, weight times share of *no*.

    The sum of the first column is the measure as judged. None if nothing was scored.
    """
    shares = weights(marks, measure)
    if shares is None:
        return None
    result = np.zeros((len(FACT_KINDS), 2))
    for at, kind in enumerate(FACT_KINDS):
        if kind in shares:
            recall = recalls(marks)[kind]
            scored = recall.yes + recall.no + recall.void
            result[at] = shares[kind] * recall.yes / scored, shares[kind] * recall.no / scored
    return result


def corrected(
    shares: NDArray[Any], sensitivity: NDArray[Any], specificity: NDArray[Any]
) -> NDArray[Any]:
    """Rogan–Gladen on ``shares`` (…, kinds, 2) with Se and Sp (…, kinds) → (…)."""
    holding = rogan_gladen(shares[..., 0], shares[..., 1], sensitivity, specificity, least=_FLOOR)
    summed: NDArray[Any] = holding.sum(-1)
    return summed


def can_correct(shares: NDArray[Any], accuracy: Mapping[FactKind, Accuracy]) -> bool:
    """Whether every kind that has a part in ``shares`` (scenes, kinds, 2) has a usable judge."""
    used = [kind for at, kind in enumerate(FACT_KINDS) if shares[:, at].any()]
    return all(kind in accuracy and accuracy[kind].youden >= LEAST_YOUDEN for kind in used)


def estimate(
    shares: NDArray[Any],
    accuracy: Mapping[FactKind, Accuracy] | None = None,
    *,
    bounded: bool = True,
    seed: int = 0,
) -> Figure:
    """Mean over scenes with its 95% interval.

    ``shares``: (scenes, kinds, 2), of one strategy or the difference of two on the same
    scenes (then not ``bounded`` by 0 and 1). ``accuracy``: correct for the judge. The same
    ``seed`` and number of scenes give the same resamples. Raises ``ValueError`` if there are
    no scenes or a kind has no usable accuracy (:func:`can_correct`).
    """
    n = len(shares)
    if not n:
        raise ValueError("no scenes: nothing was measured")
    rng = np.random.default_rng(seed)
    picks = rng.multinomial(n, np.full(n, 1.0 / n), RESAMPLES) / n
    drawn = (picks @ shares.reshape(n, -1)).reshape(RESAMPLES, *shares.shape[1:])
    if accuracy is None:
        mean = float(shares[..., 0].sum(-1).mean())
        resampled = drawn[..., 0].sum(-1)
    else:
        if not can_correct(shares, accuracy):
            raise ValueError("the judge's accuracy is unknown or near chance: do not correct")
        exact = Accuracy(1.0, 1.0)
        judges = [accuracy.get(kind, exact) for kind in FACT_KINDS]
        means = shares.mean(0)
        se, sp = (np.array([getattr(j, f) for j in judges]) for f in ("sensitivity", "specificity"))
        mean = float(corrected(means, se, sp))
        pairs = [judge.drawn(rng, RESAMPLES) for judge in judges]
        se_drawn, sp_drawn = (np.stack([pair[at] for pair in pairs], -1) for at in (0, 1))
        resampled = corrected(drawn, se_drawn, sp_drawn)
    low, high = np.percentile(resampled, [2.5, 97.5])
    values = {"mean": mean, "low": float(low), "high": float(high)}
    return {k: min(1.0, max(0.0, v)) for k, v in values.items()} if bounded else values


def stacked(marks: Sequence[Marks], measure: Measure) -> tuple[NDArray[Any], NDArray[Any]]:
    """(array (scenes, kinds, 2), mask of the scenes in which the measure is defined)."""
    found = [parts(one, measure) for one in marks]
    known = np.array([shares is not None for shares in found], bool)
    empty = np.zeros((len(FACT_KINDS), 2))
    arrays = [empty if shares is None else shares for shares in found]
    return np.array(arrays).reshape(len(found), *empty.shape), known
