"""Definition of a study: its setup, its requirements, and what it makes of the results.

One word of the setup changes the model: ``profile = "sdxl"``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, field_validator, model_validator

from scenewright.config import OnModelChange
from scenewright.config.profiles import Profile, split_judge
from scenewright.config.settings import Settings, find_profile
from scenewright.core.validation import FrozenModel
from scenewright.evals.datasets.base import Dataset, DatasetSpec, SampleSpec
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import CONDITIONS, Condition, EvalConfig, MetricSpec, PanelSpec
from scenewright.evals.statistics.answers import PlainAnswer
from scenewright.evals.studies.layout import Layout
from scenewright.evals.studies.paper import Claim, Paper, paper, replication_answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scenewright.evals.runner.forecast import CostForecast
    from scenewright.evals.runner.progress import OnProgress


class Context(FrozenModel):
    """An evaluation, or a trial of a study's own."""

    set_name: str
    """The set."""
    fingerprint: str
    """Of the set."""
    items: int
    """Scenes or objects."""
    seeds: tuple[int, ...]
    """Seeds."""
    protocol: str = ""
    """How facts were asked; empty where no judge was asked about facts."""
    backends: tuple[str, ...] = ()
    """Ids of what drew."""
    panels: dict[str, list[str]] = Field(default_factory=dict)
    """Panel → ids of its judges."""
    models: dict[str, str] = Field(default_factory=dict)
    """What else took part (``extractor``, ``grader``, ``similarity``, …) → its id."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""
    draws: bool = True
    """Whether pictures were looked at."""
    totals: dict[str, float] = Field(default_factory=dict)
    """Pictures, answers, tokens, dollars: of the evaluation, which several studies may share."""

    @field_validator("totals", mode="before")
    @classmethod
    def _numbers(cls, given: Mapping[str, Any]) -> dict[str, float]:
        return {name: value for name, value in given.items() if isinstance(value, int | float)}

    def sentence(self) -> str:
        """Return the context as a sentence."""
        judges = sorted({judge for panel in self.panels.values() for judge in panel})
        seeds = ", ".join(map(str, self.seeds))
        parts = [f"Set `{self.set_name}`, {self.items:,} items, seeds {seeds}"]
        if self.draws:
            parts.append(f"drawn by {', '.join(self.backends) or 'given files'}")
        if judges:
            how = f", protocol {self.protocol}" if self.protocol else ""
            parts.append(f"judged by {', '.join(judges)}{how}")
        parts += [f"{what}: {model}" for what, model in self.models.items()]
        return "; ".join(parts) + "."


class StudyError(EvalError):
    """A study that cannot be asked for like this: says what to write instead."""


MINIATURE = "miniature"
SCENES = {MINIATURE: 100}
"""Scenes of a study by profile; others have :data:`MANY`."""
MANY = 5000
"""Scenes of the paper's Table 4."""
SEEDS = (0, 1, 2)
REPORT = "report"
"""The panel that reports: judges that no loop sees."""
WHOLE = "feedback_whole"
"""Feedback that redraws the whole picture as the paper does, where the profile redraws regions."""
PARTS = ("objects", "relations", "")
"""Parts of SGScore in the order of the paper's tables; empty is SGScore itself."""
_UNDERSTANDERS = ("judge-a", "judge-c", "judge-weak")
"""Of the miniature: one that the extractor asks as well, one that it does not, and a weak one."""
_MINIATURE_JUDGES = ("judge-a", "judge-b", "judge-c", "judge-d", "judge-weak", "judge-eager")


