"""The studies by name, in the paper's order."""

from __future__ import annotations

from scenewright.evals.studies import (
    attributes,
    categories,
    complexity,
    feedback,
    judges,
    model_tables,
    sensitivity,
)
from scenewright.evals.studies.errors import StudyError
from scenewright.evals.studies.study import Study

STUDIES: dict[str, Study] = {
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
    )
}
"""Name → study."""
ALL = "all"
"""What stands for every study on the command line."""


def studies_named(*names: str) -> tuple[Study, ...]:
    """Studies by name, each once; ``all`` is every one.

    Raises ``StudyError`` for an unknown name.
    """
    wanted = dict.fromkeys(STUDIES if ALL in names else names)
    for name in wanted:
        if name not in STUDIES:
            raise StudyError(
                f"there is no study {name!r}: use one of {', '.join(STUDIES)} or {ALL}"
            )
    return tuple(STUDIES[name] for name in wanted)
