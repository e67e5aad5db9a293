"""Tables of judges' answers: the miniature's, and simulated ones in which an aggregator could fail.

Six judges (fewer where said) answer the facts of three models' images of each prompt. Quality is
Spearman's correlation of the images' scores with the share of their facts that hold. The best
single judge is the best of the table by this very measure: an oracle chose it.

Weights by agreement follow whoever agrees, so the default loses to the plain mean where judges copy
each other or err together: in the scenes of :data:`COLLUSION`. In those of :data:`LIMITS` no way of
combining answers without labels can know better: a clique that is as large and as consistent as the
honest judges, or judges that share their errors while the one good judge stands alone. There an
oracle stands beside the default: the same weighted mean of probabilities with weights fitted to the
truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks._harness import Progress, figure, interval, progress
from scenewright.agents.panel.aggregation import weighted_means
from scenewright.evals.judge_reports.labelled_facts import ABSENT
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.statistics.figures import summary
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of
from scenewright.evals.studies.panel.attacks import Attack, attacked, enlarged
from scenewright.evals.studies.panel.metrics import MetricEvaluator
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.sources.live_judges import query_table
from scenewright.evals.studies.panel.table import AnswerTable
from scenewright.providers import AnswerStore
from scenewright.runs.model_factory.profiles import build_judge

MODELS = tuple(
    SimulatedModel(id=f"model-{at}", prevalence=share) for at, share in enumerate((0.6, 0.75, 0.85))
)
GOOD, WEAK, STRONG = (0.9, 0.8), (0.65, 0.5), (0.97, 0.95)
Scene = Callable[[int, int], AnswerTable]
"""From a seed and a number of prompts to a table."""


async def labelled_table(
    judges: Sequence[str], paintings: int, seed: int, store: AnswerStore | None = None
) -> AnswerTable:
    """Return what judges of the miniature say of labelled facts of paintings."""
    torch.set_num_threads(1)
    asked = [build_judge(f"local:miniature/judge-{name}") for name in judges]
    # As in a run: what lacks its object is not asked.
    facts = [
        fact
        for fact in synthetic_facts(paintings, seed)
        if fact.group != ABSENT or fact.fact.kind == "object"
    ]
    shown = Progress(len(facts) * len(asked))
    loaded = await query_table(
        "miniature",
        "",
        facts,
        asked,
        store or AnswerStore(None),
        told=lambda doing, done, of: shown.reach(done),
    )
    return loaded.table


def judges(rates: Sequence[tuple[float, float]], **same: Any) -> list[SimulatedJudge]:
    """Judges of those sensitivities and specificities."""
    return [
        SimulatedJudge(id=f"judge-{at}", sensitivity=se, specificity=sp, **same)
        for at, (se, sp) in enumerate(rates)
    ]


def table_of(who: Sequence[SimulatedJudge], seed: int, items: int, **more: Any) -> AnswerTable:
    """One simulated table."""
    spec = SimulationSpec(
        judges=tuple(who), models=MODELS, n_items=items, seed=seed, image_spread=0.3,
        item_spread=0.3, **more,
    )  # fmt: skip
    return simulate(spec)


def plain(rates: Sequence[tuple[float, float]], **same: Any) -> Scene:
    """Independent judges."""
    return lambda seed, items: table_of(judges(rates, **same), seed, items)


def related(
    rates: Sequence[tuple[float, float]], members: Sequence[int], correlation: float
) -> Scene:
    """Judges of which some err together; nobody says which."""

    def of(seed: int, items: int) -> AnswerTable:
        who = judges(rates)
        for at in members:
            who[at] = who[at].model_copy(update={"family": "family", "correlation": correlation})
        table = table_of(who, seed, items)
        names = [type(one)(one.id) for one in table.judges]
        return table.with_judges(range(len(who)), names)

    return of


def struck(kind: Any, bad: Sequence[int], strength: float = 1.0) -> Scene:
    """Six good judges, some of them taken over by an attack of the kit."""

    def of(seed: int, items: int) -> AnswerTable:
        table = table_of(judges([GOOD] * 6), seed, items)
        attack = Attack(kind=kind, strength=strength)
        return attacked(table, attack, bad, np.random.default_rng([seed, 11]))

    return of


def cloned(seed: int, items: int) -> AnswerTable:
    """Three good judges, and three that copy a weaker one with noise."""
    return related([GOOD] * 3 + [(0.75, 0.6)] * 3, (3, 4, 5), 0.95)(seed, items)


def kit_clones(seed: int, items: int) -> AnswerTable:
    """Three good judges and one weak, enlarged to nine by clones of the kit."""
    return enlarged(table_of(judges([*[GOOD] * 3, WEAK]), seed, items), 9, seed)


def colluding(bad: Sequence[int]) -> Scene:
    """Six good judges, some of which answer most facts by one common invention."""

    def of(seed: int, items: int) -> AnswerTable:
        table = table_of(judges([GOOD] * 6), seed, items)
        rng = np.random.default_rng([seed, 13])
        said, lie = table.said.copy(), rng.random(len(table.facts))
        for at in bad:
            hit = rng.random(len(lie)) < 0.85
            said[hit, at] = lie[hit]
        return table.with_said(said)

    return of


def common_errors(seed: int, items: int, **more: Any) -> AnswerTable:
    """Five judges that find the same facts hard, and one far better that does not."""
    who = judges([STRONG, *[(0.75, 0.55)] * 5])
    who[0] = who[0].model_copy(update={"difficulty_sensitivity": 0.3})
    return table_of(who, seed, items, difficulty=0.5, **more)


SCENES: Mapping[str, Scene] = {
    "alike": plain([(0.88, 0.75)] * 5),
    "half_weak": plain([GOOD] * 3 + [WEAK] * 3),
    "half_weak_votes": plain([GOOD] * 3 + [WEAK] * 3, votes_only=True),
    "one_strong": plain([STRONG] + [(0.7, 0.5)] * 5),
    "one_strong_of_three": plain([STRONG] + [(0.7, 0.5)] * 2),
    "one_strong_votes": plain([STRONG] + [(0.7, 0.5)] * 5, votes_only=True),
    "kit_clones": kit_clones,
    "colluding": colluding((4, 5)),
    "adversaries": struck("adversarial", (4, 5), 0.9),
    "guessers": struck("random", (3, 4, 5)),
    "yes_sayers": struck("yes", (4, 5)),
    "two_strong_of_three": plain([STRONG, STRONG, WEAK]),
}
"""Where the default must not lose."""
COLLUSION: Mapping[str, Scene] = {
    "clones": cloned,
    "family": related([GOOD] * 3 + [(0.8, 0.65)] * 3, (3, 4, 5), 0.6),
    "copies": struck("copies", (3, 4, 5), 0.7),
}
"""Where half of the judges agree for another reason than the truth: the default loses."""
LIMITS: Mapping[str, Scene] = {
    "colluding_half": colluding((3, 4, 5)),
    "colluding_majority": colluding((2, 3, 4, 5)),
    "common_errors": common_errors,
}
"""Where nothing without labels can know better than the answers."""
RATED = (12, 16, 20, 30, 50)
"""Numbers of rated prompts, for ``selection.N``."""
NEAR = 0.02
"""How far below the best judge a choice is good enough."""


def oracle(table: AnswerTable) -> np.ndarray[Any, Any]:
    """Probabilities by the weights that the truth gives, (n_facts,)."""
    centred = table.said - table.said.mean(0)
    truth = table.truth - table.truth.mean()
    # Least squares: the weighted mean that correlates best with the truth.
    weights = np.linalg.lstsq(centred, truth, rcond=None)[0]
    return weighted_means(table.said, np.maximum(weights, 0.0))


def quality(evaluator: MetricEvaluator, likely: Any) -> Drawn:
    """Rank correlation of the images' scores with the true share, and its resamples."""
    found = evaluator.read(likely, "truth_rank")
    return Drawn(float(found[0]), found[1 : 1 + evaluator.resamples])


