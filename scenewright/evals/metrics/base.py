"""Protocols of metrics, their options, plug-ins by ``module:function``, and stored answers."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.config.settings import user_cache
from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Answer, Fact, ScoreCard
from scenewright.core.ports.judge import Judge
from scenewright.core.predicate_statistics import PredicateStatistics
from scenewright.evals.datasets.base import Item
from scenewright.evals.store.journal import Features
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.providers import AnswerStore

Need = Literal["image", "prompt", "scene", "judges", "original"]
"""What a metric needs of a sample: ``judges`` are verdicts of a panel, ``original`` is the photo of
the item."""


class MetricError(ScenewrightError, ValueError):
    """A metric that is unknown or lacks weights; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One picture with its item, facts and judgings."""

    item: Item
    prompt: str
    """Text to compare with: the set's own text, else the scene as ``subject predicate object``
    phrases."""
    image: str
    """Content hash of the picture."""
    load: Callable[[], Image.Image]
    """Loads its pixels (RGB); may raise ``ImageError``."""
    original: Callable[[], Image.Image] | None = None
    """Loads the pixels of the original photo; None if there is none."""
    facts: tuple[Fact, ...] = ()
    """Facts that the judges were asked."""
    predicates: str | PredicateStatistics = ""
    """Origin of the wrong options of the scene's questions: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`, or the counts; empty: that of
    the item, else the package's."""
    card: ScoreCard | None = None
    """Verdicts and scores of the panel; None without judges."""
    answers: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    """Judge id → its answers."""
    empty: str | None = None
    """Why nothing can be scored: nothing is drawn on the picture; empty: something is; None: nobody
    has looked."""


class MetricScore(BaseModel):
    """A metric's number, or the reason why there is none. Never 0 in place of a failure.

    A part that fails costs the value where the formula needs all of them. A mean over parts is that
    of the others, and says how many are not in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: float | None
    """The score; None if it could not be computed."""
    parts: dict[str, float | None] = Field(default_factory=dict)
    """Its components, for example ``objects`` and ``relations``."""
    reason: str = ""
    """Why there is no value, or why parts of it are unscored."""
    unscored: int = Field(default=0, ge=0)
    """Number of failed parts of the sample (questions, objects, answers of judges) that a value
    leaves out; such a score is tried again like one without a value."""
    tokens_in: int = Field(default=0, ge=0)
    """Input tokens of models that the metric itself asked."""
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
        """Name in configurations, for example ``sgscore``."""
        ...

    @property
    def version(self) -> str:
        """Version: maker's number, options, and the fingerprints of the models that it uses.

        It changes whenever the same sample could get another score.
        """
        ...

    @property
    def needs(self) -> frozenset[Need]:
        """Required parts of a sample."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better."""
        ...


@runtime_checkable
class ItemMetric(_Metric, Protocol):
    """Scores one picture."""

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score of ``sample``.

        May raise: the runner keeps it as unscored with the reason.
        """
        ...


@runtime_checkable
class PricedMetric(Protocol):
    """A metric that asks models of its own, and can estimate the usage."""

    async def expected(self, sample: Sample, size: tuple[int, int]) -> Mapping[str, ExpectedUsage]:
        """Return id of a model → expected usage of scoring the sample; no call is made.

        The sample's picture is not drawn yet: it has ``size`` pixels (width, height), and no
        content. Empty where only models of this machine are asked.
        """
        ...


def judges_of(metric: object) -> tuple[Judge, ...]:
    """Return the judges that a metric asks by itself, where its ``judges`` names them.

    A model that steered a loop and judges its pictures must be reported with every result.
    """
    found = getattr(metric, "judges", ())
    return tuple(one for one in found if isinstance(one, Judge))


@runtime_checkable
class FeatureExtractor(Protocol):
    """Extractor of vectors from pictures, for metrics of sets."""

    @property
    def id(self) -> str:
        """Id, for example ``transformers:facebook/dinov2-large``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identity of weights and preparation: equal ones give equal vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    async def features(self, images: Sequence[Image.Image]) -> Features:
        """Return one row a picture, (n, dimensions). Cancelling waits for the batch at work."""
        ...


class Blocks(Protocol):
    """Vectors of a set, in blocks of a bounded size; every iteration begins anew."""

    def __iter__(self) -> Iterator[Features]:
        """Return blocks of shape (rows, dimensions)."""
        ...

    def __len__(self) -> int:
        """Return the number of rows."""
        ...


