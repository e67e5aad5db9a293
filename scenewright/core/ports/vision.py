"""Protocols for reading pictures: detectors, scene-graph extractors, scorers of realism.

A detector finds named objects with their places. An extractor returns the scene graph that is
visible in an image; its parts read attributes, score relations and verify them. A scorer of realism
gives every object a shape score and a texture score from 1 (not real at all) to 5 (as in a photo);
their mean is object-centric realism, OcR (Liang et al., Sec. 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from PIL import Image
from pydantic import ConfigDict, InstanceOf

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.errors import ScenewrightError
from scenewright.core.scene import Relation, SceneGraph

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels; right and bottom are exclusive."""
# Not NDArray: from NumPy 2.5 on that is an alias, which pydantic cannot check instances of.
Mask = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
"""(height, width); true on the object's pixels."""


class DetectionError(ScenewrightError, RuntimeError):
    """A detector that cannot be built or loaded, or unusable detections; says how to fix it."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A detected object."""

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    name: str
    """Class label."""
    box: Box
    """(left, top, right, bottom) in pixels of the image, inside of it."""
    score: float = 1.0
    """Confidence in [0, 1]; 1 for given truth."""
    mask: InstanceOf[Mask] | None = field(default=None, compare=False, repr=False)
    """Pixels of the object, of the image's size; None where only the box is known."""
    stuff: bool = False
    """Whether it is a region without instances (sky, grass), as in panoptic models."""

    @property
    def area(self) -> float:
        """Area in pixels: of the mask if there is one, else of the box."""
        if self.mask is not None:
            return float(self.mask.sum())
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


@runtime_checkable
class Detector(Protocol):
    """A model that finds objects in images."""

    @property
    def id(self) -> str:
        """``kind:model``, for example ``json:detections.json``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever an image could get other detections.

        It covers weights, thresholds and labels.
        """
        ...

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """The model's own classes; None: any class.

        The absence of a class outside of them says nothing.
        """
        ...

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """Return the objects in ``image`` by descending score, with boxes inside the image.

        ``labels`` are the classes of interest: an open-vocabulary model looks for exactly these
        (and raises ``DetectionError`` without any); a model with its own classes returns detections
        of those among them, or all detections if there are no labels. Raises ``ImageError`` for an
        unreadable image and ``DetectionError`` for a model that cannot be loaded.
        """
        ...

    async def aclose(self) -> None:
        """Free the model."""
        ...


Stage = Literal["detection", "merging", "attributes", "relations", "verification", "rules"]
"""Stage of an extraction."""
Part = Literal["objects", "attributes", "relations"]
"""Part of a graph that can be unknown."""


class ExtractionError(ScenewrightError, RuntimeError):
    """An extractor that cannot be built, or an image of which nothing could be read."""


@dataclass(frozen=True, slots=True)
class ReadAttribute:
    """A value read from the image."""

    key: str
    """One of the requested keys."""
    value: str
    """Value in the reader's words."""
    confidence: float | None = None
    """Confidence in [0, 1], if known."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the graph being built."""

    id: str
    """Object id in the scene: ``dog.1``."""
    detection: Detection
    """Class and place; of merged instances the joint box and mask."""
    members: tuple[Detection, ...] = ()
    """Instances merged into it; empty if it is one."""
    attributes: tuple[ReadAttribute, ...] = ()
    """Attributes, if they were read already."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of the relations from one object to another."""

    source: str
    """Id of the subject."""
    target: str
    """Id of the object."""
    none: float
    """Score of no relation, in [0, 1]."""
    predicates: Mapping[str, float]
    """Predicate → score in [0, 1]; need not sum to one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A relation that passed the thresholds."""

    relation: Relation
    """Relation between object ids."""
    score: float
    """Score of the scorer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """A verifier's answer about one candidate."""

    holds: bool | None
    """Whether the relation holds; None without a usable answer."""
    confidence: float | None = None
    """Probability that the relation holds, if it gives one."""
    reason: str = ""
    """Why there is no answer."""
    failed: bool = False
    """Whether a model failed, so that asking again may help."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of the graph that a model failed to read.

    It is unknown: the graph lacks it, which says nothing about the image. Asking the model again
    may help.
    """

    part: Part
    """Kind of unknown part."""
    reason: str
    """Reason as a clause: ``HTTP 503``, ``the model gave no JSON``."""
    objects: tuple[str, ...] = ()
    """Ids of the object whose attributes, or of subject and object whose relations are unknown.
    Empty: those of all objects, and of ``objects`` the objects themselves.
    """
    words: tuple[str, ...] = ()
    """Unknown attribute keys, predicates or class labels. Empty: all."""

    def __str__(self) -> str:
        """Return a clause: ``color of dog.1: HTTP 503``."""
        what = ", ".join(self.words) or self.part
        ends = " and ".join(self.objects)
        return f"{what} of {ends}: {self.reason}" if ends else f"{what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that was seen but left out of the graph for lack of certainty."""

    what: str
    """Description: ``person.1 eating pizza.1``, ``dog 0.21``, ``material of bed.1``."""
    stage: Stage
    """Stage of the decision."""
    reason: str
    """Reason as a clause: ``no relation 0.71 ≥ 0.5``."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Result of an extraction."""

    scene: SceneGraph
    """The graph."""
    things: Mapping[str, Detection] = field(default_factory=dict)
    """Object id → place; empty for extractors without places."""
    confidence: Mapping[str, float] = field(default_factory=dict)
    """Fact id (as in :mod:`scenewright.core.questions`) → confidence in [0, 1], where known."""
    dropped: tuple[Dropped, ...] = ()
    """Omissions, in order."""
    unread: tuple[Unread, ...] = ()
    """Parts unknown because a model failed; empty for a complete graph."""

    answered: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Replies of the parts that succeeded, as JSON data, if the extractor is :class:`Resumable`;
    empty if nothing is unread.
    """

    @property
    def complete(self) -> bool:
        """Whether no model failed, so that what the graph lacks was not seen."""
        return not self.unread

    @property
    def reason(self) -> str:
        """First unknown part with its reason, as a clause; else empty."""
        if not self.unread:
            return ""
        more = len(self.unread) - 1
        return f"{self.unread[0]}{f', and {more} more' if more else ''}"

    def unread_parts(self, part: Part, *objects: str) -> tuple[Unread, ...]:
        """Return the failures that leave a part unknown.

        ``objects``: the object whose attributes, or subject and object whose relations are meant.
        """
        return tuple(
            one for one in self.unread if one.part == part and one.objects in ((), objects)
        )


@runtime_checkable
class GraphExtractor(Protocol):
    """A model that extracts the visible scene graph of an image."""

    @property
    def id(self) -> str:
        """Name, for example ``two-stage``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever an image could get another graph."""
        ...

    async def extract(self, image: Image.Image) -> Extraction:
        """Return the visible scene graph of ``image``; an empty graph if nothing is seen.

        If a model fails on a part, that part is missing in the graph and listed in ``unread``.
        Raises ``ExtractionError`` if nothing could be read at all, and ``ImageError`` for an
        unreadable image.
        """
        ...

    async def aclose(self) -> None:
        """Free models and connections."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """An extractor that can retry only the failed parts."""

    async def resume(self, image: Image.Image, before: Extraction) -> Extraction:
        """Extract ``image`` again, asking only for what failed in ``before``.

        Parts of ``before`` that did not fail are kept. Raises as :meth:`GraphExtractor.extract`.
        """
        ...


def vocabulary_of(extractor: GraphExtractor) -> ClosedVocabulary | None:
    """Return the vocabulary of an extractor's graphs; None: any words.

    The absence of a word outside of it says nothing about the image.
    """
    found = getattr(extractor, "vocabulary", None)
    return found if isinstance(found, ClosedVocabulary) else None


class AttributeReader(Protocol):
    """Reader of the attributes of one object."""

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever an object could be read differently."""
        ...

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute | Unread, ...]:
        """Return the values of ``keys`` for ``thing``.

        A key that is not visible is left out, one that a model failed on is :class:`Unread`.
        ``things`` are all objects of the image, for readers that must distinguish them. Raises
        ``ExtractionError`` for an unusable reply, and the errors of model calls.
        """
        ...


