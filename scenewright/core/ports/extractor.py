"""The ports of extraction: an image goes in, the scene graph that is seen in it comes out.

A two-stage extractor (XTC-Bench, Sec. 3.2) detects things first, then reads their attributes,
scores the relations of pairs and has them verified. Each of these is a port of its own, so that a
language model, a trained scorer and the judges of the miniature can stand in for one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.ports.detector import Detection
from scenewright.core.scene import Relation, SceneGraph

Stage = Literal["detection", "merging", "attributes", "relations", "verification", "rules"]
"""Where in an extraction something was decided."""
Part = Literal["objects", "attributes", "relations"]
"""What of a graph can be unknown."""


class ExtractionError(RuntimeError):
    """An extractor that cannot be built, or an image of which nothing could be said; says why."""


@dataclass(frozen=True, slots=True)
class ReadAttribute:
    """A value that a reader saw."""

    key: str
    """One of the keys that were asked for."""
    value: str
    """In the reader's words."""
    confidence: float | None = None
    """In [0, 1], if the reader gives one."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of the graph being built."""

    id: str
    """As in the scene: ``dog.1``."""
    detection: Detection
    """What and where it is; of merged instances the box and mask of all together."""
    members: tuple[Detection, ...] = ()
    """The instances that were merged into it; empty if it is one."""
    attributes: tuple[ReadAttribute, ...] = ()
    """What was read of it, where that was done before; empty otherwise."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """How likely each relation from one thing to another is."""

    source: str
    """Id of the subject."""
    target: str
    """Id of the object."""
    none: float
    """Of there being no relation, in [0, 1]."""
    predicates: Mapping[str, float]
    """Predicate → its score in [0, 1]; they need not sum to one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A relation that passed the thresholds."""

    relation: Relation
    """Between ids of things."""
    score: float
    """Of the scorer."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verifier says of one candidate."""

    holds: bool | None
    """Whether it sees the relation; None if it gave nothing usable."""
    confidence: float | None = None
    """Probability that the relation holds, if it gives one."""
    reason: str = ""
    """Why there is no answer."""
    failed: bool = False
    """Whether that is because a model failed: asked again, it might answer."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a picture's graph that a model failed to read.

    It is unknown: the graph lacks it, and says nothing of whether it is in the picture. Asked
    again, the model might tell.
    """

    part: Part
    """Which kind of thing is unknown."""
    reason: str
    """Why, in a clause: ``HTTP 503``, ``the model gave no JSON``."""
    objects: tuple[str, ...] = ()
    """Object ids: the object whose attributes, or subject and object whose relations are unknown.
    Empty: those of all objects, and of ``objects`` which there are."""
    words: tuple[str, ...] = ()
    """Attribute keys, predicates or class labels that are unknown. Empty: all of them."""

    def __str__(self) -> str:
        """``color of dog.1: HTTP 503``."""
        what = ", ".join(self.words) or self.part
        ends = " and ".join(self.objects)
        return f"{what} of {ends}: {self.reason}" if ends else f"{what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that was seen and is not in the graph, by a decision: it was not sure enough."""

    what: str
    """In words: ``person.1 eating pizza.1``, ``dog 0.21``, ``material of bed.1``."""
    stage: Stage
    """Where."""
    reason: str
    """Why, in a clause: ``no relation 0.71 ≥ 0.5``."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """What was seen in an image."""

    scene: SceneGraph
    """The graph."""
    things: Mapping[str, Detection] = field(default_factory=dict)
    """Object id → where it is; empty for extractors that know no places."""
    confidence: Mapping[str, float] = field(default_factory=dict)
    """Fact id (as in :mod:`scenewright.core.questions`) → confidence in [0, 1], where one is known.
    """
    dropped: tuple[Dropped, ...] = ()
    """What was left out, in the order in which it was."""
    unread: tuple[Unread, ...] = ()
    """What is unknown because a model failed on it; empty if the graph is all that there is."""

    answered: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the parts that did not fail gave, as data for JSON, where the extractor is
    :class:`Resumable`; empty if nothing is unread."""

    @property
    def complete(self) -> bool:
        """Whether no model failed: what the graph lacks was not seen."""
        return not self.unread

    @property
    def reason(self) -> str:
        """What is unknown and why, in a clause; empty if nothing is."""
        if not self.unread:
            return ""
        more = len(self.unread) - 1
        return f"{self.unread[0]}{f', and {more} more' if more else ''}"

    def unread_objects(self) -> tuple[Unread, ...]:
        """What keeps it unknown which objects there are."""
        return tuple(one for one in self.unread if one.part == "objects")

    def unread_attributes(self, object_id: str) -> tuple[Unread, ...]:
        """What is unknown of the attributes of an object."""
        return tuple(
            one
            for one in self.unread
            if one.part == "attributes" and one.objects in ((), (object_id,))
        )

    def unread_relations(self, source: str, target: str) -> tuple[Unread, ...]:
        """What is unknown of the relations from one object to another."""
        return tuple(
            one
            for one in self.unread
            if one.part == "relations" and one.objects in ((), (source, target))
        )


@runtime_checkable
class GraphExtractor(Protocol):
    """From an image to the scene graph that is seen in it."""

    @property
    def id(self) -> str:
        """For example ``two-stage`` or ``one-stage``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an image could get another graph."""
        ...

    async def extract(self, image: Image.Image) -> Extraction:
        """The graph of ``image``; empty if nothing is seen.

        A model that fails on a part costs that part, which is told in ``unread``. Raises
        ``ExtractionError`` if nothing at all could be said, and ``ImageError`` for an image that
        cannot be read.
        """
        ...

    async def aclose(self) -> None:
        """Free what it holds."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """An extractor that asks for what was unread alone."""

    async def resume(self, image: Image.Image, before: Extraction) -> Extraction:
        """The graph of ``image``, of which it gave ``before`` earlier: parts that did not fail then
        are not asked again. Raises as :meth:`GraphExtractor.extract`."""
        ...


def vocabulary_of(extractor: GraphExtractor) -> ClosedVocabulary | None:
    """The words that the graphs of ``extractor`` can hold, where its ``vocabulary`` names them:
    that another one is not in a graph says nothing of the picture. None: any."""
    found = getattr(extractor, "vocabulary", None)
    return found if isinstance(found, ClosedVocabulary) else None


class AttributeReader(Protocol):
    """Says what one thing is like."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a thing could be read otherwise."""
        ...

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute | Unread, ...]:
        """Values of ``keys`` for ``thing``; a key that cannot be seen is left out, one that a model
        failed on is unread.

        ``things`` are all things of the picture, for readers that must not mistake another one
        for it. Raises ``ExtractionError`` for a reply that cannot be used, and what model calls
        raise.
        """
        ...


class RelationScorer(Protocol):
    """Scores the relations of pairs of things."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a pair could get other scores."""
        ...

    async def score(
        self, image: Image.Image, things: Sequence[Thing]
    ) -> tuple[PairScores | Unread, ...]:
        """Scores of the ordered pairs that are worth a look; a pair that is left out has none, one
        that a model failed on is unread.

        Raises ``ExtractionError`` for a reply that cannot be used, and what model calls raise.
        """
        ...


class RelationVerifier(Protocol):
    """Looks at candidates once more."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a candidate could get another answer."""
        ...

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """One verification a candidate, in order; a failure is one without an answer."""
        ...
