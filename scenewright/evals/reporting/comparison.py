"""Paired comparisons of arms, with corrections for the number of comparisons.

The main comparison is tested first and alone: the differences over all items in the score that
leads are a family of their own. All others are a second family, and one of a class of items counts
only if that of the same score over all items does (hierarchical testing; Dmitrienko, Tamhane &
Bretz 2009, ch. 5). So classes that are looked at besides take nothing from the main result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.agents.panel.agreement import EARLIER, JudgeWeights
from scenewright.evals.reporting.evaluations import About, Opened, Side
from scenewright.evals.reporting.pages import ChoiceError, asset, render
from scenewright.evals.reporting.plots import Plot, Series, dot_plot
from scenewright.evals.reporting.score_matrix import (
    Column,
    Facet,
    higher_is_better,
    in_order,
    main_columns,
    shown_name,
)
from scenewright.evals.statistics.answers import MARGIN, Contrast, PlainAnswer, best_answer
from scenewright.evals.statistics.estimates import (
    PAIRED_RESAMPLES,
    Array,
    Estimate,
    Paired,
    benjamini_hochberg,
    holm,
    item_means,
    paired_many,
)
from scenewright.evals.statistics.figures import Figure

_ASKED = {
    "protocol": "how facts are asked",
    "asking": "the order in which facts are asked",
    "alpha": "the weight of the objects in SGScore",
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between two evaluations that should be the same."""

    what: str
    """In words, with both values."""
    judged: bool
    """Whether it matters only where judges look."""
    metric: str = ""
    """The metric that it is about; empty for all."""
    panel: str = ""
    """The panel that it is about; empty for all."""

    def concerns(self, column: Column) -> bool:
        """Return whether a column of scores cannot be compared because of it."""
        if self.metric and self.metric != column.metric:
            return False
        if self.panel and self.panel != column.panel:
            return False
        return bool(column.panel) or not self.judged


def mismatches(a: Opened, b: Opened) -> list[Mismatch]:
    """Return the differences of ``a`` and ``b`` that prevent a comparison.

    Compared are the data set, the panels' judges and decision rules, the prompts, the way in which
    facts are asked, and the metrics.
    """
    one, two = a.about, b.about
    found = []

    def note(what: str, x: Any, y: Any, judged: bool, metric: str = "", panel: str = "") -> None:
        if x != y:
            text = f"{what}: {_short(x)} against {_short(y)}"
            found.append(Mismatch(text, judged, metric, panel))

    note("the set", (one.dataset, one.fingerprint), (two.dataset, two.fingerprint), judged=False)
    for panel in sorted(set(one.panels) & set(two.panels)):
        judges, others = one.panels[panel], two.panels[panel]
        note(f"the judges of the panel {panel}", judges, others, judged=True, panel=panel)
        served, other_served = (_told_by_both(each, one, two, panel) for each in (one, two))
        what = f"the versions that served the judges of the panel {panel}"
        note(what, served, other_served, judged=True, panel=panel)
        rule, other = (_rule(each.setting("panels"), panel) for each in (one, two))
        note(f"how the panel {panel} decides", rule, other, judged=True, panel=panel)
        if not _alike(one.weights.get(panel), two.weights.get(panel)):
            text = (
                f"the weights of the panel {panel}, learned from each evaluation's own answers: "
                "draw both in one evaluation, or name aggregation = 'mean' in both"
            )
            found.append(Mismatch(text, judged=True, panel=panel))
        own, theirs = (_reporter(each.self_reports, panel) for each in (one, two))
        note(f"who reports as the panel {panel}", own, theirs, judged=True, panel=panel)
    for panel in sorted(set(a.asked) & set(b.asked)):
        what = f"the prompts of the panel {panel}"
        note(what, *_of_both(a.asked[panel], b.asked[panel]), judged=True, panel=panel)
    for name, what in _ASKED.items():
        note(f"{what} ({name})", one.setting(name), two.setting(name), judged=True)
    for metric in sorted(set(a.score_matrix.versions) & set(b.score_matrix.versions)):
        version, newer = (sorted(each.score_matrix.versions[metric]) for each in (a, b))
        note(f"the version of {metric}", version, newer, judged=False, metric=metric)
    return found


