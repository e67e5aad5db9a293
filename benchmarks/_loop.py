"""Runs of one scene that share models, and scores with intervals from their counts of verdicts.

A measure is a weighted sum of recalls by kind of fact (objects, attributes, relations), so a
scene is one array: for each kind, the weight times the share of facts judged *yes*, and
the weight times the share judged *no*. Void facts are in the shares' denominator and in
neither share.

**Correction.** A judge of sensitivity Se and specificity Sp finds a share
``q = Se·π + (1−Sp)·(1−π)`` of facts of which the share π holds. Rogan & Gladen (1978) solve it
for π: ``π = (q + Sp − 1) / (Se + Sp − 1)``. Applied to ``yes`` of ``yes + no`` asked facts that
is ``(Sp·yes − (1−Sp)·no) / (Se + Sp − 1)`` facts that hold. It is linear, so it is taken of means
over scenes and never clipped scene by scene, which would bias it.

**Voids.** Se and Sp are measured on facts whose objects are there, which are the ones a run
asks. So asked facts alone are corrected; a void fact stays void and counts as not satisfied,
as in the score itself. Not corrected: an object wrongly called absent keeps its
dependants void (the corrected score is then too low), and a fact that was asked because an
absent object was called present is corrected as if that object were there.

**Intervals** are 95% percentile intervals of a bootstrap over scenes. Those of corrected
figures also redraw Se and Sp (Jeffreys posterior of the counts behind them), so that a judge
measured on few facts gives wide intervals. Scores and their interval ends are clipped to
[0, 1], differences are not.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from benchmarks._harness import RESAMPLES, spread
from benchmarks._models import shared
from benchmarks._scenes import LEVELS, AnyLevel
from scenewright.agents.panel.scores import LEAST_YOUDEN, rogan_gladen
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.facts import FACT_KINDS, Fact, FactKind, Recall, ScoreCard
from scenewright.core.scene import SceneGraph
from scenewright.graphs.events import Role
from scenewright.graphs.record import improves
from scenewright.graphs.strategies.base import Attempt, attempts_of
from scenewright.runs.api import refine
from scenewright.runs.model_factory.profiles import RunModels
from scenewright.runs.result import RoundRecord, RunResult

Measure = Literal["sgscore", "objects", "attributes", "relations", "facts"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
QUICK_STEPS = 8
"""Denoising steps of ``--quick``."""
WHOLE: Mapping[str, Any] = {"repair": "whole", "weight_best": 0.5, "weight_missing": 0.5}
"""The paper's form of feedback: the whole picture is drawn again with λ0 = λ1 = 0.5."""
_FLOOR = 0.02


class Marks(BaseModel):
    """A score card without its single verdicts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objects: Recall
    attributes: Recall
    relations: Recall
    alpha: float = Field(ge=0.0, le=1.0)
    """Weight of the objects in SGScore."""

    @classmethod
    def of(cls, card: ScoreCard) -> Marks:
        """Return the counts of ``card``."""
        return cls.model_validate(card.model_dump(include=set(cls.model_fields)))


class Kept(BaseModel):
    """The image that a strategy keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    round: int
    images: int
    """Images drawn by then or until the run stopped, references included."""
    loop: Marks
    """Counts by the judges that chose it."""
    report: Marks
    """Counts by judges that the loop never saw."""


def overridden(profile: Profile, changes: Mapping[str, Any]) -> Profile:
    """Return ``profile`` with some fields changed, checked as any profile is.

    Raises pydantic's ``ValidationError`` for unknown fields and wrong values.
    """
    return Profile.model_validate(profile.model_dump() | dict(changes))


def miniature(quick: bool, changes: Mapping[str, Any] | None = None) -> Profile:
    """Return the miniature's profile, with few denoising steps for a quick run."""
    steps = {"steps": QUICK_STEPS} if quick else {}
    return overridden(BUILT_IN["miniature"], steps | dict(changes or {}))


async def refined(
    scene: SceneGraph,
    at: int,
    profile: Profile,
    models: RunModels,
    runs: Mapping[str, Mapping[str, Any]],
    scratch: Path | None,
    **common: Any,
) -> AsyncIterator[tuple[str, RunResult]]:
    """Yield the result of each of ``runs``, which draw and ask what they have in common once.

    ``runs`` maps a name to options of ``refine``, beside ``common``; ``profile`` among them changes
    fields of the profile. None of them stops out of patience. The seed is ``at``. Run folders last
    until the next result.
    """
    once = shared(models)
    with tempfile.TemporaryDirectory(prefix="bench-loop-", dir=scratch) as folder:
        for name, own in runs.items():
            options = {**common, **own}
            changed = overridden(profile, options.pop("profile", {}))
            options.setdefault("judges", once.loop_judges)
            options.setdefault("report_judges", once.report_judges)
            if options.get("realism"):
                options |= {"realism_judges": once.realism_judges, "realism_report_judges": []}
            yield (
                name,
                await refine(
                    scene,
                    changed,
                    out=Path(folder) / name,
                    seed=at,
                    patience=options["rounds"],
                    backend=once.backend,
                    **options,
                ),
            )


