"""XTC-Bench on painted scenes: three judges that understand, two ways of drawing, six models.

``python -m benchmarks.xtc [--quick]``

The reference picture of a scene is its painting. The miniature's generator draws it from its own
composer's prompt (``composition``) or from bare triplets (``triplets``); judge-a, judge-c and
judge-weak answer the questions, each word of the world a closed question. The two-stage extractor
(segmenter, judge-a, judge-b) reads the drawn pictures, and words are compared without a model.

- ``G.MODEL``, ``U.MODEL``: generation and understanding (XTC-Bench, Eqs. 4 and 5);
  ``ccta.MODEL``, ``aw_ccta.MODEL``: agreement (Eqs. 6 and 7); all with 95 % intervals over scenes.
  ``MODEL`` is ``JUDGE+CONDITION``. ``covariance.MODEL``: what AW-CCTA has beyond the product of
  CCTA and the mean accuracy.
- ``nodes.CONDITION``: share of the objects with a partner in the drawn picture.
- ``understood.KIND.JUDGE``: U of attributes, retrievals and relations: here truth is known, so it
  is the judge's accuracy in open questions.
- ``absent.CONDITION``: share of the questions whose object or edge is missing in the picture;
  ``unscored``: questions without u or v, of all models; ``unasked``: facts of the scenes that no
  question can ask for.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import Any

from benchmarks._harness import benchmark, eval_progress, figure, work_folder
from scenewright.evals.studies.xtc.base import QUESTION_KINDS
from scenewright.evals.studies.xtc.config import ModelSpec, XtcConfig
from scenewright.evals.studies.xtc.report import XtcResults
from scenewright.evals.studies.xtc.running import run_xtc

JUDGES = ("judge-a", "judge-c", "judge-weak")
CONDITIONS = ("composition", "triplets")
SCENES, QUICK_SCENES = 60, 2
SEED = 11


def config(n: int, judges: tuple[str, ...] = JUDGES) -> XtcConfig:
    """Return the evaluation of ``n`` painted scenes."""
    models = {
        f"{judge}+{condition}": ModelSpec(
            profile="miniature",
            condition=condition,
            understander=f"judge:local:miniature/{judge}",
        )
        for judge in judges
        for condition in CONDITIONS
    }
    return XtcConfig.model_validate(
        {
            "name": "benchmark",
            "dataset": {"name": "miniature", "options": {"n": n, "seed": SEED}},
            "models": models,
            "extractor": "miniature",
            "grader": "lexical",
            "similarity": "lexical",
            "vocabulary": "miniature",
        }
    )


def figures(results: XtcResults, judges: tuple[str, ...] = JUDGES) -> dict[str, Any]:
    """Return the figures of an evaluation."""
    scores = results.scores()
    found: dict[str, Any] = {}
    for model, one in scores.items():
        whole = one.overall
        for name, estimate in (
            ("G", whole.generation),
            ("U", whole.understanding),
            ("ccta", whole.ccta),
            ("aw_ccta", whole.aw_ccta),
            ("covariance", whole.covariance),
        ):
            found[f"{name}.{model}"] = figure(estimate)
    for condition in CONDITIONS:
        one = scores[f"{judges[0]}+{condition}"]
        found[f"nodes.{condition}"] = figure(one.nodes)
        found[f"absent.{condition}"] = one.overall.absent / one.overall.facts
    for judge in judges:
        one = scores[f"{judge}+{CONDITIONS[0]}"]
        for kind in QUESTION_KINDS:
            found[f"understood.{kind}.{judge}"] = figure(one.kinds[kind].understanding)
    found["unscored"] = sum(
        s.overall.unscored_generation + s.overall.unscored_understanding for s in scores.values()
    )
    found["unasked"] = next(iter(scores.values())).unasked
    return {name: value for name, value in found.items() if value is not None}


@benchmark(
    "few scenes",
    measures=("scenewright.evals.studies.xtc",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Run the evaluation."""
    n = QUICK_SCENES if options.quick else SCENES
    judges = JUDGES[::2] if options.quick else JUDGES
    with work_folder(options) as folder:
        shown = eval_progress("xtc")
        results = asyncio.run(run_xtc(config(n, judges), folder / "xtc", on_progress=shown))
        return n, figures(results, judges)


if __name__ == "__main__":
    main()
