"""The nodes as an extension of ComfyUI's newer interface. Needs ComfyUI to be imported."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import ComfyExtension, io

from .table import CATEGORY, NODES, Input, Node, Output

_KINDS = {
    "STRING": io.String,
    "INT": io.Int,
    "FLOAT": io.Float,
    "COMBO": io.Combo,
    "IMAGE": io.Image,
}


def _input(given: Input) -> Any:
    return _KINDS[given.kind].Input(
        given.id, optional=given.optional, tooltip=given.tooltip, **given.options
    )


def _output(given: Output) -> Any:
    return _KINDS[given.kind].Output(
        given.id, display_name=given.id, tooltip=given.tooltip, is_output_list=given.each
    )


def _class(node: Node) -> type:
    def define_schema(cls: type) -> Any:
        return io.Schema(
            node_id=node.id,
            display_name=node.title,
            category=CATEGORY,
            description=node.about,
            inputs=[_input(given) for given in node.inputs],
            outputs=[_output(given) for given in node.outputs],
        )

    def execute(cls: type, **inputs: Any) -> Any:
        return io.NodeOutput(*node.work(**inputs))

    members = {
        "__doc__": node.about,
        "__module__": __name__,
        "define_schema": classmethod(define_schema),
        "execute": classmethod(execute),
    }
    return type(node.id, (io.ComfyNode,), members)


class ScenewrightExtension(ComfyExtension):
    """All nodes of the pack."""

    async def get_node_list(self) -> list[type]:
        """The node classes."""
        return [_class(node) for node in NODES]


async def comfy_entrypoint() -> ScenewrightExtension:
    """What ComfyUI calls to load the pack."""
    return ScenewrightExtension()
