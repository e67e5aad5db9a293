"""As much of ComfyUI as a node pack meets: how a pack is loaded, checked and run.

Written after ComfyUI's ``nodes.py`` (loading), ``execution.py`` (checking, running) and
``comfy_api`` (the newer way to declare nodes); ComfyUI itself is no package that can be installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Interrupted(Exception):
    """``comfy.model_management.InterruptProcessingException``."""


@dataclass
class Host:
    """What the nodes have told ComfyUI, and what it has told them."""

    progress: list[tuple[int, int, Any]] = field(default_factory=list)
    """Value, total and preview of each update of a progress bar."""
    interrupted: bool = False
    """Whether the person has pressed Cancel; asking takes it back, as ComfyUI does."""
    nodes: dict[str, Any] = field(default_factory=dict)
    """``NODE_CLASS_MAPPINGS``."""
    titles: dict[str, str] = field(default_factory=dict)
    """``NODE_DISPLAY_NAME_MAPPINGS``."""

    def load(self, folder: Path) -> bool:
        """Load a pack as ``load_custom_node`` does; False where ComfyUI skips it."""
        name = str(folder).replace(".", "_x_")
        spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        if getattr(module, "NODE_CLASS_MAPPINGS", None) is not None:
            self.nodes.update(module.NODE_CLASS_MAPPINGS)
            self.titles.update(getattr(module, "NODE_DISPLAY_NAME_MAPPINGS", None) or {})
            return True
        entry = getattr(module, "comfy_entrypoint", None)
        if entry is None:
            return False
        asyncio.run(self._extension(entry))
        return True

    async def _extension(self, entry: Callable[[], Any]) -> None:
        extension = entry()
        if inspect.isawaitable(extension):
            extension = await extension
        assert isinstance(extension, ComfyExtension)
        await extension.on_load()
        listed = await extension.get_node_list()
        assert isinstance(listed, list)
        for node in listed:
            schema = node.GET_SCHEMA()
            self.nodes[schema.node_id] = node
            self.titles[schema.node_id] = schema.display_name

    def check(self, prompt: dict[str, Any]) -> list[str]:
        """What ``validate_prompt`` finds wrong."""
        return [
            f"{id} {node['class_type']}: {problem}"
            for id, node in prompt.items()
            for problem in self._problems(prompt, node)
        ]

    def _problems(self, prompt: dict[str, Any], node: dict[str, Any]) -> Iterator[str]:
        if node["class_type"] not in self.nodes:
            yield "no such node"
            return
        types_of = self.nodes[node["class_type"]].INPUT_TYPES()
        declared = {**types_of["required"], **types_of.get("optional", {})}
        yield from (f"{name} is missing" for name in {*types_of["required"]} - {*node["inputs"]})
        for name, given in node["inputs"].items():
            if name not in declared:
                yield f"{name} is no input"
                continue
            kind, options = declared[name]
            if isinstance(kind, list):
                kind, options = "COMBO", {**options, "options": kind}
            if isinstance(given, list):
                source = self.nodes[prompt[given[0]]["class_type"]]
                sent = source.RETURN_TYPES[given[1]]
                if kind not in ("*", sent):
                    yield f"{name} takes {kind}, not {sent}"
            elif kind == "COMBO":
                if given not in options["options"]:
                    yield f"{name} cannot be {given!r}"
            elif kind == "INT" and not options["min"] <= int(given) <= options["max"]:
                yield f"{name} must lie between {options['min']} and {options['max']}"
            elif kind == "STRING" and not isinstance(given, str):
                yield f"{name} is no text"

    def run(self, prompt: dict[str, Any]) -> dict[str, list[list[Any]]]:
        """Execute all nodes, each after those it is linked to: per node, a list an output."""
        assert self.check(prompt) == []
        done: dict[str, list[list[Any]]] = {}

        def need(id: str) -> list[list[Any]]:
            if id not in done:
                inputs = {
                    name: need(given[0])[given[1]] if isinstance(given, list) else [given]
                    for name, given in prompt[id]["inputs"].items()
                }
                done[id] = self.execute(prompt[id]["class_type"], inputs)
            return done[id]

        for id in prompt:
            need(id)
        return done

    def execute(self, name: str, inputs: dict[str, list[Any]]) -> list[list[Any]]:
        """One node; called once for each item of its longest list of inputs, as ComfyUI does."""
        node = self.nodes[name]
        made = node() if not hasattr(node, "GET_SCHEMA") else node
        given = []
        for at in range(max(map(len, inputs.values()))):
            one = {name: values[min(at, len(values) - 1)] for name, values in inputs.items()}
            result = getattr(made, node.FUNCTION)(**one)
            given.append(result.args if isinstance(result, NodeOutput) else result)
        lists = getattr(node, "OUTPUT_IS_LIST", None) or [False] * len(node.RETURN_TYPES)
        assert all(len(result) == len(node.RETURN_TYPES) for result in given)
        return [
            [item for result in given for item in (result[at] if is_list else [result[at]])]
            for at, is_list in enumerate(lists)
        ]


class PreviewImage:
    """ComfyUI's own node of that name, as far as a prompt's check goes."""

    RETURN_TYPES: tuple[str, ...] = ()
    FUNCTION = "show"
    OUTPUT_NODE = True

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"images": ("IMAGE", {})}}

    def show(self, images: Any) -> tuple[()]:
        assert images.ndim == 4
        return ()


class PreviewAny(PreviewImage):
    """Likewise."""

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"source": ("*", {})}}

    def show(self, source: Any) -> tuple[()]:  # type: ignore[override]
        return ()


def prompt_of(workflow: dict[str, Any], nodes: dict[str, Any]) -> dict[str, Any]:
    """The prompt that ComfyUI's page makes of a workflow when it is queued.

    Values of widgets stand in the order of the node's inputs; a seed has a second one after it,
    for what happens to it after a run.
    """
    links = {link[0]: [str(link[1]), link[2]] for link in workflow["links"]}
    prompt = {}
    for node in workflow["nodes"]:
        types_of = nodes[node["type"]].INPUT_TYPES()
        declared = {**types_of["required"], **types_of.get("optional", {})}
        # The page puts required inputs first.
        values = iter(node["widgets_values"])
        inputs: dict[str, Any] = {}
        for slot in node["inputs"]:
            kind, options = declared[slot["name"]]
            if "widget" in slot:
                assert isinstance(kind, list) or kind in ("STRING", "INT", "COMBO", "FLOAT")
                inputs[slot["name"]] = next(values)
                if options.get("control_after_generate"):
                    assert next(values) in ("fixed", "increment", "decrement", "randomize")
            if slot["link"] is not None:
                inputs[slot["name"]] = links[slot["link"]]
        assert list(values) == []
        prompt[str(node["id"])] = {"class_type": node["type"], "inputs": inputs}
    return prompt


@contextmanager
def hosted(v3: bool) -> Iterator[Host]:
    """ComfyUI's modules, with its newer interface or without; gone afterwards."""
    host = Host(nodes={"PreviewImage": PreviewImage, "PreviewAny": PreviewAny})

    class ProgressBar:
        def __init__(self, total: int) -> None:
            self.total = total

        def update_absolute(
            self, value: int, total: int | None = None, preview: Any = None
        ) -> None:
            host.progress.append((value, total or self.total, preview))

    def check() -> None:
        if host.interrupted:
            host.interrupted = False
            raise Interrupted

    made: dict[str, dict[str, Any]] = {
        "comfy": {},
        "comfy.utils": {"ProgressBar": ProgressBar},
        "comfy.model_management": {"throw_exception_if_processing_interrupted": check},
    }
    if v3:
        made |= {
            "comfy_api": {},
            "comfy_api.latest": {"ComfyExtension": ComfyExtension, "io": io_module()},
        }
    before = dict(sys.modules)
    try:
        for name, members in made.items():
            module = types.ModuleType(name)
            module.__path__ = []
            module.__dict__.update(members)
            sys.modules[name] = module
        yield host
    finally:
        for name in {*sys.modules} - {*before}:
            if name.partition(".")[0] in ("comfy", "comfy_api"):
                del sys.modules[name]


