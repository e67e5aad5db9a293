"""Simulate tables of answers whose truth is known, to test estimators with.

Truth. Every fact has a condition of its own that holds with the prevalence of the model that drew
the image; a fact holds if its own condition and those of its parents do. Conditions of one image
may go together (``item_spread``, ``image_spread``).

Errors. Each judge errs on a fact where a standard normal propensity, ``Z = a·D + √(1 − a²)·(√r·F +
√(1 − r)·U)``, is above the quantile of its error rate given the truth. ``D`` is the fact's
difficulty, the same for all judges; ``F`` is shared by the judges of a family, ``U`` is the judge's
own; ``r`` is its ``correlation``, and ``a²`` its ``difficulty_sensitivity``² times the
``difficulty`` of the facts. ``Z`` has unit variance, so sensitivity and specificity are what was
put in whatever the other numbers are, as averages over facts, while a hard fact (large ``D``) is
more often got wrong, as in GLAD (Whitehill et al., 2009). Errors of two judges have the tetrachoric
correlation :func:`error_correlation`: within a family ``r`` where all facts are equally hard.

Probabilities. A vote comes with a confidence that is larger the farther ``Z`` is from the
threshold, scaled so that an answer of probability q holds in a share q of the cases (per kind of
fact, over all models); then its log-odds are multiplied by the judge's ``temperature``.

Of honest answers of probability q a share q holds. A vote of yes that is right in a share m of the
cases has q = (1 + B) / 2, where B has a Beta distribution of mean 2m − 1; a vote of no likewise of
1 − q. Given whether the vote is right the density of B is then (1 + B) or (1 − B) times the Beta
density, to scale: both are mixtures of Beta distributions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.special import betainc, ndtr, ndtri

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    Mask,
    Places,
)

SceneKind = Literal["object", "attribute", "relation"]
"""Kinds of simulated facts."""

_CONCENTRATION = 4.0
"""a + b of the Beta distribution: spread wide, few near certainty."""
_LEAST = 0.02
"""Of the mean of B and of one minus it: a vote that says nothing still has a side."""
_GRID = 2001
_EDGE = 1e-6
_SURE: Array = expit(np.linspace(-15.0, 15.0, _GRID))
"""Values of B, dense at both ends."""


class VoteRates(BaseModel):
    """How often a judge's votes are right."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sensitivity: float = Field(ge=0.0, le=1.0)
    """P(yes | the fact holds)."""
    specificity: float = Field(ge=0.0, le=1.0)
    """P(no | the fact does not hold)."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a judge's votes of one side are."""

    a: float
    """First parameter of the Beta distribution of B."""
    b: float
    """The other."""
    honest: bool
    """Whether such votes are right more often than wrong."""

    @classmethod
    def of(cls, right: float) -> Self:
        """Of votes of which a share ``right`` is right.

        No probability above one half is honest for a vote that is more often wrong: it is as sure
        as if it were right as often as it is wrong.
        """
        mean = float(np.clip(abs(2.0 * right - 1.0), _LEAST, 1.0 - _LEAST))
        return cls(mean * _CONCENTRATION, (1.0 - mean) * _CONCENTRATION, right >= 0.5)

    def quantiles(self, correct: bool, ranks: Array) -> Array:
        """B of votes that are ``correct`` or not, at ``ranks`` in [0, 1] (n,), in (0, 1)."""
        found = np.interp(ranks, _below(self.a, self.b, correct == self.honest), _SURE)
        # A confidence of exactly 0 has no side, and one of 1 no log-odds to scale.
        result: Array = np.clip(found, _EDGE, 1.0 - _EDGE)
        return result


def confidences(rates: VoteRates, prevalence: float) -> tuple[Confidence, Confidence]:
    """Of votes of yes and of no by a judge of those rates where that share of facts holds."""
    se, sp = rates.sensitivity, rates.specificity
    return (
        _side(prevalence * se, (1.0 - prevalence) * (1.0 - sp)),
        _side((1.0 - prevalence) * sp, prevalence * (1.0 - se)),
    )


def stated(vote: float, sure: Array, temperature: float) -> Array:
    """Return the probability that goes with ``vote`` (1 or 0) and B = ``sure`` (n,).

    Its log-odds are multiplied by the temperature.
    """
    odds = (np.log1p(sure) - np.log1p(-sure)) * temperature
    return expit(odds if vote == 1.0 else -odds)


