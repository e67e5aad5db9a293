"""What REAL asks of a class of pictures: parts with their descriptions, or entities and relations.

A schema is data with a version: scores of different versions are not to be compared. It is written
by hand, by a language model over a given text (:mod:`.schema_making`), taken from annotations in
the manner of CUB-200-2011 (:mod:`.schema_cub`), or derived from a scene graph.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from scenewright.core.questions import distinguishing_keys, noun_phrase
from scenewright.core.scene import SceneGraph

EXISTENCE = "Is there a realistic animal or plant in the image?"
"""The paper's question (REAL, Sec. 3.1)."""
BY_HAND = "hand"
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class SchemaError(ValueError):
    """A schema, or what one is made of, that cannot be used; says how to mend it."""


class SchemaAttribute(BaseModel):
    """One attribute: a part and what it looks like."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: Text
    """p: what must be seen, for example ``bill``."""
    description: Text
    """d: what it must look like, so that "Is the bill curved?" is a question."""

    @property
    def statement(self) -> str:
        """``bill: curved``, for people."""
        return f"{self.part}: {self.description}"


class _Schema(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    """The class, for example ``Black-footed Albatross``."""
    version: int = Field(default=1, ge=1)
    """Raised by whoever changes it."""
    made_by: str = BY_HAND
    """``hand``, ``cub``, ``scene``, or the language model's ``account:model``."""
    source: str = ""
    """SHA-256 (hex) of the text or the annotations that it was made of; empty by hand."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the whole schema."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class AttributeSchema(_Schema):
    """S: the attributes of a class (REAL, Sec. 3.1)."""

    existence: Text | None = EXISTENCE
    """Asked first; a no makes the score 0. None: nothing is asked, as where several different
    things are looked for."""
    attributes: tuple[SchemaAttribute, ...]
    """N pairs of part and description."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.attributes:
            raise ValueError("it has no attributes: give at least one part with its description")
        told = Counter((a.part.casefold(), a.description.casefold()) for a in self.attributes)
        twice = [f"{part}: {description}" for (part, description), n in told.items() if n > 1]
        if twice:
            raise ValueError(f"given twice: {'; '.join(twice)}: keep each once")
        return self

    @classmethod
    def of_scene(cls, scene: SceneGraph, name: str) -> tuple[Self | None, int]:
        """The schema of a scene's attributes (part: the object, description: the value), and how
        many attributes cannot be asked for.

        An object is named by what tells it apart besides the attribute in question. Where nothing
        does, or two objects would be asked about in the same words, the attribute is left out and
        counted. None without any attribute.
        """
        found: dict[tuple[str, str], SchemaAttribute] = {}
        left_out = 0
        for item in scene.objects:
            for key, value in item.attributes.items():
                bare = {k: v for k, v in item.attributes.items() if k != key}
                part = _told_apart(scene, item.id, bare)
                place = ((part or "").casefold(), value.casefold())
                if part is None or place in found:
                    left_out += 1
                else:
                    found[place] = SchemaAttribute(part=part, description=value)
        if not found:
            return None, left_out
        made = cls(
            name=name,
            made_by="scene",
            source=scene.digest,
            existence=None,
            attributes=tuple(found.values()),
        )
        return made, left_out


class SchemaRelation(BaseModel):
    """One relation between two entities of the same schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: Text
    """e_i."""
    predicate: Text
    """r_ij, for example ``carrying``."""
    object: Text
    """e_j."""

    @property
    def statement(self) -> str:
        """``person carrying bed``."""
        return f"{self.subject} {self.predicate} {self.object}"


class RelationSchema(_Schema):
    """The query of entities and relations of a class of pictures (REAL, Sec. 3.2)."""

    entities: tuple[Text, ...]
    """N entities, each in words that mean no other of them."""
    relations: tuple[SchemaRelation, ...]
    """Relations between them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = Counter(name.casefold() for name in self.entities)
        if twice := [name for name, n in names.items() if n > 1]:
            raise ValueError(
                f"the entities {twice} are given twice: tell them apart, for example by colour"
            )
        if not self.relations:
            raise ValueError("it has no relations: give at least one")
        unknown = {
            end
            for relation in self.relations
            for end in (relation.subject, relation.object)
            if end not in self.entities
        }
        if unknown:
            raise ValueError(f"{sorted(unknown)} stand in relations but not in entities: add them")
        if own := [r.statement for r in self.relations if r.subject == r.object]:
            raise ValueError(f"{own}: a relation needs two entities")
        told = Counter(relation.statement.casefold() for relation in self.relations)
        if again := [statement for statement, n in told.items() if n > 1]:
            raise ValueError(f"given twice: {'; '.join(again)}: keep each once")
        return self

    @classmethod
    def of_scene(cls, scene: SceneGraph, name: str) -> tuple[Self | None, int]:
        """The entities and relations of a scene, and how many relations cannot be asked for,
        because an end of theirs cannot be told from another object. None without any relation.

        Objects without a relation are entities too: one that is missing makes the score 0.
        """
        phrases = {
            item.id: _told_apart(scene, item.id, dict(item.attributes)) for item in scene.objects
        }
        asked: dict[str, SchemaRelation] = {}
        for relation in scene.relations:
            ends = phrases[relation.source], phrases[relation.target]
            if ends[0] is None or ends[1] is None or relation.source == relation.target:
                continue
            one = SchemaRelation(subject=ends[0], predicate=relation.predicate, object=ends[1])
            asked.setdefault(one.statement.casefold(), one)
        if not asked:
            return None, len(scene.relations)
        made = cls(
            name=name,
            made_by="scene",
            source=scene.digest,
            entities=tuple(dict.fromkeys(p for p in phrases.values() if p is not None)),
            relations=tuple(asked.values()),
        )
        return made, len(scene.relations) - len(asked)


def _told_apart(scene: SceneGraph, object_id: str, attributes: dict[str, str]) -> str | None:
    """The shortest phrase of ``attributes`` and class that means this object and no other."""
    item = scene.object(object_id)
    bare = item.model_copy(update={"attributes": type(item.attributes)(attributes)})
    others = tuple(bare if one.id == object_id else one for one in scene.objects)
    keys = distinguishing_keys(scene.model_copy(update={"objects": others}), bare)
    return None if keys is None else noun_phrase(bare, keys)


Schema = AttributeSchema | RelationSchema
