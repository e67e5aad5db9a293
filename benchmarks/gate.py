"""How many pictures does the gate need, and how often is it wrong?

``python -m benchmarks.gate [--quick] [--data FOLDER] [--work FOLDER] [--scenes N]
[--sequences N]``. Differences of SGScore between two ways of drawing the same scenes are resampled,
and the gate (:mod:`scenewright.evals.statistics.sequential`) decides on each sequence. Their noise
is that of

- ``dsg``: real pictures, five text-to-image models on the prompts of TIFA160, judged by three
  released judges (the DSG release); a scene's score is the share of its facts that the majority
  affirms. All ten pairs of models;
- ``miniature``: the miniature with its default settings against a changed one (fewer steps, another
  composer), with the same seeds, scored by its report judges.

The loss is that of real pairs: the differences are weighted (exponential tilting) to a mean of −3
points. Where nothing is lost, they are the same with either sign; ``….skewed`` is the worst of all
pairs tilted to a mean of 0, in both directions, with their skewness. Everything is at alpha .05 and
power .9.

- ``power``, ``false_alarms``: the gate's shares of "worse" at −3 points, and at 0; ``passed``: of
  "not worse" at −3; the worst pair of all is in ``….worst``;
- ``sample_share``: mean scenes at −3 points over those of the paired t-test of fixed size with the
  same errors (:func:`fixed_size`); ``sample_share.loss_N`` at other losses, in points;
- ``picture_share.finished_baseline``: pictures that the gate draws at −3 points if the baseline's
  are there, over those of the fixed test that draws both sides: half of ``sample_share``;
- ``….failures``: the same 3 points, lost by 6 % of the scenes that fall by half while nothing
  changes in the others, against the fixed size for that;
- ``sample_share.oracle``: that of Wald's test, which knows the noise: the least of any test for
  normal differences; ``sample_share.limit``: (1 − β) log(…) over the fastest growth that a test of
  the mean of these differences can have, whatever their shape;
- peers at the same sequences: ``fixed`` (the t-test), ``peeking`` (the t-test after each batch of
  ten scenes: what the gate replaces), ``group_sequential`` (ten looks, Pampallona & Tsiatis with
  Δ = 0.25), ``normal`` (Wald's test with the variance estimated on the way);
- ``false_alarms.repairing``: "worse" where nothing is lost on average, and a few scenes gain all
  that can be gained while the others lose a little (:data:`REPAIRED`, in the worst pair);
- ``covariate_r2``: share of the variance of the differences that difficulty (the mean score of the
  other models) explains; ``allocation``: variance that is left if scenes are drawn in proportion to
  the noise of their third of difficulty.
"""

from __future__ import annotations

import asyncio
import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import (
    Option,
    Skipped,
    benchmark,
    eval_progress,
    folder,
    interval,
    prefixed,
    release,
    work_folder,
)
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.statistics.sequential import Rule, crossings, fixed_size, oracle_share

Array = NDArray[Any]
RULE = Rule()
LOSSES = (0, 3, 6, 10)
LOOKS = 10
MOST_NEEDED = 250
"""Shortest sequence: what the gate needs where there is no noise fits in it."""
REPAIRED = 0.03
"""Share of scenes that a candidate repairs from nothing to all."""
FAILURE = 0.5
"""Loss of a scene that fails."""
FIRST = 20
"""Scenes before which the normal test does not decide."""
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "steps_1": {"steps": 1},
    "steps_2": {"steps": 2},
    "triplets": {"composer": "triplets"},
}


@dataclass(frozen=True, slots=True)
class Noise:
    """Differences of one pair of arms, and how difficult their scenes are."""

    name: str
    differences: Array
    difficulty: Array
    """(n,), what is known of each scene without the two pictures."""

    def tilted(self, mean: float, sign: float = 1.0) -> tuple[Array, Array]:
        """Return differences and probabilities with that mean, after a turn by ``sign``."""
        d = sign * self.differences
        low, high = -60.0, 60.0
        for _ in range(80):
            at = (low + high) / 2
            weights = np.exp(at * (d - d.mean()))
            weights /= weights.sum()
            low, high = (at, high) if float(weights @ d) < mean else (low, at)
        return d, weights

    @property
    def usable(self) -> bool:
        """Return whether it has differences on both sides that can be tilted to every loss."""
        d = self.differences
        return bool((d > 0).any() and d.min() < -LOSSES[-1] / 100)


