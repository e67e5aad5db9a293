"""Files of schemas, of one or of many classes: read, checked whole, and written in one piece.

JSON or TOML. A file of many has them under ``classes``; a schema has either ``attributes`` or
``entities`` and ``relations``, and a class may have one of each kind::

    [[classes]]
    name = "Laysan Albatross"
    [[classes.attributes]]
    part = "bill"
    description = "hooked"
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenewright.evals.errors import EvalError
from scenewright.evals.studies.real.schema import (
    AttributeSchema,
    RelationSchema,
    Schema,
    SchemaError,
)
from scenewright.runs.folder import write_json

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
    """Class → its schemas, in the order of the file.

    Raises ``SchemaError`` that names the file and every fault in it (the first twenty of many).
    """
    file = Path(path)
    schemas, faults = check_schemas(file)
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise SchemaError(f"{file}: {'; '.join(faults[:_SHOWN])}{more}")
    return classes_of(schemas)


def classes_of(schemas: Iterable[Schema]) -> dict[str, ClassSchema]:
    """Class → its schemas; ``SchemaError`` for two of one kind."""
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
    """SHA-256 (hex) of the schemas of several classes, in whatever order."""
    told = sorted(f"{schema.name}\0{schema.digest}" for schema in schemas)
    return hashlib.sha256("\0".join(told).encode()).hexdigest()


def check_schemas(path: str | Path) -> tuple[list[Schema], list[str]]:
    """The sound schemas of a file, and every fault in it in words, with its place.

    Raises ``SchemaError`` for a file that is no JSON or TOML at all.
    """
    file = Path(path)
    found: list[Schema] = []
    faults: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for place, entry in _entries(_data(file), file):
        if not isinstance(entry, Mapping):
            faults.append(f"{place} is no table: give name and attributes")
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
    """Write ``schemas`` as JSON; the file is the old one or the whole new one. Raises
    ``SchemaError`` for a name that is not .json, and ``EvalError`` if it cannot be written."""
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


def _data(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix.lower() == ".toml":
            return tomllib.loads(text)
        return json.loads(text)
    except OSError as error:
        raise SchemaError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        kind = "TOML" if file.suffix.lower() == ".toml" else "JSON"
        raise SchemaError(f"{file} is no {kind}: {error}") from error


def _entries(data: Any, file: Path) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and "classes" in data:
        unknown = sorted(set(data) - {"classes", "format"})
        if unknown:
            raise SchemaError(f"{file}: {unknown} beside classes is not known: remove it")
        if data.get("format", FORMAT) != FORMAT:
            raise SchemaError(f"{file}: format {data['format']!r} is not known, only {FORMAT}")
        data = data["classes"]
        if not isinstance(data, list):
            raise SchemaError(f"{file}: classes is no list")
    if isinstance(data, list):
        yield from ((f"classes[{at}]", entry) for at, entry in enumerate(data))
    else:
        yield "the schema", data


def _problems(error: ValidationError) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        yield f"{where}: {said}" if where else said