class RelationScorer(Protocol):
    """Scorer of the relations between pairs of objects."""

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever a pair could get other scores."""
        ...

    async def score(
        self, image: Image.Image, things: Sequence[Thing]
    ) -> tuple[PairScores | Unread, ...]:
        """Return scores of the ordered pairs worth considering.

        A pair without scores has no relation, one that a model failed on is :class:`Unread`. Raises
        ``ExtractionError`` for an unusable reply, and the errors of model calls.
        """
        ...


class RelationVerifier(Protocol):
    """Verifier of candidate relations."""

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever a candidate could get another answer."""
        ...

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """Return one verification per candidate, in order; a failure is one without an answer."""
        ...


LOWEST = 1.0
"""Lowest score of realism."""
HIGHEST = 5.0
"""Highest score of realism."""
PROMPTS = {
    "shape": "{category} with realistic shape and structure.",
    "texture": "{category} with realistic texture, color and shade.",
    "joint": "{category} with realistic shape, structure, texture, color and shade.",
}
"""The paper's prompts for scorers that compare an image with a text (Table 3)."""


class RealismError(ScenewrightError, RuntimeError):
    """A scorer that cannot be built, or unusable data; says how to fix it."""


@dataclass(frozen=True, slots=True)
class ObjectRealism:
    """Realism of one object, from 1 to 5; None where the scorer has no score or failed."""

    shape: float | None
    """Realism of shape and structure."""
    texture: float | None
    """Realism of texture, colour and shade."""
    joint: float | None = None
    """Joint realism, if scored at once."""
    reason: str = ""
    """Reason for a missing score."""
    tokens_in: int = 0
    """This object's share of input tokens."""
    tokens_out: int = 0
    """Its share of output tokens."""
    usd: float = 0.0
    """Its share of US dollars."""
    seconds: float = 0.0
    """Its share of wall time."""

    @property
    def known(self) -> bool:
        """Whether there is a score of any aspect."""
        return any(one is not None for one in (self.shape, self.texture, self.joint))

    @property
    def average(self) -> float | None:
        """OcR: the mean of shape and texture; None without both."""
        if self.shape is None or self.texture is None:
            return None
        return (self.shape + self.texture) / 2


@runtime_checkable
class RealismScorer(Protocol):
    """A model that scores how real objects look."""

    @property
    def id(self) -> str:
        """``kind:model``, for example ``json:detections.json``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest that changes whenever an object could get another score.

        It covers weights, prompts and image preparation.
        """
        ...

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """Return one score per object, in their order; boxes are in pixels of ``image``.

        A failure for one object is an :class:`ObjectRealism` without scores and with its reason.
        Raises ``RealismError`` only if the scorer itself cannot be loaded.
        """
        ...

    async def aclose(self) -> None:
        """Free the model or its connections."""
        ...


def normalized(score: float) -> float:
    """Return a score from 1 to 5 scaled to [0, 1], as in the paper's MAE."""
    return (score - LOWEST) / (HIGHEST - LOWEST)


def on_scale(share: float) -> float:
    """Return a share from 0 to 1 scaled to scores from 1 to 5, clipped."""
    return LOWEST + (HIGHEST - LOWEST) * min(1.0, max(0.0, share))
