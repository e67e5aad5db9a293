"""What a study of a panel is to do, as a TOML file says it: where the answers come from, what may
be learnt from, and which parts of the kit are run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.validation import first_problem
from scenewright.evals.store.toml_files import read_toml
from scenewright.evals.studies.panel.base import Options, PanelStudy
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.parts.registry import PARTS

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
    """Judges that steered the loop; none: what the source tells of it."""
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
                raise ValueError(f"there is no part {name!r}: use one of {', '.join(PARTS)}")
        if len(set(chosen)) != len(chosen):
            raise ValueError("parts lists one twice")
        for name in self.part:
            if chosen and name not in chosen:
                raise ValueError(f"[part.{name}] has options, but parts does not list it")
        return self

    def options_of(self, part: PanelStudy) -> Options:
        """The options of ``part``. Raises ``PanelStudyError`` for wrong ones."""
        try:
            return part.options.model_validate(self.part.get(part.name, {}))
        except ValidationError as error:
            known = ", ".join(part.options.model_fields) or "none"
            raise PanelStudyError(
                f"[part.{part.name}] {first_problem(error)}; its options: {known}"
            ) from error


def load_study(path: str | Path) -> StudyConfig:
    """The configuration in the TOML file ``path``.

    Raises ``PanelStudyError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, StudyConfig, PanelStudyError)
