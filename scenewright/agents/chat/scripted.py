"""Chat models that follow a script, for tests and for machines without a language model.

``director`` plays the director's tools by rules: it draws, verifies, repairs by reference and by
inpainting in turns, and accepts the best picture. It looks at nothing but the conversation and
the tools that it was given, so it is the same behind a provider's wire format. The other scripts
do what a language model should not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from scenewright.config.profiles import SettingsError

_REPAIRS = ("refine_with_reference", "inpaint")
_DECLINE = "I can't help with that."


@dataclass(frozen=True, slots=True)
class _Say:
    """Next message of a script."""

    words: str
    tool: str = ""
    arguments: Mapping[str, Any] | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call and its answer."""

    tool: str
    told: Mapping[str, Any]
    """The tool's reply, if it was JSON."""
    ok: bool


@dataclass(frozen=True, slots=True)
class _Talk:
    """A script's view of the conversation."""

    messages: Sequence[BaseMessage]
    tools: frozenset[str]
    turn: int
    """Number of replies so far."""

    @property
    def task(self) -> Mapping[str, Any]:
        """JSON data of the first human message with some."""
        for message in self.messages:
            if isinstance(message, HumanMessage) and (found := _json_in(str(message.text))):
                return found
        return {}

    @property
    def calls(self) -> list[_Call]:
        """Answered calls, oldest first."""
        names = {
            call["id"]: call["name"]
            for message in self.messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        found = []
        for message in self.messages:
            if isinstance(message, ToolMessage):
                told = _json_in(str(message.text))
                ok = message.status != "error" and bool(told)
                found.append(_Call(str(names.get(message.tool_call_id, "")), told, ok))
        return found


def _director(talk: _Talk) -> _Say:
    if not talk.tools:
        return _Say("There are no tools here to draw with.")
    calls = talk.calls
    done = [call for call in calls if call.ok]
    drawn = [call for call in done if "prompt" in call.told]
    if not drawn:
        if sum(call.tool == "generate_image" for call in calls) >= 2:
            return _Say("Nothing can be drawn.", "accept", {})
        return _Say("First the whole scene.", "generate_image", {})
    newest = str(drawn[-1].told["image"])
    cards = {str(c.told["image"]): c.told for c in done if "missing" in c.told}
    if newest not in cards and not _failed(calls, "verify_facts"):
        return _Say(f"What holds in {newest}?", "verify_facts", {"image": newest})
    kept = _best(cards)
    if kept is None:
        return _Say("No judge can answer.", "accept", {"image": "best"})
    card = cards[kept]
    if not card["missing"]:
        return _Say(f"Nothing is missing in {kept}.", "accept", {"image": kept})
    repair = _repair(talk, calls, kept, card)
    if repair is None or _no_room(calls, repair.tool):
        return _Say(f"No repair is left; {kept} is the best.", "accept", {"image": kept})
    return repair


def _repair(talk: _Talk, calls: Sequence[_Call], kept: str, card: Mapping[str, Any]) -> _Say | None:
    """Return the next repair: by reference and by inpainting in turns, else a new drawing."""
    failed: set[str] = set()
    for call in reversed(calls):
        if call.ok:
            break
        failed.add(call.tool)
    tried = sum(call.tool in (*_REPAIRS, "generate_image") for call in calls if call.ok)
    lost = card["missing"][0]
    words = f"{kept} lacks: {lost['says']}."
    ways: dict[str, Mapping[str, Any]] = {}
    if "refine_with_reference" in talk.tools:
        ways["refine_with_reference"] = {}
    box = _place(talk.task, str(lost["fact"]))
    if "inpaint" in talk.tools and box:
        ways["inpaint"] = {"box": box, "image": kept}
    ways = {tool: given for tool, given in ways.items() if tool not in failed}
    order = list(ways) or [tool for tool in ("generate_image",) if tool not in failed]
    if not order:
        return None
    tool = order[(tried - 1) % len(order)]
    return _Say(words, tool, ways.get(tool, {}))


def _no_room(calls: Sequence[_Call], tool: str) -> bool:
    """Return whether the last reported limits leave no room for ``tool``."""
    left: Mapping[str, Any] = next(
        (call.told["left"] for call in reversed(calls) if "left" in call.told), {}
    )
    needs = 2 if tool == "refine_with_reference" else 1
    images, rounds, calls_left = (left.get(name) for name in ("images", "rounds", "calls"))
    return (
        (images is not None and images < needs)
        or (rounds is not None and rounds < 1)
        # One more call verifies what is drawn, and one accepts it.
        or (calls_left is not None and calls_left < 3)
    )


def _best(cards: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the best picture by the latest score card."""
    for card in reversed(list(cards.values())):
        if card.get("best") in cards:
            return str(card["best"])
    return None


def _failed(calls: Sequence[_Call], tool: str) -> bool:
    return bool(calls) and calls[-1].tool == tool and not calls[-1].ok


def _place(task: Mapping[str, Any], fact: str) -> list[float]:
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


def _endless(talk: _Talk) -> _Say:
    if not talk.turn:
        return _Say("I begin.", "generate_image", {})
    return _Say("Let me look once more.", "look", {})


def _unknown_tool(talk: _Talk) -> _Say:
    if not talk.turn:
        return _Say("I paint it myself.", "paint_masterpiece", {"size": "large"})
    return _director(talk)


def _bad_arguments(talk: _Talk) -> _Say:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("generate_image", {"prompt": 7, "colour": "red"}),
        ("generate_image", {}),
        ("look", {"image": "r99"}),
        ("look", {"box": [0.9, 0.1, 0.2, 4]}),
        ("inpaint", {"box": "everywhere"}),
        ("accept", {"image": ["r0"]}),
    ]
    if talk.turn < len(wrong):
        return _Say("", *wrong[talk.turn])
    return _director(talk)


def _refusal(talk: _Talk) -> _Say:
    return _Say(_DECLINE, refused=True)


def _silent(talk: _Talk) -> _Say:
    return _Say("I am thinking about it.")


def _echo(talk: _Talk) -> _Say:
    said = [str(m.text) for m in talk.messages if isinstance(m, HumanMessage)]
    return _Say(said[-1] if said else "")


SCRIPTS: dict[str, tuple[Callable[[_Talk], _Say], str]] = {
    "director": (_director, "draws, verifies, repairs and accepts by rules"),
    "endless": (_endless, "draws once, then looks at the picture for ever"),
    "unknown-tool": (_unknown_tool, "calls a tool that is not there, then directs"),
    "bad-arguments": (_bad_arguments, "calls tools with wrong arguments, then directs"),
    "refusal": (_refusal, "declines"),
    "silent": (_silent, "replies without calling a tool"),
    "echo": (_echo, "repeats its last input"),
}
"""Name → script and description."""


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
        turn = sum(isinstance(message, AIMessage) for message in messages)
        said = SCRIPTS[self.script][0](_Talk(messages, self.tools, turn))
        calls = []
        if said.tool:
            calls.append(
                ToolCall(name=said.tool, args=dict(said.arguments or {}), id=f"call_{turn}")
            )
        ended = "refusal" if said.refused else "tools" if calls else "end"
        message = AIMessage(said.words, tool_calls=calls, response_metadata={"stop": ended})
        return ChatResult(generations=[ChatGeneration(message=message)])


def scripted_chat(name: str) -> BaseChatModel:
    """Return the chat model of the script ``name``.

    Raises ``SettingsError`` with the known scripts.
    """
    if name not in SCRIPTS:
        known = "; ".join(f"{script} ({about})" for script, (_, about) in SCRIPTS.items())
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
