"""Schemas of tools, as short as they can be: an agent reads all of them in every conversation.

What says nothing to a caller is left out: titles made of names, defaults of null, definitions that
nothing refers to. No schema has ``oneOf``, ``anyOf`` or ``allOf`` at its top: some providers of
language models refuse tools with those.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from scenewright.core.intent import Doubt
from scenewright.core.scene import SceneGraph

_MAPS = ("properties", "$defs", "patternProperties")
"""Keywords whose values map names of the caller's to schemas."""
_LIMITS = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
     "minItems", "maxItems", "uniqueItems", "pattern", "propertyNames"}
)  # fmt: skip
"""Keywords that bind who writes a value: nobody writes replies."""
_NULL = {"type": "null"}
_GRAPH = {"type": "object", "description": "A graph as the argument scene."}
"""A scene graph in a reply: what may be in one is said where one is given."""
_KNOWN = {
    SceneGraph.__name__: _GRAPH,
    Doubt.__name__: {"type": "object", "description": "text, question, choices (label, sentence)."},
}
"""Parts of replies that are described in short, by the names of their types."""
_MANY = 3
"""Of parts of a reply with more fields only those that are always there are described."""


@cache
def input_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, without the description that the tool has itself.

    What may be null may be left out, and only that is said.
    """
    whole = arguments.model_json_schema()
    for definition in whole.get("$defs", {}).values():
        definition.pop("description", None)
    return _top(_shortened(whole, reply=False))


@cache
def output_schema(reply: type[BaseModel], *, brief: bool = False) -> dict[str, Any]:
    """Return the schema of a tool's structured reply: types and which fields are always there.

    ``brief``: of a reply that another tool describes whole; only the required fields then.
    """
    whole = reply.model_json_schema(mode="serialization")
    for name in _KNOWN.keys() & whole.get("$defs", {}).keys():
        whole["$defs"][name] = dict(_KNOWN[name])
    if brief:
        whole["properties"] = {name: whole["properties"][name] for name in whole["required"]}
    for definition in whole.get("$defs", {}).values():
        if definition not in _KNOWN.values():
            definition.pop("description", None)
        definition.pop("additionalProperties", None)
        fields, always = definition.get("properties", {}), definition.get("required", [])
        if always and len(fields) > _MANY:
            definition["properties"] = {name: fields[name] for name in always}
    return _top(_shortened(whole, reply=True))


def _top(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a whole schema without its description, and definitions used once put in place."""
    schema.pop("description", None)
    definitions: dict[str, Any] = schema.pop("$defs", {})
    uses: dict[str, int] = dict.fromkeys(definitions, 0)

    def count(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                uses[_named(part)] += 1
            for value in part.values():
                count(value)
        elif isinstance(part, list):
            for value in part:
                count(value)

    count([schema, definitions])

    def placed(part: Any) -> Any:
        if isinstance(part, list):
            return [placed(value) for value in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part and uses[_named(part)] == 1:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return placed({**definitions[_named(part)], **rest})
        return {key: placed(value) for key, value in part.items()}

    found: dict[str, Any] = placed(schema)
    kept = {name: placed(one) for name, one in definitions.items() if uses[name] > 1}
    return {**found, "$defs": kept} if kept else found


def _named(part: Mapping[str, Any]) -> str:
    return str(part["$ref"]).rpartition("/")[2]


def _shortened(schema: Any, *, reply: bool) -> Any:
    """Return a schema without what says nothing.

    That of a ``reply`` has neither defaults nor limits.
    """
    if isinstance(schema, list):
        return [_shortened(one, reply=reply) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _MAPS:
            found[key] = {name: _shortened(one, reply=reply) for name, one in value.items()}
        elif key == "default":
            if not reply and isinstance(value, (bool, int, float, str)) and value != "":
                found[key] = value
        elif key == "description":
            # The first paragraph says what it is; what follows is for readers of the code.
            found[key] = " ".join(str(value).partition("\n\n")[0].replace("``", "").split())
        elif reply and key in _LIMITS:
            continue
        elif isinstance(value, float) and value.is_integer():
            found[key] = int(value)
        elif key != "title" and (key, value) != ("additionalProperties", True):
            found[key] = _shortened(value, reply=reply)
    # "This or null": of arguments as "this", of replies in one schema where that is possible.
    forms = found.get("anyOf", [])
    plain = [form for form in forms if form != _NULL]
    if len(plain) != 1:
        return found
    one, rest = plain[0], {key: value for key, value in found.items() if key != "anyOf"}
    if not reply:
        return {**one, **rest}
    if len(forms) != 2 or not isinstance(one.get("type"), str):
        return found
    one = {**one, "type": [one["type"], "null"]}
    if "enum" in one:
        one["enum"] = [*one["enum"], None]
    return {**one, **rest}
