"""Define studies of panels: their configuration, their parts by name, and results of parts.

A configuration (TOML) names the source of the answers, another table to learn from, and the parts
that are run. A part needs certain things of a table, and returns findings, tables and plots.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from scenewright.config.settings import Settings
from scenewright.core.suggestions import suggestion
from scenewright.core.validation import first_problem
from scenewright.evals.judge_reports.labelled_facts import LabelledFact
from scenewright.evals.reporting.charts import Chart
from scenewright.evals.reporting.frames import Frame
from scenewright.evals.reporting.sentences import Sentences
from scenewright.evals.store.files import read_toml
from scenewright.evals.studies.panel.aggregators.registry import AGGREGATORS, unknown_aggregator
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

if TYPE_CHECKING:
    from scenewright.core.ports.judge import Judge
    from scenewright.providers import AnswerStore

Need = Literal["truth", "ratings", "truth or ratings", "several", "live"]
"""Facts of known truth, human ratings, one of these two, two judges or more, judges that can be
asked again."""


class Options(BaseModel):
    """Options of a study; a study without any takes this."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        # `scenewright study parts` shows what they mean.
        use_attribute_docstrings=True,
    )

    @field_validator("aggregators", "names", "base", "panel", check_fields=False)
    @classmethod
    def _known_aggregators(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            if name not in AGGREGATORS:
                raise ValueError(unknown_aggregator(name))
        return value


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
    """Called with the progress: done, total."""

    @property
    def learnt(self) -> str:
        """Where fitted aggregators learn, before "by cross-validation"."""
        if self.learn is None:
            return "did so"
        return f"learnt from {self.learn.name} where that has them, and otherwise"

    def steps(self, total: int) -> Callable[[], None]:
        """Return a function that reports one more of ``total`` steps each time it is called."""
        done = count(1)
        return lambda: self.told(min(next(done), total), total)


@dataclass(frozen=True, slots=True)
class PanelStudyResult:
    """What a study found."""

    findings: tuple[str, ...]
    """Whole sentences, each with its figures and intervals, the most important first."""
    frames: tuple[Frame, ...]
    """Tables: those with columns are on the page, those that are kept are parquet files with all
    that plots and tables show, unrounded; those without rows are neither."""
    charts: tuple[Chart, ...] = ()
    """Plots, the leading one first."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Flat keys → number, or ``{"mean", "low", "high"}``, for JSON."""
    notes: tuple[str, ...] = ()
    """What must be known to read them: definitions, limits, what was left out and why."""

    @property
    def tables(self) -> tuple[Frame, ...]:
        """Return the frames that are on the page."""
        return tuple(one for one in self.frames if one.columns and one.rows)

    @property
    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each parquet file by its stem."""
        return {one.name: one.records() for one in self.frames if one.kept and one.rows}


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
    """Runs it with its options. Raises ``PanelStudyError``. Long work is done in threads and tells
    its progress; what it asks of judges goes through the store."""


def in_thread(
    measured: Callable[[PanelStudyContext, Any], PanelStudyResult],
) -> Callable[[PanelStudyContext, Any], Awaitable[PanelStudyResult]]:
    """Return a part's ``run`` that computes in a thread."""

    @wraps(measured)
    async def run(context: PanelStudyContext, options: Any) -> PanelStudyResult:
        return await asyncio.to_thread(measured, context, options)

    return run


def sentences_of(part: str) -> Sentences:
    """Return the texts of the findings and notes of ``part``."""
    return Sentences.of("scenewright.evals.studies.panel.parts", "sentences.toml", part)


def unmet_need(part: PanelStudy, table: AnswerTable, live: LiveJudges | None) -> str:
    """Why ``part`` cannot be run with ``table``, as a sentence without a full stop; else empty."""
    labelled, rated = table.is_labelled, int((~np.isnan(table.ratings)).sum()) >= 2
    facts = "facts whose truth is known, some that hold and some that do not"
    there: dict[Need, tuple[bool, str]] = {
        "truth": (labelled, f"it needs {facts}"),
        "ratings": (rated, "it needs human ratings of images"),
        "truth or ratings": (labelled or rated, f"it needs {facts}, or human ratings of images"),
        "several": (len(table.judges) >= 2, "it needs two judges or more"),
        "live": (live is not None, "it needs judges that can be asked again"),
    }
    if table.n_items < 2:
        return "it needs images of two items or more, as every interval is over items"
    return next((there[need][1] for need in sorted(part.needs) if not there[need][0]), "")


PARTS: tuple[str, ...] = (
    "people",
    "composition",
    "frontier",
    "aggregators",
    "attacks",
    "images",
    "questions",
    "circularity",
    "power",
)
"""Names in the order of the page; each is a module beside this one that holds ``PART``."""


def part_of(name: str) -> PanelStudy:
    """Return the study of that name; raises ``PanelStudyError`` for an unknown one."""
    if name not in PARTS:
        raise PanelStudyError(f"unknown study {name!r}: use one of {', '.join(PARTS)}")
    found: PanelStudy = import_module(f"scenewright.evals.studies.panel.parts.{name}").PART
    return found


MINIATURE_JUDGES: tuple[str, ...] = tuple(
    f"local:miniature/judge-{name}" for name in ("a", "b", "c", "d", "weak", "eager")
)
"""Judges that come with the package: four good ones, one that learnt for a short time, and one
that says yes too easily."""
ModelOf = Literal["arm", "backend", "condition", "backend/condition"]
"""What of an evaluation's arms counts as the model that drew."""


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DsgSource(_Source):
    """The answers that were released with the Davidsonian Scene Graph, on TIFA160."""

    kind: Literal["dsg"]
    """Marks it."""
    path: str
    """Folder of the release: the one with ``tifa160-likert-anns.csv``."""


class _Evaluated(_Source):
    ratings: str | None = None
    """CSV or parquet file of what people gave the pictures: columns item, arm or model, rater,
    rating; or what ``scenewright rate export`` wrote."""
    model: ModelOf = "backend/condition"
    """What counts as the model that drew."""
    ask_again: bool = False
    """Whether the judges are made again from their ids, for parts that ask them."""


class EvaluationSource(_Evaluated):
    """A finished evaluation."""

    kind: Literal["evaluation"]
    """Marks it."""
    path: str
    """Folder that ``scenewright eval run`` wrote."""


class LiveSource(_Evaluated):
    """An evaluation that is run first, or gone on with."""

    kind: Literal["live"]
    """Marks it."""
    path: str
    """Configuration of ``scenewright eval run``."""
    out: str | None = None
    """Folder of the evaluation; by default ``evaluation`` in the study's folder."""


class RunsSource(_Source):
    """Runs of the loop."""

    kind: Literal["runs"]
    """Marks it."""
    path: str
    """A run folder, or a folder of run folders, as ``scenewright refine`` writes them."""


class TableSource(_Source):
    """A table of answers, a CSV or parquet file."""

    kind: Literal["table"]
    """Marks it."""
    path: str
    """The file: one row an answer; image, fact, judge and answer or probability are needed."""


class _Asked(_Source):
    judges: tuple[str, ...] = Field(default=MINIATURE_JUDGES, min_length=1)
    """Who is asked, as ``kind:model``."""

    @model_validator(mode="after")
    def _different(self) -> Self:
        if len(set(self.judges)) != len(self.judges):
            raise ValueError("judges lists one twice: its vote would count double")
        return self


class SyntheticSource(_Asked):
    """Paintings of the miniature world, whose truth is exact; the judges are asked."""

    kind: Literal["painted"]
    """Marks it."""
    paintings: int = Field(default=60, ge=1)
    """How many; each gives about twelve facts."""
    seed: int = 0
    """Other seeds give other paintings."""
    as_in_runs: bool = False
    """Whether only facts are asked that a run would ask: no attribute and no relation of a thing
    that is not there."""


class LabelsSource(_Asked):
    """Your own labelled pictures; the judges are asked."""

    kind: Literal["labels"]
    """Marks it."""
    path: str
    """CSV or parquet file of labels, as ``scenewright judges report --labels`` takes it."""


class SimulationSource(_Source):
    """Simulated judges with known rates, correlation and calibration."""

    kind: Literal["simulation"]
    """Marks it."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """Fields of :class:`~scenewright.evals.studies.panel.simulator.SimulationSpec`."""


Source = Annotated[
    DsgSource
    | EvaluationSource
    | LiveSource
    | RunsSource
    | TableSource
    | SyntheticSource
    | LabelsSource
    | SimulationSource,
    Field(discriminator="kind"),
]
"""Where a table of answers comes from."""


class StudyConfig(BaseModel):
    """A whole study of a panel."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """How it is called; the default folder is ``studies/NAME``."""
    about: str = ""
    """One sentence for the page."""
    source: Source
    """Where the answers come from."""
    learn: Source | None = None
    """Other answers of the same judges whose truth or ratings may be learnt from; without, what
    must learn does so by cross-validation over items."""
    parts: tuple[str, ...] | None = None
    """Which parts are run, in the page's order; none: all that can be run."""
    part: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Name of a part → its options."""
    families: dict[str, str] = Field(default_factory=dict)
    """Judge → family: judges of one family may err together."""
    loop_judges: tuple[str, ...] | None = None
    """Judges that steered the loop; none: as the source says."""
    seed: int = Field(default=0, ge=0)
    """Of all chance."""
    resamples: int = Field(default=1000, ge=100, le=100_000)
    """Resamples behind each interval."""
    limit_usd: float | None = Field(default=5.0, ge=0.0)
    """Dollars of the estimate above which the command asks first."""

    @model_validator(mode="after")
    def _known_parts(self) -> Self:
        chosen = self.parts or ()
        if self.parts is not None and not chosen:
            raise ValueError("parts is empty: name at least one, or leave it out for all")
        for name in (*chosen, *self.part):
            if name not in PARTS:
                raise ValueError(f"unknown part {name!r}: use one of {', '.join(PARTS)}")
        if len(set(chosen)) != len(chosen):
            raise ValueError("parts lists one twice")
        for name in self.part:
            if chosen and name not in chosen:
                raise ValueError(f"[part.{name}] has options, but parts does not list it")
        return self

    def options_of(self, part: PanelStudy) -> Options:
        """Return the options of ``part``.

        Raises ``PanelStudyError`` for wrong ones.
        """
        try:
            return part.options.model_validate(self.part.get(part.name, {}))
        except ValidationError as error:
            known = ", ".join(part.options.model_fields) or "none"
            raise PanelStudyError(
                f"[part.{part.name}] {first_problem(error)}{suggestion(error, part.options)}; "
                f"its options: {known}"
            ) from error


def load_study(path: str | Path) -> StudyConfig:
    """Return the configuration in the TOML file ``path``.

    Raises ``PanelStudyError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, StudyConfig, PanelStudyError)


def example_of(kind: str) -> str:
    """Return a configuration that works with that kind of source, as TOML."""
    file = files("scenewright.evals.studies.panel").joinpath("assets", "examples", f"{kind}.toml")
    return file.read_text(encoding="utf-8")
