"""Comparisons of arms, with corrections for how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.reporting.comparability import mismatches
from scenewright.evals.reporting.corrections import benjamini_hochberg, holm
from scenewright.evals.reporting.errors import ChoiceError
from scenewright.evals.reporting.facets import Facet, in_order
from scenewright.evals.reporting.pairing import Pairs, pair
from scenewright.evals.reporting.score_matrix import Column, higher_is_better
from scenewright.evals.reporting.sides import Side
from scenewright.evals.statistics.paired import RESAMPLES, Paired, paired_many

SIGNIFICANT = 0.05
"""Level of the corrected p-values below which a difference is called significant."""
MOST_FLIPS = 200_000
_FLIPS_A_TEST = 40
"""Holm multiplies the smallest p by the number of tests: with 40 patterns a test the smallest
corrected p-value is 1/40."""


class Difference(BaseModel):
    """One difference: ``after`` minus ``before`` in one score on one class of items."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    before: str
    """Label of the first side."""
    after: str
    """Label of the second."""
    metric: str
    """Which score."""
    part: str = ""
    """Which part of it; empty for its own value."""
    panel: str = ""
    """Who judged; empty where no judge is needed."""
    scope: str = ""
    """Which items: empty for all, else as in ``level=hard``."""
    higher_is_better: bool = True
    """Whether more of the score is better."""
    score_before: float | None = None
    """Mean of the first side over the pairs."""
    score_after: float | None = None
    """Mean of the second."""
    result: Paired
    """What the differences say."""
    p_holm: float | None = None
    """Corrected by Holm over all differences of the table."""
    p_bh: float | None = None
    """Corrected by Benjamini and Hochberg over all differences of the table."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why items are not paired → how many."""
    seeds: str = ""
    """Which seeds were averaged, in words."""

    @property
    def significant(self) -> bool:
        """Whether Holm's p is at most 0.05."""
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT

    @property
    def better(self) -> str:
        """``after``, ``before`` or, if the difference is not significant, empty."""
        if not self.significant or self.result.mean is None:
            return ""
        return "after" if (self.result.mean > 0) == self.higher_is_better else "before"


