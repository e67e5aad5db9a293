"""Scene graphs: what a picture should show.

A scene graph is ``G = (V, E)``: object instances with attributes, and directed
relations between two of them. Two dogs are two objects. Everything here is
immutable, hashable and validated, so that a graph can be a cache key and a piece
of run state. File formats live in :mod:`scenewright.core.formats`.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from scenewright.core.errors import ScenewrightError
from scenewright.core.intent import Doubt, Intent
from scenewright.core.validation import FrozenModel

if TYPE_CHECKING:
    import networkx as nx

MAX_NAME_LENGTH = 200
MAX_ID_LENGTH = MAX_NAME_LENGTH + 20
COMPOSED = (
    "the scene was changed: prompts are composed of its graph and of what the sentence says of the "
    "whole picture"
)
"""Note of a scene whose sentence no longer says it."""
MAX_OBJECTS = 512
MAX_RELATIONS = 4096

Level = Literal["simple", "medium", "hard"]

# Validators say what is wrong in our own words; the published schemas have the same limits.
_NAME_SCHEMA: dict[str, Any] = {"minLength": 1, "maxLength": MAX_NAME_LENGTH}
_ID_SCHEMA: dict[str, Any] = {"minLength": 1, "maxLength": MAX_ID_LENGTH}

# Callers hand it on as they got it: its fields would be most of a tool's description.
_INTENT_SCHEMA: dict[str, Any] = {"type": "object"}

_SPACE = re.compile(r"\s+")


class SceneError(ScenewrightError, ValueError):
    """An invalid scene graph; the message names the place and the remedy."""


_PLAIN = re.compile(r"[!-~]+(?: [!-~]+)*", re.ASCII)
# Zero-width joiners belong to the spelling of some scripts; other format characters do not.
_JOINERS = re.compile(r"(?<=\S)[\u200c\u200d](?=\S)")


def clean_name(text: str, what: str, limit: int = MAX_NAME_LENGTH) -> str:
    """Return ``text`` in Unicode form NFC with white space folded, so that equal looks are equal.

    Raises ``SceneError`` if it is empty, has more than ``limit`` characters or is unprintable.
    """
    if 0 < len(text) <= limit and _PLAIN.fullmatch(text):
        # What almost every name is, and large scenes have thousands of names.
        return text
    folded = _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()
    if not folded:
        raise SceneError(f"{what} is empty: give it a name, for example 'dog'")
    if len(folded) > limit:
        raise SceneError(f"{what} has {len(folded)} characters, the limit is {limit}: shorten it")
    if not _JOINERS.sub("", folded).isprintable():
        raise SceneError(f"{what} holds control characters: {folded!r}: remove them")
    return folded


class Attributes(Mapping[str, str]):
    """An immutable, hashable mapping of attribute keys to values, ordered by key."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        pairs = dict(items)
        cleaned: dict[str, str] = {}
        for key, value in pairs.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise SceneError(
                    f"attribute {key!r}: {value!r} must be text on both sides, "
                    'for example {"color": "red"}'
                )
            name = clean_name(key, "an attribute key")
            if name in cleaned:
                raise SceneError(f"attribute key {name!r} is given twice: keep one")
            cleaned[name] = clean_name(value, f"the value of attribute {name!r}")
        self._items = tuple(sorted(cleaned.items()))

    def __getitem__(self, key: str) -> str:
        for name, value in self._items:
            if name == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def items(self) -> ItemsView[str, str]:
        """Return keys with their values, without looking each of them up."""
        return dict(self._items).items()

    def values(self) -> ValuesView[str]:
        """Return the values, without looking each of them up."""
        return dict(self._items).values()

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Attributes):
            return self._items == other._items
        if isinstance(other, Mapping):
            return dict(self) == dict(other)
        return NotImplemented

    def __repr__(self) -> str:
        return f"Attributes({dict(self)!r})"

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": _NAME_SCHEMA,
            "additionalProperties": {"type": "string", **_NAME_SCHEMA},
        }

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_dict = handler(dict[str, str])
        return core_schema.no_info_before_validator_function(
            lambda value: dict(value) if isinstance(value, Mapping) else value,
            core_schema.no_info_after_validator_function(cls, as_dict),
            serialization=core_schema.plain_serializer_function_ser_schema(
                dict, return_schema=as_dict
            ),
        )


