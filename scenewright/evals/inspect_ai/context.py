"""Models, stores, samples and pictures of solvers and scorers, and the solver that draws.

inspect_ai makes solvers and scorers from names and plain values, so that a log can tell how it was
made and be scored again. They are checked when they are made; what is heavy is opened at the first
sample, in the event loop that runs the samples.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import unquote, urlparse

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ContentImage,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import ValidationError
from rich.markup import escape

from scenewright.config.accounts import AccountSpec
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import load_settings
from scenewright.core.error_text import error_text
from scenewright.core.formats import FormatError, loads_scene
from scenewright.core.images import MAX_FILE_BYTES, ImageError, ImageStore
from scenewright.core.ports.backend import BackendError
from scenewright.core.ports.judge import JudgeError
from scenewright.core.scene import SceneError, SceneGraph
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import NO_SCENE, DatasetError, Item
from scenewright.evals.datasets.reading import said_of
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import MetricError, call_plugin, is_plugin
from scenewright.evals.runner.config import Arm, EvalConfig
from scenewright.evals.runner.drawing import GenerationContext, ImageGenerator, draw_key
from scenewright.evals.runner.drawing import draw as drawn_unit
from scenewright.evals.runner.independence import steering_of
from scenewright.evals.runner.judging import facts_to_ask, text_of
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.store.journal import Unit
from scenewright.evals.store.results import ANSWERS, IMAGES
from scenewright.providers import AnswerStore
from scenewright.providers.sdk_clients import paying

T = TypeVar("T")
FOLDER = "evals/inspect"
"""Default folder of pictures and answers, so that nothing is drawn or asked twice."""
NAME = "inspect"
_WRONG = (EvalError, DatasetError, MetricError, SettingsError, BackendError, JudgeError)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Turn errors of this package into one that inspect_ai shows as one line."""
    try:
        yield
    except _WRONG as error:
        # It is printed as markup, which would swallow a table's name in brackets.
        raise PrerequisiteError(escape(str(error))) from error


def config_of(fields: Mapping[str, Any]) -> EvalConfig:
    """Return the configuration of these fields, without those that are None.

    Raises ``EvalError`` with the field.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return EvalConfig.model_validate({"name": NAME, "dataset": {"name": NAME}, **given})
    except ValidationError as error:
        raise EvalError(first_problem(error)) from error


def condition_fields(condition: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration for a condition that is named or described."""
    if isinstance(condition, str):
        return {"conditions": [condition]}
    return {"conditions": ["own"], "condition": {"own": dict(condition)}}


def load_model_overrides(models: str | None) -> EvalModelOverrides:
    """Return the result of ``module:function``, or no overrides without one.

    Raises ``EvalError`` or ``MetricError`` if it cannot be called or returns anything but
    ``EvalModelOverrides``.
    """
    if models is None:
        return EvalModelOverrides()
    if not is_plugin(models):
        raise EvalError(
            f"models = {models!r} is not module:function, for example mine.models:given"
        )
    found = call_plugin(models, options={})
    if not isinstance(found, EvalModelOverrides):
        raise EvalError(
            f"{models} gives a {type(found).__name__}: it must return a "
            "scenewright.evals.runner.model_setup.EvalModelOverrides "
            "with your own backends, composers, judges or metrics"
        )
    return found


def check_eval_models(config: EvalConfig, models: str | None) -> None:
    """Raise the errors of ``config`` before anything is drawn; no weights are loaded."""

    async def built() -> EvalModels:
        given = replace(load_model_overrides(models), metrics=None)
        return await build_eval_models(config, load_settings(), given, Path())

    # A task may be made while an event loop runs (in a notebook), which cannot run another.
    with ThreadPoolExecutor(max_workers=1) as aside:
        check_metrics(aside.submit(asyncio.run, built()).result())


def check_metrics(eval_models: EvalModels) -> None:
    """Raise ``MetricError`` for metrics of whole sets, which give single samples no score."""
    if eval_models.of_sets:
        names = ", ".join(metric.name for metric in eval_models.of_sets)
        raise MetricError(
            f"{names} scores a whole set of pictures, and a scorer sees one: use `scenewright eval "
            "run` for it"
        )


@dataclass(frozen=True, slots=True)
class InspectContext:
    """Models and stores of a solver or a scorer."""

    config: EvalConfig
    eval_models: EvalModels
    generation: GenerationContext
    answers: AnswerStore
    """Store of all answers."""

    @contextmanager
    def paying(self, step: str) -> Iterator[None]:
        """Let the folder pay for the requests of a ``step``; after an error, under other keys."""
        try:
            with paying(self.answers.nonce(), step):
                yield
        except Exception:
            self.answers.rename()
            raise


