"""What a study is: what it needs drawn, judged or done, and what it makes of the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.settings import Settings
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.runner.config import MetricSpec, PanelSpec
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.paper import Paper, paper
from scenewright.evals.studies.setup import Setup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.progress import OnProgress

SCENES_FAMILY = "scenes"
"""Pictures of the setup's scenes."""
OBJECTS_FAMILY = "objects"
"""Pictures of single objects."""


@dataclass(frozen=True, slots=True)
class StudyRequirement:
    """Pictures, judgings and scores that a study needs.

    Wants of one family lie in one folder, where each picture is drawn once and each answer given
    once. Those with the same panels and seeds become one evaluation.
    """

    family: str
    """``scenes`` or ``objects``."""
    conditions: tuple[str, ...]
    """Ways of drawing."""
    panels: Mapping[str, PanelSpec]
    """Who judges."""
    metrics: tuple[MetricSpec, ...]
    """What is measured."""
    seeds: tuple[int, ...]
    """Seeds."""
    scopes: tuple[str, ...] = ("level",)
    """Parts of the set for metrics of sets."""
    all_rounds: bool = False
    """Whether every round of a loop is judged, not only what it keeps."""
    dataset: Dataset | None = None
    """A set of the study's own; none: the setup's scenes."""
    apart: str = ""
    """Wants of other words here are other evaluations, in the same folder: for metrics that cost
    much and are wanted of few of the family's pictures."""


@dataclass(frozen=True, slots=True)
class TrialCost:
    """What a trial costs at most if nothing of it is done yet."""

    usd: float
    """Dollars, where prices are known."""
    unpriced: tuple[str, ...] = ()
    """Models whose dollars are not counted."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Work of a study's own, where it is no evaluation of pictures by metrics."""

    family: str
    """Its folder: what lies there already is not done again, where the trial keeps things."""
    title: str
    """What is told of it while it is at work: ``xtc``."""
    items: int
    """Scenes or graphs that it goes through."""
    unit: str
    """What these are: ``graphs``."""
    run: Callable[[Path, OnProgress | None, bool], Awaitable[tuple[Any, Context]]]
    """Does it in a folder, telling its progress, with what failed or was left unscored before tried
    again if so asked; gives what the study's ``outcome`` reads, with
    what its readers must know. A call that was cut off goes on. Raises what ``run_studies`` may."""
    price: Callable[[], Awaitable[TrialCost]] | None = None
    """Works out what it costs; none: nothing, as all of it runs on this machine."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a study found."""

    tables: tuple[Layout, ...]
    """In the paper's layout."""
    claims: tuple[Claim, ...]
    """The paper's statements against the measured figures."""
    plot: Callable[[], Figure]
    """Draws the plot."""
    notes: tuple[str, ...] = ()
    """What is to be known beside the tables, as whole sentences."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What else goes into the JSON file."""


def _nothing(setup: Setup) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """A study: one of a paper's, or our own."""

    name: str
    """As on the command line."""
    file: str
    """Stem of its files: ``table4``."""
    number: str
    """What of the paper: ``Table 4``."""
    title: str
    """One line."""
    wants: Callable[[Setup, Settings], tuple[StudyRequirement | Trial, ...]]
    """What it needs. Raises ``SettingsError`` and ``StudyError`` for a profile it cannot use."""
    outcome: Callable[[Setup, Settings, Any], Outcome]
    """What it makes of a tuple of what was found, one a want: :class:`Readings` of a
    :class:`StudyRequirement`, of a :class:`Trial` what its ``run`` gives."""
    paper: Callable[[], Paper] = paper
    """Whose figures stand in it."""
    unsupported_reason: Callable[[Setup], str] = _nothing
    """What a setup must name before it can be measured, as a sentence without a full stop; empty if
    nothing. Then ``all`` leaves it out, and its ``wants`` raise a ``StudyError`` that says so."""


def scenes_wanted(
    setup: Setup,
    settings: Settings,
    conditions: tuple[str, ...],
    *metrics: str,
    seeds: tuple[int, ...] | None = None,
    **more: Any,
) -> tuple[StudyRequirement, ...]:
    """The want of most studies: the setup's scenes in ``conditions``, judged by the report's
    judges, with ``metrics`` beside SGScore; without ``seeds`` drawn with all of the setup's."""
    return (
        StudyRequirement(
            SCENES_FAMILY,
            conditions,
            setup.report_panel(settings),
            setup.metrics(*metrics),
            setup.seeds if seeds is None else seeds,
            **more,
        ),
    )
