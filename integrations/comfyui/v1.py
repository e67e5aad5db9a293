"""The nodes as classes that every ComfyUI loads."""

from __future__ import annotations

from typing import Any

from .table import CATEGORY, NODES, Input, Node


def _declared(given: Input) -> tuple[Any, dict[str, Any]]:
    options = {**given.options, "tooltip": given.tooltip}
    return (options.pop("options") if given.kind == "COMBO" else given.kind), options


def _class(node: Node) -> type:
    def input_types(cls: type) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {"required": {}, "optional": {}}
        for given in node.inputs:
            found["optional" if given.optional else "required"][given.id] = _declared(given)
        return found

    def work(self: Any, **inputs: Any) -> tuple[Any, ...]:
        return node.work(**inputs)

    return type(
        node.id,
        (),
        {
            "__doc__": node.about,
            "__module__": __name__,
            "INPUT_TYPES": classmethod(input_types),
            "RETURN_TYPES": tuple(out.kind for out in node.outputs),
            "RETURN_NAMES": tuple(out.id for out in node.outputs),
            "OUTPUT_TOOLTIPS": tuple(out.tooltip for out in node.outputs),
            "OUTPUT_IS_LIST": tuple(out.each for out in node.outputs),
            "FUNCTION": "work",
            "CATEGORY": CATEGORY,
            "DESCRIPTION": node.about,
            "work": work,
        },
    )


NODE_CLASS_MAPPINGS = {node.id: _class(node) for node in NODES}
NODE_DISPLAY_NAME_MAPPINGS = {node.id: node.title for node in NODES}
