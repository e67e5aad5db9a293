"""Configuration of an evaluation as a TOML file, and its arms.

An evaluation is dataset × backends × conditions × metrics × judges × seeds. An *arm* is one way of
drawing (backend, condition, seed) with the profile that it uses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from scenewright.config import OnModelChange
from scenewright.config.model_identity import identities_of, independence_problem, shared_names
from scenewright.config.options import Asking
from scenewright.config.profiles import MEASURED, Aggregation, Profile
from scenewright.config.settings import Settings, changed_profile, find_profile
from scenewright.core.questions import Protocol
from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.errors import EvalError
from scenewright.evals.store.files import read_toml
from scenewright.evals.store.manifest import read_manifest
from scenewright.evals.store.results import MANIFEST, arm_name

PACKAGE = "package"
"""Value of ``predicates``: wrong options without the counts of the evaluation's own set."""
Source = Literal["draw", "given", "originals"]
"""Source of an arm's pictures: drawn here, existing files, or the items' photos."""


class Condition(BaseModel):
    """One way of drawing: source, loop, and changes of a backend's profile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Source = "draw"
    """``draw``; ``given``: files below :attr:`folder` (:mod:`.given_pictures` says how they are
    named); ``originals``: the photos of the set."""
    folder: str | None = None
    """Folder, or table, of existing files, for the source ``given``."""
    missing: Literal["stop", "fail"] = Field(default="stop", exclude_if=lambda told: told == "stop")
    """What happens where an item has no given picture: ``stop`` before any work; ``fail``: it
    counts as a failed drawing."""
    text: Literal["scene", "prompt"] = "scene"
    """What is drawn: the scene, worded by the profile's composer, or the set's own ``prompt``."""
    rounds: int = Field(default=1, ge=1, le=100)
    """Most candidates; 1 draws without judging."""
    patience: int = Field(default=2, ge=1)
    """Rounds in a row without improvement after which the loop stops."""
    images: int | None = Field(default=None, ge=1)
    """Most pictures drawn, references included."""
    profile: dict[str, Any] = Field(default_factory=dict)
    """Fields of the profile that it replaces: ``{"composer": "triplets"}``,
    ``{"weight_missing": 0.0}``, ``{"strategy": "best-of-n"}``."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.source == "given" and not self.folder:
            raise ValueError("given pictures are in a folder: name it as folder = '…'")
        if self.text == "prompt" and self.rounds > 1:
            raise ValueError("a loop repairs a scene: use text = 'scene', or rounds = 1")
        return self


CONDITIONS: dict[str, Condition] = {
    "triplets": Condition(profile={"composer": "triplets"}),
    "composition": Condition(),
    "feedback": Condition(rounds=2),
    "feedback_3": Condition(rounds=3),
    "lambda1_0": Condition(
        rounds=2, profile={"strategy": "feedback", "weight_missing": 0.0, "repair": "whole"}
    ),
    "best_of_3": Condition(rounds=3, patience=3, profile={"strategy": "best-of-n"}),
    "prompt": Condition(text="prompt"),
    "originals": Condition(source="originals"),
}
"""Built-in conditions: the paper's baseline (``triplets``), scene composition alone, with one round
of feedback or two, feedback whose reference image has no weight (Table 7), best of three, the set's
own texts, and its own photos."""


class PanelSpec(BaseModel):
    """A named list of judges with its aggregation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judges: tuple[str, ...] = Field(min_length=1)
    """``kind:model`` of each judge."""
    aggregation: Aggregation | None = None
    """None: as the evaluation began, else ``agreement`` for three judges or more and ``mean`` for
    fewer."""
    quorum: int = Field(default=1, ge=1)
    """Fewest judges with a usable answer that a verdict needs."""
    calibration: str | None = None
    """File of ``scenewright judges calibrate``."""


class MetricSpec(BaseModel):
    """A metric in a configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in ``scenewright eval metrics``."""
    options: dict[str, Any] = Field(default_factory=dict)


class JobConfig(BaseModel):
    """What the configurations of all jobs over the items of a set have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Name of the job and of its default folder."""
    about: str = ""
    """One sentence for reports."""
    dataset: DatasetSpec
    concurrency: int = Field(default=8, ge=1, le=1024)
    """Items at work at the same time."""
    limit_usd: float | None = Field(default=5.0, ge=0.0)
    """Estimated dollars above which the command asks for confirmation; None: it never asks."""


class DrawingConfig(JobConfig):
    """What the configurations of all evaluations of drawn pictures have in common."""

    seeds: tuple[int, ...] = (0,)
    """Every picture is drawn once with each."""
    predicates: str = ""
    """Origin of the wrong options of relation questions: ``general``, ``miniature`` or a file of
    ``scenewright data predicates``; empty: that of each item, else ``general``, or ``miniature`` if
    only the miniature draws, with the counts of the set's own scenes; ``package``: the same without
    these counts."""
    size: tuple[int, int] | None = None
    """(width, height) of drawn pictures in pixels; None: the backend's default."""
    timeout: float = Field(default=1800.0, gt=0.0)
    """Most seconds for one picture, loop included, or for one other piece of work."""
    stop_after_failures: int = Field(default=25, ge=1)
    """Failures in a row after which the evaluation stops."""
    on_model_change: OnModelChange = "stop"
    """What happens where a judge is served by another version than before: ``stop`` with an error,
    and keep what is judged; ``split``: continue, with the judgings of each version in rows of their
    own (panel ``NAME@VERSION``); ``accept``: continue and pool them, with a note in manifest and
    report."""