async def open_context(
    config: EvalConfig, folder: str, models: str | None, *, measuring: bool
) -> InspectContext:
    """Return the models of ``config``, loaded, and the stores in ``folder``.

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
    """A value that is made on first use in each event loop.

    If making it fails, the next use tries again.
    """

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        """Make the value with ``make``, in the loop."""
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value, made on first use.

        Raises what making it raises, and ``EvalError`` in an event loop that is not asyncio's.
        """
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


ITEM, SCENE = "item", "scene"
"""Keys of a sample's metadata: a whole item as JSON, and a scene alone."""
SceneFrom = Literal["metadata", "target", "input"]
"""Source of a sample's scene: ``metadata`` (an item or a scene; without both the input is the
item's text), ``target`` (a scene in any text form that ``scenewright`` reads) or ``input`` (an
English caption, parsed by rules)."""


def samples_of(items: Iterable[Item], config: EvalConfig) -> Iterator[Sample]:
    """Yield one sample an item: the text of it as input, the statements of its facts as target.

    The metadata hold the ``item`` as JSON, and ``level``, ``group``, ``category`` and
    ``complexity`` (none without a scene) for metrics of parts of the set. Raises ``EvalError`` for
    two items of one id, and what the set raises.
    """
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise EvalError(f"the set holds the item {item.id!r} twice: give each its own id")
        seen.add(item.id)
        yield Sample(
            id=item.id,
            input=text_of(item),
            target=[fact.statement for fact in facts_to_ask(item, config)],
            metadata={
                ITEM: item.model_dump(mode="json", exclude_defaults=True),
                "level": item.level,
                "group": item.group,
                "category": item.category,
                "complexity": None if item.scene is None else item.scene.complexity(),
            },
        )


def item_of(
    id: str, text: str, target: str, metadata: Mapping[str, Any], scene_from: SceneFrom
) -> Item:
    """Return the item of a sample with this ``id``, input ``text``, ``target`` and ``metadata``.

    Raises ``EvalError``, which names the sample's field, for what cannot be read.
    """
    try:
        if scene_from == "target":
            return Item(id=id, prompt=text, scene=loads_scene(target))
        if scene_from == "input":
            found = Item(id=id, **said_of(text, "rules"))
            if found.scene is None:
                raise SceneError(found.meta[NO_SCENE])
            return found
        if metadata.get(ITEM) is not None:
            return Item.model_validate(metadata[ITEM])
        if metadata.get(SCENE) is not None:
            return Item(id=id, prompt=text, scene=_given(metadata[SCENE]))
        return Item(id=id, prompt=text)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in (ITEM, *problem["loc"]))
        said = problem["msg"].removeprefix("Value error, ")
        raise EvalError(f"the sample {id!r} cannot be read: {where}: {said}") from error
    except (FormatError, SceneError) as error:
        where = f"metadata[{SCENE!r}]" if scene_from == "metadata" else scene_from
        raise EvalError(f"the sample {id!r} has no scene in its {where}: {error}") from error


def _given(scene: Any) -> SceneGraph:
    return loads_scene(scene if isinstance(scene, str) else json.dumps(scene))


_SHOWN = 60


def data_uri(png: bytes) -> str:
    """Return the PNG file as text that a message can hold."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def picture_of(state: TaskState) -> str | None:
    """Return the newest picture of the model or its tools as its message names it, if any.

    The name is a data URI, an address or a file. Pictures of the user are not output.
    """
    messages = list(_answers(state))
    for message in messages:
        if isinstance(message.content, str):
            continue
        for content in reversed(message.content):
            if isinstance(content, ContentImage):
                return str(content.image)
    return None


def _answers(state: TaskState) -> Iterator[ChatMessage]:
    if state.output.choices:
        yield state.output.message
    yield from (m for m in reversed(state.messages) if m.role in ("assistant", "tool"))


def read_picture(named: str) -> bytes:
    """Return the image file that a message names. Raises ``ImageError`` with the remedy."""
    if named.startswith("data:"):
        return _decoded(named)
    address = urlparse(named)
    if address.scheme in ("http", "https"):
        raise ImageError(
            f"the picture is an address ({_short(named)}), which may be gone by now and is not "
            "fetched: have the solver put the picture itself into the message (a data URI)"
        )
    file = Path(unquote(address.path) if address.scheme == "file" else named)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ImageError(f"{file} is larger than {MAX_FILE_BYTES} bytes: save it smaller")
        return file.read_bytes()
    except (OSError, ValueError):
        raise ImageError(
            f"the message names the picture {_short(named)!r}, which is neither a data URI nor a "
            "file that can be read here: was the log written without pictures (--no-log-images), "
            "or moved away from them?"
        ) from None


def _decoded(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    if not head.endswith(";base64"):
        raise ImageError(f"the picture {_short(uri)!r} is not base64: have it encoded so")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the picture {_short(uri)!r} is damaged: {error}") from error


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


DRAWING = "scenewright_drawing"
"""Key of a sample's store: how its picture was made, or why there is none."""


