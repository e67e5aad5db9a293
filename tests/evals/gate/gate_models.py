"""Two scripted models for gates; as a program, a gate of them that can be killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scenewright.evals.datasets.base import Dataset
from scenewright.evals.gate.result import GateOptions
from scenewright.evals.gate.running import Gate, plan_gate, run_gate
from scenewright.evals.gate.subjects import Drawn, Subject
from scenewright.evals.metrics.picture_scores import SGScore
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, share
from tests.evals.eval_sets import ListedSet, config, scene_items

BASELINE = 120
"""Quality of the baseline's worst picture, of 255."""
CANDIDATE = 110
"""That of a candidate that is a little worse."""
OPTIONS = GateOptions(margin=0.1)
SET = ListedSet(scene_items(40))
JUDGE = "local:miniature/judge-a"


def models(
    candidate: int = 100,
    book: CallBook | None = None,
    behave: Callable[..., Any] | None = None,
) -> EvalModelOverrides:
    """A baseline (profile ``miniature``) and a candidate (``miniature-edit``) of that quality.

    With the quality of the baseline it draws the same pictures.
    """
    book = book or CallBook()

    def backend(quality: int) -> ScriptedBackend:
        return ScriptedBackend(
            lambda request: quality + share(request.prompt, str(request.seed)) // 2,
            book,
            version=str(quality),
        )

    return EvalModelOverrides(
        backends={"miniature": backend(BASELINE), "miniature-edit": backend(candidate)},
        composers={name: ScriptedComposer(book) for name in ("miniature", "miniature-edit")},
        judges={JUDGE: ScriptedJudge("a", book, behave=behave)},
        metrics=[SGScore()],
    )


def gate_config() -> EvalConfig:
    """The configuration of both."""
    return config(conditions=["triplets"], panels={"p": {"judges": [JUDGE]}})


def planned(
    place: Path,
    given: EvalModelOverrides,
    dataset: Dataset = SET,
    options: GateOptions = OPTIONS,
    candidate: Subject = Drawn("miniature-edit"),  # noqa: B008 - a constant
) -> Gate:
    """A gate of both in ``place``."""
    return plan_gate(
        *(Drawn("miniature"), candidate, options, place),
        config=gate_config(),
        dataset=dataset,
        given=given,
    )


if __name__ == "__main__":
    overrides = models(candidate=CANDIDATE, book=CallBook(Path(sys.argv[2])))
    asyncio.run(run_gate(planned(Path(sys.argv[1]) / "gate", overrides), batch=5))