class EvalConfig(DrawingConfig):
    """Configuration of an evaluation; the default folder is ``evals/NAME``."""

    backends: tuple[str, ...] = ("miniature",)
    """Profiles whose backend draws."""
    conditions: tuple[str, ...] = ("composition",)
    """Names of :data:`CONDITIONS` or of :attr:`condition`."""
    condition: dict[str, Condition] = Field(default_factory=dict)
    """Further conditions."""
    panels: dict[str, PanelSpec] = Field(default_factory=dict)
    """Named panels of judges; empty: one, ``report``, of the report judges of each profile."""
    metrics: tuple[MetricSpec, ...] = (MetricSpec(name="sgscore"),)
    """Metrics; a bare name is a metric with its defaults."""
    protocol: Protocol = "scene-bench"
    """How facts are asked: as in the paper (strict), or ``grounded`` (house)."""
    side_by_side: bool = False
    """Whether the panels also score every scene by the other protocol, in rows whose panel is
    ``NAME:PROTOCOL``, so that strict and house scores can be compared. A question of both protocols
    is asked once. A set's own questions have no protocol."""
    asking: Asking = "waves"
    """``waves``: objects first; ``together``: all at once."""
    alpha: float = Field(default=0.5, ge=0.0, le=1.0)
    """Weight of the objects in SGScore (Eq. 4)."""
    judge_rounds: Literal["kept", "all"] = "kept"
    """Whether only the picture that an arm keeps is judged, or all of its rounds."""
    scopes: tuple[Literal["level", "group", "category", "complexity"], ...] = ("level",)
    """Parts of the set for which metrics of sets are computed, besides the whole."""
    batch: int = Field(default=1, ge=1, le=64)
    """Most pictures drawn in one batch by a model on the machine: faster where one picture leaves
    an accelerator idle, but a picture is then the same only up to rounding."""
    allow_loop_judges: bool = False
    """Whether a panel may hold judges that steered a loop, which makes its scores too good."""
    include_doubtful: bool = Field(default=False, exclude_if=lambda told: not told)
    """Whether items whose prompt could be read in another way are drawn and scored like others;
    without it, what rests on their scene is unscored as a doubtful reading."""
    sentinels: float = Field(default=0.05, ge=0.0, le=1.0)
    """Sentinel questions for each question to a judge behind an API, to notice a model that is
    exchanged under its old name; 0 asks none. Judges on this machine are never asked any."""
    keep_runs: bool = True
    """Whether the run folders of finished loops are kept."""
    recipe: str = Field(default="", exclude_if=lambda told: not told)
    """Public benchmark that it is (:mod:`scenewright.evals.recipes`), by its name or file."""

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
        """The protocol whose scores are reported beside those of :attr:`protocol`, if any."""
        if not self.side_by_side:
            return None
        return "grounded" if self.protocol == "scene-bench" else "scene-bench"

    def condition_of(self, name: str) -> Condition:
        """Return the condition of that name."""
        return self.condition.get(name) or CONDITIONS[name]


def as_begun(config: EvalConfig, folder: str | Path | None) -> EvalConfig:
    """Return ``config`` with the protocols that the evaluation in ``folder`` began with.

    Only where ``config`` is silent: the default was to score by both once, and an evaluation that
    goes on must not lose the rows of one.
    """
    if folder is None or "side_by_side" in config.model_fields_set:
        return config
    if not (Path(folder) / MANIFEST).exists():
        return config
    both = read_manifest(Path(folder))["config"].get("side_by_side", False)
    return config.model_copy(update={"side_by_side": both})


def load_config(path: str | Path) -> EvalConfig:
    """Return the configuration in the TOML file ``path``.

    Raises ``ConfigError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, EvalConfig)


REPORT_PANEL = "report"
"""Panel of a configuration without panels: the report judges of the profiles."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of an evaluation."""

    backend: str
    """Name of the profile."""
    condition: str
    """Name of the condition."""
    seed: int
    """The configuration's seed."""
    spec: Condition
    """The condition."""
    profile: Profile
    """The profile with the condition's changes."""

    @property
    def name(self) -> str:
        """``backend/condition/seed``."""
        return arm_name(self.backend, self.condition, self.seed)

    @property
    def loops(self) -> bool:
        """Whether judges steer it."""
        return self.spec.source == "draw" and self.spec.rounds > 1

    def columns(self, item: str) -> dict[str, Any]:
        """Return the first columns of every row about ``item`` in this arm."""
        return {
            "item": item,
            "arm": self.name,
            "backend": self.backend,
            "condition": self.condition,
            "seed": self.seed,
        }

    def item_seed(self, item: str) -> int:
        """Return 63 bits of SHA-256("seed:item").

        It is the same in every arm, so that their pictures begin with the same noise, and another
        one for each item, so that items do not share theirs.
        """
        return item_seed(self.seed, item)