def _of_both(one: Sequence[str], two: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prompts, ``id@version#hash``, whose ids both have; all where they share none.

    Which kinds of questions are asked depends on the pictures: absent things have no relations.
    """
    ids = [{prompt.partition("@")[0] for prompt in prompts} for prompts in (one, two)]
    shared = ids[0] & ids[1] or ids[0] | ids[1]
    kept = [tuple(p for p in prompts if p.partition("@")[0] in shared) for prompts in (one, two)]
    return kept[0], kept[1]


def _told_by_both(of: About, one: About, two: About, panel: str) -> dict[str, tuple[str, ...]]:
    """Return the versions of the judges for which both evaluations have any."""
    told = one.served.get(panel, {}).keys() & two.served.get(panel, {}).keys()
    return {judge: of.served[panel][judge] for judge in sorted(told)}


def _reporter(self_reports: Mapping[str, object], panel: str) -> str:
    return "models of the loops" if panel in self_reports else "models that no loop saw"


_SAME_WEIGHT = 0.05
"""Difference of a judge's weight that counts as none."""


def _alike(one: Any, other: Any) -> bool:
    """Return whether two entries of :data:`WEIGHED` give nearly the same weights."""
    if not one or not other:
        return bool(one) == bool(other)
    # Version 1.0 pooled log-odds by its weights.
    if EARLIER & one.keys() != EARLIER & other.keys():
        return False
    kinds = {"", *one.get("by_kind", ()), *other.get("by_kind", ())}
    pairs = [(_weights_on(kind, one), _weights_on(kind, other)) for kind in kinds]
    return all(np.abs(a.of(a.judges) - b.of(a.judges)).max() <= _SAME_WEIGHT for a, b in pairs)


def _weights_on(kind: str, entry: Mapping[str, Any]) -> JudgeWeights:
    """Return the weights on facts of a ``kind``: version 1.0 had others for some kinds."""
    own = entry.get("by_kind", {}).get(kind, entry["weights"])
    return JudgeWeights.model_validate({**entry, "weights": own})


def _rule(panels: Any, name: str) -> dict[str, Any]:
    entry = panels.get(name) if isinstance(panels, dict) else None
    if not isinstance(entry, dict):
        return {}
    return {key: value for key, value in entry.items() if key != "judges"}


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} {_short(entry)}" for key, entry in value.items())
        return inner[:120] + ("…" if len(inner) > 120 else "") or "none"
    if isinstance(value, tuple | list):
        return ", ".join(_short(entry) for entry in value) or "none"
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "…"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Differences after − before of one column of scores."""

    rows: NDArray[np.int64]
    """Numbers of the items on the board of the first side, (n,)."""
    differences: Array
    """(n,), each item's mean over its seeds."""
    before: Array
    """(n,) scores of the first side."""
    after: Array
    """(n,) scores of the second."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why items are not among them → how many."""
    seeds: str = ""
    """Which seeds were averaged, in words; empty where each side has one and the same."""


def pair(first: Side, second: Side, column: Column) -> Pairs | None:
    """Return the pairs of ``column``, or None if a side has no such scores.

    Seeds of both sides are paired: an item's score is the mean over those of them that are scored
    on both sides. Sides without a common seed are averaged over all their own.
    """
    one, two = first.evaluation.score_matrix, second.evaluation.score_matrix
    if column not in one.values or column not in two.values:
        return None
    place = {item: at for at, item in enumerate(two.items)}
    at = np.array([place.get(item, -1) for item in one.items], np.int64)
    shared = np.flatnonzero(at >= 0)
    there = at[shared]
    common = sorted(set(first.seeds) & set(second.seeds))
    if common:
        block_a = one.values[column][:, [first.seeds[s] for s in common]][shared]
        block_b = two.values[column][:, [second.seeds[s] for s in common]][there]
        both = ~np.isnan(block_a) & ~np.isnan(block_b)
        a, b = (item_means(np.where(both, block, np.nan)) for block in (block_a, block_b))
    else:
        a = one.over_seeds(column, first.arms)[shared]
        b = two.over_seeds(column, second.arms)[there]
    known = ~np.isnan(a) & ~np.isnan(b)
    left: Counter[str] = Counter()
    left[f"only {first.label} has the item"] = len(one.items) - len(shared)
    left[f"only {second.label} has the item"] = len(two.items) - len(shared)
    for row_a, row_b in zip(shared[~known], there[~known], strict=True):
        left[_why(first, second, column, int(row_a), int(row_b))] += 1
    return Pairs(
        rows=shared[known],
        differences=b[known] - a[known],
        before=a[known],
        after=b[known],
        left_out={why: n for why, n in left.items() if n},
        seeds=_seeds(first, second, common),
    )


def _why(first: Side, second: Side, column: Column, row_a: int, row_b: int) -> str:
    states = [_state(first, column, row_a), _state(second, column, row_b)]
    if states[0] and states[1]:
        if states[0] == states[1]:
            return f"{states[0]} in both"
        return f"{states[0]} in {first.label}, {states[1]} in {second.label}"
    if states[0]:
        return f"{states[0]} in {first.label}"
    if states[1]:
        return f"{states[1]} in {second.label}"
    return "no seed is scored in both"