class ComfyExtension:
    """``comfy_api.latest.ComfyExtension``."""

    async def on_load(self) -> None:
        return


class NodeOutput:
    """``io.NodeOutput``."""

    def __init__(self, *args: Any) -> None:
        self.args = args


@dataclass
class Schema:
    """``io.Schema``: unknown arguments are refused."""

    node_id: str
    display_name: str | None = None
    category: str = "sd"
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    description: str = ""
    is_output_node: bool = False

    def validate(self) -> None:
        """Ids are unique among inputs, among outputs, and between the two."""
        ids = [port.id for port in (*self.inputs, *self.outputs)]
        assert len(ids) == len(set(ids)), ids


class ComfyNode:
    """``io.ComfyNode``: what the older interface asks for is made of the schema."""

    FUNCTION = "EXECUTE_NORMALIZED"
    RETURN_TYPES: list[str]
    OUTPUT_IS_LIST: list[bool]

    @classmethod
    def define_schema(cls) -> Schema:
        raise AssertionError("a node must define its schema")

    @classmethod
    def execute(cls, **inputs: Any) -> Any:
        raise AssertionError("a node must define what it does")

    @classmethod
    def GET_SCHEMA(cls) -> Schema:
        schema = cls.define_schema()
        schema.validate()
        cls.RETURN_TYPES = [port.kind for port in schema.outputs]
        cls.OUTPUT_IS_LIST = [port.options["is_output_list"] for port in schema.outputs]
        return schema

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {"required": {}, "optional": {}}
        for port in cls.define_schema().inputs:
            key = "optional" if port.options.pop("optional") else "required"
            found[key][port.id] = (port.kind, port.options)
        return found

    @classmethod
    def EXECUTE_NORMALIZED(cls, **inputs: Any) -> NodeOutput:
        result = cls.execute(**inputs)
        assert isinstance(result, NodeOutput)
        return result


