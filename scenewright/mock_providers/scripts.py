"""Models that follow a script: they speak and call tools by rules, the same each time.

Named ``script:NAME``. The ones here answer any tools; the others, such as ``script:director``, are
those of :func:`scenewright.agents.chat.scripted.scripted_chat`.
"""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from PIL import Image

from scenewright.agents.composers.triplets import text_of, triplets
from scenewright.core.formats import loads_scene
from scenewright.core.scene import SceneError
from scenewright.mock_providers.annotating import annotate
from scenewright.mock_providers.schema_arguments import filled
from scenewright.mock_providers.turns import Turns

PREFIX = "script:"
_DIRECTOR = "director"
_NO_TOOL = "no_such_tool"
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """What a script says next."""

    text: str = ""
    """Its words."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Tools that it calls at once: name and arguments."""
    refused: bool = False
    """It declines, with :attr:`text`."""


Script = Callable[[Turns], ScriptedReply]


def echo(turns: Turns) -> ScriptedReply:
    """The last user message; a tool that must be called gets it as its arguments."""
    forced = _forced(turns)
    if forced is not None and not turns.answers:
        return ScriptedReply(calls=(forced,))
    return ScriptedReply(turns.last_text)


def once(turns: Turns) -> ScriptedReply:
    """Calls the first tool once, then says what it answered."""
    return _call_then_tell(turns, _all(turns)[:1])


def every(turns: Turns) -> ScriptedReply:
    """Calls every tool once, all at the same time, then says what they answered."""
    return _call_then_tell(turns, _all(turns))


def endless(turns: Turns) -> ScriptedReply:
    """Calls the first tool (or the one it must call) again and again."""
    return (
        ScriptedReply(calls=tuple(_all(turns)[:1]))
        if turns.tools.schemas
        else ScriptedReply("Once more.")
    )


def unknown_tool(turns: Turns) -> ScriptedReply:
    """Calls a tool that is not there, again and again."""
    return (
        ScriptedReply(calls=((_NO_TOOL, {"why": "because"}),))
        if turns.tools.schemas
        else ScriptedReply("No.")
    )


def bad_arguments(turns: Turns) -> ScriptedReply:
    """Calls the first tool with arguments that do not fit it, again and again."""
    found = _all(turns)[:1]
    if not found:
        return ScriptedReply("No.")
    name, arguments = found[0]
    return ScriptedReply(
        calls=((name, {**{key: [None] for key in arguments}, "nonsense": {"a": [1]}}),)
    )


def refusal(turns: Turns) -> ScriptedReply:
    """Declines, in the provider's own form."""
    return ScriptedReply("I can't help with that.", refused=True)


def silent(turns: Turns) -> ScriptedReply:
    """Neither says nor calls anything."""
    return ScriptedReply()


def poet(turns: Turns) -> ScriptedReply:
    """A description, by rules, of what the user shows as JSON: a scene with all its facts.

    The JSON stands in a fence or is the whole message; other JSON is read out, and where there
    is none the last user message is said back. Asked for JSON with a ``description``, or with
    a tool, it answers in that form.
    """
    shown, said = "", " ".join(turns.last_text.split())
    for message in reversed(turns.messages):
        if isinstance(message, HumanMessage):
            found = _described(str(message.text))
            if found:
                shown, said = str(message.text), found
                break
    if turns.tools.schemas and not turns.answers and turns.tools.choice != "none":
        name, schema = _wanted(turns)
        return ScriptedReply(calls=((name, filled(schema, said)),))
    if '"description"' in shown + turns.last_text:
        return ScriptedReply(json.dumps({"description": said}, ensure_ascii=False))
    return ScriptedReply(said)


def annotator(turns: Turns) -> ScriptedReply:
    """Answers the text tools of dataset building by rules, other tools as ``once``."""
    call = annotate(turns) if turns.tools.choice != "none" else None
    return once(turns) if call is None else ScriptedReply(calls=(call,))


def mirror(turns: Turns) -> ScriptedReply:
    """Tells as JSON what it was sent: messages, sizes of pictures, tools, the choice of them."""
    tools = turns.tools
    told = {
        "messages": [_told(message) for message in turns.messages],
        "tools": [function["name"] for function in tools.functions],
        "choice": tools.choice,
        "parallel": tools.parallel,
    }
    return ScriptedReply(json.dumps(told, ensure_ascii=False))


SCRIPTS: dict[str, Script] = {
    "echo": echo,
    "once": once,
    "every": every,
    "mirror": mirror,
    "poet": poet,
    "annotator": annotator,
    "endless": endless,
    "unknown-tool": unknown_tool,
    "bad-arguments": bad_arguments,
    "refusal": refusal,
    "silent": silent,
}
"""The scripts that know no tool by its name."""