class SceneObject(FrozenModel):
    """One object instance."""

    id: str = Field(json_schema_extra=_ID_SCHEMA)
    """Unique in its scene, for example ``"dog.1"``."""
    name: str = Field(json_schema_extra=_NAME_SCHEMA)
    """The class label, for example ``"dog"``."""
    attributes: Attributes = Field(default_factory=Attributes)
    """Attribute key → value, for example ``{"color": "red"}``."""

    @field_validator("id")
    @classmethod
    def _clean_id(cls, value: str) -> str:
        return clean_name(value, "an object id", MAX_ID_LENGTH)

    @field_validator("name")
    @classmethod
    def _clean_name(cls, value: str) -> str:
        return clean_name(value, "an object name")


class Relation(FrozenModel):
    """One directed relation: ``source predicate target``."""

    source: str = Field(json_schema_extra=_ID_SCHEMA)
    """Id of the subject."""
    predicate: str = Field(json_schema_extra=_NAME_SCHEMA)
    """For example ``"left of"``."""

    def __str__(self) -> str:
        return f"{self.source} {self.predicate} {self.target}"

    target: str = Field(json_schema_extra=_ID_SCHEMA)
    """Id of the object."""

    @field_validator("source", "target")
    @classmethod
    def _clean_end(cls, value: str) -> str:
        return clean_name(value, "an end of a relation", MAX_ID_LENGTH)

    @field_validator("predicate")
    @classmethod
    def _clean_predicate(cls, value: str) -> str:
        return clean_name(value, "a predicate")


