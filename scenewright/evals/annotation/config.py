"""Configuration of the building of a set, as a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scenewright.core.vocabulary import converse_wordings
from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.errors import AnnotationError
from scenewright.evals.runner.config import JobConfig
from scenewright.evals.store.files import read_toml

Consensus = Literal["votes", "judges"]
"""``votes``: a relation is accepted by the share of models that name it; ``judges``: each relation
that any model names is verified by a panel of judges."""

CONVERSES: dict[str, str] = converse_wordings()
"""Predicate → name of the same relation in the other direction."""


class Splits(BaseModel):
    """Shares or counts of the train, validation and test parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: float = Field(default=0.9, ge=0.0, le=1.0)
    """Share of the photos."""
    val: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of the photos."""
    test: float = Field(default=0.05, ge=0.0, le=1.0)
    """Share of the photos; unused where :attr:`test_counts` are given."""
    test_counts: dict[Literal["simple", "medium", "hard"], int] = Field(default_factory=dict)
    """Photos of each level of complexity in the test part, as the paper's 15,000, 20,000 and
    15,000; they are taken before the other parts share the rest by their ratios."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.test_counts and any(count < 0 for count in self.test_counts.values()):
            raise ValueError("test_counts holds a negative number: use 0 or more")
        parts = (self.train, self.val) if self.test_counts else (self.train, self.val, self.test)
        if sum(parts) <= 0:
            raise ValueError("the shares of train, val and test are all 0: give at least one")
        return self


CLIP = "openai/clip-vit-base-patch16"
LEAST_ALIKE = 0.9


class LeakageGuard(BaseModel):
    """Test set whose photos, and photos like them, are left out of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    against: DatasetSpec
    """The test set."""
    extractor: str = CLIP
    """Of vectors: a repository or folder, ``miniature`` or ``module:function``."""
    least: float = Field(default=LEAST_ALIKE, gt=0.0, le=1.0)
    """Cosine from which on two pictures are too alike."""


class AnnotateConfig(JobConfig):
    """Configuration of a set of scene graphs built from photos with detections.

    The default folder is ``built/NAME``.
    """

    panel: tuple[str, ...] = Field(min_length=1)
    """Multimodal language models that annotate, ``account:model`` each."""
    samples: int = Field(default=1, ge=1, le=64)
    """Replies of each model about a photo; every reply is a vote."""
    consensus: Consensus = "votes"
    """How relations are accepted."""
    threshold: float = Field(default=0.5, ge=0.0, lt=1.0)
    """A relation is accepted if the share of votes for it (or the judges' probability) is above
    this: 0.5 is a majority, 0 accepts all."""
    quorum: int = Field(default=1, ge=1)
    """Fewest usable replies that a photo needs to get a graph."""
    judges: tuple[str, ...] = ()
    """Judges for ``consensus = "judges"``, ``kind:model`` each."""
    converses: dict[str, str] = Field(default_factory=lambda: dict(CONVERSES))
    """Predicate → the same in the other direction, so that ``dog left of cat`` and ``cat right of
    dog`` are votes for one relation."""
    text_model: str | None = None
    """Language model for synonyms, classes and attributes; None: the first of the panel."""
    least_objects: int = Field(default=3, ge=1)
    """Photos with fewer detections are left out."""
    least_relations: int = Field(default=1, ge=0)
    """Graphs with fewer relations are left out."""
    rare: int = Field(default=100, ge=0)
    """Predicates with fewer occurrences are dropped."""
    synonyms: bool = True
    """Whether predicates of one meaning are merged by the text model."""
    diversity: bool = True
    """Whether the scenes are classified in two levels."""
    attributes: bool = True
    """Whether the categories get attribute instances (Table 8)."""
    splits: Splits = Splits()
    leakage: LeakageGuard | None = Field(default=None, exclude_if=lambda told: told is None)
    """Test set whose photos, and photos like them, are left out."""
    seed: int = Field(default=0, ge=0)
    """Decides with a photo's id its split."""
    batch: int = Field(default=10, ge=1, le=100)
    """Scenes that are classified in one call."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, given in (("panel", self.panel), ("judges", self.judges)):
            if len(set(given)) != len(given):
                raise ValueError(f"{name} names a model twice: its vote would count double")
        if self.consensus == "judges" and not self.judges:
            raise ValueError('consensus = "judges" needs judges = ["kind:model", …]')
        if self.consensus == "votes" and self.judges:
            raise ValueError('judges are asked with consensus = "judges" alone: set it')
        if self.quorum > len(self.panel) * self.samples:
            raise ValueError(
                f"a quorum of {self.quorum} is more than {len(self.panel)} models with "
                f"{self.samples} replies each can reach"
            )
        for predicate, other in self.converses.items():
            if self.converses.get(other) != predicate:
                raise ValueError(
                    f"converses: {predicate!r} is {other!r} from its other end, so give "
                    f"{other!r} = {predicate!r} too"
                )
        return self


def load_annotate_config(path: str | Path) -> AnnotateConfig:
    """Return the configuration in the TOML file ``path``.

    Raises ``AnnotationError`` with the file and the field for what cannot be read.
    """
    return read_toml(path, AnnotateConfig, AnnotationError)