def item_seed(seed: int, item: str) -> int:
    """Return 63 bits of SHA-256("seed:item"), the seed of an item for every generator."""
    digest = hashlib.sha256(f"{seed}:{item}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def arms_of(config: EvalConfig, settings: Settings) -> tuple[Arm, ...]:
    """Return the arms of ``config`` in its order: backends, then conditions, then seeds.

    Raises ``EvalError`` for a condition that does not fit a profile, ``SettingsError`` for an
    unknown profile.
    """
    return tuple(_arms(config, settings))


def _arms(config: EvalConfig, settings: Settings) -> Iterator[Arm]:
    asked: dict[str, Any] = {
        "protocol": config.protocol,
        "asking": config.asking,
        "alpha": config.alpha,
    }
    if config.predicates not in ("", PACKAGE):
        asked["predicates"] = config.predicates
    for backend in config.backends:
        profile = find_profile(backend, settings)
        for name in config.conditions:
            spec = config.condition_of(name)
            # The panels judge what is drawn; a loop need not pay for a report of its own.
            changed = {**asked, "report_judges": (), "self_report": False, **spec.profile}
            try:
                fitted = changed_profile(profile, changed, settings)
            except ValidationError as error:
                raise EvalError(
                    f"the condition {name!r} does not fit the profile {backend!r}: "
                    f"{first_problem(error)}"
                ) from error
            for seed in config.seeds:
                yield Arm(backend, name, seed, spec, fitted)


def panels_of(config: EvalConfig, settings: Settings) -> dict[str, PanelSpec]:
    """Return the panels of ``config`` by name; without any, the report judges of its profiles.

    Raises ``EvalError`` if there are none, if profiles name different ones, or if a panel holds
    judges that steer a loop of the configuration and this is not allowed.
    """
    panels = dict(config.panels)
    profiles = [find_profile(backend, settings) for backend in config.backends]
    own = config.allow_loop_judges
    if not panels:
        # A profile whose loop reports itself has its judges in the place of report judges.
        own = own or any(profile.self_report for profile in profiles)
        named = {_reporting(profile) for profile in profiles}
        if len(named) > 1 or not all(named):
            raise EvalError(
                "the profiles name "
                + ("different report judges" if len(named) > 1 else "no report judges")
                + ": name the judges of all arms in [panels.NAME] judges = ['kind:model']"
            )
        profile, judges = profiles[0], _reporting(profiles[0])
        panels[REPORT_PANEL] = PanelSpec(
            judges=judges,
            # Calibrations are those of loops; what a profile does not choose, the evaluation does.
            aggregation=None if profile.aggregation in (*MEASURED, "mean") else profile.aggregation,
            quorum=min(profile.quorum, len(judges)),
        )
    for name, panel in panels.items():
        _check_panel(name, panel, () if own else arms_of(config, settings), settings)
    return panels


def _reporting(profile: Profile) -> tuple[str, ...]:
    return profile.report_judges or (profile.judges if profile.self_report else ())


def _check_panel(name: str, panel: PanelSpec, arms: Sequence[Arm], settings: Settings) -> None:
    """Raise ``EvalError`` if a model judges twice in ``panel``, or steers a loop of ``arms``."""
    judges = identities_of(panel.judges, settings.accounts)
    if problem := independence_problem(judges):
        raise EvalError(f"the panel {name!r}: {problem}")
    for arm in arms:
        if not arm.loops:
            continue
        loop, _, director = arm.profile.identities(settings.accounts)
        steers = loop if director is None else [*loop, director]
        for judge in judges:
            if shared_names(steers, [judge]):
                raise EvalError(
                    f"the panel {name!r} holds {judge.spec}, which steers a loop of "
                    f"{arm.backend}/{arm.condition}, as a judge or director, under this name or "
                    "another: the number reported comes from models that the loop never saw. "
                    "Name others, or say allow_loop_judges = true: the scores are then labelled "
                    "self-reports"
                )


def digest(*parts: Any) -> str:
    """Return SHA-256 (hex) of JSON data."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_mark(file: Path) -> list[Any]:
    """Return path, size and time of change of a file, which identify it without reading it."""
    stat = file.stat()
    return [str(file.resolve()), stat.st_size, stat.st_mtime_ns]
