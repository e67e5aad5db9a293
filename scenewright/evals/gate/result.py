"""Result of a gate: the decision on paired scores, and the facts that were lost and gained."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.stats import binom

from scenewright.evals.datasets.registry import rank
from scenewright.evals.reporting.comparison import mismatches, pair
from scenewright.evals.reporting.evaluations import Side
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.reporting.score_matrix import Column, higher_is_better
from scenewright.evals.statistics.sequential import (
    Array,
    Decided,
    Decision,
    Rule,
    decide,
    fixed_size,
    mean_interval,
)
from scenewright.evals.store.results import Results

FEWEST = 2
"""Scenes without which nothing is decided."""
BESIDE = 0.005
"""Level of the sign test behind a note on a kind of facts."""
Change = Literal["lost", "gained"]
KINDS = ("object", "attribute", "relation")


class GateOptions(BaseModel):
    """Options of a gate that decide its verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    margin: float = Field(default=0.03, gt=0.0, lt=1.0)
    """Loss of the mean score to be found: 0.03 is three points."""
    alpha: float = Field(default=0.05, gt=0.0, lt=0.5)
    """Highest probability of a false alarm."""
    power: float = Field(default=0.9, gt=0.5, lt=1.0)
    """Probability, at least, of not passing a loss of the margin."""
    metric: str = ""
    """Score between 0 and 1, or a part of one (``sgscore.fact_recall``); empty: the first of the
    evaluation."""
    panel: str = ""
    """Panel of judges; empty: the first of the evaluation."""
    seed: int = Field(default=0, ge=0)
    """Seed of the order of the scenes."""
    limit: int | None = Field(default=None, ge=1)
    """Most scenes; None: all of the set."""

    @property
    def rule(self) -> Rule:
        """Return the rule of the test."""
        return Rule(self.margin, self.alpha, self.power)


class FactChange(BaseModel):
    """A fact that one side's picture holds and the other's does not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    change: Change
    item: str
    seed: int
    kind: str
    statement: str
    image_before: str
    """Content hash of the baseline's picture."""
    image_after: str
    """Content hash of the candidate's."""


class KindCount(BaseModel):
    """Facts of one kind, by what became of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kept: int = 0
    """They hold on both sides."""
    lost: int = 0
    gained: int = 0
    absent: int = 0
    """They hold on neither side."""
    unscored: int = 0
    """They could not be judged on one side or both, and are in none of the other counts."""


class GateResult(BaseModel):
    """Result of a gate, as ``gate.json`` holds it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    verdict: Decision
    reason: str
    """The verdict in a sentence."""
    baseline: str
    candidate: str
    changes: dict[str, Any] = Field(default_factory=dict)
    """Changed fields of the candidate's profile."""
    options: GateOptions
    metric: str
    panel: str
    scenes: int = Field(ge=0)
    """Compared scenes, which both sides have scored."""
    decided_at: int = Field(ge=0)
    """Scene of the order at which the verdict was reached; all of them where it is undecided."""
    of: int = Field(ge=0)
    """Scenes that there are."""
    looked_at: int = Field(ge=0)
    """Scenes of the order that were drawn and judged on both sides, or found so."""
    finished: bool = True
    """Whether the gate has ended: a verdict, or no scenes left."""
    before: float | None = None
    """Mean score of the baseline over the compared scenes."""
    after: float | None = None
    """Mean score of the candidate."""
    difference: float | None = None
    """Mean of candidate − baseline; after an early stop it is too far from 0 on average."""
    low: float | None = None
    """Lower end of its 95 % interval, which holds whenever one stops."""
    high: float | None = None
    """Upper end."""
    deviation: float | None = None
    """Standard deviation of the differences."""
    fixed_size: int | None = None
    """Scenes of a paired test of fixed size with the same errors, at this standard deviation."""
    evidence_worse: float = 1.0
    """Largest W; "worse" at 1 / alpha."""
    evidence_sound: float = 1.0
    """Largest S; "not worse" at 1 / (1 − power)."""
    left_out: dict[str, int] = Field(default_factory=dict)
    """Why scenes are not compared → how many."""
    warnings: tuple[str, ...] = ()
    """Differences in how the sides were measured."""
    notes: tuple[str, ...] = ()
    """Kinds of facts that were lost far more often than gained although the verdict is not
    "worse", and whether the score shows it."""
    pictures: int = 0
    """Pictures that the gate has drawn."""
    usd: float = 0.0
    """Dollars of the gate's drawing and judging."""
    of_judges: bool = False
    """Whether the sides are judges of labelled facts: those are lost that were judged right."""
    kinds: dict[str, KindCount] = Field(default_factory=dict)
    facts: tuple[FactChange, ...] = ()
    """Facts lost and gained, scenes in the gate's order."""

    @property
    def passed(self) -> bool:
        """Return whether the candidate is not worse."""
        return self.verdict == "not worse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Paired scores of two sides in the gate's order."""

    column: Column
    items: tuple[str, ...]
    differences: Array
    """(n,), after − before, with the sign turned where less is better."""
    before: Array
    after: Array
    decided: Decided
    left_out: dict[str, int]
    warnings: tuple[str, ...]


