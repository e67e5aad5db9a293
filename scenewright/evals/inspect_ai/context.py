"""Models and stores of a solver or a scorer: checked when it is made, opened at the first sample.

inspect_ai makes solvers and scorers from names and plain values, so that a log can tell how it
was made and be scored again. What is heavy is opened in the event loop that runs the samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from inspect_ai._util.error import PrerequisiteError
from pydantic import ValidationError
from rich.markup import escape

from scenewright.config.settings import SettingsError, load_settings
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.core.ports.judge import JudgeError
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.metrics.plugins import call_plugin, is_plugin
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.store.paths import ANSWERS
from scenewright.evals.store.results import IMAGES
from scenewright.providers import AnswerStore

T = TypeVar("T")
FOLDER = "evals/inspect"
"""Where pictures and answers are kept, so that nothing is drawn or asked twice."""
NAME = "inspect"
_WRONG = (EvalError, DatasetError, MetricError, SettingsError, BackendError, JudgeError)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Errors of ours become the error that inspect_ai shows as one line, without a traceback."""
    try:
        yield
    except _WRONG as error:
        # It is printed as markup, which would swallow a table's name in brackets.
        raise PrerequisiteError(escape(str(error))) from error


def config_of(fields: Mapping[str, Any]) -> EvalConfig:
    """The configuration of these fields, less those that are none.

    Raises ``EvalError`` with the field.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return EvalConfig.model_validate({"name": NAME, "dataset": {"name": NAME}, **given})
    except ValidationError as error:
        raise EvalError(first_problem(error)) from error


def condition_fields(condition: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration for a condition that is named or described."""
    if isinstance(condition, str):
        return {"conditions": [condition]}
    return {"conditions": ["own"], "condition": {"own": dict(condition)}}


def load_model_overrides(models: str | None) -> EvalModelOverrides:
    """What the function ``module:function`` returns; nothing of one's own without it.

    Raises ``EvalError`` or ``MetricError`` if it cannot be called or returns no
    ``EvalModelOverrides``.
    """
    if models is None:
        return EvalModelOverrides()
    if not is_plugin(models):
        raise EvalError(f"models = {models!r} is no module:function, for example mine.models:given")
    found = call_plugin(models, options={})
    if not isinstance(found, EvalModelOverrides):
        raise EvalError(
            f"{models} gives a {type(found).__name__}: it must return a "
            "scenewright.evals.runner.model_setup.EvalModelOverrides "
            "with your own backends, composers, judges or metrics"
        )
    return found


def check_eval_models(config: EvalConfig, models: str | None) -> None:
    """Raise what is wrong with ``config`` before anything is drawn; no weights are loaded."""

    async def built() -> EvalModels:
        given = replace(load_model_overrides(models), metrics=None)
        return await build_eval_models(config, load_settings(), given, Path())

    # A task may be made while an event loop runs (in a notebook), which cannot run another.
    with ThreadPoolExecutor(max_workers=1) as aside:
        check_metrics(aside.submit(asyncio.run, built()).result())


def check_metrics(eval_models: EvalModels) -> None:
    """Raises ``MetricError`` for metrics of whole sets, which no single sample has a score of."""
    if eval_models.of_sets:
        names = ", ".join(metric.name for metric in eval_models.of_sets)
        raise MetricError(
            f"{names} scores a whole set of pictures, and a scorer sees one: use `scenewright eval "
            "run` for it"
        )


@dataclass(frozen=True, slots=True)
class InspectContext:
    """What a solver or a scorer works with."""

    config: EvalConfig
    """What is asked for."""
    eval_models: EvalModels
    """The models."""
    generation: GenerationContext
    """Where pictures lie."""
    answers: AnswerStore
    """Every answer that was paid for."""


async def open_context(
    config: EvalConfig, folder: str, models: str | None, *, measuring: bool
) -> InspectContext:
    """The models of ``config``, loaded, and the stores in ``folder``.

    Without ``measuring`` there are no metrics, and no judges but those of loops. Raises what
    :func:`~scenewright.evals.runner.model_setup.build_eval_models` raises, ``ImageError`` and
    ``StoreError``.
    """
    settings = load_settings()
    given = replace(load_model_overrides(models), metrics=None if measuring else ())
    eval_models = await build_eval_models(config, settings, given, Path())
    place = Path(folder)
    images = await asyncio.to_thread(lambda: ImageStore(place / IMAGES))
    answers = await asyncio.to_thread(lambda: AnswerStore(place / ANSWERS))
    await eval_models.warm()
    generation = GenerationContext(place, images, settings, Path(), config.size, config.keep_runs)
    return InspectContext(config, eval_models, generation, answers)


class OncePerLoop(Generic[T]):
    """What is made once, by whoever needs it first, in each event loop that needs it.

    A making that fails is tried again by the next who asks.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        """``make`` is called in the loop."""
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """It; raises what the making raises, and ``EvalError`` in a loop that is not asyncio's."""
        loop = _running()
        made = self._made
        if made is None or self._loop is not loop or (made.done() and _failed(made)):
            made = loop.create_task(self._called())
            self._loop, self._made = loop, made
        # One sample that is cancelled must not take the models away from the others.
        return await asyncio.shield(made)

    async def _called(self) -> T:
        return await self._make()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _running() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise EvalError(
            "the models of scenewright run in asyncio only: leave INSPECT_ASYNC_BACKEND unset, or "
            "set it to asyncio"
        ) from None