class Setup(FrozenModel):
    """What all studies of one call have in common."""

    profile: str = MINIATURE
    """Profile that draws, steers its loops with its judges and reports with its report judges."""
    dataset: DatasetSpec | None = None
    """Scenes; none: painted scenes of complexity 1 to 10 for the miniature, for other profiles
    SG2Im's test split of Visual Genome. The study of attributes has objects of its own."""
    n: int | None = Field(default=None, ge=2)
    """Scenes; none: 100 for the miniature, 5,000 for other profiles."""
    seeds: tuple[int, ...] = SEEDS
    """Every picture is drawn once with each."""
    judges: tuple[str, ...] = ()
    """Judges that the study of judges compares, each ``kind:model``; none: all of the miniature,
    or the profile's own."""
    steps: int | None = Field(default=None, ge=1)
    """Denoising steps; none: the profile's."""
    instances: str | None = None
    """File of the study of attributes (:mod:`scenewright.evals.studies.scene_bench.attributes`);
    none: all kinds of the painted world, or the 80 classes of COCO."""
    concurrency: int = Field(default=4, ge=1, le=1024)
    """Items at work at the same time."""
    on_model_change: OnModelChange = "stop"
    """As in :class:`~scenewright.evals.runner.config.EvalConfig`, without ``split``: a study
    compares the pictures of one panel, and versions apart leave it too few."""
    sentinels: float = Field(default=0.05, ge=0.0, le=1.0)
    """As in :class:`~scenewright.evals.runner.config.EvalConfig`."""
    metrics_of_sets: bool = True
    """Whether IS, FID and CLIPScore are worked out too: they need models of their own."""
    extractor: str | None = None
    """What reads graphs off pictures, as :func:`scenewright.runs.model_factory.extractors.spec_of`
    names it; none: the miniature's own for the miniature. Other profiles have none: studies of
    graphs need it."""
    understanders: tuple[str, ...] = ()
    """Models that answer XTC-Bench's questions: ``judge:KIND:MODEL`` or ``chat:ACCOUNT:MODEL``;
    none: three judges of the miniature for the miniature. Other profiles have none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.on_model_change == "split":
            raise ValueError(
                "studies cannot hold served versions apart: take on_model_change = 'accept', or "
                "another folder, where everything is judged by the version served now"
            )
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError("name one or more seeds, each once")
        for judge in self.judges:
            split_judge(judge)
        for named in (self.judges, self.understanders):
            if len(set(named)) != len(named):
                raise ValueError("a judge is named twice: name each once")
        return self

    @property
    def scenes(self) -> int:
        """How many scenes."""
        return self.n if self.n is not None else SCENES.get(self.profile, MANY)

    @property
    def synthetic(self) -> bool:
        """Whether the miniature draws: its encoders and judges know the painted world alone."""
        return self.profile == MINIATURE

    def model(self, settings: Settings) -> Profile:
        """Return the profile.

        Raises ``SettingsError`` if it is unknown, ``StudyError`` if it names no report judges.
        """
        found = find_profile(self.profile, settings)
        if not found.report_judges:
            raise StudyError(
                f"the profile {self.profile!r} names no report judges: a study's figures come from "
                "judges that no loop saw. Give it report_judges = ['kind:model']"
            )
        return found

    def set_of_scenes(self, work: Path | None = None) -> DatasetSpec:
        """Return the scenes, so many of them; levels in the paper's shares where it is painted.

        Paintings used as photos are written below ``work``.
        """
        spec = self.dataset
        if spec is None:
            painted = DatasetSpec(name=MINIATURE)
            photos = DatasetSpec(name="visual-genome", options={"split": "test"})
            spec = painted if self.synthetic else photos
        if spec.name == MINIATURE:
            # 1–10 in turn: 30 % simple, 40 % medium and 30 % hard, the shares of Table 3.
            options: dict[str, Any] = {"n": self.scenes, "complexity": "1-10"}
            if work is not None:
                options["out"] = str(work.resolve() / "originals")
            return spec.model_copy(update={"options": {**options, **spec.options}})
        if spec.name == "megasg" and spec.sample is None and spec.limit is None:
            return spec.model_copy(update={"sample": SampleSpec(counts=self._shares())})
        return spec.model_copy(update={"limit": spec.limit or self.scenes})

    def _shares(self) -> dict[str, int]:
        """Return the scenes of each level in the shares of Table 3."""
        simple = hard = round(0.3 * self.scenes)
        return {"simple": simple, "medium": self.scenes - simple - hard, "hard": hard}

    @property
    def paper_table(self) -> str:
        """Which of the paper's model tables is of a set like this: 2 of Visual Genome, else 3."""
        spec = self.set_of_scenes()
        return "table2" if spec.name == "visual-genome" else "table3"

    def metrics(self, *names: str) -> tuple[MetricSpec, ...]:
        """Return ``sgscore``, and the metrics ``names``, with the encoders that they need."""
        named = names if self.metrics_of_sets else ()
        options: dict[str, Any] = {"extractor": MINIATURE} if self.synthetic else {}
        return (
            MetricSpec(name="sgscore"),
            *(MetricSpec(name=name, options=options) for name in named),
        )

    @property
    def missing_extractor(self) -> str:
        """What to do if nothing reads graphs off pictures; empty if something does."""
        if self.synthetic or self.extractor is not None:
            return ""
        return (
            f"nothing reads graphs off the pictures of {self.profile!r}: name an extractor, for "
            "example --extractor two-stage:openai:gpt-6-luna"
        )

    @property
    def missing_understanders(self) -> str:
        """What to do if no model answers questions about pictures; empty if one does."""
        if self.synthetic or self.understanders:
            return ""
        return (
            f"no model answers questions about the pictures of {self.profile!r}: name one, for "
            "example --understanders chat:openai:gpt-6-luna"
        )

    def graph_extractor(self) -> str:
        """Return the extractor. Raises ``StudyError`` if the profile needs one to be named."""
        if self.missing_extractor:
            raise StudyError(self.missing_extractor)
        return self.extractor or MINIATURE

    def graph_metric(self, name: str) -> MetricSpec:
        """Return the metric ``name``, which compares graphs.

        Raises ``StudyError`` without extractor.
        """
        return MetricSpec(name=name, options={"extractor": self.graph_extractor()})

    def named_understanders(self) -> dict[str, str]:
        """Return by short name the understander.

        Raises ``StudyError`` if the profile needs some named.
        """
        if self.missing_understanders:
            raise StudyError(self.missing_understanders)
        if not self.understanders:
            return {name: f"judge:local:miniature/{name}" for name in _UNDERSTANDERS}
        return _short(self.understanders)

    def conditions(self, *names: str) -> dict[str, Condition]:
        """Return the conditions of those names, with the steps of this setup."""
        known = {
            **CONDITIONS,
            WHOLE: Condition(rounds=2, profile={"repair": "whole", "strategy": "feedback"}),
        }
        if self.steps is None:
            return {name: known[name] for name in names if name == WHOLE}
        return {
            name: known[name].model_copy(
                update={"profile": {**known[name].profile, "steps": self.steps}}
            )
            for name in names
        }

    def config(self, name: str, **fields: Any) -> EvalConfig:
        """Return a configuration of this profile.

        ``fields`` are those of ``EvalConfig``, among them ``conditions`` by name.
        """
        conditions = tuple(fields.pop("conditions"))
        return EvalConfig(
            name=name,
            backends=(self.profile,),
            conditions=conditions,
            condition=self.conditions(*conditions),
            concurrency=self.concurrency,
            on_model_change=self.on_model_change,
            sentinels=self.sentinels,
            # A study compares what it names: it says by itself how it asks.
            **fields,
        )

    def report_panel(self, settings: Settings) -> dict[str, PanelSpec]:
        """Return the panel of the profile's report judges."""
        judges = self.model(settings).report_judges
        # As published, and the same for every set of pictures.
        return {REPORT: PanelSpec(judges=judges, aggregation="mean")}

    def judges_to_compare(self, settings: Settings) -> dict[str, str]:
        """Return by short name ``kind:model`` of the judges whose scores are compared."""
        if self.judges:
            named = self.judges
        elif self.synthetic:
            named = tuple(f"local:miniature/{name}" for name in _MINIATURE_JUDGES)
        else:
            profile = self.model(settings)
            named = (*profile.judges, *profile.report_judges)
        return _short(named)