def kept_until(rounds: Sequence[RoundRecord], last: int, facts: Sequence[Fact]) -> RoundRecord:
    """Return the candidate that the loop would keep if it ended with round ``last``.

    Raises ``ValueError`` if a round has no score card of the loop's judges.
    """
    best: tuple[RoundRecord, ScoreCard] | None = None
    for record in rounds:
        if record.round > last:
            break
        if record.loop_card is None:
            raise ValueError(f"round {record.round} was not judged: the run is not over")
        if best is None or improves(record.loop_card, best[1], facts):
            best = (record, record.loop_card)
    if best is None:
        raise ValueError("the run has no rounds")
    return best[0]


def images_until(rounds: Sequence[RoundRecord], last: int) -> int:
    """Count the images drawn in the rounds up to ``last``, references included."""
    drawn = [record for record in rounds if record.round <= last]
    return len(drawn) + sum(record.reference_image is not None for record in drawn)


def rounds_tried(result: RunResult, role: Role = "loop") -> tuple[Attempt, ...]:
    """Return what each later round gained and lost, as the judges of ``role`` see it."""
    cards = {r.round: card for r in result.rounds if (card := r.card(role)) is not None}
    acting = {r.round: r.strategy for r in result.rounds if r.strategy}
    return attempts_of(cards, acting, result.facts)


def lost_a_round(result: RunResult, role: Role = "loop") -> float | None:
    """Return the mean of the facts that a round lost; None where there was no second round."""
    lost = [len(attempt.broken) for attempt in rounds_tried(result, role)]
    return sum(lost) / len(lost) if lost else None


def steps_of(profile: Profile, models: RunModels) -> int:
    """Return the denoising steps of a full picture: its work."""
    return profile.steps or models.backend.features.default_steps


