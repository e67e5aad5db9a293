"""Arguments of a run in Python: the options of every door, and what only Python can give.

:func:`scenewright.runs.api.refine`, :func:`~scenewright.runs.api.stream_refine` and
:func:`~scenewright.runs.plan.plan_run` take them as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from PIL import Image
from pydantic import ValidationError

from scenewright.config import OnModelChange
from scenewright.config.options import (
    Asking,
    Budget,
    Noise,
    ReferencePrompt,
    Repair,
    RunOptions,
    SentenceReader,
)
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import Protocol
from scenewright.core.suggestions import did_you_mean, suggestion
from scenewright.core.validation import first_problem
from scenewright.graphs.checkpoints import CheckpointFactory
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Edit, SentenceReading

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ModelObjects(TypedDict, total=False):
    """Models given as objects; None keeps the profile's."""

    backend: ImageBackend | None
    composer: Composer | None
    chat: BaseChatModel | None
    """Language model of the director."""
    realism_judges: Sequence[Judge] | None
    """Judges of the loop for the realism of objects."""
    realism_report_judges: Sequence[Judge] | None
    """Judges of the report for the realism of objects."""


class ModelOverrides(ModelObjects, total=False):
    """Models that replace those of a profile; None keeps the profile's."""

    judges: Sequence[Judge] | None
    """Judges of the loop."""
    report_judges: Sequence[Judge] | None
    """Judges that report the result and never steer the loop."""


class ControlArguments(TypedDict, total=False):
    """Control of a run by a person or by the process that executes it."""

    edit: Edit | None
    """Correction of a paused or finished run, which continues from there; an edit whose key the run
    already knows is not applied again."""
    pause: Callable[[], bool] | None
    """Called before each repair plan: once it returns true the run waits for a person."""
    checkpoints: CheckpointFactory | None
    """Opens the checkpoint store (default: a file in the run folder)."""
    settings: Settings | None
    """Settings of this machine (default: read from files and the environment)."""


class RunArguments(ModelObjects, ControlArguments, total=False):
    """Keyword arguments of a run.

    The names of :class:`~scenewright.config.options.RunOptions`, which documents them, may be given
    one by one or together as ``options``.
    """

    options: RunOptions
    judges: Sequence[Judge] | Sequence[str] | None
    """Judges of the loop: objects, or names as ``kind:model``."""
    report_judges: Sequence[Judge] | Sequence[str] | None
    """Judges of the report: objects, or names as ``kind:model``."""
    self_report: bool
    strategy: str | None
    rounds: int
    patience: int
    realism: bool
    weight_best: float | None
    weight_missing: float | None
    repair: Repair | None
    repair_strength: float | None
    crop: bool | None
    proposals: int | None
    alpha: float | None
    protocol: Protocol | None
    asking: Asking | None
    reference_prompt: ReferencePrompt | None
    noise: Noise | None
    seed: int
    steps: int | None
    guidance: float | None
    negative_prompt: str | None
    width: int | None
    height: int | None
    budget: Budget | None
    reader: SentenceReader | None

    size: tuple[int, int] | None
    """Width and height in pixels, in place of ``width`` and ``height``."""
    out: str | Path | None
    """Run folder (default: one below ``runs/``, named after the configuration)."""
    resume: bool
    """Whether to continue, or return, the run of the same configuration (default true); otherwise a
    new run begins."""
    sentence: str
    """Words that a scene graph was read from: the title of the run's page, and the prompt of
    profiles that draw from sentences (default: none; a sentence is its own)."""
    reading: SentenceReading | None
    """Reading of the sentence of a scene graph, for the record and the costs of the run."""
    start: Image.Image | str | Path | None
    """Picture to begin with instead of drawing one."""
    mask: Image.Image | str | Path | None
    """Mask of the size of ``start``: white where it may change."""
    page: bool
    """Whether the run's page is written into its folder at the end (default true)."""
    on_model_change: OnModelChange
    """Reaction to a changed served version of a model: ``accept`` (default) warns, ``stop`` ends
    the run with a ``RunError``."""


MODELS: tuple[str, ...] = (*ModelOverrides.__annotations__,)
"""Names of the models that a caller may replace."""
_NAMED = ("judges", "report_judges")
"""Models that may be given by name."""


def check_names(arguments: Mapping[str, Any], known: type) -> None:
    """Raise ``TypeError`` for an argument that the class ``known`` does not declare."""
    for name in sorted(set(arguments) - set(known.__annotations__)):
        near = did_you_mean(name, known.__annotations__)
        raise TypeError(f"a run has no argument {name!r}{near or '; see RunOptions'}")


def read_arguments(arguments: RunArguments) -> tuple[RunOptions, ModelOverrides]:
    """Return the options and the model objects among the arguments of a run.

    Raises ``TypeError`` for an unknown argument and for judges that are none, ``RunError`` for a
    value that is not possible.
    """
    check_names(arguments, RunArguments)
    values: dict[str, Any] = dict(arguments)
    overrides = {name: values.get(name) for name in MODELS}
    options = values.get("options") or RunOptions()
    changes = {name: values[name] for name in RunOptions.model_fields if name in values}
    for name in _NAMED:
        judges = overrides[name]
        changes.pop(name, None)
        if judges is None:
            continue
        if isinstance(judges, str) or not isinstance(judges, Sequence):
            judges = [judges]
        if all(isinstance(judge, str) for judge in judges) and judges:
            changes[name] = tuple(judges)
            overrides[name] = None
        elif not all(isinstance(judge, Judge) for judge in judges):
            wrong = next(judge for judge in judges if not isinstance(judge, Judge))
            raise TypeError(
                f"{name}: {wrong!r} is not a judge. Give names as 'kind:model', for example "
                "'local:miniature/judge-a', or objects of scenewright.core.ports.judge.Judge, "
                "with id, fingerprint, caps and answer"
            )
    if (size := values.get("size")) is not None:
        changes |= {"width": size[0], "height": size[1]}
    if changes:
        try:
            options = RunOptions.model_validate(
                {**options.model_dump(exclude_unset=True), **changes}
            )
        except ValidationError as error:
            raise RunError(f"{first_problem(error)}{suggestion(error, RunOptions)}") from error
    return options, cast(ModelOverrides, overrides)
