"""Attack a panel, enlarge it by clones, or add noise; find each aggregator's breakdown point.

An attack replaces the answers of some judges. The **breakdown point** of an aggregator is the
smallest share of bad judges at which half of its worth is gone: its quality
(:class:`~scenewright.evals.studies.panel.metrics.Quality`) exceeds chance by no more than half of
what it does with all judges honest. (Donoho & Huber, 1983, ask when an estimate may become
arbitrarily bad; probabilities are bounded, so a share of the loss takes the place of infinity.)

Whether an aggregator breaks at a third or at half of its judges cannot be seen on three judges. A
**clone** of a judge gets the judge's own answers, dealt out anew among the facts of the same kind
and truth: its sensitivity and specificity by kind are those of the judge, exactly, and given truth
and kind its errors are independent of all others. Real judges find the same facts hard, so what
breaks with clones breaks without them as well. Where the truth is not known it is drawn for each
fact from the Dawid–Skene posterior of the real judges.

**Noise models** change the answers and leave the truth as it is. They are applied to the facts that
are scored and to those that are learnt from, each with its own randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from scenewright.agents.panel.aggregation import (
    Array,
    dawid_skene,
    expit,
    log_odds,
    mean_probability,
)
from scenewright.core.facts import FactKind
from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.statistics.figures import LEVEL, summary
from scenewright.evals.studies.panel.aggregators.base import FOLDS, folds_of
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of
from scenewright.evals.studies.panel.metrics import Quality
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    JudgeColumn,
    Mask,
    PanelStudyError,
    Places,
)

CLONE = "#"
"""Between a judge's id and the number of its clone, from 2."""


def enlarged(table: AnswerTable, n: int, seed: int = 0) -> AnswerTable:
    """``table`` with clones of its judges in turn, until there are ``n`` columns.

    A table that has as many judges is given back as it is. Deterministic. Raises
    ``PanelStudyError`` for fewer than one judge.
    """
    if n < 1:
        raise PanelStudyError(f"a panel of {n} judges: use 1 or more")
    real = len(table.judges)
    if n <= real:
        return table
    rng = np.random.default_rng([seed, n])
    classes = _classes(table, rng)
    columns = [at % real for at in range(n)]
    judges = [
        column if at < real else JudgeColumn(f"{column.id}{CLONE}{at // real + 1}")
        for at, column in ((at, table.judges[at % real]) for at in range(n))
    ]
    wide = table.with_judges(columns, judges)
    arrays = {name: getattr(wide, name).copy() for name in _OF_ANSWERS}
    for at in range(real, n):
        for rows in classes:
            dealt = rng.permutation(rows)
            for array in arrays.values():
                array[rows, at] = array[dealt, at]
    return replace(wide, **arrays)


_OF_ANSWERS = ("said", "votes", "asked", "usd", "seconds", "tokens")


def _classes(table: AnswerTable, rng: np.random.Generator) -> list[Places]:
    """Rows of one kind and one truth."""
    truth = table.truth.copy()
    lost = np.isnan(truth)
    if lost.any():
        likely = dawid_skene(table.said).probabilities
        drawn = rng.random(len(truth)) < np.where(np.isnan(likely), 0.5, likely)
        truth[lost] = drawn[lost]
    return [
        np.flatnonzero((table.kinds == kind) & (truth == holds))
        for kind in np.unique(table.kinds)
        for holds in (0.0, 1.0)
    ]


AttackKind = Literal["yes", "no", "random", "adversarial", "copies", "missing"]
ATTACKS: tuple[AttackKind, ...] = get_args(AttackKind)


