"""Options of a run and the models that replace those of its profile, each declared once.

:func:`scenewright.runs.api.refine`, :func:`~scenewright.runs.api.stream_refine` and
:func:`~scenewright.runs.plan.plan_run` take them as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from PIL import Image

from scenewright.config import OnModelChange
from scenewright.config.options import Budget
from scenewright.config.profiles import SentenceReader
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.graphs.checkpoints import CheckpointFactory
from scenewright.graphs.events import Edit, SentenceReading

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ModelOverrides(TypedDict, total=False):
    """Models that replace those of a profile; None keeps the profile's."""

    backend: ImageBackend | None
    judges: Sequence[Judge] | None
    """Judges of the loop."""
    report_judges: Sequence[Judge] | None
    """Judges that report the result and never steer the loop."""
    composer: Composer | None
    chat: BaseChatModel | None
    """Language model of the director."""
    realism_judges: Sequence[Judge] | None
    """Judges of the loop for the realism of objects."""
    realism_report_judges: Sequence[Judge] | None


class PersonOptions(TypedDict, total=False):
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


class RunOptions(ModelOverrides, PersonOptions, total=False):
    """Options of a run."""

    out: str | Path | None
    """Run folder (default: one below ``runs/``, named after the configuration)."""
    resume: bool
    """Whether to continue, or return, the run of the same configuration (default true); otherwise a
    new run begins."""
    rounds: int
    """Most rounds, the first candidate included (default 3)."""
    patience: int
    """Rounds in a row without a better candidate (default 2)."""
    budget: Budget | None
    """Most images, seconds and dollars."""
    seed: int
    """Seed of the run (default 0)."""
    size: tuple[int, int] | None
    """Width and height of the drawn pictures in pixels (default: the profile's)."""
    sentence: str
    """Words that a scene graph was read from: the title of the run's page, and the prompt of
    profiles that draw from sentences (default: none; a sentence is its own)."""
    reader: SentenceReader | None
    """Parser of a sentence: ``llm``, ``rules``, or None for the profile's (default): its language
    model where it has one, in whose place the rules read if it fails."""
    reading: SentenceReading | None
    """How the sentence of a scene graph was read, which the run tells and counts."""
    strategy: str | None
    """Repair strategy (``scenewright strategies``) or ``director`` (default: the profile's)."""
    realism: bool
    """Whether judges also say how real each object looks (default false)."""
    self_report: bool
    """Whether the judges of the loop may report its result; it is labelled (default false)."""
    start: Image.Image | str | Path | None
    """Picture to begin with instead of drawing one."""
    mask: Image.Image | str | Path | None
    """Mask of the size of ``start``: white where it may change."""
    page: bool
    """Whether the run's page is written into its folder at the end (default true)."""
    on_model_change: OnModelChange
    """Reaction to a changed served version of a model: ``accept`` (default) warns, ``stop`` ends
    the run with a ``RunError``."""


DEFAULTS = RunOptions(
    rounds=3,
    seed=0,
    patience=2,
    resume=True,
    realism=False,
    self_report=False,
    page=True,
    on_model_change="accept",
)
MODELS: tuple[str, ...] = tuple(ModelOverrides.__annotations__)
"""Names of the models that a caller may replace."""


def overrides_of(options: Mapping[str, Any]) -> ModelOverrides:
    """Return the models among ``options``; None for each model of the profile that stays."""
    return cast(ModelOverrides, {name: options.get(name) for name in MODELS})


def check_names(given: Mapping[str, Any], known: type) -> None:
    """Raise ``TypeError`` for an argument that the class ``known`` does not declare."""
    unknown = sorted(set(given) - set(known.__annotations__))
    if unknown:
        raise TypeError(f"unknown arguments of a run: {', '.join(unknown)}")