def _short(named: tuple[str, ...]) -> dict[str, str]:
    """Return by short name the whole name, which is used where short ones would be alike."""
    shorts = [name.partition(":")[2].rpartition("/")[2] for name in named]
    names = shorts if len(set(shorts)) == len(named) else list(named)
    return {short.replace("/", "_"): name for short, name in zip(names, named, strict=True)}


SCENES_FAMILY = "scenes"
"""Pictures of the setup's scenes."""
OBJECTS_FAMILY = "objects"
"""Pictures of single objects."""


@dataclass(frozen=True, slots=True)
class StudyRequirement:
    """Pictures, judgings and scores that a study needs.

    Requirements of one family share a folder, where each picture is drawn once and each answer
    given once. Those with the same panels and seeds become one evaluation.
    """

    family: str
    """``scenes`` or ``objects``."""
    conditions: tuple[str, ...]
    """Ways of drawing."""
    panels: Mapping[str, PanelSpec]
    metrics: tuple[MetricSpec, ...]
    """What is measured."""
    seeds: tuple[int, ...]
    """Seeds."""
    scopes: tuple[str, ...] = ("level",)
    """Parts of the set for metrics of sets."""
    all_rounds: bool = False
    """Whether every round of a loop is judged, not only what it keeps."""
    dataset: Dataset | None = None
    """A set of the study's own; none: the setup's scenes."""
    apart: str = ""
    """Requirements that differ here are separate evaluations in the same folder: for metrics that
    cost much and are needed for few of the family's pictures."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Work of a study's own that is not an evaluation of pictures by metrics."""

    family: str
    """Its folder: what a trial keeps there is not done again."""
    title: str
    """Name in the progress display: ``xtc``."""
    items: int
    """Scenes or graphs that it goes through."""
    unit: str
    """What these are: ``graphs``."""
    run: Callable[[Path, OnProgress | None, bool], Awaitable[tuple[Any, Context]]]
    """Takes the folder, a progress callback, and whether failed and unscored work is tried again;
    returns what the study's ``outcome`` reads, and its context. A call that was cut off continues.
    Raises what ``run_studies`` may."""
    costs: Callable[[], Awaitable[CostForecast]] | None = None
    """Returns the forecast if nothing is done yet; None: all of it runs on this machine."""
    requirements: tuple[tuple[int, int], ...] = ()
    """Of what is planned: (number of the study, number of its requirement)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a study found."""

    tables: tuple[Layout, ...]
    """In the paper's layout."""
    claims: tuple[Claim, ...]
    """The paper's statements against the measured figures."""
    plot: Callable[[], Figure]
    """Draws the plot."""
    notes: tuple[str, ...] = ()
    """What is to be known beside the tables, as whole sentences."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What else goes into the JSON file."""
    own_answer: PlainAnswer | None = None
    """Answer to the study's question, where no paper's statement is held against it."""

    @property
    def answer(self) -> PlainAnswer | None:
        """Return the sentence that leads the study's page; None if there is nothing to say."""
        if self.own_answer is not None or not self.claims:
            return self.own_answer
        return replication_answer(self.claims)