def read(result: RunResult, last: int) -> Kept:
    """Return what a strategy that ends with round ``last`` keeps of a finished run."""
    record = kept_until(result.rounds, last, result.facts)
    if record.loop_card is None or record.report_card is None:
        raise ValueError("the run has no score card of report judges: give the profile some")
    return Kept(
        round=record.round,
        images=images_until(result.rounds, last),
        loop=Marks.of(record.loop_card),
        report=Marks.of(record.report_card),
    )


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A judge's accuracy on one kind of fact."""

    sensitivity: float
    specificity: float
    n_true: int = 0
    """Facts behind the sensitivity; 0: it is exact."""
    n_false: int = 0
    """Facts behind the specificity; 0: it is exact."""

    @property
    def youden(self) -> float:
        """Se + Sp − 1: 0 is guessing, 1 is never wrong."""
        return self.sensitivity + self.specificity - 1.0

    def drawn(self, rng: np.random.Generator, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Draw ``size`` pairs of Se and Sp that the counts behind them allow."""
        pairs = ((self.sensitivity, self.n_true), (self.specificity, self.n_false))
        se, sp = (
            rng.beta(share * n + 0.5, (1.0 - share) * n + 0.5, size) if n else np.full(size, share)
            for share, n in pairs
        )
        return se, sp


def accuracies(report: Mapping[str, Any], pictures: str = "painted") -> dict[FactKind, Accuracy]:
    """Return the accuracy by kind in a judge's ``report.json``, on ``pictures``.

    These are a title of the report: as painted, or a harder level. A kind without ``sensitivity``
    and ``specificity`` is left out.
    """
    painted = report.get(pictures, {})
    return {
        kind: Accuracy(
            float(figures["sensitivity"]),
            float(figures["specificity"]),
            int(figures.get("true", 0)),
            int(figures.get("false", 0)),
        )
        for kind in FACT_KINDS
        if {"sensitivity", "specificity"} <= (figures := painted.get(kind, {})).keys()
    }


def weights(marks: Marks, measure: Measure) -> dict[str, float] | None:
    """Return the weight of each recall in the measure: sums to 1; None if nothing was scored.

    SGScore is Eq. 4 with α of the card; without facts of one side it is the other, as in
    ``ScoreCard``; ``facts`` weighs every scored fact alike.
    """
    scored = {name: r.yes + r.no + r.void for name, r in _recalls(marks).items()}
    if measure == "sgscore":
        wanted = {"objects": marks.alpha, "relations": 1.0 - marks.alpha}
    else:
        wanted = scored if measure == "facts" else {measure: 1.0}  # type: ignore[assignment]
    known = {name: weight for name, weight in wanted.items() if scored[name]}
    lost = [name for name in wanted if _recalls(marks)[name].total and not scored[name]]
    if not known or (measure == "sgscore" and lost):
        return None
    if measure == "sgscore" and len(known) == 1:
        return dict.fromkeys(known, 1.0)
    total = sum(known.values())
    return {name: weight / total for name, weight in known.items()}


def _recalls(marks: Marks) -> dict[str, Recall]:
    return {f"{kind}s": getattr(marks, f"{kind}s") for kind in FACT_KINDS}


def parts(marks: Marks, measure: Measure) -> NDArray[Any] | None:
    """Return (kinds, 2): weight times share of *yes*, weight times share of *no*.

    The sum of the first column is the measure as judged. None if nothing was scored.
    """
    shares = weights(marks, measure)
    if shares is None:
        return None
    result = np.zeros((len(FACT_KINDS), 2))
    for at, (name, recall) in enumerate(_recalls(marks).items()):
        if name in shares:
            scored = recall.yes + recall.no + recall.void
            result[at] = shares[name] * recall.yes / scored, shares[name] * recall.no / scored
    return result


def stacked(marks: Sequence[Marks], measure: Measure) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return (array (scenes, kinds, 2), mask of the scenes in which the measure is defined)."""
    found = [parts(one, measure) for one in marks]
    known = np.array([shares is not None for shares in found], bool)
    empty = np.zeros((len(FACT_KINDS), 2))
    arrays = [empty if shares is None else shares for shares in found]
    return np.array(arrays).reshape(len(found), *empty.shape), known


def can_correct(shares: NDArray[Any], accuracy: Mapping[FactKind, Accuracy]) -> bool:
    """Return whether every kind with a part in ``shares`` (scenes, kinds, 2) has a usable judge."""
    used = [kind for at, kind in enumerate(FACT_KINDS) if shares[:, at].any()]
    return all(kind in accuracy and accuracy[kind].youden >= LEAST_YOUDEN for kind in used)


def _corrected(shares: NDArray[Any], se: NDArray[Any], sp: NDArray[Any]) -> NDArray[Any]:
    """Apply Rogan–Gladen to ``shares`` (…, kinds, 2) with Se and Sp (…, kinds) → (…)."""
    summed: NDArray[Any] = rogan_gladen(shares[..., 0], shares[..., 1], se, sp, least=_FLOOR).sum(
        -1
    )
    return summed


def estimate(
    shares: NDArray[Any],
    accuracy: Mapping[FactKind, Accuracy] | None = None,
    *,
    bounded: bool = True,
    seed: int = 0,
) -> dict[str, float]:
    """Return the mean over scenes with its 95% interval.

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
    whole = shares.mean(0)
    if accuracy is None:
        found = spread([whole[..., 0].sum(-1), *drawn[..., 0].sum(-1)])
    else:
        if not can_correct(shares, accuracy):
            raise ValueError("the judge's accuracy is unknown or near chance: do not correct")
        judges = [accuracy.get(kind, Accuracy(1.0, 1.0)) for kind in FACT_KINDS]
        se, sp = np.array([(judge.sensitivity, judge.specificity) for judge in judges]).T
        se_drawn, sp_drawn = np.array([judge.drawn(rng, RESAMPLES) for judge in judges]).T.swapaxes(
            0, 1
        )
        found = spread([_corrected(whole, se, sp), *_corrected(drawn, se_drawn, sp_drawn)])
    return {k: min(1.0, max(0.0, v)) for k, v in found.items()} if bounded else found


def score_figures(
    cards: Mapping[str, Sequence[Marks]],
    gains: Mapping[str, tuple[str, str]],
    measures: Sequence[Measure],
    prefix: str = "",
    accuracy: Mapping[FactKind, Accuracy] | None = None,
) -> dict[str, Any]:
    """Return ``MEASURE.STRATEGY`` and the paired differences ``gain.[MEASURE_]NAME``.

    ``cards``: strategy → its counts, scene by scene; ``gains``: name → the two strategies. With a
    usable ``accuracy`` there are figures ``corrected.…`` as well. ``prefix`` precedes both.
    """
    plain: dict[str, Any] = {}
    mended: dict[str, Any] = {}
    for measure in measures:
        tables = {name: stacked(marks, measure) for name, marks in cards.items()}
        asked = {f"{measure}.{name}": (*table, True) for name, table in tables.items()}
        part = "" if measure == "sgscore" else f"{measure}_"
        for name, (ours, theirs) in gains.items():
            (a, known_a), (b, known_b) = tables[ours], tables[theirs]
            asked[f"gain.{part}{name}"] = a - b, known_a & known_b, False
        usable = accuracy is not None and all(
            can_correct(shares[known], accuracy) for shares, known in tables.values()
        )
        for key, (shares, known, bounded) in asked.items():
            if known.any():
                plain[f"{prefix}{key}"] = estimate(shares[known], bounded=bounded)
                if usable:
                    mended[f"corrected.{prefix}{key}"] = estimate(
                        shares[known], accuracy, bounded=bounded
                    )
    return plain | mended


def level_parts(rows: Sequence[Any], levels: Sequence[AnyLevel] = LEVELS) -> dict[str, list[Any]]:
    """Return prefix of keys → rows: all of them, and those of each level that has some."""
    if not rows:
        raise ValueError("no scenes: nothing was measured")
    parts = {f"{level}.": [row for row in rows if row.level == level] for level in levels}
    return {"": list(rows), **{prefix: some for prefix, some in parts.items() if some}}


def verb(gain: Mapping[str, float], tied: str) -> str:
    """Say what the interval of a difference allows to say."""
    return "beats" if gain["low"] > 0 else "falls behind" if gain["high"] < 0 else tied