@lru_cache(maxsize=512)
def _below(a: float, b: float, likely: bool) -> Array:
    """Return the distribution function of B at :data:`_SURE`, given whether the vote is right.

    Its density is (1 + B) · Beta(a, b), or (1 − B) · Beta(a, b) where not ``likely``.
    """
    if not likely:
        result: Array = betainc(a, b + 1.0, _SURE)
        return result
    mean = a / (a + b)
    result = (betainc(a, b, _SURE) + mean * betainc(a + 1.0, b, _SURE)) / (1.0 + mean)
    return result


def _side(right: float, wrong: float) -> Confidence:
    return Confidence.of(right / (right + wrong) if right + wrong > 0.0 else 0.5)


Kinds = NDArray[np.str_]
_NODES = 80
"""Of the Gauss–Hermite integral over what an image's facts have in common."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SimulatedJudge(_Model):
    """A judge whose errors are known."""

    id: str = Field(min_length=1)
    """Its column."""
    family: str = ""
    """Judges of one family share errors by their ``correlation``; empty: it is its own."""
    sensitivity: float = Field(default=0.85, ge=0.0, le=1.0)
    """P(yes | the fact holds), for facts of kinds that ``kinds`` does not name."""
    specificity: float = Field(default=0.75, ge=0.0, le=1.0)
    """P(no | the fact does not hold), likewise."""
    kinds: Mapping[SceneKind, VoteRates] = {}
    """Other rates for facts of a kind."""
    correlation: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Tetrachoric correlation of its errors with those of a like judge of its family, given the
    truth and the difficulty of the fact; with an unlike one it is the root of the product of the
    two."""
    difficulty_sensitivity: float = Field(default=1.0, ge=0.0, le=1.0)
    """How much of the facts' difficulty reaches it; 0: all facts are alike to it."""
    temperature: float = Field(default=1.0, ge=0.1, le=10.0)
    """T that makes its probabilities honest again, by ``logit(p) / T``; above 1 it is too sure,
    below 1 too modest."""
    votes_only: bool = False
    """Whether it gives 0 and 1 and no probabilities."""
    unscored: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of answers, taken at random, that give nothing usable."""
    seconds: float = Field(default=0.0, ge=0.0)
    """Mean seconds of an answer; single ones are spread as Gamma(2) is."""
    usd: float = Field(default=0.0, ge=0.0)
    """Mean dollars of an answer; in proportion to its tokens."""
    tokens: float = Field(default=0.0, ge=0.0)
    """Mean tokens of an answer; single ones are spread as Gamma(16) is, about ±25 %."""

    def rates(self, kind: SceneKind) -> VoteRates:
        """Those on facts of ``kind``."""
        own = VoteRates(sensitivity=self.sensitivity, specificity=self.specificity)
        return self.kinds.get(kind, own)


class SimulatedModel(_Model):
    """What drew the images."""

    id: str
    """Its name in the table; empty where there is only one."""
    prevalence: float = Field(default=0.7, gt=0.0, lt=1.0)
    """P(a fact's own condition holds): its quality."""
    kinds: Mapping[SceneKind, float] = {}
    """Another prevalence for facts of a kind."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(0.0 < share < 1.0 for share in self.kinds.values()):
            raise ValueError("a prevalence must lie between 0 and 1")
        return self

    def holds(self, kind: SceneKind) -> float:
        """P(the own condition of a fact of ``kind`` holds)."""
        return self.kinds.get(kind, self.prevalence)


class SimulatedRaters(_Model):
    """People who rate every image from 1 to 5.

    ``1 + 4 × share of its facts that hold``, plus noise, rounded.
    """

    number: int = Field(default=3, ge=1)
    """Raters of each image."""
    noise: float = Field(default=0.7, ge=0.0)
    """Standard deviation of a rating before it is rounded, independent between raters."""


class SimulationSpec(_Model):
    """What is simulated."""

    judges: tuple[SimulatedJudge, ...] = Field(min_length=1)
    """The columns."""
    n_items: int = Field(default=100, ge=1)
    """Items; every model draws one image of each."""
    models: tuple[SimulatedModel, ...] = Field(default=(SimulatedModel(id=""),), min_length=1)
    """What draws them."""
    objects: int = Field(default=3, ge=0)
    """Facts of objects in an image."""
    attributes: int = Field(default=3, ge=0)
    """Facts of attributes; each depends on an object, in turn."""
    relations: int = Field(default=2, ge=0)
    """Facts of relations; each depends on two objects that follow each other."""
    dependent: bool = True
    """Whether attributes and relations depend on objects; False: no fact has parents."""
    item_spread: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the variance of what holds (on the normal scale) that the images of an item have in
    common: some prompts are harder to draw."""
    image_spread: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share that the facts of an image have in common besides."""
    difficulty: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of the variance of an error's propensity that is the fact's difficulty, for judges of
    ``difficulty_sensitivity`` 1; two of them have this tetrachoric correlation of errors."""
    question_share: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of that difficulty which belongs to the question, in all images of the item; the rest
    is the single image's."""
    raters: SimulatedRaters | None = None
    """People; None: no ratings."""
    seed: int = Field(default=0, ge=0)
    """Of all chance. A judge's answers do not change with the other judges."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for what, ids in (
            ("judges", [judge.id for judge in self.judges]),
            ("models", [model.id for model in self.models]),
        ):
            if len(set(ids)) != len(ids):
                raise ValueError(f"two {what} have one id: give each its own ({ids})")
        if self.objects + self.attributes + self.relations == 0:
            raise ValueError("an image needs a fact: set objects, attributes or relations")
        if self.item_spread + self.image_spread >= 1.0:
            raise ValueError("item_spread and image_spread together must stay below 1")
        return self


def simulate(spec: SimulationSpec) -> AnswerTable:
    """Return the table of ``spec``; equal specs give equal tables.

    The truth of every fact is known.
    """
    return next(simulations(spec))


def simulations(spec: SimulationSpec, number: int | None = None) -> Iterator[AnswerTable]:
    """Return independent tables of ``spec`` with the seeds ``spec.seed``, + 1, and so on.

    Endless without ``number``.
    """
    facts = _facts(spec)
    for seed in islice(count(spec.seed), number):
        yield _drawn(spec.model_copy(update={"seed": seed}), facts)


def expected_prevalence(spec: SimulationSpec) -> dict[SceneKind, float]:
    """Return the long-run share of facts that hold by kind, over all models.

    Kinds without facts are left out.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    shared = spec.item_spread + spec.image_spread
    found: dict[SceneKind, float] = {}
    for kind, number, parents in _plan(spec):
        if not number:
            continue
        # Given what its image has in common, the conditions of a fact and its parents are
        # independent of each other.
        given: dict[SceneKind, Array] = {}
        for each in ("object", kind):
            cut = np.array([ndtri(model.holds(each)) for model in spec.models])
            given[each] = ndtr((cut[:, None] - np.sqrt(shared) * nodes) / np.sqrt(1.0 - shared))
        found[kind] = float((given[kind] * given["object"] ** parents @ weights).mean())
    return found


def _plan(spec: SimulationSpec) -> tuple[tuple[SceneKind, int, int], ...]:
    """Kind, facts of it in an image, and parents of each."""
    there = min(spec.objects, 2) if spec.dependent else 0
    return (
        ("object", spec.objects, 0),
        ("attribute", spec.attributes, min(there, 1)),
        ("relation", spec.relations, there),
    )


def _facts(spec: SimulationSpec) -> tuple[FactRow, ...]:
    one: list[tuple[SceneKind, str, tuple[int, ...]]] = []
    for kind, number, parents in _plan(spec):
        for at in range(number):
            on = tuple((at + step) % spec.objects for step in range(parents))
            one.append((kind, f"{kind[0]}:{at + 1}", on))
    n = len(one)
    return tuple(
        FactRow(
            id=name,
            image=image,
            kind=kind,
            question=f"item {image // len(spec.models) + 1}, {kind} {name[2:]}",
            parents=tuple(image * n + parent for parent in on),
        )
        for image in range(spec.n_items * len(spec.models))
        for kind, name, on in one
    )


def _drawn(spec: SimulationSpec, facts: tuple[FactRow, ...]) -> AnswerTable:
    n_models = len(spec.models)
    n_images = spec.n_items * n_models
    per_image = len(facts) // n_images
    kinds = np.array([fact.kind for fact in facts])
    image_of = np.repeat(np.arange(n_images), per_image)
    # The number of each fact's question: the images of an item share it.
    question = image_of // n_models * per_image + np.tile(np.arange(per_image), n_images)
    truth = _truth(spec, facts, kinds, image_of)
    own = _normal(spec, len(facts), "difficulty")
    of_question = _normal(spec, spec.n_items * per_image, "question")[question]
    hard = np.sqrt(spec.question_share) * of_question + np.sqrt(1.0 - spec.question_share) * own
    prevalence = expected_prevalence(spec)
    columns = [_answers(spec, judge, truth, kinds, hard, prevalence) for judge in spec.judges]
    share = truth.reshape(n_images, per_image).mean(1)
    ratings = _ratings(spec, share)
    return AnswerTable(
        name="simulation",
        judges=tuple(
            JudgeColumn(
                id=judge.id,
                family=judge.family,
                fingerprint=hashlib.sha256(judge.model_dump_json().encode()).hexdigest()[:16],
            )
            for judge in spec.judges
        ),
        images=tuple(
            ImageRow(
                id=f"{item + 1}" + (f"/{model.id}" if model.id else ""),
                item=str(item + 1),
                model=model.id,
                ratings=ratings[item * n_models + at],
            )
            for item in range(spec.n_items)
            for at, model in enumerate(spec.models)
        ),
        facts=facts,
        asked=np.ones((len(facts), len(spec.judges)), bool),
        truth=truth,
        **{name: np.stack([column[name] for column in columns], axis=1) for name in columns[0]},
    )


def _truth(
    spec: SimulationSpec, facts: tuple[FactRow, ...], kinds: Kinds, image_of: Places
) -> Array:
    n_models = len(spec.models)
    n_images = spec.n_items * n_models
    item = _normal(spec, spec.n_items, "items")[image_of // n_models]
    image = _normal(spec, n_images, "images")[image_of]
    own = _normal(spec, len(facts), "facts")
    z = (
        np.sqrt(spec.item_spread) * item
        + np.sqrt(spec.image_spread) * image
        + np.sqrt(1.0 - spec.item_spread - spec.image_spread) * own
    )
    cut = np.zeros(len(facts))
    for at, model in enumerate(spec.models):
        for kind, _, _ in _plan(spec):
            cut[(image_of % n_models == at) & (kinds == kind)] = ndtri(model.holds(kind))
    holds: Mask = z <= cut
    # Only objects have children, and they have no parents themselves.
    for row, fact in enumerate(facts):
        holds[row] &= all(holds[parent] for parent in fact.parents)
    return holds.astype(float)


def _answers(
    spec: SimulationSpec,
    judge: SimulatedJudge,
    truth: Array,
    kinds: Kinds,
    hard: Array,
    prevalence: Mapping[SceneKind, float],
) -> dict[str, Array]:
    n = len(truth)
    family = _normal(spec, n, "family", judge.family or judge.id)
    own = _normal(spec, n, "judge", judge.id)
    a = _loading(spec, judge)
    z = a * hard + np.sqrt(1.0 - a**2) * (
        np.sqrt(judge.correlation) * family + np.sqrt(1.0 - judge.correlation) * own
    )
    below = ndtr(z)
    votes, said = np.zeros(n), np.zeros(n)
    for kind in prevalence:
        rates = judge.rates(kind)
        sides = confidences(rates, prevalence[kind])
        for holds, right in ((1.0, rates.sensitivity), (0.0, rates.specificity)):
            rows = np.flatnonzero((kinds == kind) & (truth == holds))
            correct = below[rows] < right
            for is_right in (True, False):
                at = rows[correct == is_right]
                vote = holds if is_right else 1.0 - holds
                votes[at] = vote
                # Far from the threshold the judge is sure.
                ranks = 1.0 - below[at] / right if is_right else (below[at] - right) / (1.0 - right)
                side = sides[0] if vote == 1.0 else sides[1]
                sure = side.quantiles(is_right, np.clip(ranks, 0.0, 1.0))
                said[at] = stated(vote, sure, judge.temperature)
    if judge.votes_only:
        said = votes.copy()
    silent = _rng(spec, "unscored", judge.id).random(n) < judge.unscored
    said[silent] = votes[silent] = np.nan
    length = _rng(spec, "tokens", judge.id).gamma(16.0, 1.0 / 16.0, n)
    return {
        "said": said,
        "votes": votes,
        "tokens": np.round(judge.tokens * length),
        "usd": judge.usd * length,
        "seconds": judge.seconds * _rng(spec, "seconds", judge.id).gamma(2.0, 0.5, n),
    }


def _ratings(spec: SimulationSpec, share: Array) -> list[tuple[float, ...]]:
    if spec.raters is None:
        return [()] * len(share)
    noise = _rng(spec, "raters").normal(0.0, spec.raters.noise, (len(share), spec.raters.number))
    given = np.clip(np.round(1.0 + 4.0 * share[:, None] + noise), 1.0, 5.0)
    return [tuple(row) for row in given.tolist()]


def _loading(spec: SimulationSpec, judge: SimulatedJudge) -> float:
    return float(judge.difficulty_sensitivity * np.sqrt(spec.difficulty))


def _rng(spec: SimulationSpec, *names: str) -> np.random.Generator:
    """Return a stream for one purpose, so that one more judge changes no other's answers."""
    digest = hashlib.sha256("\0".join(names).encode()).digest()
    return np.random.default_rng([spec.seed, int.from_bytes(digest[:8], "big")])


def _normal(spec: SimulationSpec, n: int, *names: str) -> Array:
    drawn: Array = _rng(spec, *names).standard_normal(n)
    return drawn
