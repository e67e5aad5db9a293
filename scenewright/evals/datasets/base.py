"""The port of a set of items, and the item: one thing that a picture is asked to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, Self, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.facts import Fact
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import SceneGraph


class DatasetError(ValueError):
    """A set that cannot be read: names the file, the place in it, and the remedy."""


class Item(BaseModel):
    """One scene, text or photo of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=500)
    """Unique in its set, and the same each time the set is read."""
    scene: SceneGraph | None = None
    """What a picture is asked to hold; none where the set gives a text or a photo alone."""
    prompt: str = ""
    """The set's own text; empty where it has graphs alone."""
    facts: tuple[Fact, ...] = ()
    """The set's own questions (TIFA, DSG), parents before children; empty: those of
    :func:`~scenewright.core.questions.facts_of` of the scene."""
    predicates: str = ""
    """Where the wrong options of its scene's questions come from: a name or file of
    :func:`~scenewright.core.predicate_statistics.load_predicates`; empty: as the evaluation
    says."""
    image: str | None = None
    """File of the original photo; none where there is none on this machine."""
    detections: tuple[Detection, ...] = ()
    """Objects with boxes in the original photo, in pixels of it."""
    group: str = ""
    """First level of its class: ``People-Centric``, a category of prompts, …"""
    category: str = ""
    """Second level: ``Daily Life``, a challenge of prompts, …"""
    meta: dict[str, str] = Field(default_factory=dict)
    """What else the set says of it, as text."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scene is None and not self.prompt and self.image is None:
            raise ValueError(f"the item {self.id!r} has neither scene, prompt nor image")
        return self

    @property
    def level(self) -> str:
        """``simple``, ``medium`` or ``hard`` by its relations (γ = 0); empty without a scene."""
        return "" if self.scene is None else self.scene.level()


@runtime_checkable
class Dataset(Protocol):
    """A set of items that is read as a stream: each iteration begins anew and holds one item (or
    one part of a file) in memory at a time."""

    @property
    def name(self) -> str:
        """As in ``scenewright data list``, for example ``dsg``."""
        ...

    @property
    def source(self) -> str:
        """Where it comes from: paper or address."""
        ...

    @property
    def licence(self) -> str:
        """Its licence, as its makers name it; empty if they name none."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an item could be another one (files, options)."""
        ...

    @property
    def left_out(self) -> Mapping[str, int]:
        """Why entries of the newest iteration were left out → how many; grows while it lasts."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """The items in their order. Raises ``DatasetError`` for what cannot be read."""
        ...


class SampleSpec(BaseModel):
    """Which items of a set are taken; without counts all, in their order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str = "complexity"
    """``complexity`` (levels simple, medium, hard), ``group`` or ``category``."""
    counts: dict[str, int] = Field(default_factory=dict)
    """Class → items of it, for example ``{"simple": 15000, "medium": 20000, "hard": 15000}``."""
    each: int | None = Field(default=None, ge=1)
    """Items of every class, in place of ``counts``."""
    gamma: float = Field(default=0.0, ge=0.0, le=1.0)
    """γ of Eq. 1, for ``complexity``."""
    seed: int = Field(default=0, ge=0)
    """Seed of the draw."""
    short: Literal["error", "take"] = "error"
    """Where a class has too few items: an error, or ``take`` what there is."""


class DatasetSpec(BaseModel):
    """A set as a configuration names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """As in ``scenewright data list``."""
    path: str | None = None
    """File or folder; none: where ``scenewright data get`` puts it, or none needed."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the loader, for example ``{"split": "test"}``."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many items, after sampling."""
    sample: SampleSpec | None = None
    """Which items; none: all."""
