"""Chat models that follow a script, for machines without a language model.

``director`` plays the director's tools by rules: it draws, verifies, repairs by reference and by
inpainting in turns, and accepts the best picture. It looks at nothing but the conversation and
the tools that it was given, so it is the same behind a provider's wire format. ``refusal``
declines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from scenewright.config.profiles import SettingsError

SCRIPTS = {"director": "draws, verifies, repairs and accepts by rules", "refusal": "declines"}
"""Name → description."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call and its answer."""

    tool: str
    reply: Mapping[str, Any]
    """The tool's reply, if it was JSON."""
    ok: bool


def _say(words: str, tool: str = "", arguments: Mapping[str, Any] | None = None) -> AIMessage:
    if not tool:
        return AIMessage(words, response_metadata={"stop": "end"})
    call = ToolCall(name=tool, args=dict(arguments or {}), id=None)
    return AIMessage(words, tool_calls=[call], response_metadata={"stop": "tools"})


def _answered_calls(messages: Sequence[BaseMessage]) -> list[_Call]:
    """Return the answered calls, oldest first."""
    names: dict[str | None, str] = {}
    found = []
    for message in messages:
        if isinstance(message, AIMessage):
            names |= {call["id"]: call["name"] for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            told = _json_in(str(message.text))
            ok = message.status != "error" and bool(told)
            found.append(_Call(names.get(message.tool_call_id, ""), told, ok))
    return found


def _director(messages: Sequence[BaseMessage], tools: frozenset[str]) -> AIMessage:
    if not tools:
        return _say("There are no tools here to draw with.")
    calls = _answered_calls(messages)
    done = [call for call in calls if call.ok]
    drawn = [call for call in done if "prompt" in call.reply]
    if not drawn:
        if sum(call.tool == "generate_image" for call in calls) >= 2:
            return _say("Nothing can be drawn.", "accept")
        return _say("First the whole scene.", "generate_image")
    newest = str(drawn[-1].reply["image"])
    cards = {str(c.reply["image"]): c.reply for c in done if "missing" in c.reply}
    unverifiable = calls[-1].tool == "verify_facts" and not calls[-1].ok
    if newest not in cards and not unverifiable:
        return _say(f"What holds in {newest}?", "verify_facts", {"image": newest})
    # The latest score card names the best picture.
    bests = (card.get("best") for card in reversed(list(cards.values())))
    kept = next((str(best) for best in bests if best in cards), None)
    if kept is None:
        return _say("No judge can answer.", "accept", {"image": "best"})
    missing = cards[kept]["missing"]
    if not missing:
        return _say(f"Nothing is missing in {kept}.", "accept", {"image": kept})
    told = (_json_in(str(one.text)) for one in messages if isinstance(one, HumanMessage))
    box = _box_of_fact(next(filter(None, told), {}), str(missing[0]["fact"]))
    ways: dict[str, Mapping[str, Any]] = {"refine_with_reference": {}}
    if box:
        ways["inpaint"] = {"box": box, "image": kept}
    tool = _repair(calls, [way for way in ways if way in tools])
    if not tool or _exceeds_limits(calls, tool):
        return _say(f"No repair is left; {kept} is the best.", "accept", {"image": kept})
    return _say(f"{kept} lacks: {missing[0]['says']}.", tool, ways.get(tool))


def _repair(calls: Sequence[_Call], ways: Sequence[str]) -> str:
    """Return the tool of the next repair: of ``ways`` in turns, else a new drawing.

    Empty if all of them failed since the last call that did not.
    """
    failed = {call.tool for call in takewhile(lambda call: not call.ok, reversed(calls))}
    drawing = ("refine_with_reference", "inpaint", "generate_image")
    tried = sum(call.tool in drawing for call in calls if call.ok)
    order = [way for way in ways if way not in failed]
    if order:
        return order[(tried - 1) % len(order)]
    return "" if "generate_image" in failed else "generate_image"


def _exceeds_limits(calls: Sequence[_Call], tool: str) -> bool:
    """Return whether the last reported limits leave no room for ``tool``."""
    left: Mapping[str, Any] = next(
        (call.reply["left"] for call in reversed(calls) if "left" in call.reply), {}
    )
    # Of the calls one more verifies what is drawn, and one accepts it.
    needs = {"images": 2 if tool == "refine_with_reference" else 1, "rounds": 1, "calls": 3}
    return any(left.get(name) is not None and left[name] < least for name, least in needs.items())


def _box_of_fact(task: Mapping[str, Any], fact: str) -> list[float]:
    """Return the box around the planned places of a fact's objects; empty if one has none."""
    places = task.get("places") or {}
    facts: Sequence[Any] = task.get("facts") or []
    objects: list[str] = next((f["objects"] for f in facts if f["id"] == fact), [])
    boxes = [places[key] for key in objects if key in places]
    if not boxes or len(boxes) < len(objects):
        return []
    return [
        *(min(box[side] for box in boxes) for side in (0, 1)),
        *(max(box[side] for box in boxes) for side in (2, 3)),
    ]


class ScriptedChat(BaseChatModel):
    """Chat model that follows a script, deterministic for a given conversation."""

    script: str
    """Name of the script."""
    tools: frozenset[str] = frozenset()
    """Names of the tools that it may call."""

    @property
    def model(self) -> str:
        """The script's name, where other chat models have their model's."""
        return self.script

    @property
    def id(self) -> str:
        """``scripted:NAME``."""
        return f"scripted:{self.script}"

    @property
    def _llm_type(self) -> str:
        return "scenewright-scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"script": self.script}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the same script with these tools; a choice of tools changes nothing for it."""
        names = frozenset(convert_to_openai_tool(tool)["function"]["name"] for tool in tools)
        return self.model_copy(update={"tools": names})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.script == "refusal":
            said = AIMessage("I can't help with that.", response_metadata={"stop": "refusal"})
        else:
            said = _director(messages, self.tools)
        turn = sum(isinstance(message, AIMessage) for message in messages)
        for call in said.tool_calls:
            call["id"] = f"call_{turn}"
        return ChatResult(generations=[ChatGeneration(message=said)])


def scripted_chat(name: str) -> BaseChatModel:
    """Return the chat model of the script ``name``.

    Raises ``SettingsError`` with the known scripts.
    """
    if name not in SCRIPTS:
        known = "; ".join(f"{script} ({about})" for script, about in SCRIPTS.items())
        raise SettingsError(f"no script {name!r}: write scripted: and one of {known}")
    return ScriptedChat(script=name)


def _json_in(text: str) -> dict[str, Any]:
    """Return the first line of ``text`` that is a JSON object; empty if none is."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
    return {}
