"""Models that follow a script: they speak and call tools by rules, the same each time.

Named ``script:NAME``. The ones here answer any tools; the others, such as ``script:director``, are
those of :func:`scenewright.agents.chat.scripted.scripted_chat`.

Arguments that fit a JSON schema, made by rules: for scripted calls of any tool.

``script:annotator``: the tools of dataset building that need no picture, answered by rules.

So are those of :mod:`scenewright.mock_providers.text_tools`.

A script's answer to a conversation, and how a fault bends it.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

from scenewright.agents.composers.rules import text_of, triplets
from scenewright.agents.judges.pictures import CHARACTERS_A_TOKEN, text_tokens
from scenewright.agents.parsers.classes import diversity
from scenewright.core.formats import loads_scene
from scenewright.core.formats.megasg import read
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import SceneError
from scenewright.mock_providers import text_tools as texts
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.wire import (
    REFUSAL,
    ModelReply,
    ModelRequest,
    ToolInvocation,
    Turns,
)
from scenewright.prompts import load_prompt

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


ANNOTATOR = "script:annotator"
"""Name of the script; of a judge's stand-in it answers these tools."""
_TOOLS = SYNONYMS_TOOL, CLASSES_TOOL, ATTRIBUTES_TOOL = tuple(
    load_prompt(name).tool
    for name in ("merge_synonyms", "classify_diversity", "augment_attributes")
)
_QUALITIES = ("red", "small", "wooden", "large", "blue", "old", "white", "shiny", "striped")


def is_annotating(asked: ModelRequest) -> bool:
    """Whether a request wants one of the tools that :func:`annotate` answers."""
    return asked.form == "tool" and asked.tool in (*_TOOLS, *texts.TOOLS) and not asked.images


def annotate(turns: Turns) -> tuple[str, dict[str, Any]] | None:
    """Return the call of the tool among those offered that it knows; none if there is none.

    Predicates of one meaning go by the planner's table, classes of scenes by the rules of
    :mod:`scenewright.agents.parsers.classes`, attributes by a hash of the category. Raises
    ``Problem`` for a tool of :mod:`scenewright.mock_providers.text_tools` without its prompt.
    """
    names = [str(function["name"]) for function in turns.tools.functions]
    tool = next((name for name in names if name in (*_TOOLS, *texts.TOOLS)), None)
    if tool is None:
        return None
    if tool in texts.TOOLS:
        return tool, texts.answered(tool, turns)
    shown = next(
        (
            found
            for message in turns.messages
            if isinstance(message, HumanMessage)
            and (found := _list_in(str(message.text), last=tool == ATTRIBUTES_TOOL))
        ),
        [],
    )
    if tool == SYNONYMS_TOOL:
        return tool, {"synonyms": _synonyms([str(word) for word in shown])}
    if tool == CLASSES_TOOL:
        return tool, {"images": [_classed(entry) for entry in shown if isinstance(entry, dict)]}
    return tool, {"instances": [_instances(str(name)) for name in shown]}


def _synonyms(words: list[str]) -> list[dict[str, str]]:
    known = set(words)
    return [
        {"predicate": word, "means": meant}
        for word in words
        if (meant := canonical_predicate(word)) != word and meant in known
    ]


def _classed(entry: Mapping[str, Any]) -> dict[str, str]:
    try:
        scene = read({k: v for k, v in entry.items() if k in ("objects", "relationships")}, "")
        first, second = diversity(scene)
    except SceneError:
        first, second = "Non-People-Centric", "Objects"
    return {
        "image_id": str(entry.get("image_id", "")),
        "file_name": str(entry.get("file_name", "")),
        "level 1": first,
        "level 2": second,
    }


def _instances(category: str) -> dict[str, Any]:
    start = hashlib.sha256(category.encode()).digest()[0]
    words = [_QUALITIES[(start + step) % len(_QUALITIES)] for step in range(3)]
    return {"category": category, "instances": [f"{word} {category}" for word in words]}


def _list_in(text: str, last: bool) -> list[Any]:
    """Return the longest JSON list in ``text``, or the ``last``.

    Behind the examples of a prompt.
    """
    decoder, best, at = json.JSONDecoder(), list[Any](), text.find("[")
    longest = 0
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, list) and (last or end - at > longest):
                best, longest = found, end - at
        at = text.find("[", end)
    return best


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
    """Return the last user message; a tool that must be called gets it as its arguments."""
    forced = _forced(turns)
    if forced is not None and not turns.answers:
        return ScriptedReply(calls=(forced,))
    return ScriptedReply(turns.last_text)


def once(turns: Turns) -> ScriptedReply:
    """Call the first tool once, then says what it answered."""
    return _call_then_tell(turns, _all(turns)[:1])


def every(turns: Turns) -> ScriptedReply:
    """Call every tool once, all at the same time, then says what they answered."""
    return _call_then_tell(turns, _all(turns))


def endless(turns: Turns) -> ScriptedReply:
    """Call the first tool (or the one it must call) again and again."""
    return (
        ScriptedReply(calls=tuple(_all(turns)[:1]))
        if turns.tools.schemas
        else ScriptedReply("Once more.")
    )