def _state(side: Side, column: Column, row: int) -> str:
    """Return why a side has no score for an item; empty if it has one."""
    score_matrix, arms = side.evaluation.score_matrix, list(side.arms)
    if not np.isnan(score_matrix.values[column][row, arms]).all():
        return ""
    if score_matrix.unscored[column][row, arms].any():
        return "unscored"
    if score_matrix.failed[row, arms].any():
        return "picture failed"
    return "not finished"


def _seeds(first: Side, second: Side, common: list[int]) -> str:
    if not common:
        return f"no common seed: means over {_listed(first.seeds)} and over {_listed(second.seeds)}"
    if len(common) > 1 or len(first.seeds) > 1 or len(second.seeds) > 1:
        return f"means over the common {_listed(common)}"
    return ""


def _listed(seeds: Any) -> str:
    found = sorted(seeds)
    return ("seeds " if len(found) > 1 else "seed ") + ", ".join(map(str, found))


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
    """Panel of judges; empty where no judge is needed."""
    scope: str = ""
    """Which items: empty for all, else as in ``level=hard``."""
    higher_is_better: bool = True
    """Whether more of the score is better."""
    score_before: float | None = None
    """Mean of the first side over the pairs."""
    score_after: float | None = None
    """Mean of the second."""
    result: Paired
    p_holm: float | None = None
    """Corrected by Holm over its family; of a class at least that over all items."""
    p_bh: float | None = None
    """Corrected by Benjamini and Hochberg over all differences of the table."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why items are not paired → how many."""
    seeds: str = ""
    """Which seeds were averaged, in words."""

    @property
    def significant(self) -> bool:
        """Return whether Holm's p is at most 0.05."""
        return self.p_holm is not None and self.p_holm <= SIGNIFICANT

    @property
    def better(self) -> str:
        """Return ``after``, ``before`` or, if the difference is not significant, empty."""
        if not self.significant or self.result.mean is None:
            return ""
        return "after" if (self.result.mean > 0) == self.higher_is_better else "before"

    @property
    def column(self) -> Column:
        """Return the column of scores."""
        return Column(self.metric, self.part, self.panel)

    @property
    def whole(self) -> tuple[str, str, Column]:
        """Return what it shares with the difference over all items alone."""
        return self.before, self.after, self.column

    def contrast(self, tests: int, panels: int = 1, *, gated: bool = False) -> Contrast:
        """Return the difference for sentences.

        ``tests``: all differences that p is corrected for; with several ``panels`` the panel is
        named; ``gated``: as of :class:`Contrast`. Scores that are not between 0 and 1 matter from
        the same share of their size on.
        """
        found = self.result
        size = max(abs(self.score_before or 0.0), abs(self.score_after or 0.0))
        by = f" by {self.panel}" if self.panel and panels > 1 else ""
        return Contrast(
            after=self.after,
            before=self.before,
            difference=Estimate(value=found.mean, low=found.low, high=found.high, n=found.n),
            measure=" ".join(filter(None, (shown_name(self.metric), self.part))) + by,
            higher_is_better=self.higher_is_better,
            margin=MARGIN * max(1.0, size),
            significant=None if self.p_holm is None else self.significant,
            tests=tests,
            gated=gated,
        )