def dsg_noise(place: Path) -> list[Noise]:
    """Return the pairs of models of the DSG release."""
    from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release

    table = load_dsg_release(place)
    votes = np.asarray(table.votes, float)
    fact_image = np.array([fact.image for fact in table.facts])
    with np.errstate(all="ignore"):
        held = np.where(np.isnan(votes).all(1), np.nan, np.nanmean(votes, 1) > 0.5)
    known = ~np.isnan(held)
    n = len(table.images)
    counts = np.bincount(fact_image[known], minlength=n)
    sums = np.bincount(fact_image[known], held[known], n)
    items = sorted({image.item for image in table.images})
    models = sorted({image.model for image in table.images})
    scores = np.full((len(items), len(models)), np.nan)
    for at, image in enumerate(table.images):
        if counts[at]:
            place_of = items.index(image.item), models.index(image.model)
            scores[place_of] = sums[at] / counts[at]
    return pairs_of(scores, models)


def pairs_of(scores: Array, names: Sequence[str]) -> list[Noise]:
    """Return every pair of columns of ``scores`` (scenes, arms), the worse arm second."""
    found = []
    for a, b in combinations(range(len(names)), 2):
        known = ~np.isnan(scores).any(1)
        part = scores[known]
        if part[:, b].mean() > part[:, a].mean():
            a, b = b, a
        others = [at for at in range(len(names)) if at not in (a, b)]
        difficulty = part[:, others].mean(1)
        found.append(Noise(f"{names[a]}-{names[b]}", part[:, b] - part[:, a], difficulty))
    return found


async def miniature_noise(place: Path, scenes: int, quick: bool) -> list[Noise]:
    """Draw and judge scenes with the miniature, and return the pairs of its settings."""
    names = ("default", "steps_2") if quick else tuple(CHANGES)
    config = EvalConfig.model_validate(
        {
            "name": "gate",
            "dataset": {"name": "miniature", "options": {"n": scenes, "seed": 17}},
            "conditions": names,
            "condition": {name: {"profile": CHANGES[name]} for name in names},
            "side_by_side": False,
        }
    )
    results = await run_eval(config, place / "miniature", on_progress=eval_progress("miniature"))
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    for row in results.rows("scores", ["item", "condition", "metric", "part", "value"]):
        if row["metric"] == "sgscore" and not row["part"] and row["value"] is not None:
            values[row["condition"]][row["item"]] = row["value"]
    items = sorted(set.intersection(*(set(of) for of in values.values())))
    scores = np.array([[values[name][item] for name in names] for item in items])
    return [noise for noise in pairs_of(scores, names) if "default" in noise.name]


Test = Callable[[Array], tuple[Array, Array, Array]]
"""Differences (trials, n) → "worse", "not worse" and scenes, each (trials,)."""


def gate(d: Array) -> tuple[Array, Array, Array]:
    """Decide as the gate does."""
    worse, sound = crossings(d, RULE)
    return worse < sound, sound < worse, np.minimum(np.minimum(worse, sound), d.shape[1])


def normal(d: Array) -> tuple[Array, Array, Array]:
    """Decide as Wald's test of a normal mean does, with the variance so far."""
    n = np.arange(1, d.shape[1] + 1)
    total, square = np.cumsum(d, 1), np.cumsum(d * d, 1)
    variance = (5 * 0.15**2 + square - total**2 / n) / (5 + n)
    ratio = (-RULE.margin * total - n * RULE.margin**2 / 2) / variance
    ratio[:, : FIRST - 1] = 0.0
    beta = 1 - RULE.power
    up, down = math.log(RULE.power / RULE.alpha), math.log(beta / (1 - RULE.alpha))
    return _first(ratio >= up, ratio <= down)