def _nothing(setup: Setup) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class StudyDefinition:
    """A study: one of a paper's, or our own."""

    name: str
    """As on the command line."""
    file: str
    """Stem of its files: ``table4``."""
    number: str
    """What of the paper: ``Table 4``."""
    title: str
    """One line."""
    requirements: Callable[[Setup, Settings], tuple[StudyRequirement | Trial, ...]]
    """What it needs. Raises ``SettingsError`` and ``StudyError`` for a profile it cannot use."""
    outcome: Callable[[Setup, Settings, Any], Outcome]
    """What it makes of a tuple of what was found, one a want: :class:`Readings` of a
    :class:`StudyRequirement`, of a :class:`Trial` what its ``run`` gives."""
    paper: Callable[[], Paper] = paper
    """The paper whose figures are shown."""
    unsupported_reason: Callable[[Setup], str] = _nothing
    """What a setup must name before it can be measured, as a sentence without a full stop; empty if
    nothing. Then ``all`` leaves it out, and its ``requirements`` raise a ``StudyError``."""


def scenes_in(
    *conditions: str, metrics: tuple[str, ...] = (), **more: Any
) -> Callable[[Setup, Settings], tuple[StudyRequirement, ...]]:
    """Return the requirements of most studies: the setup's scenes in ``conditions``.

    The report's judges judge them, with ``metrics`` beside SGScore; they are drawn with all of the
    setup's seeds. ``more`` are fields of :class:`StudyRequirement`.
    """

    def requirements(setup: Setup, settings: Settings) -> tuple[StudyRequirement, ...]:
        asked = {
            "panels": setup.report_panel(settings),
            "metrics": setup.metrics(*metrics),
            "seeds": setup.seeds,
        }
        return (StudyRequirement(SCENES_FAMILY, conditions, **asked | more),)

    return requirements
