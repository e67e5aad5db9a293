"""What a source of answers gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scenewright.evals.studies.panel.base import LiveJudges
from scenewright.evals.studies.panel.table import AnswerTable

OnProgress = Callable[[str, int, int], None]
"""Is told what is done, how far it is, and of how much; 0 of 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table of answers, and what goes with it."""

    table: AnswerTable
    """The answers."""
    about: str
    """Where they come from, as a sentence."""
    live: LiveJudges | None = None
    """Judges to ask; None where only answers are there."""
    loop_judges: tuple[str, ...] = ()
    """Judges of the table that steered a loop."""
    notes: tuple[str, ...] = ()
    """What to know of them: what was left out, and why."""