def column_of(first: Side, second: Side, options: GateOptions) -> Column:
    """Return the scores that are compared.

    Raises ``ChoiceError`` if a side does not have them.
    """
    metric, _, part = options.metric.partition(".")
    here, there = (side.evaluation.score_matrix.columns(parts=True) for side in (first, second))
    common = [column for column in here if column in there]
    for column in common:
        asked = metric in ("", column.metric) and options.panel in ("", column.panel)
        if asked and part == column.part:
            return column
    names = sorted({f"{name_of(c)}{f' by {c.panel}' if c.panel else ''}" for c in common})
    wanted = f"{options.metric or 'any metric'} by {options.panel or 'any panel'}"
    raise ChoiceError(
        f"the sides have no scores of {wanted} in common; common ones: "
        f"{', '.join(names) or 'none'}. Judge both with the same panel (--judges)"
    )


def name_of(column: Column) -> str:
    """Return ``sgscore``, or ``sgscore.fact_recall`` for a part of it."""
    return f"{column.metric}.{column.part}" if column.part else column.metric


def compared(first: Side, second: Side, options: GateOptions, *, force: bool = False) -> Comparison:
    """Return the paired scores of all scenes that both sides have scored, and the decision.

    Raises ``ChoiceError`` for sides that were measured differently, unless ``force``, and for
    scores outside of 0 to 1.
    """
    column = column_of(first, second, options)
    differing = [
        mismatch.what
        for mismatch in mismatches(first.evaluation, second.evaluation)
        if mismatch.concerns(column)
    ]
    if differing and not force:
        raise ChoiceError(
            f"{first.label} and {second.label} cannot be compared, they differ in "
            f"{'; '.join(differing)}. Evaluate both in the same way, or compare them all the same "
            "with --force"
        )
    found = pair(first, second, column)
    assert found is not None  # column_of has looked
    items = [first.evaluation.score_matrix.items[row] for row in found.rows]
    order = np.array(sorted(range(len(items)), key=lambda at: rank(options.seed, items[at])), int)
    order = order[: options.limit]
    before, after = found.before[order], found.after[order]
    scores = np.concatenate([before, after])
    if ((scores < 0.0) | (scores > 1.0)).any():
        raise ChoiceError(
            f"{column.metric} has scores from {scores.min():.3g} to {scores.max():.3g}: a gate "
            "compares scores between 0 and 1, such as sgscore (--metric)"
        )
    better = higher_is_better(column.metric, first.evaluation.manifest)
    differences = after - before if better else before - after
    return Comparison(
        column,
        tuple(items[at] for at in order),
        differences,
        before,
        after,
        decided_on(differences, options.rule),
        found.left_out,
        tuple(differing),
    )


def decided_on(differences: Array, rule: Rule) -> Decided:
    """Return the decision on differences in their order; too few decide nothing."""
    if len(differences) < FEWEST:
        return Decided("undecided", len(differences), 1.0, 1.0)
    return decide(differences, rule)


def result_of(
    found: Comparison,
    options: GateOptions,
    tally: FactTally,
    *,
    of: int,
    looked_at: int,
    finished: bool,
    **more: Any,
) -> GateResult:
    """Return the result of a comparison of ``of`` scenes; ``more`` are further fields."""
    n, decided = len(found.differences), found.decided
    spread = float(found.differences.std(ddof=1)) if n > 1 else None
    low, high = mean_interval(found.differences, options.rule) if n > 1 else (None, None)
    return GateResult(
        verdict=decided.decision,
        reason=_reason(found, options, finished),
        options=options,
        metric=name_of(found.column),
        panel=found.column.panel,
        scenes=n,
        decided_at=decided.at,
        of=of,
        looked_at=looked_at,
        finished=finished,
        before=float(found.before.mean()) if n else None,
        after=float(found.after.mean()) if n else None,
        difference=float((found.after - found.before).mean()) if n else None,
        low=low,
        high=high,
        deviation=spread,
        fixed_size=None if not spread else fixed_size(spread, options.rule),
        evidence_worse=decided.evidence_worse,
        evidence_sound=decided.evidence_sound,
        left_out=found.left_out,
        warnings=found.warnings,
        notes=losses_beside(tally.changes, found),
        kinds=tally.kinds,
        facts=tuple(tally.changes),
        **more,
    )