class SceneGraph(FrozenModel):
    """Objects and the relations between them; immutable and hashable.

    Order is kept (facts are asked in it) and is part of ``==``.
    """

    objects: tuple[SceneObject, ...] = Field(
        default=(), json_schema_extra={"maxItems": MAX_OBJECTS}
    )
    """Object instances; ids are unique."""
    relations: tuple[Relation, ...] = Field(
        default=(), json_schema_extra={"maxItems": MAX_RELATIONS, "uniqueItems": True}
    )
    """Directed edges; both ends are objects of this scene, each triple occurs once."""
    intent: Annotated[Intent, WithJsonSchema(_INTENT_SCHEMA)] = Field(
        default_factory=Intent, exclude_if=lambda intent: not intent
    )
    """Intent beside the graph."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.objects) > MAX_OBJECTS:
            raise SceneError(
                f"the scene has {len(self.objects)} objects, the limit is {MAX_OBJECTS}: split it"
            )
        if len(self.relations) > MAX_RELATIONS:
            raise SceneError(
                f"the scene has {len(self.relations)} relations, "
                f"the limit is {MAX_RELATIONS}: split it"
            )
        ids: set[str] = set()
        for at, item in enumerate(self.objects):
            if item.id in ids:
                raise SceneError(
                    f"objects[{at}]: the id {item.id!r} is used twice: "
                    "give every instance its own, for example 'dog.1' and 'dog.2'"
                )
            ids.add(item.id)
        # Not the relations themselves: a large scene has thousands, and their hash takes a while.
        seen: set[tuple[str, str, str]] = set()
        for at, relation in enumerate(self.relations):
            for end, which in ((relation.source, "source"), (relation.target, "target")):
                if end not in ids:
                    raise SceneError(
                        f"relations[{at}]: {which} {end!r} is not an object of the scene: "
                        f"use one of {sorted(ids)[:12]} or add the object"
                    )
            if relation.source == relation.target:
                raise SceneError(
                    f"relations[{at}]: {relation.source!r} is related to itself: "
                    "name two different objects"
                )
            said = (relation.source, relation.predicate, relation.target)
            if said in seen:
                raise SceneError(
                    f"relations[{at}]: '{relation.source} {relation.predicate} "
                    f"{relation.target}' is listed twice: keep one"
                )
            seen.add(said)
        named = (one.of for one in self.intent.exclusions if one.of is not None)
        lost = [one for one in (*named, *self.intent.counted) if one not in ids]
        if lost:
            raise SceneError(
                f"intent: {lost[0]!r} is not an object of the scene: take out what names it"
            )
        return self

    def __contains__(self, object_id: object) -> bool:
        return any(item.id == object_id for item in self.objects)

    def __bool__(self) -> bool:
        return bool(self.objects)

    def object(self, object_id: str) -> SceneObject:
        """Return the object of that id; ``SceneError`` if there is none."""
        for item in self.objects:
            if item.id == object_id:
                return item
        raise SceneError(
            f"no object {object_id!r} in the scene: "
            f"it has {[item.id for item in self.objects][:12]}"
        )

    def complexity(self, gamma: float = 0.0) -> float:
        """Return ``C(G) = γ·|V| + (1−γ)·|E|`` (Scene-Bench, Eq. 1 and 6). Benchmarks use γ=0.

        Raises ``SceneError`` if γ is outside [0, 1].
        """
        if not 0.0 <= gamma <= 1.0:
            raise SceneError(f"gamma is {gamma}: it must lie in [0, 1]")
        return gamma * len(self.objects) + (1.0 - gamma) * len(self.relations)

    def level(self, gamma: float = 0.0) -> Level:
        """Return the paper's level of :meth:`complexity`: simple 1–3, medium 4–7, hard from 8.

        Values below 1 count as simple; fractions (0<γ<1) go to the level whose
        upper bound they have not passed.
        """
        value = self.complexity(gamma)
        if value <= 3:
            return "simple"
        return "medium" if value <= 7 else "hard"

    def subgraph(
        self, object_ids: Iterable[str], relations: Iterable[Relation] | None = None
    ) -> SceneGraph:
        """Return the scene restricted to ``object_ids`` (order kept).

        ``relations`` names which relations stay; by default all with both ends kept.
        Raises ``SceneError`` for unknown ids or relations that are not in the scene.
        """
        wanted = set(object_ids)
        unknown = sorted(wanted - {item.id for item in self.objects})
        if unknown:
            raise SceneError(f"no such objects in the scene: {unknown}")
        if relations is None:
            kept = [r for r in self.relations if r.source in wanted and r.target in wanted]
        else:
            asked = set(relations)
            foreign = asked - set(self.relations)
            if foreign:
                raise SceneError(f"no such relations in the scene: {sorted(map(str, foreign))}")
            kept = [r for r in self.relations if r in asked]
            loose = [r for r in kept if r.source not in wanted or r.target not in wanted]
            if loose:
                raise SceneError(
                    f"the relation '{loose[0]}' needs both its ends: add them to the object ids"
                )
        return SceneGraph(
            objects=tuple(item for item in self.objects if item.id in wanted),
            relations=tuple(kept),
            intent=self.intent.of(wanted),
        )

    def to_networkx(self) -> nx.MultiDiGraph:
        """Return a ``MultiDiGraph``.

        Nodes have ``name`` and ``attributes``, edges ``predicate``, and the graph ``intent`` if
        something was said beside it.
        """
        # Few need it, and it takes a quarter of a second to import.
        import networkx as nx

        graph: nx.MultiDiGraph = nx.MultiDiGraph()
        for item in self.objects:
            graph.add_node(item.id, name=item.name, attributes=dict(item.attributes))
        for relation in self.relations:
            graph.add_edge(relation.source, relation.target, predicate=relation.predicate)
        if self.intent:
            said = self
            if self.sentence:
                # It gives its edges by their source, and the sentence says them in that order too.
                ends = graph.edges(data="predicate")
                edges = tuple(Relation(source=a, predicate=p, target=b) for a, b, p in ends)
                said = self.model_copy(update={"relations": edges}).said_as(self.intent)
            graph.graph["intent"] = said.intent.model_dump(mode="json")
        return graph

    def said_as(self, intent: Intent) -> SceneGraph:
        """Return the graph as what was read of the sentence of ``intent``."""
        read = intent.model_copy(update={"read_as": self.graph.digest})
        return self.model_copy(update={"intent": read})

    @property
    def graph(self) -> SceneGraph:
        """The objects and relations alone."""
        return self.model_copy(update={"intent": Intent()}) if self.intent else self

    @property
    def sentence(self) -> str:
        """The sentence that says this graph; empty without one, and after an edit of the graph."""
        said = self.intent.sentence
        return said if said and self.intent.read_as == self.graph.digest else ""

    @property
    def english(self) -> str:
        """As :attr:`sentence`, in English: translated where it is in another language."""
        return self.sentence and (self.intent.english or self.sentence)

    def sentence_for(self, languages: Collection[str]) -> str:
        """Return :attr:`sentence` for a model of ``languages`` (``*``: any), else in English."""
        understood = self.intent.language in languages or "*" in languages
        return self.sentence if understood else self.english

    @property
    def edited(self) -> bool:
        """Whether the graph was changed after it was read from its sentence."""
        return bool(self.intent.sentence and self.intent.read_as) and not self.sentence

    @property
    def doubts(self) -> tuple[Doubt, ...]:
        """Other meanings of its sentence; nothing once it does not say the graph."""
        return self.intent.doubts if self.sentence else ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Unread passages of its sentence, in one line, and each doubt, in one.

        After an edit of the graph, that its prompts are composed.
        """
        told = self.intent.model_copy(update={"doubts": self.doubts}).warnings
        return (*told, COMPOSED) if self.edited else told

    @property
    def title(self) -> str:
        """The words that it came from; empty without them, and after an edit of the graph."""
        return self.sentence if self.intent.read_as else self.intent.sentence

    def canonical_json(self) -> str:
        """Return compact JSON with sorted keys: equal text for equal graphs."""
        return json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of :meth:`canonical_json`: the content's name in caches and run state."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
