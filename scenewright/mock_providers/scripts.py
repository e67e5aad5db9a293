"""Models that follow a script: they speak and call tools by rules, the same each time.

Named ``script:NAME``. The ones here answer any tools; the others, such as ``script:director``, are
those of :func:`scenewright.agents.chat.scripted.scripted_chat`.

Arguments that fit a JSON schema, made by rules: for scripted calls of any tool.
"""

from __future__ import annotations

import io
import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from PIL import Image

from scenewright.agents.composers.rules import text_of, triplets
from scenewright.core.formats import loads_scene
from scenewright.core.scene import SceneError
from scenewright.mock_providers.wire import ScriptedReply, Turns

_DEEPEST = 12


def filled(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return an object of ``schema``.

    Strings are ``text``, numbers as small as allowed, lists short.

    All properties that the schema demands and no others; the first of several allowed values.
    """
    found = _value({"type": "object", **schema}, text, schema, 0)
    return found if isinstance(found, dict) else {}


def _value(schema: Any, text: str, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return text

    def inner(part: Any) -> Any:
        return _value(part, text, root, depth + 1)

    match schema:
        case {"$ref": str(reference)}:
            found: Any = root
            for step in reference.removeprefix("#/").split("/"):
                found = found.get(step) if isinstance(found, Mapping) else None
            return inner(found)
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"anyOf": [part, *_]} | {"oneOf": [part, *_]} | {"allOf": [part, *_]}:
            return inner(part)
        case {"type": [kind, *_]}:
            return inner({**schema, "type": kind})
        case {"type": "object", "required": [*names]}:
            known = schema.get("properties")
            parts = known if isinstance(known, Mapping) else {}
            return {str(name): inner(parts.get(name)) for name in names}
        case {"type": "object"}:
            return {}
        case {"type": "array", "prefixItems": [*fixed]}:
            return [inner(part) for part in fixed]
        case {"type": "array"}:
            return [inner(schema.get("items"))] * max(1, int(schema.get("minItems", 1)))
        case {"type": "integer"}:
            return math.ceil(schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))
        case {"type": "number"}:
            low = schema.get("minimum", schema.get("exclusiveMinimum"))
            high = schema.get("maximum", schema.get("exclusiveMaximum"))
            if low is None:
                return 0.5
            return low + 1.0 if high is None else (low + high) / 2
        case {"type": "boolean"}:
            return True
        case {"type": "null"}:
            return None
        case {"maxLength": int(most)}:
            return text[:most]
    return text


PREFIX = "script:"
DIRECTOR, POET, ANNOTATOR = "script:director", "script:poet", "script:annotator"
"""Names of scripts. The annotator answers the tools that read a text alone."""
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


Script = Callable[[Turns], ScriptedReply]


def echo(turns: Turns) -> ScriptedReply:
    """Return the last user message; a tool that must be called gets it as its arguments."""
    if turns.tools.forced and not turns.answers:
        return ScriptedReply(calls=_calls(turns)[:1])
    return ScriptedReply(turns.last_text)


def once(turns: Turns) -> ScriptedReply:
    """Call the first tool once, then says what it answered."""
    return _call_then_tell(turns, _calls(turns)[:1])


def every(turns: Turns) -> ScriptedReply:
    """Call every tool once, all at the same time, then says what they answered."""
    return _call_then_tell(turns, _calls(turns))


def endless(turns: Turns) -> ScriptedReply:
    """Call the first tool (or the one it must call) again and again."""
    calls = _calls(turns)[:1]
    return ScriptedReply("" if calls else "Once more.", calls)


def unknown_tool(turns: Turns) -> ScriptedReply:
    """Call a tool that is not there, again and again."""
    if not turns.tools.schemas:
        return ScriptedReply("No.")
    return ScriptedReply(calls=(("no_such_tool", {"why": "because"}),))


def bad_arguments(turns: Turns) -> ScriptedReply:
    """Call the first tool with arguments that do not fit it, again and again."""
    for name, arguments in _calls(turns):
        wrong = {**{key: [None] for key in arguments}, "nonsense": {"a": [1]}}
        return ScriptedReply(calls=((name, wrong),))
    return ScriptedReply("No.")


def refusal(turns: Turns) -> ScriptedReply:
    """Declines, in the provider's own form."""
    return ScriptedReply("I can't help with that.", refused=True)


def silent(turns: Turns) -> ScriptedReply:
    """Neither says nor calls anything."""
    return ScriptedReply()


def poet(turns: Turns) -> ScriptedReply:
    """Return a description, by rules, of what the user shows as JSON: a scene with all its facts.

    The JSON stands in a fence or is the whole message; other JSON is read out, and where there
    is none the last user message is said back. Asked for JSON with a ``description``, or with
    a tool, it answers in that form.
    """
    texts = [str(one.text) for one in reversed(turns.messages) if isinstance(one, HumanMessage)]
    found = ((text, said) for text in texts if (said := _described(text)))
    shown, said = next(found, ("", " ".join(turns.last_text.split())))
    if not turns.answers and (calls := _calls(turns, said)):
        return ScriptedReply(calls=calls[:1])
    if '"description"' in shown + turns.last_text:
        return ScriptedReply(json.dumps({"description": said}, ensure_ascii=False))
    return ScriptedReply(said)


def annotator(turns: Turns) -> ScriptedReply:
    """Answers the text tools of dataset building by rules, other tools as ``once``."""
    return once(turns)


def mirror(turns: Turns) -> ScriptedReply:
    """Return as JSON what was sent: messages, sizes of pictures, tools, the choice of them."""
    tools = turns.tools
    told = {
        "messages": [_message_summary(message) for message in turns.messages],
        "tools": [function["name"] for function in tools.functions],
        "choice": tools.choice,
        "parallel": tools.parallel,
    }
    return ScriptedReply(json.dumps(told, ensure_ascii=False))


_PLAIN: tuple[Script, ...] = (
    *(echo, once, every, mirror, poet, annotator),
    *(endless, unknown_tool, bad_arguments, refusal, silent),
)
SCRIPTS: dict[str, Script] = {script.__name__.replace("_", "-"): script for script in _PLAIN}
"""The scripts that know no tool by its name."""


ABOUT: dict[str, str] = {
    **{
        f"{PREFIX}{name}": (script.__doc__ or "").partition("\n")[0].rstrip(".").lower()
        for name, script in SCRIPTS.items()
    },
    DIRECTOR: "draws, verifies and repairs with the tools of the director",
}
"""Model → what it does."""


async def next_line(model: str, turns: Turns) -> ScriptedReply:
    """Return the next line of the script ``model``, one of :data:`ABOUT`."""
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


def _calls(turns: Turns, text: str = "") -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return a call of each tool that may be called; the one that must be called alone.

    Its texts are ``text``, or else the last user message.
    """
    tools = turns.tools
    functions = [] if tools.choice == "none" else tools.functions
    if tools.named is not None:
        functions = [function for function in functions if function["name"] == tools.named]
    if tools.parallel is False:
        functions = functions[:1]
    words = text or turns.last_text
    return tuple((one["name"], filled(one["parameters"], words)) for one in functions)


def _call_then_tell(turns: Turns, calls: tuple[tuple[str, dict[str, Any]], ...]) -> ScriptedReply:
    if calls and not turns.answers:
        return ScriptedReply("I will see.", calls)
    told = [f"{'failed' if a.status == 'error' else 'answered'}: {a.text}" for a in turns.answers]
    return ScriptedReply("; ".join(told) or turns.last_text)


def _described(text: str) -> str:
    """Return the JSON in ``text`` in words; empty if there is none."""
    for found in (*_FENCED.findall(text), text):
        try:
            shown = json.loads(found)
        except (ValueError, RecursionError):
            continue
        if not isinstance(shown, dict | list):
            continue
        try:
            pieces = triplets(loads_scene(found))
        except SceneError:
            return _read_out(shown)
        if pieces:
            return f"In one picture: {text_of(pieces)}."
    return ""


def _read_out(value: Any) -> str:
    """Return JSON in words.

    A named value has its attributes before it, an object its relations behind it; lists are read
    item by item.
    """
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


def _message_summary(message: BaseMessage) -> dict[str, Any]:
    blocks: list[Any] = message.content if isinstance(message.content, list) else []
    told: dict[str, Any] = {"role": message.type, "text": str(message.text)}
    pictures = [b64decode(block["base64"]) for block in blocks if block["type"] == "image"]
    if pictures:
        told["pictures"] = [list(Image.open(io.BytesIO(data)).size) for data in pictures]
    if isinstance(message, AIMessage) and message.tool_calls:
        told["calls"] = [[call["name"], call["args"]] for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        told["failed"] = message.status == "error"
    return told