class Attack(BaseModel):
    """What bad judges do."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: AttackKind
    """``yes`` and ``no`` always say so, ``random`` throws a coin, ``adversarial`` says the opposite
    of the truth (of the honest panel's mean where the truth is not known), ``copies`` answer as the
    first of them does, ``missing`` give nothing usable. All are certain of what they say."""
    strength: float = Field(default=1.0, ge=0.0, le=1.0)
    """Share of the facts on which they do so, drawn by chance; elsewhere they are honest. For
    copies it is the correlation r of their errors: each copies with probability √r, so that the
    errors of two that copy correlate with r, if they are as good as each other."""
    added: bool = False
    """Whether they join the panel (as judges that were honest until now), or are some of it."""
    facts: FactKind | None = None
    """Kind of facts that alone is attacked; None: all."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """How an aggregator fares under an attack."""

    judges: int
    """Size of the panel without added judges."""
    share: float | None
    """Smallest share of bad judges at which half of its worth is gone; None: at none that was
    tried, or the honest panel is no better than chance."""
    bad: int | None
    """How many judges that is; None likewise."""
    low: float | None
    """Lower end of the 95 % interval of ``share``; None: above all that was tried."""
    high: float | None
    """Upper end; None likewise."""
    curve: tuple[Estimate, ...]
    """Quality with 0, 1, 2 … bad judges, mean over which of them are bad."""
    scored: tuple[float, ...]
    """Share of the asked facts that got a value, likewise."""
    shares: tuple[float, ...]
    """Share of bad judges at each point of the curve."""
    worse: int | None
    """Fewest bad judges with which the aggregator is worse than the best honest judge alone; None:
    never, while there is one."""


def attacked(
    table: AnswerTable, attack: Attack, bad: Sequence[int], rng: np.random.Generator
) -> AnswerTable:
    """``table`` with the columns ``bad`` taken over; ``attack.added`` is not read.

    Bad judges answer wherever they are asked, also where the honest judge gave nothing usable.
    Raises ``PanelStudyError`` for columns that are not there.
    """
    at = list(bad)
    if not set(at) <= set(range(len(table.judges))) or len(set(at)) < len(at):
        raise PanelStudyError(f"{at} are not columns of {table.name}, each once")
    shape = (len(table.facts), len(at))
    chance = np.sqrt(attack.strength) if attack.kind == "copies" else attack.strength
    hit: Mask = table.asked[:, at] & (rng.random(shape) < chance)
    if attack.facts is not None:
        hit &= (table.kinds == attack.facts)[:, None]
    said, votes = table.said.copy(), table.votes.copy()
    if attack.kind == "copies" and at:
        lies, lie_votes = table.said[:, at[:1]], table.votes[:, at[:1]]
    else:
        lies = lie_votes = _lies(table, attack.kind, shape, rng)
    said[:, at] = np.where(hit, lies, said[:, at])
    votes[:, at] = np.where(hit, lie_votes, votes[:, at])
    return replace(table, said=said, votes=votes)


def _lies(
    table: AnswerTable, kind: AttackKind, shape: tuple[int, int], rng: np.random.Generator
) -> Array:
    if kind == "missing":
        return np.full(shape, np.nan)
    if kind == "random":
        return rng.integers(0, 2, shape).astype(float)
    if kind == "adversarial":
        panel = mean_probability(table.said)
        believed = np.where(np.isnan(panel), np.nan, (panel > 0.5).astype(float))
        holds = np.where(np.isnan(table.truth), believed, table.truth)
        # What nobody judged is likelier to hold than not in every set of prompts.
        opposite = 1.0 - np.where(np.isnan(holds), 1.0, holds)
        return np.repeat(opposite[:, None], shape[1], axis=1)
    return np.full(shape, 1.0 if kind == "yes" else 0.0)


def breakdown_points(
    table: AnswerTable,
    names: Sequence[str],
    attack: Attack,
    *,
    learn: AnswerTable | None = None,
    judges: int = 9,
    seed: int = 0,
    repeats: int = 4,
    resamples: int = 1000,
) -> dict[str, Breakdown]:
    """Measure how each aggregator fares when more and more judges of ``table`` are bad.

    Panels of fewer than ``judges`` judges are enlarged by clones (:func:`enlarged`); 0 takes the
    panel as it is. The bad judges are drawn ``repeats`` times, each time one order of the judges of
    which the first 0, 1, 2 … are bad, the same for all aggregators. Added judges number up to twice
    the panel.

    Aggregators that learn from truth or ratings learn from honest answers: those of ``learn``, or
    of the other folds of the table's items. Those that cannot be used are left out. Intervals are
    over items and draws of who is bad, for the fits at hand. Raises ``PanelStudyError`` for unknown
    names, and for a table without truth and ratings.
    """
    if repeats < 1:
        raise PanelStudyError(f"{repeats} draws of bad judges: use 1 or more")
    sweep = _Sweep(table, attack, learn, max(judges, len(table.judges)), seed, repeats)
    quality = Quality(table, resamples, seed)
    found: dict[str, Breakdown] = {}
    # Who is bad is chance as well: draws of it are resampled with the items, for all alike.
    picks = np.random.default_rng([seed, repeats]).integers(0, repeats, (repeats, resamples))
    alone = _best_honest(sweep, quality)
    for name in names:
        points, scored = [], []
        try:
            for bad in range(sweep.sizes):
                drawn = []
                shares = []
                for wide, known in sweep.tables(bad):
                    likely = combined(name, wide, known)
                    drawn.append(quality.of(likely))
                    shares.append(quality.scored(likely))
                points.append(_averaged(drawn, picks))
                scored.append(float(np.mean(shares)))
        except PanelStudyError:
            aggregator_of(name)
            continue
        found[name] = _breakdown(points, scored, sweep, quality, alone)
    return found


def combined(name: str, table: AnswerTable, learn: Learning) -> Array:
    """Probabilities by the aggregator ``name``, (n_facts,), whatever it learns from.

    Raises ``PanelStudyError`` where it cannot be used.
    """
    aggregator = aggregator_of(name)
    if learn.given is not None or aggregator.fitted_to in ("nothing", "answers"):
        return aggregator.combine(table, learn.given)
    found = np.full(len(table.facts), np.nan)
    for images, rows, other in learn.folds:
        found[rows] = aggregator.combine(table.of_images(images), other)
    return found


class Learning:
    """Honest answers to learn from: another table, or the other folds of this one."""

    def __init__(self, honest: AnswerTable, given: AnswerTable | None, seed: int = 0) -> None:
        """``given`` has the judges of ``honest``, or is None."""
        self.given = given
        """The other table."""
        self._honest, self._seed = honest, seed
        self._folds: list[tuple[Mask, Mask, AnswerTable]] | None = None

    @property
    def folds(self) -> list[tuple[Mask, Mask, AnswerTable]]:
        """For each fold (its images, its facts, the honest others), as in cross-validation."""
        if self._folds is None:
            table = self._honest
            fold = folds_of(table, FOLDS, self._seed)
            self._folds = [
                (fold == at, (fold == at)[table.image_of], table.of_images(fold != at))
                for at in np.unique(fold)
            ]
        return self._folds

    def of_judges(self, columns: Sequence[int]) -> Learning:
        """Return the same of some judges only."""
        given = None if self.given is None else self.given.with_judges(columns)
        return Learning(self._honest.with_judges(columns), given, self._seed)


class _Sweep:
    """The tables of one attack: every number of bad judges, every draw of who they are."""

    def __init__(
        self,
        table: AnswerTable,
        attack: Attack,
        learn: AnswerTable | None,
        judges: int,
        seed: int,
        repeats: int,
    ) -> None:
        self.judges, self.attack, self._seed = judges, attack, seed
        self.sizes = (2 * judges if attack.added else judges) + 1
        every = 3 * judges if attack.added else judges
        self.honest = enlarged(table, every, seed)
        known = None if learn is None else enlarged(learn, every, seed + 1)
        self._learning = Learning(self.honest, known, seed)
        rng = np.random.default_rng([seed, judges, repeats])
        self.orders = [rng.permutation(judges) for _ in range(repeats)]

    def share(self, bad: int) -> float:
        """Share of bad judges in the panel."""
        return bad / (self.judges + bad) if self.attack.added else bad / self.judges

    def left(self, bad: int) -> list[list[int]]:
        """Columns of the honest judges of each draw."""
        if self.attack.added:
            return [list(range(self.judges))]
        return [sorted(order[bad:].tolist()) for order in self.orders]

    def tables(self, bad: int) -> list[tuple[AnswerTable, Learning]]:
        """Return the attacked table of each draw; one where all draws are alike."""
        if self.attack.added:
            columns = list(range(self.judges + bad))
            honest, learn = self.honest.with_judges(columns), self._learning.of_judges(columns)
            draws = [columns[self.judges :]] * (len(self.orders) if bad else 1)
        else:
            honest, learn = self.honest, self._learning
            draws = [order[:bad].tolist() for order in self.orders[: None if bad else 1]]
        return [
            (attacked(honest, self.attack, at, np.random.default_rng([self._seed, bad, n])), learn)
            for n, at in enumerate(draws)
        ]


def _best_honest(sweep: _Sweep, quality: Quality) -> list[float]:
    """Quality of the best honest judge alone, mean over draws; NaN where none is left."""
    each = np.array([quality.of(column).value for column in sweep.honest.said.T])
    found = []
    for bad in range(sweep.sizes):
        best = [np.nanmax(each[left], initial=-np.inf) for left in sweep.left(bad)]
        found.append(float(np.mean(best)) if np.isfinite(best).all() else float("nan"))
    return found


def _averaged(drawn: Sequence[Drawn], picks: Places) -> Drawn:
    """Mean over the draws; ``picks`` (draws, resamples) are those of each resample."""
    each = np.array([one.resamples for one in drawn])
    value = float(np.mean([one.value for one in drawn]))
    if len(drawn) == 1:
        return Drawn(value, each[0])
    return Drawn(value, each[picks, np.arange(each.shape[1])].mean(0))


def _breakdown(
    points: Sequence[Drawn],
    scored: Sequence[float],
    sweep: _Sweep,
    quality: Quality,
    alone: Sequence[float],
) -> Breakdown:
    shares = [sweep.share(bad) for bad in range(len(points))]
    curve = np.array([point.value for point in points])[:, None]
    bad = first_broken(curve, quality.chance)[0]
    drawn = first_broken(np.array([point.resamples for point in points]), quality.chance)
    # Resamples in which it never breaks lie above all others.
    known = np.array([*shares, np.inf])[np.where(drawn < 0, len(shares), drawn)]
    ends = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    low, high = (float(end) if np.isfinite(end) else None for end in ends)
    worse = (n for n, (point, best) in enumerate(zip(points, alone, strict=True))
             if point.value < best)  # fmt: skip
    figures = [summary(point.value, point.resamples, len(quality)) for point in points]
    return Breakdown(
        judges=sweep.judges,
        share=None if bad < 0 else shares[bad],
        bad=None if bad < 0 else int(bad),
        low=low,
        high=high,
        curve=tuple(Estimate(**figure.model_dump()) for figure in figures),
        scored=tuple(scored),
        shares=tuple(shares),
        worse=next(worse, None),
    )


def first_broken(curves: Array, chance: float) -> Array:
    """Return the first place at which each curve is broken, −1 where it never is.

    ``curves`` is (places, n). Broken: it exceeds ``chance`` by no more than half of what it does at
    place 0, or it is undefined, as nothing is scored any more. A curve that does not exceed chance
    at place 0 is −1 too.
    """
    excess = curves - chance
    broken = ~(excess > excess[:1] / 2.0)
    first = np.where(broken.any(0), broken.argmax(0), -1)
    found: Array = np.where(excess[0] > 0.0, first, -1)
    return found


_MISSING = 0.4
_SPREAD = 1.0
_COPIES = 3


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """A noise model."""

    about: str
    """In words, after "where"."""
    of: Callable[[AnswerTable, np.random.Generator], AnswerTable]
    """Lays it over a table."""


def noisy(table: AnswerTable, name: str, seed: int = 0) -> AnswerTable:
    """Return ``table`` under the noise model ``name``, one of :data:`NOISE`.

    Deterministic. Raises ``PanelStudyError`` for an unknown one.
    """
    if name not in NOISE:
        raise PanelStudyError(f"unknown noise model {name!r}: use one of {', '.join(NOISE)}")
    return NOISE[name].of(table, np.random.default_rng([seed, list(NOISE).index(name)]))


def _missing(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    lost = rng.random(table.said.shape) < _MISSING
    return table.with_said(np.where(lost, np.nan, table.said), np.where(lost, np.nan, table.votes))


def _last_says(
    by: Callable[[Array, np.random.Generator], Array],
) -> Callable[[AnswerTable, np.random.Generator], AnswerTable]:
    """Return a noise model in which the last judge says something else wherever it answered."""

    def of(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
        said = table.said.copy()
        there = ~np.isnan(said[:, -1])
        said[there, -1] = by(said[there, -1], rng)
        return table.with_said(said)

    return of


def _clique(table: AnswerTable, rng: np.random.Generator) -> AnswerTable:
    """Return the last judge thrice more, as one family, each with its own noise on the log-odds."""
    last = len(table.judges) - 1
    columns = [*range(last), *[last] * (_COPIES + 1)]
    name = table.judges[last].id
    copies = [JudgeColumn(f"{name}#{n}", family=name) for n in range(1, _COPIES + 1)]
    judges = (*table.judges[:last], JudgeColumn(name, family=name), *copies)
    wide = table.with_judges(columns, judges)
    said = wide.said.copy()
    odds = log_odds(said[:, last + 1 :])
    said[:, last + 1 :] = expit(odds + rng.normal(0.0, _SPREAD, odds.shape))
    return wide.with_said(said)


NOISE: Mapping[str, NoiseModel] = {
    "clean": NoiseModel("nothing is changed", lambda table, _: table),
    "missing": NoiseModel("four answers of ten are missing, at random", _missing),
    "yes_sayer": NoiseModel(
        "the last judge always says yes", _last_says(lambda said, _: np.ones(len(said)))
    ),
    "guesser": NoiseModel(
        "the last judge guesses", _last_says(lambda said, rng: rng.random(len(said)))
    ),
    "adversary": NoiseModel(
        "the last judge says the opposite of what it thinks", _last_says(lambda said, _: 1.0 - said)
    ),
    "clique": NoiseModel(
        "three near copies of the last judge sit beside it, told as one family", _clique
    ),
}
"""Name → model."""