def right(evaluator: MetricEvaluator, name: str) -> Drawn:
    """Share of right verdicts by an aggregator."""
    found = evaluator.read(aggregator_of(name).combine(evaluator.table), "accuracy")
    return Drawn(float(found[0]), found[1 : 1 + evaluator.resamples])


def scene_figures(tables: int, items: int, resamples: int) -> dict[str, Any]:
    """Return ``default_minus_best``, ``default_minus_mean`` and the figures of the limits."""
    figures: dict[str, Any] = {}
    for name, scene in progress({**SCENES, **COLLUSION, **LIMITS}.items()):
        gaps: dict[str, list[Drawn]] = {}
        for seed in range(tables):
            table = scene(1000 + 10 * seed, items)
            evaluator = MetricEvaluator(table, resamples=resamples, seed=seed)
            single = [quality(evaluator, column) for column in table.said.T]
            best = max(single, key=lambda one: np.nan_to_num(one.value, nan=-1.0))
            mean = quality(evaluator, aggregator_of("mean").combine(table))
            default = quality(evaluator, aggregator_of("agreement").combine(table))
            found = {
                "default_minus_best": default - best,
                "default_minus_mean": default - mean,
                "mean_minus_best": mean - best,
                "verdicts_minus_mean": right(evaluator, "agreement") - right(evaluator, "mean"),
            }
            if name in LIMITS:
                found["oracle_minus_best"] = quality(evaluator, oracle(table)) - best
            for key, gap in found.items():
                gaps.setdefault(key, []).append(gap)
        prefix = "limit." if name in LIMITS else ""
        for key, each in gaps.items():
            value = float(np.mean([one.value for one in each]))
            drawn = np.mean([one.resamples for one in each], axis=0)
            figures[f"{prefix}{key}.{name}"] = figure(summary(value, drawn, tables * items))
    return figures


def selection_figures(draws: int, tested: int) -> dict[str, Any]:
    """Return ``selection.N``: the rule chosen by N rated prompts against the best judge.

    In the scene ``common_errors``, where answers alone mislead; on prompts without part in the
    choice. ``selection.prompts_needed`` is the first N from which on the lower end of the interval
    stays within :data:`NEAR`; None: none does.
    """
    figures: dict[str, Any] = {}
    for n in progress(RATED):
        gaps, gains = [], []
        for draw in range(draws):
            raters = SimulatedRaters(number=3, noise=0.7)
            table = common_errors(2000 + 17 * draw, n + tested, raters=raters)
            rated = table.item_of_image < n
            learn, test = table.of_images(rated), table.of_images(~rated)
            evaluator = MetricEvaluator(test, resamples=2)

            def of(likely: Any, evaluator: MetricEvaluator = evaluator) -> float:
                return float(evaluator.read(likely, "rating_rank")[0])

            chosen = of(aggregator_of("selected").combine(test, learn))
            gaps.append(chosen - max(of(column) for column in test.said.T))
            gains.append(chosen - of(aggregator_of("agreement").combine(test)))
        figures[f"selection.{n}"] = interval(gaps)
        figures[f"selection.gain.{n}"] = interval(gains)
    near = [figures[f"selection.{n}"]["low"] >= -NEAR for n in RATED]
    needed = [n for at, n in enumerate(RATED) if all(near[at:])]
    return {**figures, "selection.prompts_needed": needed[0] if needed else None}