ABOUT: dict[str, str] = {
    **{
        f"{PREFIX}{name}": (script.__doc__ or "").partition("\n")[0].rstrip(".").lower()
        for name, script in SCRIPTS.items()
    },
    f"{PREFIX}{_DIRECTOR}": "draws, verifies and repairs with the tools of the director",
}
"""Model → what it does."""


async def next_line(model: str, turns: Turns) -> ScriptedReply:
    """What the script ``model``, one of :data:`ABOUT`, says next."""
    name = model.removeprefix(PREFIX)
    if name in SCRIPTS:
        return SCRIPTS[name](turns)
    from scenewright.agents.chat.scripted import scripted_chat

    chat: Any = scripted_chat(name)
    if turns.tools.schemas and turns.tools.choice != "none":
        choice = turns.tools.named or turns.tools.choice
        chat = chat.bind_tools(
            list(turns.tools.schemas), tool_choice=None if choice == "auto" else choice
        )
    said: AIMessage = await chat.ainvoke(list(turns.messages))
    calls = tuple((call["name"], dict(call["args"])) for call in said.tool_calls)
    refused = said.response_metadata.get("stop") == "refusal"
    return ScriptedReply(str(said.text), calls, refused)


def _wanted(turns: Turns) -> tuple[str, dict[str, Any]]:
    """Name and schema of the tool that must be called, or of the first."""
    functions = turns.tools.functions
    named = turns.tools.named
    function = next((f for f in functions if f["name"] == named), functions[0])
    return function["name"], function["parameters"]


def _all(turns: Turns) -> list[tuple[str, dict[str, Any]]]:
    """A fitting call of each tool that may be called; the one that must be called alone."""
    if turns.tools.choice == "none":
        return []
    text = turns.last_text
    functions = turns.tools.functions
    if turns.tools.named is not None:
        functions = [f for f in functions if f["name"] == turns.tools.named]
    if turns.tools.parallel is False:
        functions = functions[:1]
    return [(f["name"], filled(f["parameters"], text)) for f in functions]


def _forced(turns: Turns) -> tuple[str, dict[str, Any]] | None:
    if turns.tools.choice in ("auto", "none") or not turns.tools.schemas:
        return None
    name, schema = _wanted(turns)
    return name, filled(schema, turns.last_text)


def _call_then_tell(turns: Turns, calls: list[tuple[str, dict[str, Any]]]) -> ScriptedReply:
    answers = turns.answers
    if not answers and calls:
        return ScriptedReply("I will see.", tuple(calls))
    told = [f"{'failed' if a.status == 'error' else 'answered'}: {a.text}" for a in answers]
    return ScriptedReply("; ".join(told) or turns.last_text)


def _described(text: str) -> str:
    """The JSON in ``text`` in words; empty if there is none."""
    for found in (*_FENCED.findall(text), text):
        if "{" not in found and "[" not in found:
            continue
        try:
            shown = json.loads(found)
        except (ValueError, RecursionError):
            continue
        try:
            pieces = triplets(loads_scene(found))
        except SceneError:
            return _read_out(shown)
        if pieces:
            return f"In one picture: {text_of(pieces)}."
    return ""


def _read_out(value: Any) -> str:
    """JSON in words: what has a name with its attributes before it, an object with its relations
    behind it, lists item by item."""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_read_out, value)))
    if not isinstance(value, dict):
        return "" if value is None else str(value)
    if isinstance(value.get("object"), str):
        relations = value.get("relations")
        joined = " and ".join(map(str, relations)) if isinstance(relations, list) else ""
        return f"{value['object']} {joined}".strip()
    name = value.get("label") or value.get("name")
    if not isinstance(name, str):
        return "; ".join(filter(None, map(_read_out, value.values())))
    given = value.get("attributes")
    attributes = given.values() if isinstance(given, dict) else given or []
    phrase = " ".join([*map(str, attributes), name])
    return f"{'an' if phrase[:1].lower() in 'aeiou' else 'a'} {phrase}"


def _told(message: BaseMessage) -> dict[str, Any]:
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    told: dict[str, Any] = {"role": message.type, "text": str(message.text)}
    if pictures := [_size(block) for block in blocks if block["type"] == "image"]:
        told["pictures"] = pictures
    if isinstance(message, AIMessage) and message.tool_calls:
        told["calls"] = [[call["name"], call["args"]] for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        told["failed"] = message.status == "error"
    if isinstance(message, SystemMessage):
        told["role"] = "system"
    return told


def _size(block: dict[str, Any]) -> list[int]:
    with Image.open(io.BytesIO(b64decode(block["base64"]))) as image:
        return list(image.size)
