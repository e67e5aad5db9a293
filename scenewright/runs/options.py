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
from scenewright.config.settings import Settings
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.judge import Judge
from scenewright.graphs.checkpoints import CheckpointFactory
from scenewright.graphs.events import Edit
from scenewright.graphs.state import Budget

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


class ModelOverrides(TypedDict, total=False):
    """Models that replace those of a profile; none replaces nothing."""

    backend: ImageBackend | None
    judges: Sequence[Judge] | None
    """Judges of the loop."""
    report_judges: Sequence[Judge] | None
    """Judges that report the result and never steer."""
    composer: Composer | None
    chat: BaseChatModel | None
    """Language model of the director."""
    realism_judges: Sequence[Judge] | None
    """Judges of the loop that say how real objects look."""
    realism_report_judges: Sequence[Judge] | None


class PersonOptions(TypedDict, total=False):
    """What a person, or the process that drives a run, may do with it."""

    edit: Edit | None
    """Correction of a paused or finished run, which goes on from there; one that the run knows by
    its key is not made again."""
    pause: Callable[[], bool] | None
    """Asked before each plan: once it says yes the run waits for a person."""
    checkpoints: CheckpointFactory | None
    """Opens the store of where the loop stands (default: a file in the run folder)."""
    settings: Settings | None
    """Settings of this machine (default: read from files and the environment)."""


class RunOptions(ModelOverrides, PersonOptions, total=False):
    """Options of a run."""

    out: str | Path | None
    """Run folder; by default one below ``runs/`` that the whole configuration names."""
    resume: bool
    """Whether the run of the same configuration goes on, or is returned (default); without it a
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
    """Width and height in pixels of what is drawn (default: the profile's)."""
    strategy: str | None
    """Replaces the profile's: a name of ``scenewright strategies``, or ``director``."""
    realism: bool
    """Whether judges are asked as well how real each object looks (default no)."""
    self_report: bool
    """Whether the judges of the loop report its result, which is labelled so (default no)."""
    start: Image.Image | str | Path | None
    """Picture that the run begins with in place of drawing one."""
    mask: Image.Image | str | Path | None
    """White where ``start`` may be changed; of its size."""
    on_model_change: OnModelChange
    """``accept`` (default) warns where a model is served by another version than before, ``stop``
    ends the run with a ``RunError``."""


DEFAULTS = RunOptions(
    rounds=3,
    seed=0,
    patience=2,
    resume=True,
    realism=False,
    self_report=False,
    on_model_change="accept",
)
MODELS: tuple[str, ...] = tuple(ModelOverrides.__annotations__)
"""Names of the models that a caller may replace."""


def overrides_of(options: Mapping[str, Any]) -> ModelOverrides:
    """Return the models among ``options``; None for each that replaces nothing."""
    return cast(ModelOverrides, {name: options.get(name) for name in MODELS})


def check_names(given: Mapping[str, Any], known: type) -> None:
    """Raise ``TypeError`` if an argument is none of those that the class ``known`` declares."""
    unknown = sorted(set(given) - set(known.__annotations__))
    if unknown:
        raise TypeError(f"unknown arguments of a run: {', '.join(unknown)}")