def _first(up: NDArray[np.bool_], down: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    never = up.shape[1] + 1
    a, b = (np.where(x.any(1), x.argmax(1) + 1, never) for x in (up, down))
    return a < b, b < a, np.minimum(np.minimum(a, b), never - 1)


def t_values(d: Array) -> Array:
    """Return t of the mean after each difference."""
    n = np.arange(1, d.shape[1] + 1)
    total, square = np.cumsum(d, 1), np.cumsum(d * d, 1)
    variance = np.maximum(square - total**2 / n, 1e-12) / np.maximum(n - 1, 1)
    return np.asarray(total / np.sqrt(n * variance))


class GroupSequential:
    """Ten looks with boundaries of Pampallona and Tsiatis (1994), calibrated on normal sums."""

    def __init__(self, paths: int, shape: float = 0.25) -> None:
        rng = np.random.default_rng(11)
        steps = rng.standard_normal((paths, LOOKS)) / math.sqrt(LOOKS)
        self._t = np.arange(1, LOOKS + 1) / LOOKS
        walk = np.cumsum(steps, 1)
        power = self._t ** (shape - 0.5)

        def errors(up: float, down: float) -> tuple[float, float]:
            drift = up + down
            floor = drift * np.sqrt(self._t) - down * power
            found = []
            for mean in (0.0, drift):
                z = (walk + mean * self._t) / np.sqrt(self._t)
                worse, _, _ = _first(z >= up * power, z < floor)
                found.append(float(worse.mean()))
            return found[0], 1 - found[1]

        up, down = 1.7, 1.3
        for _ in range(60):
            alpha, beta = errors(up, down)
            up += 2.0 * (alpha - RULE.alpha)
            down += 1.5 * (beta - (1 - RULE.power))
        self.up = up * power
        self.drift = up + down
        self.down = self.drift * np.sqrt(self._t) - down * power

    def most(self, size: int) -> int:
        """Return the scenes of its last look, where the fixed test has ``size``."""
        z = 1.6449 + 1.2816
        return math.ceil(size * (self.drift / z) ** 2)

    def __call__(self, d: Array, size: int) -> tuple[Array, Array, Array]:
        """Decide."""
        at = np.ceil(self.most(size) * self._t).astype(int)
        z = -t_values(d)[:, at - 1]
        worse, sound, looks = _first(z >= self.up, z < self.down)
        return worse, sound, at[looks.astype(int) - 1]


@dataclass(frozen=True, slots=True)
class Trials:
    """Sequences of one pair."""

    noise: Noise
    size: int
    """Scenes of the fixed test."""
    failing: int
    """The same for losses of few scenes."""
    drawn: Mapping[str, Array]
    """Case (``loss_3``, ``same``, ``skewed``, ``failures``, …) → differences (trials, n)."""


def trials_of(noise: Noise, trials: int, seed: int) -> Trials:
    """Draw the sequences of a pair; each is at least three times as long as the fixed test."""
    rng = np.random.default_rng(seed)
    d, weights = noise.tilted(-RULE.margin)
    deviation = math.sqrt(float(weights @ (d + RULE.margin) ** 2))
    size = fixed_size(deviation, RULE)

    def draw(values: Array, chances: Array, n: int = 3 * size) -> Array:
        return np.asarray(rng.choice(values, (trials, max(n, MOST_NEEDED)), p=chances))

    drawn = {f"loss_{loss}": draw(*noise.tilted(-loss / 100)) for loss in LOSSES if loss}
    both, chances = np.concatenate([d, -d]), np.concatenate([weights, weights]) / 2
    drawn["same"] = draw(both, chances)
    share = RULE.margin / FAILURE
    both, chances = np.append(both, -FAILURE), np.append(chances * (1 - share), share)
    deviation = math.sqrt(float(chances @ (both + RULE.margin) ** 2))
    failing = fixed_size(deviation, RULE)
    drawn["failures"] = draw(both, chances, 3 * failing)
    gained = np.append(both[:-1] - REPAIRED / (1 - REPAIRED), 1.0).clip(-1.0, 1.0)
    chances = np.append(chances[:-1] / chances[:-1].sum() * (1 - REPAIRED), REPAIRED)
    drawn["repairing"] = draw(gained, chances)
    drawn["skewed"], drawn["mirrored"] = (draw(*noise.tilted(0.0, sign)) for sign in (1.0, -1.0))
    return Trials(noise, size, failing, drawn)


def figures_of(noises: Sequence[Noise], trials: int, groups: GroupSequential) -> dict[str, Any]:
    """Return the figures of one source of noise; intervals are over its pairs and trials."""
    found: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(float(value))

    shares: dict[str, list[Array]] = {}

    def keep(name: str, values: Array) -> None:
        shares.setdefault(name, []).append(np.asarray(values, float))

    for at, noise in enumerate(noises):
        sequences = trials_of(noise, trials, at)
        size, drawn = sequences.size, sequences.drawn
        for name, values in _decisions(drawn, size, groups):
            keep(name, values)
        worse, _, scenes = gate(drawn["failures"])
        keep("power.failures", worse)
        keep("sample_share.failures", scenes / sequences.failing)
        note("fixed_size.failures", sequences.failing)
        note("fixed_size", size)
        note("sample_share.limit", _limit(noise, size))
        note("deviation", noise.differences.std(ddof=1))
        note("covariate_r2", _explained(noise))
        note("allocation", _allocation(noise))
    figures: dict[str, Any] = {name: interval(values) for name, values in found.items()}
    for name, of_pairs in shares.items():
        # Trials of a pair share its noise, so that pairs are the unit.
        figures[name] = interval([values.mean() for values in of_pairs])
    for name, worst in (("power", min), ("false_alarms", max), ("sample_share", max)):
        figures[f"{name}.worst"] = worst(float(v.mean()) for v in shares[name])
    for name in ("false_alarms.repairing", "fixed.false_alarms.repairing"):
        figures[name] = float(max(v.mean() for v in shares[name]))
    skewed = [v.mean() for name in ("skewed", "mirrored") for v in shares[f"false_alarms.{name}"]]
    figures["false_alarms.skewed"] = float(max(skewed))
    del figures["false_alarms.mirrored"]
    fixed = [v.mean() for n in ("skewed", "mirrored") for v in shares[f"fixed.false_alarms.{n}"]]
    figures["fixed.false_alarms.skewed"] = float(max(fixed))
    del figures["fixed.false_alarms.mirrored"]
    return figures


def _decisions(
    drawn: Mapping[str, Array], size: int, groups: GroupSequential
) -> Iterator[tuple[str, Array]]:
    """Yield what the gate and its peers decide on the sequences of a pair, by figure."""
    for loss in LOSSES:
        case = drawn[f"loss_{loss}"] if loss else drawn["same"]
        worse, sound, scenes = gate(case)
        suffix = "" if loss == 100 * RULE.margin else f".loss_{loss}"
        yield f"sample_share{suffix}", scenes / size
        if not suffix:
            yield "power", worse
            yield "passed", sound
            yield "scenes", scenes
            yield "picture_share.finished_baseline", scenes / (2 * size)
        elif loss:
            yield f"power{suffix}", worse
        else:
            yield "false_alarms", worse
            yield "passed.loss_0", sound
    peers: dict[str, Test] = {
        "normal": normal,
        "group_sequential": lambda d: groups(d, size),
    }
    for name, test in peers.items():
        worse, _, scenes = test(drawn["loss_3"])
        yield f"{name}.power", worse
        yield f"{name}.sample_share", scenes / size
        yield f"{name}.false_alarms", test(drawn["same"])[0]
    for skew in ("skewed", "mirrored"):
        yield f"false_alarms.{skew}", gate(drawn[skew])[0]
        yield f"fixed.false_alarms.{skew}", t_values(drawn[skew])[:, size - 1] < -1.645
    yield "false_alarms.repairing", gate(drawn["repairing"])[0]
    yield "fixed.false_alarms.repairing", t_values(drawn["repairing"])[:, size - 1] < -1.645
    same = t_values(drawn["same"])
    yield "fixed.power", t_values(drawn["loss_3"])[:, size - 1] < -1.645
    yield "fixed.false_alarms", same[:, size - 1] < -1.645
    yield "peeking.false_alarms", (same[:, FIRST - 1 : size : 10] < -1.645).any(1)


def _limit(noise: Noise, size: int) -> float:
    """Return the share of the fastest bets on the mean, which know the distribution."""
    d, weights = noise.tilted(-RULE.margin)
    growth = max(float(weights @ np.log1p(-stake * d)) for stake in np.linspace(0.01, 0.999, 300))
    beta = 1 - RULE.power
    needed = RULE.power * math.log(RULE.power / RULE.alpha)
    needed += beta * math.log(beta / (1 - RULE.alpha))
    return needed / growth / size


def _explained(noise: Noise) -> float:
    if np.ptp(noise.difficulty) == 0:
        return 0.0
    return float(np.corrcoef(noise.difficulty, noise.differences)[0, 1] ** 2)


def _allocation(noise: Noise) -> float:
    """Return (mean σ)² over mean σ² of thirds of difficulty."""
    order = np.argsort(noise.difficulty, kind="stable")
    deviations = np.array([noise.differences[part].std() for part in np.array_split(order, 3)])
    squares = float((deviations**2).mean())
    return float(deviations.mean() ** 2) / squares if squares else 1.0


@benchmark(
    "few trials, six scenes of the miniature",
    measures=("scenewright.evals.statistics.sequential",),
    data=folder("folder of the DSG release"),
    work=folder("folder of the miniature's pictures; kept, so that a second run is quick"),
    scenes=Option(120, "scenes of the miniature", least=6),
    sequences=Option(4000, "sequences of differences of each pair", least=100),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    trials = 300 if options.quick else options.sequences
    groups = GroupSequential(4000 if options.quick else 100_000)
    sources: dict[str, list[Noise]] = {}
    try:
        sources["dsg"] = dsg_noise(release(options, "dsg"))
    except Skipped as reason:
        print(reason)
    with work_folder(options, Path("out/benchmarks/gate")) as place:
        scenes = 6 if options.quick else options.scenes
        drawn = asyncio.run(miniature_noise(place, scenes, options.quick))
    sources["miniature"] = drawn
    figures: dict[str, Any] = {"sample_share.oracle": oracle_share(RULE)}
    n = 0
    for name, noises in sources.items():
        usable = [noise for noise in noises if noise.usable]
        figures[f"{name}.pairs"] = len(usable)
        if not usable:
            print(f"{name}: no pair has losses and gains, nothing is resampled")
            continue
        n += sum(len(noise.differences) for noise in usable)
        figures |= prefixed(f"{name}.", figures_of(usable, trials, groups))
    known = [name for name in sources if f"{name}.power" in figures]
    for name in ("power", "false_alarms", "sample_share"):
        values = [figures[f"{source}.{name}"]["mean"] for source in known]
        if values:
            figures[name] = (min if name == "power" else max)(values)
    return n, figures


if __name__ == "__main__":
    main()
