"""What a study is: what it needs drawn and judged, and what it makes of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scenewright.evals.config import MetricSpec, PanelSpec
from scenewright.evals.datasets.base import Dataset
from scenewright.evals.studies.claims import Claim
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.readings import Readings
from scenewright.evals.studies.setup import Setup
from scenewright.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENES_FAMILY = "scenes"
"""Pictures of the setup's scenes."""
OBJECTS_FAMILY = "objects"
"""Pictures of single objects."""


@dataclass(frozen=True, slots=True)
class Want:
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


@dataclass(frozen=True, slots=True)
class Study:
    """One of the paper's studies."""

    name: str
    """As on the command line."""
    file: str
    """Stem of its files: ``table4``."""
    number: str
    """What of the paper: ``Table 4``."""
    title: str
    """One line."""
    wants: Callable[[Setup, Settings], tuple[Want, ...]]
    """What it needs. Raises ``SettingsError`` and ``StudyError`` for a profile it cannot use."""
    outcome: Callable[[Setup, Settings, tuple[Readings, ...]], Outcome]
    """What it makes of the readings, one a want."""


def scenes_wanted(
    setup: Setup,
    settings: Settings,
    conditions: tuple[str, ...],
    *metrics: str,
    seeds: tuple[int, ...] | None = None,
    **more: Any,
) -> tuple[Want, ...]:
    """The want of most studies: the setup's scenes in ``conditions``, judged by the report's
    judges, with ``metrics`` beside SGScore; without ``seeds`` drawn with all of the setup's."""
    return (
        Want(
            SCENES_FAMILY,
            conditions,
            setup.report_panel(settings),
            setup.metrics(*metrics),
            setup.seeds if seeds is None else seeds,
            **more,
        ),
    )
