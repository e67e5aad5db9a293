"""Scripted models and what the cases of the inspect_ai bridge share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.log import EvalLog, EvalSample, read_eval_log

from scenewright.config.model_identity import ModelIdentity
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import unscored
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.inspect_ai import scene_bench
from scenewright.evals.metrics.base import MetricScore
from scenewright.evals.metrics.base import Sample as Picture
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.store.results import Results
from tests.doubles import CallBook, ScriptedJudge
from tests.evals.eval_sets import config as scripted_config
from tests.evals.eval_sets import scripted

HERE = "tests.evals.inspect_models"
SET: dict[str, Any] = {"dataset": "miniature", "options": {"n": 6}}
JUDGE_C = "local:miniature/judge-c"
BOOK = CallBook()
BROKEN: list[str] = []
"""Words of prompts that the backend fails at."""


def given() -> EvalModelOverrides:
    """Scripted models, which fail at prompts that hold a word of :data:`BROKEN`."""

    def failing(request: GenerationRequest) -> Exception | None:
        wrong = any(word in request.prompt for word in BROKEN)
        return BackendError("the device is gone") if wrong else None

    return scripted(BOOK, failing=failing)


def silent() -> EvalModelOverrides:
    """Scripted models; the judge answers nothing about relations."""

    def behave(judge: ScriptedJudge, facts: Any, answers: list[Any]) -> Any:
        away = [f for f in facts if f.kind == "relation"]
        quiet = {a.fact_id: a for a in unscored(judge.id, away, "the provider is away")}
        return [quiet.get(answer.fact_id, answer) for answer in answers]

    return replace(scripted(), judges={JUDGE_C: ScriptedJudge("c", behave=behave)})


def mute() -> EvalModelOverrides:
    """Scripted models; the judge answers nothing at all."""

    def behave(judge: ScriptedJudge, facts: Any, answers: Any) -> Any:
        return unscored(judge.id, facts, "the provider is away")

    return replace(scripted(), judges={JUDGE_C: ScriptedJudge("c", behave=behave)})


class ServedJudge(ScriptedJudge):
    """A judge whose model is known by a name, as a served one's is."""

    identity = ModelIdentity("work:judge", "model-of-two-roles")


def served() -> EvalModelOverrides:
    """Scripted models; the judge's model has a name."""
    return replace(scripted(), judges={JUDGE_C: ServedJudge("c")})


def nothing() -> str:
    return "no models"


class Redness:
    """A metric of one's own: the red of the first pixel; fails where there is none."""

    name, version, higher_is_better = "redness", "1", True
    needs: frozenset[str] = frozenset({"image"})

    async def score(self, sample: Picture) -> MetricScore:
        red = sample.load().getpixel((0, 0))[0]
        if red == 0:
            raise RuntimeError("there is no red")
        return MetricScore(value=float(red), parts={"half": red / 2, "none": None})


def redness(settings: object) -> Redness:
    return Redness()


class OfSets:
    """A metric of whole sets."""

    name, version, higher_is_better, extractor = "of_sets", "1", True, None
    needs: frozenset[str] = frozenset({"image"})

    def compute(self, pictures: object, originals: object) -> MetricScore:
        return MetricScore(value=1.0)


def of_sets(settings: object) -> OfSets:
    return OfSets()


@contextmanager
def fresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Working in ``folder``, with an empty book and models that fail at nothing."""
    monkeypatch.chdir(folder)
    BOOK.lines.clear()
    yield
    BROKEN.clear()


def ran(task: Task, **options: Any) -> EvalLog:
    """The log of ``task``, as it was written to the disk."""
    (log,) = eval(task, model="mockllm/model", display="none", log_dir="logs", **options)
    return read_eval_log(log.location)


def scripted_task(**options: Any) -> Task:
    return scene_bench(**{**SET, "models": f"{HERE}:given", **options})


def samples(log: EvalLog) -> list[EvalSample]:
    assert log.samples
    return sorted(log.samples, key=lambda sample: (str(sample.id), sample.epoch))


def drawings() -> int:
    return sum(line.startswith("begin generate") for line in BOOK.lines)


def of_runner(folder: str, **fields: Any) -> Results:
    """The same set in an evaluation of scenewright."""
    asked: EvalConfig = scripted_config(
        dataset={"name": "miniature", "options": {"n": 6}}, **fields
    )
    found = run_eval(asked, folder, given=scripted(), dataset=open_dataset(asked.dataset))
    return asyncio.run(found)
