"""The studies by name: Scene-Bench's in the paper's order, then those of graph against graph."""

from __future__ import annotations

from scenewright.evals.studies.psg.graph_damage import STUDY as GRAPH_DAMAGE
from scenewright.evals.studies.psg.psg import STUDY as PSG
from scenewright.evals.studies.scene_bench.attributes import ATTRIBUTES
from scenewright.evals.studies.scene_bench.complexity import CATEGORIES, COMPLEXITY
from scenewright.evals.studies.scene_bench.methods import MODEL_TABLES, TABLE4, TABLE7
from scenewright.evals.studies.scene_bench.reliability import JUDGES, SENSITIVITY
from scenewright.evals.studies.study import Setup, StudyDefinition, StudyError
from scenewright.evals.studies.xtc.study import STUDY as XTC

STUDIES: dict[str, StudyDefinition] = {
    study.name: study
    for study in (
        MODEL_TABLES,
        TABLE4,
        TABLE7,
        ATTRIBUTES,
        CATEGORIES,
        COMPLEXITY,
        JUDGES,
        SENSITIVITY,
        XTC,
        PSG,
        GRAPH_DAMAGE,
    )
}
"""Name → study."""
ALL = "all"
"""What stands for every study on the command line."""


def studies_named(*names: str, setup: Setup | None = None) -> tuple[StudyDefinition, ...]:
    """Return studies by name, each once.

    ``all`` is every one, with a ``setup`` every one that it can measure. Raises ``StudyError`` for
    an unknown name.
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
            raise StudyError(f"unknown study {name!r}: use one of {', '.join(STUDIES)} or {ALL}")
    return tuple(STUDIES[name] for name in wanted)