class Comparison(BaseModel):
    """A table of differences, with warnings and notes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    differences: tuple[Difference, ...]
    """All of them."""
    warnings: tuple[str, ...] = ()
    """Differences between the evaluations."""
    notes: tuple[str, ...] = ()
    """Scores that could not be compared, with reasons."""
    resamples: int = PAIRED_RESAMPLES
    """Resamples of the bootstrap."""
    flips: int = PAIRED_RESAMPLES
    """Most sign patterns of the test: more than resamples where there are many differences."""
    seed: int = 0
    """Seed of both."""

    @property
    def panels(self) -> int:
        """Return how many panels of judges there are."""
        return len({each.panel for each in self.differences if each.panel})

    @property
    def leading(self) -> tuple[Difference, ...]:
        """Return the differences over all items in the score that leads."""
        return tuple(filter(_leads(self.differences), self.differences))

    @property
    def correction(self) -> str:
        """Return what p-values are corrected for, in words."""
        first, rest = len(self.leading), len(self.differences) - len(self.leading)
        main = "the main difference alone" if first == 1 else f"the {first} main differences"
        then = f", then for the other {rest}" if rest else ""
        return f"Holm corrects for {main}{then}; Benjamini and Hochberg for all"

    @property
    def answer(self) -> PlainAnswer:
        """Return which side is the better one in the score that leads, over all items."""
        return best_answer([self.contrast(each) for each in self.leading])

    def contrast(self, difference: Difference) -> Contrast:
        """Return one of the differences for sentences."""
        leading = self.leading
        first = difference in leading
        tests = len(leading) if first else len(self.differences) - len(leading)
        gated = bool(difference.scope) and any(
            d.whole == difference.whole and d.p_holm is not None and not d.significant
            for d in self.differences
            if not d.scope
        )
        return difference.contrast(tests, self.panels, gated=gated)


def compare(
    pairs: Sequence[tuple[Side, Side]],
    *,
    by: Facet | None = "level",
    metrics: Sequence[str] = (),
    panels: Sequence[str] = (),
    parts: bool = False,
    force: bool = False,
    resamples: int = PAIRED_RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Return the differences of ``pairs`` (before, after) in all scores of single pictures.

    ``by`` adds the classes of items of that kind to the whole set. ``metrics`` and ``panels``
    select scores; empty: all. ``parts``: also the parts of scores. Raises ``ChoiceError`` if no
    score is on both sides, if a name is unknown, and if the evaluations did not measure the same
    thing; with ``force`` the table has a warning instead.
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


def _leads(differences: Sequence[Difference]) -> Callable[[Difference], bool]:
    """Return whether one of ``differences`` is over all items, in the score that leads."""
    (column,) = main_columns([each.column for each in differences])[:1]
    return lambda each: each.column == column and not each.scope


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """Return ``differences`` with corrected p-values; see the module."""
    leads = _leads(differences)
    tested = {at: each for at, each in enumerate(differences) if each.result.p is not None}
    p = {at: float(each.result.p or 0.0) for at, each in tested.items()}
    strict: dict[int, float] = {}
    for first in (True, False):
        family = [at for at, each in tested.items() if leads(each) is first]
        strict |= zip(family, holm([p[at] for at in family]).tolist(), strict=True)
    loose = dict(zip(p, benjamini_hochberg([*p.values()]).tolist(), strict=True))
    whole = {each.whole: strict[at] for at, each in tested.items() if not each.scope}
    return [
        each.model_copy(
            update={"p_holm": max(strict[at], whole.get(each.whole, 0.0)), "p_bh": loose[at]}
        )
        if at in tested
        else each
        for at, each in enumerate(differences)
    ]


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
            raise ChoiceError(f"no scores of {metric!r}: use one of {_list(known)}")
    judging = {column.panel for column in (*here, *there) if column.panel}
    for panel in panels:
        if panel not in judging:
            raise ChoiceError(f"unknown panel {panel!r}: use one of {_list(judging)}")
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
    """Return one result a test; tests with as many pairs share their resamples, to save time."""
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


POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def comparison_page(comparison: Comparison) -> str:
    """Return a comparison as one HTML file that needs nothing else.

    It has the answer, a plot of the differences behind it, then differences over all items and by
    class, and the warnings.
    """
    sides = dict.fromkeys(side for d in comparison.differences for side in (d.before, d.after))
    names = list(sides)
    title = " against ".join(reversed(names)) if len(names) == 2 else f"{len(names)} arms compared"
    return render(
        "compare.html.j2",
        policy=POLICY,
        title=title,
        styles=Markup(asset("style.css") + asset("report.css")),
        comparison=comparison,
        plot=_plot(comparison),
        overall=[d for d in comparison.differences if not d.scope],
        classes=[d for d in comparison.differences if d.scope],
    )


def _plot(comparison: Comparison) -> Plot:
    """Return the leading differences with their intervals, beside 0."""
    found = comparison.leading
    befores = {d.before for d in found}
    # What all sides share would leave no room for what tells them apart.
    levels = zip(
        *(side.split("/")[:-1] for d in found for side in (d.before, d.after)), strict=False
    )
    shared = sum(1 for _ in takewhile(lambda names: len({*names}) == 1, levels))

    def own(side: str) -> str:
        return "/".join(side.split("/")[shared:])

    sides = [(own(d.after), own(d.before)) for d in found]
    places = [after if len(befores) == 1 else f"{after} − {before}" for after, before in sides]
    minus = f" minus {sides[0][1]}" if len(befores) == 1 else ""
    figures = tuple(
        Figure(value=r.mean, low=r.low, high=r.high, n=r.n) for r in (d.result for d in found)
    )
    measure = comparison.contrast(found[0]).measure
    title = f"Difference in {measure}{minus}"
    return dot_plot("differences", title, places, [Series(title, figures)], title, zero=True)