def _reason(found: Comparison, options: GateOptions, finished: bool) -> str:
    n, decided = len(found.differences), found.decided
    points = f"{100 * options.margin:g} points"
    if decided.decision == "worse":
        return f"Worse: decided after {decided.at} scenes, at alpha {options.alpha:g}."
    if decided.decision == "not worse":
        return f"Not worse by {points} or more: decided after {decided.at} scenes."
    if not finished:
        return f"No decision so far, after {n} scenes."
    if not n:
        why = ", ".join(f"{count} {reason}" for reason, count in found.left_out.items())
        return f"Undecided: nothing is scored on both sides ({why or 'there are no scenes'})."
    if n < FEWEST:
        return "Undecided: one of them is scored on both sides, and a decision needs two or more."
    return (
        f"Undecided after all {n} scenes: neither a loss nor the absence of one by {points} is "
        "shown. More scenes, or a larger margin, decide."
    )


class FactTally:
    """Facts by what became of them."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.changes: list[FactChange] = []
        """Facts lost and gained, in the order in which they were added."""

    def add(self, before: str, after: str, kind: str, **fact: Any) -> str:
        """Count a fact by its states on both sides and return its field of :class:`KindCount`.

        A void fact does not hold. ``fact`` are the other fields of :class:`FactChange`.
        """
        if "unscored" in (before, after):
            what = "unscored"
        elif before == "yes":
            what = "kept" if after == "yes" else "lost"
        else:
            what = "gained" if after == "yes" else "absent"
        self._counts[kind][what] += 1
        if what in ("lost", "gained"):
            self.changes.append(FactChange(change=what, kind=kind, **fact))
        return what

    @property
    def kinds(self) -> dict[str, KindCount]:
        """Return the counts of each kind, in the order of a scene."""
        order = [*KINDS, *sorted(self._counts.keys() - set(KINDS))]
        return {kind: KindCount(**self._counts[kind]) for kind in order if kind in self._counts}


_Key = tuple[str, int, str]
"""Item, seed and fact."""


def changed_facts(first: Side, second: Side, panel: str, items: Collection[str]) -> FactTally:
    """Return what became of the facts of ``items``.

    Facts are compared on the kept pictures of common seeds, by the verdicts of ``panel``; without
    one there are none.
    """
    found = FactTally()
    seeds = set(first.seeds) & set(second.seeds)
    if not (panel and seeds and items):
        return found
    place = {item: at for at, item in enumerate(items)}
    before, after = (
        {key: row for key, row in _verdicts(side, panel) if key[0] in place and key[1] in seeds}
        for side in (first, second)
    )
    for key in sorted(before.keys() & after.keys(), key=lambda key: (place[key[0]], key[1])):
        one, two = before[key], after[key]
        found.add(
            one["state"],
            two["state"],
            str(one["kind"] or "fact"),
            item=key[0],
            seed=key[1],
            statement=one["statement"] or key[2],
            image_before=one["image"] or "",
            image_after=two["image"] or "",
        )
    return found


def losses_beside(facts: Sequence[FactChange], found: Comparison) -> tuple[str, ...]:
    """Return a note for each kind of facts that was lost although the decision is not "worse".

    A score may leave out a kind, as SGScore does with attributes. The test is
    a one-sided sign test over scenes that lost more facts of the kind than they gained, or fewer.
    The score shows the loss where it fell in most of the scenes that lost some.
    """
    if found.decided.decision == "worse":
        return ()
    fell = {item for item, by in zip(found.items, found.differences, strict=True) if by < 0.0}
    net: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for fact in facts:
        net[fact.kind][fact.item] += 1 if fact.change == "lost" else -1
    notes = []
    for kind, items in sorted(net.items()):
        worse = {item for item, n in items.items() if n > 0}
        lost, gained = len(worse), sum(n < 0 for n in items.values())
        if lost + gained and binom.sf(lost - 1, lost + gained, 0.5) <= BESIDE:
            shown = len(worse & fell)
            said = (
                f"The score fell in {shown} of these {lost}, too little for the verdict"
                if 2 * shown > lost
                else "The score does not show it, and it is no part of the verdict"
            )
            notes.append(f"{kind} facts: {lost} scenes lost some and {gained} gained some. {said}")
    return tuple(notes)


def _verdicts(side: Side, panel: str) -> Iterator[tuple[_Key, dict[str, Any]]]:
    """Yield the verdicts of a side's kept pictures."""
    results = Results(side.evaluation.folder)
    arms = {side.evaluation.score_matrix.arms[at].name: seed for seed, at in side.seeds.items()}
    kept = results.kept_pictures()
    columns = ["arm", "item", "panel", "image", "fact", "kind", "statement", "state"]
    for row in results.rows("verdicts", columns):
        arm = row["arm"]
        if arm in arms and row["panel"] == panel and row["image"] == kept.get((row["item"], arm)):
            yield (row["item"], arms[arm], row["fact"]), row
