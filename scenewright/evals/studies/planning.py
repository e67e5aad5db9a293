"""From what studies want to evaluations: each picture is drawn once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scenewright.config.settings import Settings
from scenewright.evals.datasets.base import Dataset, DatasetSpec
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import SCENES_FAMILY, StudyDefinition, StudyRequirement, Trial


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation, and the wants that it meets."""

    family: str
    """Its folder: pictures and answers that lie there already are not made again."""
    config: EvalConfig
    """What is done."""
    dataset: Dataset | None
    """The set, where it is a study's own."""
    wants: tuple[tuple[int, int], ...]
    """(number of the study, number of its want) of all that it meets."""

    @property
    def arms(self) -> int:
        """Backends × conditions × seeds."""
        config = self.config
        return len(config.backends) * len(config.conditions) * len(config.seeds)

    @property
    def title(self) -> str:
        """What is told of it while it is at work."""
        return self.config.dataset.name


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial of a study's own, and the want that it meets."""

    trial: Trial
    """What is done."""
    wants: tuple[tuple[int, int], ...]
    """(number of the study, number of its want)."""

    @property
    def family(self) -> str:
        """Its folder."""
        return self.trial.family

    @property
    def title(self) -> str:
        """What is told of it while it is at work."""
        return self.trial.title


Job = Evaluation | PlannedTrial
"""What is run in a folder of its own."""


def plan(
    studies: Sequence[StudyDefinition], setup: Setup, settings: Settings, work: Path | None = None
) -> tuple[Evaluation, ...]:
    """The evaluations of ``studies``: wants with the same family, panels and seeds become one.

    The largest of a family comes last, so that the tables that stay in its folder are the fullest.
    ``work`` is the folder of what they need on disk; without it nothing is written, and painted
    scenes have no photos. Raises what the studies' ``wants`` raise.
    """
    groups: dict[str, list[tuple[tuple[int, int], StudyRequirement]]] = {}
    for at, study in enumerate(studies):
        for number, want in enumerate(study.wants(setup, settings)):
            if isinstance(want, Trial):
                continue
            panels = [f"{name}={spec.model_dump_json()}" for name, spec in want.panels.items()]
            own = want.dataset.fingerprint if want.dataset is not None else ""
            key = "\n".join([want.family, want.apart, own, str(want.seeds), *panels])
            groups.setdefault(key, []).append(((at, number), want))
    found = [_merged(some, setup, work) for some in groups.values()]
    return tuple(sorted(found, key=lambda e: (e.family != SCENES_FAMILY, e.family, e.arms)))


def planned_trials(
    studies: Sequence[StudyDefinition], setup: Setup, settings: Settings
) -> tuple[PlannedTrial, ...]:
    """The trials of ``studies``, in their order. Raises what the studies' ``wants`` raise."""
    return tuple(
        PlannedTrial(want, ((at, number),))
        for at, study in enumerate(studies)
        for number, want in enumerate(study.wants(setup, settings))
        if isinstance(want, Trial)
    )


def _merged(
    some: list[tuple[tuple[int, int], StudyRequirement]], setup: Setup, work: Path | None
) -> Evaluation:
    wants = [want for _, want in some]
    first = wants[0]
    metrics = {metric.model_dump_json(): metric for want in wants for metric in want.metrics}
    spec = setup.set_of_scenes(work)
    if first.dataset is not None:
        # It is handed over as it is: the name alone stands in the results.
        spec = DatasetSpec(name=first.dataset.name)
    config = setup.config(
        f"study-{first.family}",
        about=f"Pictures of the studies of Scene-Bench ({setup.profile})",
        dataset=spec,
        conditions=tuple(dict.fromkeys(name for want in wants for name in want.conditions)),
        panels=dict(first.panels),
        seeds=first.seeds,
        metrics=tuple(metrics.values()),
        scopes=tuple(dict.fromkeys(scope for want in wants for scope in want.scopes)),
        judge_rounds="all" if any(want.all_rounds for want in wants) else "kept",
    )
    return Evaluation(first.family, config, first.dataset, tuple(place for place, _ in some))