@solver  # type: ignore[untyped-decorator]
def draw(
    backend: str = "miniature",
    condition: str | dict[str, Any] = "composition",
    seed: int = 0,
    size: list[int] | None = None,
    timeout: float | None = None,
    scene_from: SceneFrom = "metadata",
    embed: bool = True,
    folder: str = FOLDER,
    models: str | None = None,
) -> Solver:
    """Draws each sample in the arm ``backend/condition/seed`` of an evaluation.

    ``backend`` is a profile; ``condition`` is one of
    :data:`~scenewright.evals.runner.config.CONDITIONS` or the fields of one; epoch n draws with
    ``seed`` + n − 1. ``size``: (width, height) in pixels. ``timeout``: seconds a picture, loop
    included. ``embed``: whether the output holds the picture itself or names its file in
    ``folder``, which keeps all pictures. ``models``: ``module:function`` that returns a
    :class:`~scenewright.evals.runner.model_setup.EvalModelOverrides`.

    A picture that cannot be drawn is an error of its sample; the sample's store tells why.
    """
    with told_plainly():
        config = config_of(
            {
                "backends": [backend],
                **condition_fields(condition),
                "seeds": [seed],
                "size": size,
                "timeout": timeout,
            }
        )
    desks = OncePerLoop(lambda: open_context(config, folder, models, measuring=False))

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        try:
            context = await desks.get()
            arm = replace(context.eval_models.arms[0], seed=seed + state.epoch - 1)
            generator = context.eval_models.generators[context.eval_models.arms[0].name]
            unit = await _drawn(context, arm, generator, state, scene_from)
        except Exception as error:
            state.store.set(DRAWING, {"state": "failed", "reason": error_text(error)})
            raise
        rows = unit.rows["rounds"]
        kept = next(row for row in rows if row["kept"])
        model = f"{backend}/{condition}" if isinstance(condition, str) else f"{backend}/own"
        file = context.generation.images.path(kept["image"])
        shown = data_uri(await asyncio.to_thread(file.read_bytes)) if embed else str(file.resolve())
        state.output = _output(model, shown, rows, kept)
        state.messages.append(state.output.message)
        accounts = context.generation.settings.accounts
        state.store.set(DRAWING, _told_of(unit, arm, generator, accounts))
        return state

    return solve


async def _drawn(
    context: InspectContext,
    arm: Arm,
    generator: ImageGenerator | None,
    state: TaskState,
    scene_from: SceneFrom,
) -> Unit:
    item = item_of(
        str(state.sample_id), state.input_text, state.target.text, state.metadata, scene_from
    )
    key = draw_key(item, arm, generator, context.generation)
    seconds = context.config.timeout
    try:
        async with asyncio.timeout(seconds) as limit:
            with context.paying(key):
                return await drawn_unit(key, item, arm, generator, context.generation)
    except TimeoutError as error:
        if limit.expired():
            raise EvalError(f"no picture within {seconds:g} s") from error
        raise


def _output(
    model: str, shown: str, rows: Sequence[Mapping[str, Any]], kept: Mapping[str, Any]
) -> ModelOutput:
    tokens_in = sum(row["tokens_in"] for row in rows)
    tokens_out = sum(row["tokens_out"] for row in rows)
    message = ChatMessageAssistant(
        content=[ContentImage(image=shown)], model=model, source="generate"
    )
    return ModelOutput(
        model=model,
        choices=[ChatCompletionChoice(message=message, stop_reason="stop")],
        usage=ModelUsage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            total_tokens=tokens_in + tokens_out,
            total_cost=sum(row["usd"] for row in rows),
        ),
        time=sum(row["seconds"] for row in rows),
        metadata={"prompt": kept["prompt"], "image": kept["image"]},
    )


def _told_of(
    unit: Unit, arm: Arm, generator: ImageGenerator | None, accounts: Mapping[str, AccountSpec]
) -> dict[str, Any]:
    return {
        "state": "done",
        "arm": arm.name,
        "image": unit.facts["kept"],
        "steering": steering_of(arm, generator, accounts),
        "rounds": [dict(row) for row in unit.rows["rounds"]],
    }
