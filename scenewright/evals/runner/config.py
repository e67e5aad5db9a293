"""What an evaluation is to do, as a TOML file says it: dataset × backends × conditions × metrics ×
judges × seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scenewright.config import OnModelChange
from scenewright.config.settings import Aggregation, Asking
from scenewright.core.questions import Protocol
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.store.toml_files import read_toml

PACKAGE = "package"
"""As ``predicates``: wrong options without the counts of the evaluation's own set."""
Source = Literal["draw", "given", "originals"]
"""Where an arm's pictures come from: drawn here, files that are there, or the items' photos."""


class Condition(BaseModel):
    """One way of drawing: what it changes in a backend's profile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = "draw"
    """``draw``; ``given``: files ``ITEM.png`` (or .jpg, .jpeg, .webp) below :attr:`folder`, or
    below ``folder/SEED`` where there is such a folder; ``originals``: the photos of the set."""
    folder: str | None = None
    """Folder of the files that are ``given``."""
    text: Literal["scene", "prompt"] = "scene"
    """What is drawn: the scene, as the profile's composer words it, or the set's own ``prompt``."""
    rounds: int = Field(default=1, ge=1, le=100)
    """Most candidates; 1 draws without looking."""
    patience: int = Field(default=2, ge=1)
    """Rounds in a row without a better one after which the loop stops."""
    images: int | None = Field(default=None, ge=1)
    """Most pictures drawn, references included."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Fields of the profile that it replaces: ``{"composer": "triplets"}``,
    ``{"weight_missing": 0.0}``, ``{"strategy": "best-of-n"}``."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source == "given" and not self.folder:
            raise ValueError("pictures that are given lie in a folder: name it as folder = '…'")
        if self.text == "prompt" and self.rounds > 1:
            raise ValueError("a loop repairs a scene: use text = 'scene', or rounds = 1")
        return self


CONDITIONS: dict[str, Condition] = {
    "triplets": Condition(profile={"composer": "triplets"}),
    "composition": Condition(),
    "feedback": Condition(rounds=2),
    "feedback_3": Condition(rounds=3),
    "lambda1_0": Condition(rounds=2, profile={"weight_missing": 0.0, "repair": "whole"}),
    "best_of_3": Condition(rounds=3, patience=3, profile={"strategy": "best-of-n"}),
    "prompt": Condition(text="prompt"),
    "originals": Condition(source="originals"),
}
"""Conditions that every configuration may name: the paper's baseline (``triplets``), scene
composition alone, with one round of feedback or two, feedback whose reference image has no weight
(Table 7), best of three, the set's own texts as they stand, and its own photos."""


class PanelSpec(BaseModel):
    """A named list of judges, and how their answers become verdicts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judges: tuple[str, ...] = Field(min_length=1)
    """``kind:model`` of each."""
    aggregation: Aggregation = "mean"
    """How."""
    quorum: int = Field(default=1, ge=1)
    """Fewest judges with a usable answer that a verdict needs."""
    calibration: str | None = None
    """File of ``scenewright judges calibrate``."""


class MetricSpec(BaseModel):
    """A metric as a configuration names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in ``scenewright eval metrics``."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its options."""


