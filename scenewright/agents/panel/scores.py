"""Scores of an image: 95 % intervals, and correction for a panel's known errors.

Intervals are a percentile bootstrap in which judges are drawn with replacement for the whole image,
and facts with replacement within their kind (the pigeonhole bootstrap: Owen, 2007). Verdicts do not
depend on the order of drawn judges, and of J judges there are only C(2J − 1, J) multisets: verdicts
are computed once for each, and the draws of facts are sums over tables.

With the drawn judges an object may be absent that the panel found, or the reverse. Voids are
therefore derived anew, and unsure objects decided: what belongs to an absent object is not
satisfied. Facts about an object
that the panel found absent were never asked; if the drawn judges find the object, they are unknown
and left out. A fact that too few of the drawn judges answered (one refused, or was not asked in a
cascade) keeps the panel's verdict.

The intervals do not cover judges that were not asked: with J judges their part of the variance is
too small by (J − 1) / J, and with one judge there is none. Where all verdicts agree the interval is
a point, which says little where there are few facts. They say nothing about other pictures.

Correction: a panel of sensitivity Se and specificity Sp confirms a share ``q = Se·π + (1 − Sp)·(1 −
π)`` of facts of which the share π holds; Rogan & Gladen (1978) invert it: ``π = (q + Sp − 1) / (Se
+ Sp − 1)``. Se and Sp are measured on facts that are asked, so only asked facts are corrected; a
void fact stays void and counts as not satisfied, as in the score itself. The formula is right on
average, and may leave [0, 1] for the few facts of one picture: scores of one card are clipped, and
means over many pictures should use the formula (:func:`rogan_gladen`), not clipped cards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.answer_arrays import answer_arrays
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import PanelCalibration
from scenewright.core.facts import (
    FACT_KINDS,
    HALF,
    UNSURE_THRESHOLD,
    Answer,
    CorrectedScores,
    Fact,
    FactError,
    Interval,
    ScoreCard,
    ScoreIntervals,
    Verdict,
    showing,
    voids,
)

RESAMPLES = 1000
LEVEL = 0.95
MOST_SETS = 256
"""Most multisets of judges; if there are more, this many are drawn and used in turn."""
MOST_FITS = 32
"""The same for ``dawid_skene``, which must be fitted for each."""

Codes = NDArray[np.int8]
Places = NDArray[np.intp]
_YES, _NO, _UNKNOWN = 1, 0, -1
_OWN: Mapping[str, int] = {"yes": _YES, "no": _NO, "void": _UNKNOWN, "unscored": _UNKNOWN}


def score_intervals(
    facts: Sequence[Fact],
    answers_by_judge: Mapping[str, Sequence[Answer]],
    verdicts: Sequence[Verdict],
    panel: Panel,
    alpha: float = 0.5,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ScoreIntervals:
    """Return intervals of all scores of one image.

    ``facts`` list parents before their children, ``verdicts`` are the panel's, one a fact in the
    same order, ``answers_by_judge`` all that was answered, and ``alpha`` weighs the objects in
    SGScore. A score that is undefined in more than half of the ``resamples`` has no interval.
    The same ``seed`` gives the same intervals. Raises ``FactError`` if verdicts and facts do
    not fit together, ``ValueError`` for fewer than two resamples.
    """
    if resamples < 2:
        raise ValueError(f"resamples is {resamples}: it must be 2 or more")
    if [fact.id for fact in facts] != [verdict.fact_id for verdict in verdicts]:
        raise FactError("give one verdict a fact, in the order of the facts")
    table = {
        judge: {answer.fact_id: answer for answer in answers}
        for judge, answers in answers_by_judge.items()
    }
    if not table or not facts:
        return ScoreIntervals()
    most = MOST_FITS if panel.aggregation == "dawid_skene" else MOST_SETS
    sizes = tuple(sum(fact.kind == kind for fact in facts) for kind in FACT_KINDS)
    sets, which, picks = _draws(len(table), sizes, resamples, seed, most)
    states = _states(facts, table, verdicts, panel, sets)
    order = [at for kind in FACT_KINDS for at, fact in enumerate(facts) if fact.kind == kind]
    # Yes in the low half and scored in the high one, so that one sum counts both.
    coded = np.where(states == _YES, (1 << 16) + 1, np.where(states == _NO, 1 << 16, 0))[:, order]
    yes, scored, start = [], [], 0
    for size, places in zip(sizes, picks, strict=True):
        kind = coded[:, start : start + size]
        counted = kind[which[:, None], places].sum(1)
        yes.append((counted & 0xFFFF).astype(np.float64))
        scored.append((counted >> 16).astype(np.float64))
        start += size
    with np.errstate(invalid="ignore"):
        objects, attributes, relations = (part / n for part, n in zip(yes, scored, strict=True))
        fact_recall = sum(yes) / sum(scored)
    # As in Eq. 4: where one side has no facts, only the other counts.
    sgscore = alpha * objects + (1.0 - alpha) * relations
    if not (sizes[0] and sizes[2]):
        sgscore = objects if sizes[0] else relations
    return ScoreIntervals(
        objects=_interval(objects),
        attributes=_interval(attributes),
        relations=_interval(relations),
        sgscore=_interval(sgscore),
        fact_recall=_interval(np.asarray(fact_recall)),
    )


def _interval(drawn: Array) -> Interval | None:
    known = drawn[~np.isnan(drawn)]
    if 2 * len(known) < len(drawn) or not len(known):
        return None
    low, high = np.quantile(known, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return min(1.0, float(low)), min(1.0, float(high))


@lru_cache(maxsize=16)
def _draws(
    n_judges: int, sizes: tuple[int, ...], resamples: int, seed: int, most: int
) -> tuple[NDArray[np.int64], Places, tuple[Places, ...]]:
    """Return resamples of judges and of facts.

    Multisets (n_sets, n_judges) of judges as counts, the multiset of each resample (resamples,),
    and for each kind the facts of each resample (resamples, size). Cached, because every round of a
    loop asks the same facts of the same number of judges.
    """
    rng = np.random.default_rng(seed)
    every = math.comb(2 * n_judges - 1, n_judges) <= most
    drawn = rng.integers(n_judges, size=(resamples if every else most, n_judges))
    counts = (drawn[:, :, None] == np.arange(n_judges)).sum(1)
    sets, found = np.unique(counts, axis=0, return_inverse=True)
    which = found.reshape(-1)[np.arange(resamples) % len(drawn)]
    picks = tuple(
        rng.integers(size, size=(resamples, size)) if size else np.zeros((resamples, 0), np.intp)
        for size in sizes
    )
    return sets, which, picks


def _states(
    facts: Sequence[Fact],
    table: Mapping[str, Mapping[str, Answer]],
    verdicts: Sequence[Verdict],
    panel: Panel,
    sets: NDArray[np.int64],
) -> Codes:
    """Return each multiset's verdict on each fact, (n_sets, n_facts): yes, no or unknown."""
    by_id = {verdict.fact_id: verdict for verdict in verdicts}
    row = {fact.id: at for at, fact in enumerate(facts)}
    parents = [[row[parent] for parent in fact.parents if parent in row] for fact in facts]
    # The panel's verdicts, for draws without enough answers; whether judges were asked; and the
    # number of ancestors above each other.
    own: list[int] = []
    was_asked: list[bool] = []
    depths: list[int] = []
    for fact, rows, verdict in zip(facts, parents, verdicts, strict=True):
        above = [by_id[parent] for parent in fact.parents if parent in by_id]
        states_above = {one.state for one in above}
        # Void though its parents are there: asked, but of an instance that is not in the image.
        missing = verdict.state == "void" and states_above.isdisjoint(("no", "void"))
        own.append(_NO if missing else _OWN[verdict.state])
        # Also what is void since an unsure object is absent.
        unsure = "no" in states_above and not any(voids(one, fact) for one in above)
        was_asked.append(verdict.state != "void" or unsure)
        depths.append(1 + max((depths[at] for at in rows), default=-1))
    states = np.tile(np.array(own, np.int8), (len(sets), 1))
    likely = np.tile(np.array([verdict.likelihood for verdict in verdicts]), (len(sets), 1))
    learnt = np.zeros((0, len(table)))
    for level in sorted(set(depths)):
        rows = [at for at, depth in enumerate(depths) if depth == level]
        asked = [at for at in rows if was_asked[at]]
        if asked:
            arrays = answer_arrays([facts[at] for at in asked], table)
            enough = sets @ (~np.isnan(arrays.values)).T >= panel.quorum
            drawn = panel.pool_draws(arrays, sets, learnt)
            codes = np.where(drawn.holds, _YES, _NO)
            states[:, asked] = np.where(enough, codes, states[:, asked])
            likely[:, asked] = np.where(enough, drawn.probabilities, likely[:, asked])
            learnt = np.concatenate([learnt, arrays.values])
        for at in rows:
            for parent in parents[at]:
                absent = states[:, parent] == _NO
                if facts[at].shows_objects:
                    absent &= likely[:, parent] <= UNSURE_THRESHOLD
                states[absent, at] = _NO
    # Decide unsure objects, as ``resolve_verdicts`` does for a card.
    found = np.where(states == _YES, likely, 0.0)
    result = states.copy()
    for at, fact in enumerate(facts):
        unsure = (states[:, at] == _NO) & (likely[:, at] > UNSURE_THRESHOLD)
        if fact.kind != "object" or not unsure.any():
            continue
        for group, n in showing(fact, facts):
            if len(group) >= n:
                best = np.sort(found[:, [row[id_] for id_ in group]], axis=1)[:, -n]
                shown = unsure & (best > 0.0) & ((likely[:, at] + best) / 2.0 > HALF)
                result[shown, at] = _YES
    for at, fact in enumerate(facts):
        for parent in parents[at] if fact.shows_objects else ():
            result[result[:, parent] == _NO, at] = _NO
    return result


