"""Schemas of REAL: parts with their descriptions, or entities and relations, of a class.

A schema is data with a version: scores of different versions cannot be compared. It is written by
hand, by a language model over a given text, or taken from annotations in the manner of CUB-200-2011
(:mod:`scenewright.evals.studies.real.schema_making`), or derived from a scene graph.

Files of schemas, of one or of many classes, are JSON or TOML. A file of many has them under
``classes``; a schema has either ``attributes`` or ``entities`` and ``relations``, and a class may
have one of each kind::

    [[classes]]
    name = "Laysan Albatross"
    [[classes.attributes]]
    part = "bill"
    description = "hooked"
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from scenewright.core.errors import ScenewrightError
from scenewright.core.referring import distinguishing_keys, noun_phrase
from scenewright.core.scene import SceneGraph
from scenewright.core.user_files import read_user_data
from scenewright.core.validation import FrozenModel
from scenewright.evals.errors import EvalError
from scenewright.runs.folder import write_json

EXISTENCE = "Is there a realistic animal or plant in the image?"
"""The paper's question (REAL, Sec. 3.1)."""
BY_HAND = "hand"
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class SchemaError(ScenewrightError, ValueError):
    """A schema, or what one is made of, that cannot be used; says how to mend it."""


class SchemaAttribute(FrozenModel):
    """One attribute: a part and what it looks like."""

    part: Text
    """p: what must be seen, for example ``bill``."""
    description: Text
    """d: what it must look like, so that "Is the bill curved?" is a question."""

    @property
    def statement(self) -> str:
        """``bill: curved``, for people."""
        return f"{self.part}: {self.description}"


class _Schema(FrozenModel):
    name: Text
    """The class, for example ``Black-footed Albatross``."""
    version: int = Field(default=1, ge=1)
    """Raised with every change."""
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
        """Make the schema of a scene's attributes, and count those that cannot be asked for.

        The part is the object, the description the value. An object is named by what tells it apart
        besides the attribute in question. Where nothing does, or two objects would be asked about
        in the same words, the attribute is left out and counted. None without any attribute.
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


class SchemaRelation(FrozenModel):
    """One relation between two entities of the same schema."""

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
        """Make the schema of a scene's relations, and count those that cannot be asked for.

        An end of such a relation cannot be told from another object. None without any relation.
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
    """Return the shortest phrase of ``attributes`` and class that means this object alone."""
    item = scene.object(object_id)
    bare = item.model_copy(update={"attributes": type(item.attributes)(attributes)})
    others = tuple(bare if one.id == object_id else one for one in scene.objects)
    keys = distinguishing_keys(scene.model_copy(update={"objects": others}), bare)
    return None if keys is None else noun_phrase(bare, keys)


Schema = AttributeSchema | RelationSchema


FORMAT = 1
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ClassSchema:
    """What is asked of pictures of one class; at least one of the two is there."""

    name: str
    """The class."""
    attributes: AttributeSchema | None = None
    """What decides S_att."""
    relations: RelationSchema | None = None
    """What decides S_rel."""

    @property
    def digest(self) -> str:
        """Changes with either schema."""
        parts = (self.attributes, self.relations)
        return "+".join("" if part is None else part.digest for part in parts)


def read_schemas(path: str | Path) -> dict[str, ClassSchema]:
    """Return by class its schemas, in the order of the file.

    Raises ``SchemaError`` that names the file and every fault in it (the first twenty of many).
    """
    file = Path(path)
    schemas, faults = check_schemas(file)
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise SchemaError(f"{file}: {'; '.join(faults[:_SHOWN])}{more}")
    return classes_of(schemas)


def classes_of(schemas: Iterable[Schema]) -> dict[str, ClassSchema]:
    """Return by class its schemas; ``SchemaError`` for two of one kind."""
    found: dict[str, ClassSchema] = {}
    for schema in schemas:
        before = found.get(schema.name, ClassSchema(schema.name))
        twice = before.attributes if isinstance(schema, AttributeSchema) else before.relations
        if twice is not None:
            raise SchemaError(f"{schema.name}: {_kind(schema)} are given twice: keep one")
        if isinstance(schema, AttributeSchema):
            found[schema.name] = replace(before, attributes=schema)
        else:
            found[schema.name] = replace(before, relations=schema)
    return found


def digest_of(schemas: Iterable[ClassSchema]) -> str:
    """Return SHA-256 (hex) of the schemas of several classes, in whatever order."""
    told = sorted(f"{schema.name}\0{schema.digest}" for schema in schemas)
    return hashlib.sha256("\0".join(told).encode()).hexdigest()


def check_schemas(path: str | Path) -> tuple[list[Schema], list[str]]:
    """Return the sound schemas of a file, and every fault in it in words, with its place.

    Raises ``SchemaError`` for a file that is neither JSON nor TOML.
    """
    file = Path(path)
    found: list[Schema] = []
    faults: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for place, entry in _entries(read_user_data(file, SchemaError), file):
        if not isinstance(entry, Mapping):
            faults.append(f"{place} is not a table: give name and attributes")
            continue
        name = entry.get("name")
        where = f"{place} ({name})" if isinstance(name, str) and name.strip() else place
        model = RelationSchema if {"entities", "relations"} & set(entry) else AttributeSchema
        try:
            schema: Schema = model.model_validate(dict(entry))
        except ValidationError as error:
            faults.extend(f"{where}: {problem}" for problem in _problems(error))
            continue
        key = (schema.name, type(schema).__name__)
        if key in seen:
            faults.append(f"{where}: {_kind(schema)} of this class stand in {seen[key]} too")
            continue
        seen[key] = place
        found.append(schema)
    if not found and not faults:
        faults.append("it has no classes: give at least one")
    return found, faults


def write_schemas(path: str | Path, schemas: Iterable[Schema]) -> Path:
    """Write ``schemas`` as JSON; the file is the old one or the whole new one.

    Raises ``SchemaError`` for a name that is not .json, and ``EvalError`` if it cannot be written.
    """
    file = Path(path)
    if file.suffix.lower() != ".json":
        raise SchemaError(f"{file}: schemas are written as JSON: name a file that ends in .json")
    content = {"format": FORMAT, "classes": [s.model_dump(mode="json") for s in schemas]}
    try:
        write_json(file, content)
    except OSError as error:
        raise EvalError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def _kind(schema: Schema) -> str:
    return "attributes" if isinstance(schema, AttributeSchema) else "relations"


def _entries(data: Any, file: Path) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and "classes" in data:
        unknown = sorted(set(data) - {"classes", "format"})
        if unknown:
            raise SchemaError(f"{file}: {unknown} beside classes is not known: remove it")
        if data.get("format", FORMAT) != FORMAT:
            raise SchemaError(f"{file}: format {data['format']!r} is not known, only {FORMAT}")
        data = data["classes"]
        if not isinstance(data, list):
            raise SchemaError(f"{file}: classes is not a list")
    if isinstance(data, list):
        yield from ((f"classes[{at}]", entry) for at, entry in enumerate(data))
    else:
        yield "the schema", data


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        yield f"{where}: {said}" if where else said