@runtime_checkable
class SetMetric(_Metric, Protocol):
    """Metric of a set of pictures by their vectors.

    It compares them with those of the originals if ``needs`` holds ``original``.
    """

    @property
    def extractor(self) -> FeatureExtractor:
        """Extractor of the vectors."""
        ...

    def compute(self, pictures: Blocks, originals: Blocks | None) -> MetricScore:
        """Return the score of the set.

        May raise, for example for too few rows: the runner keeps it as unscored with the reason.
        """
        ...


Metric = ItemMetric | SetMetric


def real(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return ``value`` as a number in [low, high]; ``MetricError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise MetricError(f"{name} is {value!r}: use a number {_between(low, high)}")
    return float(value)


def whole(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """Return ``value`` as a whole number in [low, high]; ``MetricError`` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise MetricError(f"{name} is {value!r}: use a whole number {_between(low, high)}")
    return value


def text(name: str, value: Any, allowed: tuple[str, ...] = ()) -> str:
    """Return ``value`` as text, one of ``allowed`` if it names any; ``MetricError`` otherwise."""
    if not isinstance(value, str) or (allowed and value not in allowed):
        choice = f"one of {', '.join(allowed)}" if allowed else "text"
        raise MetricError(f"{name} is {value!r}: use {choice}")
    return value


def switch(name: str, value: Any) -> bool:
    """Return ``value`` as true or false; ``MetricError`` otherwise."""
    if not isinstance(value, bool):
        raise MetricError(f"{name} is {value!r}: use true or false")
    return value


def _between(low: float, high: float) -> str:
    return f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"


def is_plugin(name: str) -> bool:
    """Return whether ``name`` is ``module:function`` with a dotted module, and no path or file."""
    module, colon, function = name.partition(":")
    return bool(colon) and function.isidentifier() and all(map(str.isidentifier, module.split(".")))


def call_plugin(name: str, *arguments: Any, options: Mapping[str, Any]) -> Any:
    """Return the result of the function ``name`` for ``arguments`` and ``options``.

    Raises ``MetricError`` if the module cannot be imported, has no such function, or takes no such
    options; errors of the function itself pass.
    """
    module, _, function = name.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise MetricError(
            f"{name}: the module {module} cannot be imported ({error}): install its package, or "
            "start where Python finds it (PYTHONPATH)"
        ) from error
    make: Callable[..., Any] | None = getattr(found, function, None)
    if not callable(make):
        raise MetricError(f"{name}: {module} has no function {function}")
    try:
        inspect.signature(make).bind(*arguments, **options)
    except TypeError as error:
        raise MetricError(f"{name} cannot be called with these options: {error}") from error
    return make(*arguments, **options)


def plugin_of(
    name: str, kind: Any, what: str, *arguments: Any, options: Mapping[str, Any] | None = None
) -> Any:
    """Return what the function ``name`` makes, as :func:`call_plugin`.

    Raises ``MetricError`` if it is not of the protocol ``kind``; ``what`` says that in words.
    """
    found = call_plugin(name, *arguments, options=options or {})
    if not isinstance(found, kind):
        raise MetricError(f"{name} gives a {type(found).__name__}, which {what}")
    return found


def names_in(name: str, value: Any, remedy: str) -> tuple[str, ...]:
    """Return the option ``name``, one text or a list of them; ``MetricError`` with ``remedy``."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not given:
        raise MetricError(f"{name} is {value!r}: {remedy}")
    return tuple(text(name, one) for one in given)


def spent_on(given: Iterable[Any]) -> dict[str, Any]:
    """Return tokens and dollars of all ``given`` answers or scores, as fields of a score."""
    some = list(given)
    return {
        name: sum(getattr(one, name) for one in some) for name in ("tokens_in", "tokens_out", "usd")
    }


def short_print(fingerprint: str) -> str:
    """Return 16 hex digits of a fingerprint, which may begin with a shared name."""
    return hashlib.sha256(fingerprint.encode()).hexdigest()[:16]


def cache_folder(folder: Any, default: str) -> Path:
    """Return the option ``folder``, else the folder ``default`` of the user's cache."""
    return user_cache(default) if folder is None else Path(text("folder", folder)).expanduser()


def made_folder(folder: Path) -> Path:
    """Make ``folder`` where it is missing, and return it. Raises ``MetricError``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetricError(f"{folder} cannot be made: {error.strerror or error}") from error
    return folder


@lru_cache(maxsize=8)
def store_in(folder: Path) -> AnswerStore:
    """Return one store a folder, for metrics of several evaluations in this process.

    Raises ``MetricError`` if the folder cannot be made, and ``StoreError``.
    """
    from scenewright.providers import AnswerStore

    return AnswerStore(made_folder(folder) / "answers.db")