_BASE = {"display_name", "optional", "tooltip", "lazy"}
_WIDGET = _BASE | {"default", "socketless", "force_input"}
_TAKES = {
    "STRING": _WIDGET | {"multiline", "placeholder", "dynamic_prompts"},
    "INT": _WIDGET | {"min", "max", "step", "control_after_generate", "display_mode"},
    "FLOAT": _WIDGET | {"min", "max", "step", "round", "display_mode"},
    "COMBO": (_WIDGET - {"force_input"}) | {"options", "control_after_generate", "upload"},
    "IMAGE": _BASE,
}
"""The arguments that each kind of input takes."""


class Port:
    """An input or output."""

    def __init__(self, kind: str, id: str, options: dict[str, Any]) -> None:
        self.kind = kind
        self.id = id
        self.options = options


def io_module() -> types.SimpleNamespace:
    """``comfy_api.latest.io``."""

    def kind_of(kind: str) -> type:
        def taken(id: str, **options: Any) -> Port:
            assert set(options) <= _TAKES[kind], f"{kind} does not take {set(options)}"
            return Port(kind, id, {"optional": False, **options})

        def given(id: str, **options: Any) -> Port:
            assert set(options) <= {"display_name", "tooltip", "is_output_list"}
            return Port(kind, id, {"is_output_list": False, **options})

        return type(kind, (), {"Input": staticmethod(taken), "Output": staticmethod(given)})

    kinds = {"String": "STRING", "Int": "INT", "Float": "FLOAT", "Combo": "COMBO", "Image": "IMAGE"}
    return types.SimpleNamespace(
        ComfyNode=ComfyNode,
        NodeOutput=NodeOutput,
        Schema=Schema,
        **{name: kind_of(kind) for name, kind in kinds.items()},
    )
