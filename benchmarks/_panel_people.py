"""The default aggregator on panels whose pictures people rated.

Quality is Spearman's correlation of the images' scores with their mean rating, with 95 % intervals
over resamples of the prompts. The best single judge is the best of the set by this very measure: an
oracle chose it.

Sets (``../shared/data``): ``vie10``, ten multimodal models on ImagenHub's pictures (VIEScore), of
which ``vie_closed`` has the three strong ones and ``vie_open`` the seven weak ones; ``tifa5``, five
question-answering models on TIFA160; ``dsg``, ``dsg_tifa`` and ``dsg_vq2a``, three released judges
on the same pictures by the questions of DSG, TIFA and VQ2A.

Leave-one-set-out: for each set one of :data:`CANDIDATES` is chosen by the sets of the other
releases. On each of these a candidate's regret is its difference from the best candidate there; the
one with the highest of the worst lower ends of regret is chosen, and ``chosen_minus_mean`` is what
it gives on the set that was left out. (By the difference from the mean the mean would always be
chosen: it is 0 from itself, and any other rule loses a few thousandths somewhere by chance.)
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import figure, progress
from scenewright.agents.panel.aggregation import Array, weighted_means
from scenewright.agents.panel.agreement import agreement_weights
from scenewright.evals.statistics.figures import summary
from scenewright.evals.studies.panel.aggregators.registry import aggregator_of
from scenewright.evals.studies.panel.metrics import MetricEvaluator
from scenewright.evals.studies.panel.resampling import Drawn
from scenewright.evals.studies.panel.sources.dsg_release import load_dsg_release
from scenewright.evals.studies.panel.sources.tables import load_table
from scenewright.evals.studies.panel.table import AnswerTable

STRONG = ("gpt4o_0shot", "gpt4v_0shot", "gemini_0shot")
"""The judges of ``vie_closed``."""
DEFAULT, MEAN = "agreement", "mean"


def by_agreement(table: AnswerTable, power: float) -> Array:
    """Return the linear pool with weights by agreement to a power alone, (n_facts,)."""
    kinds = table.kinds.tolist()
    return weighted_means(table.said, agreement_weights(table.said, kinds, power=power, share=1.0))


def mixed(table: AnswerTable, *names: str) -> Array:
    """Return the mean of several aggregators' probabilities, (n_facts,)."""
    parts = [aggregator_of(name).combine(table) for name in names]
    result: Array = np.mean(parts, axis=0)
    return result


CANDIDATES: Mapping[str, Callable[[AnswerTable], Array]] = {
    MEAN: aggregator_of(MEAN).combine,
    "whole_1": lambda table: by_agreement(table, 1.0),
    "whole_2": lambda table: by_agreement(table, 2.0),
    DEFAULT: aggregator_of(DEFAULT).combine,
    "dawid_skene": aggregator_of("dawid_skene").combine,
    "mix": lambda table: mixed(table, MEAN, DEFAULT, "dawid_skene"),
}
"""Name → probabilities of a table's facts, without labels."""


def people_tables(dsg: Path, panels: Path) -> dict[str, AnswerTable]:
    """Return the sets of both folders by name."""
    vie = zipped_table(panels / "vie10.csv.gz")
    strong = [at for at, judge in enumerate(vie.judge_ids) if judge in STRONG]
    return {
        "vie10": vie,
        "vie_closed": vie.with_judges(strong),
        "vie_open": vie.with_judges([at for at in range(len(vie.judges)) if at not in strong]),
        "tifa5": zipped_table(panels / "tifa.csv.gz"),
        "dsg": load_dsg_release(dsg, "dsg"),
        "dsg_tifa": load_dsg_release(dsg, "tifa"),
        "dsg_vq2a": load_dsg_release(dsg, "vq2a"),
    }


def zipped_table(path: Path) -> AnswerTable:
    """Return the table of answers in a compressed CSV file."""
    with tempfile.TemporaryDirectory(prefix="scenewright-bench-") as folder:
        plain = Path(folder) / path.stem
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        return load_table(plain)


def release_of(name: str) -> str:
    """Return the release of a set: sets of one release share pictures and ratings."""
    return name.partition("_")[0].rstrip("0123456789")


def people_figures(tables: Mapping[str, AnswerTable], resamples: int) -> dict[str, Any]:
    """Return ``people.SET.…`` of every set, the choices by the others included."""
    figures: dict[str, Any] = {}
    regrets: dict[str, dict[str, float]] = {}
    differences: dict[str, dict[str, Any]] = {}
    for name, table in progress(tables.items()):
        evaluator = MetricEvaluator(table, resamples=resamples)
        n = len(table.images)

        def of(likely: Array, evaluator: MetricEvaluator = evaluator) -> Drawn:
            found = evaluator.read(likely, "rating_rank")
            return Drawn.of(found[: 1 + evaluator.resamples])

        def told(drawn: Drawn, n: int = n) -> Any:
            return figure(summary(drawn.value, drawn.resamples, n))

        found = {candidate: of(way(table)) for candidate, way in CANDIDATES.items()}
        single = max((of(column) for column in table.said.T), key=lambda one: one.value)
        leading = max(found.values(), key=lambda one: one.value)
        regrets[name] = {key: low_end(told(one - leading)) for key, one in found.items()}
        differences[name] = {key: told(one - found[MEAN]) for key, one in found.items()}
        figures |= {
            f"people.{name}.default": told(found[DEFAULT]),
            f"people.{name}.mean": told(found[MEAN]),
            f"people.{name}.best_single": told(single),
            f"people.{name}.default_minus_mean": differences[name][DEFAULT],
            f"people.{name}.default_minus_best": told(found[DEFAULT] - single),
        }
        for candidate in CANDIDATES:
            if candidate not in (DEFAULT, MEAN):
                key = f"people.{name}.{candidate}_minus_mean"
                figures[key] = differences[name][candidate]
    for name, chosen in choices(regrets).items():
        figures[f"people.{name}.chosen_minus_mean"] = differences[name][chosen]
    return figures


def low_end(found: Any) -> float:
    """Return the lower end of a figure's interval; its value where it has none."""
    return float(found["low"] if isinstance(found, Mapping) else found)


def choices(regrets: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the candidate that the sets of other releases choose for each set.

    ``regrets``: set → candidate → lower end of its difference from the best candidate.
    """
    found = {}
    for name in regrets:
        others = [regrets[other] for other in regrets if release_of(other) != release_of(name)]
        found[name] = max(CANDIDATES, key=lambda key: min(one[key] for one in others))
        print(f"{name}: the other releases choose {found[name]}")
    return found
