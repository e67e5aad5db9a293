"""Arguments that fit a JSON schema, made by rules: for scripted calls of any tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DEEPEST = 12


def filled(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """An object of ``schema``: strings are ``text``, numbers as small as allowed, lists short.

    All properties that the schema demands and no others; the first of several allowed values.
    """
    found = _value({"type": "object", **schema}, text, schema, 0)
    return found if isinstance(found, dict) else {}


def _value(schema: Any, text: str, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return text
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _value(_pointed(root, reference), text, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        options = schema.get(union)
        if isinstance(options, list) and options:
            return _value(options[0], text, root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "object":
            known = schema.get("properties")
            properties = known if isinstance(known, Mapping) else {}
            wanted = schema.get("required")
            names = wanted if isinstance(wanted, list) else []
            return {
                str(name): _value(properties.get(name, {}), text, root, depth + 1) for name in names
            }
        case "array":
            fixed = schema.get("prefixItems")
            if isinstance(fixed, list):
                return [_value(item, text, root, depth + 1) for item in fixed]
            item = _value(schema.get("items", {}), text, root, depth + 1)
            return [item] * max(1, _whole(schema.get("minItems"), 1))
        case "integer":
            least = _whole(schema.get("minimum"), 1)
            return max(least, _whole(schema.get("exclusiveMinimum"), least - 1) + 1)
        case "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            high = schema.get("maximum", schema.get("exclusiveMaximum"))
            if isinstance(low, int | float) and isinstance(high, int | float):
                return (low + high) / 2
            return float(low) + 1.0 if isinstance(low, int | float) else 0.5
        case "boolean":
            return True
        case "null":
            return None
    most = schema.get("maxLength")
    return text[:most] if isinstance(most, int) else text


def _pointed(root: Mapping[str, Any], reference: str) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _whole(value: Any, default: int) -> int:
    return int(value) if isinstance(value, int | float) else default
