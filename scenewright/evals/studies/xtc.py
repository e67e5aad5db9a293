"""Tables 2, 3 and 4 and Fig. 4 of XTC-Bench: what a model draws against what it understands.

No model of the miniature both draws and answers. Two ways of drawing and three judges that answer
make six pairs, which stand in for unified models: what a pair draws and what it understands come of
different weights. Pictures and answers that pairs share are made once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.evals.runner import OnProgress, Progress
from scenewright.evals.studies.context import Context
from scenewright.evals.studies.paper import xtc_paper
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import Outcome, Study, Trial
from scenewright.evals.studies.xtc_claims import claims_of
from scenewright.evals.studies.xtc_sheet import Sheet
from scenewright.evals.studies.xtc_tables import plot_of, tables_of
from scenewright.evals.xtc.base import FactScore
from scenewright.evals.xtc.config import ModelSpec, XtcConfig
from scenewright.evals.xtc.scores import XtcScores
from scenewright.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SCENES = 60
"""Scenes of the miniature's study: each is drawn twice and asked about three times over."""
CONDITIONS: dict[str, str] = {"composition": "composed", "triplets": "bare triplets"}
"""Way of drawing → how models that draw so are called."""


@dataclass(frozen=True, slots=True)
class Found:
    """What an evaluation by XTC-Bench found."""

    facts: Mapping[str, tuple[FactScore, ...]]
    """Model → its facts."""
    scores: Mapping[str, XtcScores]
    """Model → its figures."""


def config_of(setup: Setup) -> XtcConfig:
    """The evaluation. Raises ``StudyError`` if the profile lacks an extractor or understanders."""
    most = min(setup.scenes, MOST_SCENES) if setup.painted else setup.scenes
    scenes = setup.model_copy(update={"n": most}).set_of_scenes()
    return XtcConfig(
        name="study-xtc",
        about=f"XTC-Bench's tables ({setup.profile})",
        dataset=scenes,
        models={
            f"{title} + {short}": ModelSpec(
                profile=setup.profile, condition=condition, understander=understander
            )
            for condition, title in CONDITIONS.items()
            for short, understander in setup.who_understands().items()
        },
        extractor=setup.graph_extractor(),
        seeds=setup.seeds[:1],
        concurrency=setup.concurrency,
    )


def wants(setup: Setup, settings: Settings) -> tuple[Trial, ...]:
    """An evaluation by XTC-Bench in place of one by metrics."""
    config = config_of(setup)
    items = config.dataset.options.get("n") or config.dataset.limit or setup.scenes
    return (Trial("xtc", "XTC-Bench", int(items), partial(_run, config, settings)),)
