"""The studies by name."""

from __future__ import annotations

from importlib import import_module

from scenewright.evals.studies.panel.base import PanelStudy
from scenewright.evals.studies.panel.errors import PanelStudyError

PARTS: tuple[str, ...] = (
    "composition",
    "frontier",
    "aggregators",
    "attacks",
    "images",
    "questions",
    "circularity",
    "people",
    "power",
    "recovery",
)
"""Names in the order of the page; each is a module beside this one that holds ``PART``."""


def part_of(name: str) -> PanelStudy:
    """The study of that name; raises ``PanelStudyError`` for an unknown one."""
    if name not in PARTS:
        raise PanelStudyError(f"there is no study {name!r}: use one of {', '.join(PARTS)}")
    found: PanelStudy = import_module(f"scenewright.evals.studies.panel.parts.{name}").PART
    return found
