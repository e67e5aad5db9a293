"""What a study of the kit is: what it needs of a table, and what it makes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from scenewright.config.settings import Settings
from scenewright.evals.judge_reports.labelled_facts import LabelledFact
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.panel.table import AnswerTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from scenewright.core.ports.judge import Judge
    from scenewright.providers import AnswerStore

Need = Literal[
    "truth", "ratings", "truth or ratings", "models", "soft", "rounds", "several", "live"
]
"""Facts of known truth, human ratings, one of these two, two models or more that drew,
probabilities that are not bare votes, rounds of a loop, two judges or more, judges that can be
asked again."""


class Options(BaseModel):
    """Options of a study; a study without any takes this."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        # `scenewright study parts` tells what they mean.
        use_attribute_docstrings=True,
    )


@dataclass(frozen=True, slots=True)
class LiveJudges:
    """Judges that can be asked, and pictures to ask them about."""

    judges: tuple[Judge, ...]
    """In the order of the table's columns."""
    facts: tuple[LabelledFact, ...]
    """Facts with their pictures, in the order of the table's rows; ``holds`` is the table's truth,
    and means nothing where that is NaN."""
    store: AnswerStore
    """Keeps answers, so that a study that was stopped goes on and pays for nothing twice."""
    limit: float | None = None
    """Seconds of one call of a judge."""


@dataclass(frozen=True, slots=True)
class PanelStudyContext:
    """What a study works with."""

    table: AnswerTable
    """The answers."""
    learn: AnswerTable | None
    """Other answers of the same judges whose truth or ratings may be learnt from; None: there are
    none, and what must learn does so by cross-validation over items."""
    folder: Path
    """Its own folder, for what it keeps between starts; exists."""
    settings: Settings
    """Of this machine."""
    seed: int = 0
    """Of all chance."""
    resamples: int = 1000
    """Resamples behind each interval."""
    loop_judges: tuple[str, ...] = ()
    """Judges of the table that steered the loop, if it was one."""
    live: LiveJudges | None = None
    """Judges to ask; None where only answers are there."""
    told: Callable[[int, int], None] = lambda done, total: None
    """Is told of progress."""


@dataclass(frozen=True, slots=True)
class PanelStudyResult:
    """What a study found."""

    findings: tuple[str, ...]
    """Whole sentences, each with its figures and intervals, the most important first."""
    tables: tuple[Layout, ...]
    """For the page (``of_paper=False`` where no paper has them)."""
    plots: Mapping[str, Callable[[], Plot]]
    """File stem → what draws it."""
    records: Mapping[str, Sequence[Mapping[str, Any]]]
    """File stem → rows of a parquet table, of text, numbers, booleans or None; all that the plots
    and tables show, unrounded."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Flat keys → number, or ``{"mean", "low", "high"}``, for JSON."""
    notes: tuple[str, ...] = ()
    """What must be known to read them: definitions, limits, what was left out and why."""


@dataclass(frozen=True, slots=True)
class PanelStudy:
    """A study of the kit."""

    name: str
    """As in configurations, for example ``composition``."""
    title: str
    """One line for the page."""
    about: str
    """What question it answers, a sentence."""
    needs: frozenset[Need]
    """Without these it is left out, with the reason."""
    options: type[Options]
    """Its options."""
    run: Callable[[PanelStudyContext, Any], Awaitable[PanelStudyResult]]
    """Does it, with its options. Raises ``PanelStudyError``. Long work is done in threads and tells
    its progress; what it asks of judges goes through the store."""


def unmet_need(part: PanelStudy, table: AnswerTable, live: LiveJudges | None) -> str:
    """Why ``part`` cannot be run with ``table``, as a sentence without a full stop; else empty."""
    truth = table.truth
    there: dict[Need, tuple[bool, str]] = {
        "truth": (
            bool((truth == 1.0).any() and (truth == 0.0).any()),
            "it needs facts whose truth is known, some that hold and some that do not",
        ),
        "ratings": (
            bool((~np.isnan(table.ratings)).sum() >= 2),
            "it needs human ratings of images",
        ),
        "truth or ratings": (
            bool((truth == 1.0).any() and (truth == 0.0).any())
            or bool((~np.isnan(table.ratings)).sum() >= 2),
            "it needs facts whose truth is known, some that hold and some that do not, or human "
            "ratings of images",
        ),
        "models": (
            len({image.model for image in table.images} - {""}) >= 2,
            "it needs images by two models or more",
        ),
        "soft": (
            bool(((table.said > 0.0) & (table.said < 1.0)).any()),
            "it needs judges that give probabilities, not bare votes",
        ),
        "rounds": (
            len({image.round for image in table.images} - {None}) >= 2,
            "it needs images of several rounds of a loop (judge_rounds = 'all')",
        ),
        "several": (len(table.judges) >= 2, "it needs two judges or more"),
        "live": (live is not None, "it needs judges that can be asked again"),
    }
    if table.n_items < 2:
        return "it needs images of two items or more, as every interval is over items"
    return next((there[need][1] for need in sorted(part.needs) if not there[need][0]), "")