class EvalConfig(BaseModel):
    """A whole evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """How it is called; the default folder is ``evals/NAME``."""
    about: str = ""
    """One sentence for reports."""
    dataset: DatasetSpec
    """What is asked."""
    backends: tuple[str, ...] = ("miniature",)
    """Profiles whose backend draws."""
    conditions: tuple[str, ...] = ("composition",)
    """Ways of drawing: names of :data:`CONDITIONS` or of :attr:`condition`."""
    condition: dict[str, Condition] = Field(default_factory=dict)
    """Ways of drawing of its own."""
    panels: dict[str, PanelSpec] = Field(default_factory=dict)
    """Named panels that judge; empty: one, ``report``, of the report judges of each profile."""
    seeds: tuple[int, ...] = (0,)
    """Every arm is drawn once with each."""
    metrics: tuple[MetricSpec, ...] = (MetricSpec(name="sgscore"),)
    """What is measured; a bare name is a metric with its defaults."""
    protocol: Protocol = "scene-bench"
    """How facts are asked: as in the paper (strict), or ``grounded`` (house)."""
    side_by_side: bool = True
    """Whether the panels also score every scene by the other protocol, in rows whose panel is
    ``NAME:PROTOCOL``, so that strict and house scores stand side by side. A question that both
    put is asked once. A set's own questions have no protocol."""
    predicates: str = ""
    """Where the wrong options of relation questions come from: ``general``, ``miniature`` or a file
    of ``scenewright data predicates``; empty: as each item says, else ``general``, or
    ``miniature`` if only the miniature draws, with the counts of the set's own scenes;
    ``package``: likewise, without these counts."""
    asking: Asking = "waves"
    """``waves``: objects first; ``together``: all at once."""
    alpha: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the objects in SGScore (Eq. 4)."""
    judge_rounds: Literal["kept", "all"] = "kept"
    """Whether only the picture that an arm keeps is judged, or all of its rounds."""
    scopes: tuple[Literal["level", "group", "category", "complexity"], ...] = ("level",)
    """Parts of the set for which metrics of sets are worked out, besides the whole."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels of what is drawn; none: the backend's default."""
    concurrency: int = Field(default=8, ge=1, le=1024)
    """Items at work at the same time."""
    batch: int = Field(default=1, ge=1, le=64)
    """Most pictures drawn in one batch by a model on the machine: faster where one picture leaves
    an accelerator idle, but a picture is then the same only up to rounding."""
    limit_usd: float | None = Field(default=5.0, ge=0.0)
    """Dollars of the estimate above which the command asks first."""
    timeout: float = Field(default=1800.0, gt=0.0)
    """Seconds that one picture may take, loop included."""
    allow_loop_judges: bool = False
    """Whether a panel may hold judges that steered a loop: its scores are then too good."""
    stop_after_failures: int = Field(default=25, ge=1)
    """Failures in a row after which the evaluation stops: what fails every time is no accident."""
    on_model_change: OnModelChange = "stop"
    """What happens where a judge turns out to be served by another version than the one that
    answered before: ``stop`` with an error, what is judged being kept; ``split``: go on, with the
    looks of each version in rows of their own (panel ``NAME@VERSION``); ``accept``: go on and pool
    them, with a note in manifest and report."""
    sentinels: float = Field(default=0.05, ge=0.0, le=1.0)
    """Sentinel questions for each question put to a judge behind an API, so that a model that is
    exchanged under its old name is noticed; 0 asks none. Judges on this machine are never asked
    any: their weights stay what they are."""
    keep_runs: bool = True
    """Whether the run folders of loops stay when they are finished."""

    @field_validator("metrics", mode="before")
    @classmethod
    def _bare_names(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple({"name": m} if isinstance(m, str) else m for m in value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, given in (
            ("backends", self.backends),
            ("conditions", self.conditions),
            ("seeds", self.seeds),
            ("metrics", tuple(m.model_dump_json() for m in self.metrics)),
        ):
            if not given:
                raise ValueError(f"{name} is empty: name at least one")
            if len(set(given)) != len(given):
                raise ValueError(f"{name} lists something twice: its rows would count double")
        known = {**CONDITIONS, **self.condition}
        for name in self.conditions:
            if name not in known:
                raise ValueError(
                    f"there is no condition {name!r}: use one of {', '.join(known)}, or describe "
                    f"it in [condition.{name}]"
                )
        for name in (*self.backends, *self.conditions, *self.panels):
            if "/" in name or not name:
                raise ValueError(f"{name!r} cannot name an arm: leave the slash out")
        return self

    @property
    def other_protocol(self) -> Protocol | None:
        """The protocol whose scores stand beside those of :attr:`protocol`, if any."""
        if not self.side_by_side:
            return None
        return "grounded" if self.protocol == "scene-bench" else "scene-bench"

    def condition_of(self, name: str) -> Condition:
        """The condition of that name."""
        return self.condition.get(name) or CONDITIONS[name]


def load_config(path: str | Path) -> EvalConfig:
    """The configuration in the TOML file ``path``.

    Raises ``EvalError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, EvalConfig)