LEAST_YOUDEN = 0.2
"""Smallest Se + Sp − 1 for a correction; closer to guessing, the corrected score would be noise."""


def rogan_gladen(
    yes: ArrayLike,
    no: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    least: float = 0.0,
) -> Array:
    """Return how many facts hold if ``yes`` were confirmed and ``no`` denied; not clipped.

    ``(Sp·yes − (1 − Sp)·no) / (Se + Sp − 1)``: shares give shares, counts give counts. All
    arrays are broadcast together. ``Se + Sp − 1`` is taken as ``least`` where it is below that;
    infinite or NaN where it is 0.
    """
    se, sp = np.asarray(sensitivity, np.float64), np.asarray(specificity, np.float64)
    holding = sp * np.asarray(yes, np.float64) - (1.0 - sp) * np.asarray(no, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Array = holding / np.maximum(se + sp - 1.0, least)
    return result


def corrected_scores(card: ScoreCard, measured: PanelCalibration) -> CorrectedScores:
    """Return the scores of ``card``, corrected for its panel's errors.

    ``measured`` must be of the same judges and settings (:func:`card_correction` looks it up).
    A recall is None where the kind has no scored facts or ``Se + Sp − 1`` is below
    :data:`LEAST_YOUDEN`; SGScore and the share of all facts are None where a kind that they
    need is.
    """
    shares: list[float | None] = []
    sizes: list[int] = []
    recalls = (card.objects, card.attributes, card.relations)
    for kind, recall in zip(FACT_KINDS, recalls, strict=True):
        rates, size = measured.rates(kind), recall.yes + recall.no + recall.void
        share = None
        if size and rates.youden >= LEAST_YOUDEN:
            held = rogan_gladen(recall.yes, recall.no, rates.sensitivity, rates.specificity)
            share = float(held) / size
        shares.append(share)
        sizes.append(size)
    objects, attributes, relations = shares
    score = None
    if not card.objects.total or not card.relations.total:
        score = relations if not card.objects.total else objects
    elif objects is not None and relations is not None:
        score = card.alpha * objects + (1.0 - card.alpha) * relations
    every = None
    asked = [(share, size) for share, size in zip(shares, sizes, strict=True) if size]
    if asked and all(share is not None for share, _ in asked):
        every = sum((share or 0.0) * size for share, size in asked) / sum(sizes)
    scores = (objects, attributes, relations, score, every)
    return CorrectedScores(
        **{
            name: None if value is None else min(1.0, max(0.0, value))
            for name, value in zip(CorrectedScores.model_fields, scores, strict=True)
        }
    )


def card_correction(card: ScoreCard, panel: Panel, judges: Sequence[str]) -> CorrectedScores | None:
    """Return :func:`corrected_scores` by the panel's calibration.

    None if it did not measure ``judges`` (ids) together under these settings.
    """
    measured = panel.measured(judges)
    return None if measured is None else corrected_scores(card, measured)
