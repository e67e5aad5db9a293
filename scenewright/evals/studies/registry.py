"""The studies by name: Scene-Bench's in the paper's order, then those of graph against graph."""

from __future__ import annotations

from scenewright.evals.studies import model_tables
from scenewright.evals.studies.errors import StudyError
from scenewright.evals.studies.psg import graph_damage, psg
from scenewright.evals.studies.scene_bench import (
    attributes,
    categories,
    complexity,
    feedback,
    judges,
    sensitivity,
)
from scenewright.evals.studies.setup import Setup
from scenewright.evals.studies.study import StudyDefinition
from scenewright.evals.studies.xtc import study as xtc

STUDIES: dict[str, StudyDefinition] = {
    study.name: study
    for study in (
        model_tables.STUDY,
        feedback.TABLE4,
        feedback.TABLE7,
        attributes.STUDY,
        categories.STUDY,
        complexity.STUDY,
        judges.STUDY,
        sensitivity.STUDY,
        xtc.STUDY,
        psg.STUDY,
        graph_damage.STUDY,
    )
}
"""Name → study."""
ALL = "all"
"""What stands for every study on the command line."""


def studies_named(*names: str, setup: Setup | None = None) -> tuple[StudyDefinition, ...]:
    """Studies by name, each once; ``all`` is every one, with a ``setup`` every one that it lacks
    nothing for.

    Raises ``StudyError`` for an unknown name.
    """
    every = [
        name
        for name, study in STUDIES.items()
        if setup is None or not study.unsupported_reason(setup)
    ]
    wanted = dict.fromkeys(
        [name for given in names for name in (every if given == ALL else [given])]
    )
    for name in wanted:
        if name not in STUDIES:
            raise StudyError(
                f"there is no study {name!r}: use one of {', '.join(STUDIES)} or {ALL}"
            )
    return tuple(STUDIES[name] for name in wanted)