class Comparison(BaseModel):
    """A table of differences, and what to know of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    differences: tuple[Difference, ...]
    """All of them; they are one family for the corrections."""
    warnings: tuple[str, ...] = ()
    """What was not the same in the evaluations."""
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""
    resamples: int = RESAMPLES
    """Resamples of the bootstrap."""
    flips: int = RESAMPLES
    """Most sign patterns of the test: more than resamples where there are many differences."""
    seed: int = 0
    """Seed of both."""


def compare(
    pairs: Sequence[tuple[Side, Side]],
    *,
    by: Facet | None = "level",
    metrics: Sequence[str] = (),
    panels: Sequence[str] = (),
    parts: bool = False,
    force: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """The differences of ``pairs`` (before, after) in all scores of single pictures.

    ``by`` adds the classes of items of that kind to the whole set. ``metrics`` and ``panels`` name
    which scores; empty: all. ``parts``: also what scores are made of. Where the evaluations did not
    measure the same thing ``ChoiceError`` is raised, unless ``force``: then the table says so. It
    is raised too if no score is there on both sides, or a name is unknown.
    """
    warnings: dict[str, None] = {}
    notes: dict[str, None] = {}
    tests: list[_Test] = []
    for first, second in pairs:
        columns = _columns(first, second, metrics, panels, parts, notes)
        if first.evaluation is not second.evaluation:
            differing = mismatches(first.evaluation, second.evaluation)
            bad = [m.what for m in differing if any(m.concerns(c) for c in columns)]
            if bad and not force:
                raise ChoiceError(
                    f"{first.label} and {second.label} cannot be compared, they differ in "
                    f"{'; '.join(bad)}. Evaluate both in the same way, leave out the scores "
                    "concerned (--metric), or compare them all the same with --force"
                )
            warnings.update(dict.fromkeys(f"{first.label}, {second.label}: {w}" for w in bad))
        tests.extend(_tests(first, second, columns, by))
    if not tests:
        raise ChoiceError(
            "the sides have no scores of single pictures in common"
            + (f" ({'; '.join(notes)})" if notes else "")
        )
    flips = min(MOST_FLIPS, max(resamples, _FLIPS_A_TEST * len(tests)))
    if len(tests) > SIGNIFICANT * (flips + 1):
        notes[
            f"{len(tests)} differences are too many for {flips} sign patterns: none can come out "
            "as significant. Compare fewer arms, scores or classes"
        ] = None
    results = _tested(tests, resamples, flips, seed)
    return Comparison(
        differences=tuple(corrected(list(map(_difference, tests, results)))),
        warnings=tuple(warnings),
        notes=tuple(notes),
        resamples=resamples,
        flips=flips,
        seed=seed,
    )


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """The same with :attr:`Difference.p_holm` and :attr:`Difference.p_bh` over all of them."""
    tested = [at for at, each in enumerate(differences) if each.result.p is not None]
    p = np.array([differences[at].result.p for at in tested], np.float64)
    strict, loose = holm(p), benjamini_hochberg(p)
    result = list(differences)
    for number, at in enumerate(tested):
        both = {"p_holm": float(strict[number]), "p_bh": float(loose[number])}
        result[at] = result[at].model_copy(update=both)
    return result


def _columns(
    first: Side,
    second: Side,
    metrics: Sequence[str],
    panels: Sequence[str],
    parts: bool,
    notes: dict[str, None],
) -> list[Column]:
    one, two = first.evaluation.score_matrix, second.evaluation.score_matrix
    here, there = one.columns(parts=parts), two.columns(parts=parts)
    for column in dict.fromkeys([*here, *there]):
        if (column in here) != (column in there):
            side = first if column in here else second
            notes[f"only {side.label} has {_named(column)}"] = None
    of_sets = sorted({s.metric for s in one.sets} | {s.metric for s in two.sets})
    if of_sets:
        notes[
            f"{', '.join(of_sets)}: a score of a whole set has no value for an item, so that there "
            "are no pairs to test; the table of sets shows it"
        ] = None
    known = {column.metric for column in (*here, *there)}
    for metric in metrics:
        if metric in of_sets and metric not in known:
            raise ChoiceError(f"{metric} is a score of whole sets: there are no pairs to test")
        if metric not in known:
            raise ChoiceError(f"there are no scores of {metric!r}: use one of {_list(known)}")
    judging = {column.panel for column in (*here, *there) if column.panel}
    for panel in panels:
        if panel not in judging:
            raise ChoiceError(f"there is no panel {panel!r}: use one of {_list(judging)}")
    return [
        column
        for column in here
        if column in there
        and (not metrics or column.metric in metrics)
        and (not panels or not column.panel or column.panel in panels)
    ]


@dataclass(frozen=True, slots=True)
class _Test:
    first: Side
    second: Side
    column: Column
    scope: str
    pairs: Pairs
    rows: Any
    """Which of the pairs."""


def _tests(first: Side, second: Side, columns: Sequence[Column], by: Facet | None) -> list[_Test]:
    score_matrix = first.evaluation.score_matrix
    tests: list[_Test] = []
    for column in columns:
        pairs = pair(first, second, column)
        if pairs is None:
            continue
        tests.append(_Test(first, second, column, "", pairs, slice(None)))
        if by is None:
            continue
        classes = score_matrix.facets[by][pairs.rows]
        tests.extend(
            _Test(first, second, column, f"{by}={name}", pairs, np.flatnonzero(classes == name))
            for name in in_order(by, score_matrix.facets[by])
        )
    return tests


def _difference(test: _Test, result: Paired) -> Difference:
    before, after = (_mean(scores[test.rows]) for scores in (test.pairs.before, test.pairs.after))
    column = test.column
    return Difference(
        before=test.first.label,
        after=test.second.label,
        metric=column.metric,
        part=column.part,
        panel=column.panel,
        scope=test.scope,
        higher_is_better=higher_is_better(column.metric, test.first.evaluation.manifest),
        score_before=before,
        score_after=after,
        result=result,
        left_out={} if test.scope else test.pairs.left_out,
        seeds=test.pairs.seeds,
    )


def _tested(tests: Sequence[_Test], resamples: int, flips: int, seed: int) -> list[Paired]:
    """One result a test; those of as many pairs share their resamples, which saves most time."""
    lists = [test.pairs.differences[test.rows] for test in tests]
    results: dict[int, Paired] = {}
    for n in {len(each) for each in lists}:
        places = [at for at, each in enumerate(lists) if len(each) == n]
        block = np.stack([lists[at] for at in places], axis=1)
        results.update(zip(places, paired_many(block, resamples, seed, flips), strict=True))
    return [results[at] for at in range(len(tests))]


def _mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def _named(column: Column) -> str:
    part = f" ({column.part})" if column.part else ""
    return f"{column.metric}{part}" + (f" by the panel {column.panel}" if column.panel else "")


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