def unknown_tool(turns: Turns) -> ScriptedReply:
    """Call a tool that is not there, again and again."""
    return (
        ScriptedReply(calls=((_NO_TOOL, {"why": "because"}),))
        if turns.tools.schemas
        else ScriptedReply("No.")
    )


def bad_arguments(turns: Turns) -> ScriptedReply:
    """Call the first tool with arguments that do not fit it, again and again."""
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
    """Return a description, by rules, of what the user shows as JSON: a scene with all its facts.

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


def _wanted(turns: Turns) -> tuple[str, dict[str, Any]]:
    """Name and schema of the tool that must be called, or of the first."""
    functions = turns.tools.functions
    named = turns.tools.named
    function = next((f for f in functions if f["name"] == named), functions[0])
    return function["name"], function["parameters"]


def _all(turns: Turns) -> list[tuple[str, dict[str, Any]]]:
    """Return a fitting call of each tool that may be called; the one that must be called alone."""
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
    """Return the JSON in ``text`` in words; empty if there is none."""
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


_ELSEWHERE = "tool_of_another_request"


DIRECTOR = "script:director"
POET = "script:poet"


def is_directing(asked: ModelRequest) -> bool:
    """Whether a request carries the director's tools, which no judge can use."""
    names = {str(function["name"]) for function in asked.turns.tools.functions}
    return {"generate_image", "accept"} <= names


async def script_reply(
    model: str, turns: Turns, asked: ModelRequest, fault: Fault | None
) -> ModelReply:
    """Return the reply of the script ``model`` to ``turns``, bent by a content ``fault``."""
    if fault in (Fault.REFUSAL, Fault.EMPTY):
        return apply_content_fault(ScriptedReply(), asked, fault)
    line = await next_line(model, turns)
    return apply_content_fault(written(line) if turns.as_text else line, asked, fault)


def written(line: ScriptedReply) -> ScriptedReply:
    """``line`` with the arguments of its call as its words."""
    return ScriptedReply(_json(line.calls[0][1])) if line.calls else line


def apply_content_fault(
    line: ScriptedReply, asked: ModelRequest, fault: Fault | None
) -> ModelReply:
    """``line`` within the request's limit, bent by ``fault`` if it is one of content.

    A call that is broken or cut off takes its words' place.
    """
    if fault is Fault.REFUSAL:
        return ModelReply(REFUSAL, {}, "refusal", calls=())
    if fault is Fault.EMPTY:
        return ModelReply("", {}, "empty", calls=())
    if line.refused:
        return ModelReply(line.text or REFUSAL, {}, "refusal", calls=())
    said = _said(line)
    calls = said.calls or ()
    if fault is Fault.OUTSIDE_OPTIONS:
        calls = tuple(ToolInvocation(_ELSEWHERE, call.arguments, call.text) for call in calls)
        return ModelReply(said.text, {}, calls=calls)
    if fault is Fault.WRONG_NUMBER:
        return ModelReply(said.text, {}, calls=calls + calls[:1])
    if fault is Fault.INVALID_JSON and calls:
        broken = calls[0].text.replace('":', '" ', 1)
        broken = broken if broken != calls[0].text else f"{broken[:-1]}, "
        # Where a format carries an object it cannot be broken: what was said is lost in it.
        call = ToolInvocation(calls[0].name, {"arguments": broken}, broken)
        return ModelReply(said.text or broken, {}, "malformed", calls=(call,))
    most = asked.max_tokens
    if fault is Fault.TRUNCATED_JSON:
        return _cut(said, written_characters(said) // 2)
    if most is not None and text_tokens(" " * written_characters(said)) > most:
        return _cut(said, most * CHARACTERS_A_TOKEN)
    return said


def written_characters(said: ModelReply) -> int:
    """Characters that a model wrote, its calls' names and arguments included."""
    return len(said.text) + sum(len(c.name) + len(c.text) for c in said.calls or ())


def _said(line: ScriptedReply) -> ModelReply:
    return ModelReply(
        line.text, {}, "stop" if line.text or line.calls else "empty", calls=_calls(line)
    )


def _calls(line: ScriptedReply) -> tuple[ToolInvocation, ...]:
    return tuple(ToolInvocation(name, given, _json(given)) for name, given in line.calls)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _cut(said: ModelReply, at: int) -> ModelReply:
    """Return the first ``at`` characters.

    A call in which they end has the arguments that came whole.
    """
    left = at - len(said.text)
    if left <= 0:
        return ModelReply(said.text[:at], {}, "length", calls=())
    kept: list[ToolInvocation] = []
    for call in said.calls or ():
        length = len(call.name) + len(call.text)
        if length <= left:
            kept.append(call)
        elif left > len(call.name):
            kept.append(ToolInvocation(call.name, {}, call.text[: left - len(call.name)]))
        left -= length
        if left <= 0:
            break
    return ModelReply(said.text, {}, "length", calls=tuple(kept))
