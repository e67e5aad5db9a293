"""The ports of metrics: of one picture, and of a set of pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import PredicateStatistics
from scenewright.evals.datasets.base import Item
from scenewright.evals.store.journal import Features
from scenewright.providers.usage import ExpectedUsage

Need = Literal["image", "prompt", "scene", "judges", "original"]
"""What a metric needs of a sample: ``judges`` are verdicts of a panel, ``original`` is the photo
of the item."""


class MetricError(ValueError):
    """A metric that is not known, or whose weights are not there; says what to do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One picture, and what there is to know of it."""

    item: Item
    """What was asked."""
    prompt: str
    """What a text encoder is to compare with: the set's own text, else the scene as
    ``subject predicate object`` phrases."""
    image: str
    """Content hash of the picture."""
    load: Callable[[], Image.Image]
    """Gives its pixels (RGB); may raise ``ImageError``."""
    original: Callable[[], Image.Image] | None = None
    """Gives the pixels of the original photo; none if there is none."""
    facts: tuple[Fact, ...] = ()
    """What the judges were asked."""
    predicates: str | PredicateStatistics = ""
    """Where the wrong options of the scene's questions come from: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`, or the counts; empty: as the
    item says, else the package's."""
    card: ScoreCard | None = None
    """Verdicts and scores of the panel; none if no judge looked."""
    answers: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    """Judge id → its answers."""


class MetricScore(BaseModel):
    """What a metric says: a number, or why there is none. Never 0 in place of a failure.

    A part that fails costs the value where the formula needs all of them. A mean over parts is that
    of the others, and says how many are not in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: float | None
    """The score; none if it could not be worked out."""
    parts: dict[str, float | None] = Field(default_factory=dict)
    """Scores that it is made of, for example ``objects`` and ``relations``."""
    reason: str = ""
    """Why there is no value, or why parts of it are unscored."""
    unscored: int = Field(default=0, ge=0)
    """How many parts of the sample failed (questions, objects, answers of judges) that a value
    leaves out: it is of the others, and is tried again as one without a value is."""
    tokens_in: int = Field(default=0, ge=0)
    """Input tokens of models that the metric itself asked for it."""
    tokens_out: int = Field(default=0, ge=0)
    """Their output tokens."""
    usd: float = Field(default=0.0, ge=0.0)
    """Their price in US dollars."""

    @model_validator(mode="after")
    def _check(self) -> MetricScore:
        if self.value is None and not self.reason:
            raise ValueError("a score without a value needs its reason")
        if self.unscored and not self.reason:
            raise ValueError("a score of which parts are unscored needs their reason")
        return self


class _Metric(Protocol):
    @property
    def name(self) -> str:
        """As in configurations, for example ``sgscore``."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever the same sample could get another score: maker's number, options, and
        the fingerprints of the models that it uses."""
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """What it needs of a sample."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        ...


@runtime_checkable
class ItemMetric(_Metric, Protocol):
    """Scores one picture."""

    async def score(self, sample: Sample) -> MetricScore:
        """The score of ``sample``. May raise: the runner keeps it as unscored with the reason."""
        ...


@runtime_checkable
class PricedMetric(Protocol):
    """A metric that asks models of its own, and can say beforehand what that takes."""

    async def expected(self, sample: Sample, size: tuple[int, int]) -> Mapping[str, ExpectedUsage]:
        """Id of a model → what scoring the sample is expected to take; no call is made.

        The sample's picture is not drawn yet: it has ``size`` pixels (width, height), and no
        content. Empty where only models of this machine are asked.
        """
        ...


def judges_of(metric: object) -> tuple[Judge, ...]:
    """The judges that a metric asks by itself, where its ``judges`` names them: what steered a loop
    and judges its pictures is told of every result."""
    found = getattr(metric, "judges", ())
    return tuple(one for one in found if isinstance(one, Judge))


@runtime_checkable
class FeatureExtractor(Protocol):
    """Turns pictures into vectors: the one place where metrics of sets meet a network."""

    @property
    def id(self) -> str:
        """For example ``transformers:facebook/dinov2-large``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a picture could get another vector (weights, preparation)."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    async def features(self, images: Sequence[Image.Image]) -> Features:
        """One row a picture, (n, dimensions). Cancelling waits for the batch at work."""
        ...


class Blocks(Protocol):
    """Vectors of a set, in blocks of a bounded size; every iteration begins anew."""

    def __iter__(self) -> Iterator[Features]:
        """Blocks of shape (rows, dimensions)."""
        ...

    def __len__(self) -> int:
        """Rows in all."""
        ...


@runtime_checkable
class SetMetric(_Metric, Protocol):
    """Scores a set of pictures by their vectors, against those of the originals if it needs
    them (``original`` in ``needs``)."""

    @property
    def extractor(self) -> FeatureExtractor:
        """What makes the vectors."""
        ...

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """The score of the set; too few rows are an unscored score with the reason."""
        ...


Metric = ItemMetric | SetMetric
