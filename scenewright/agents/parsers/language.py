"""Captions to scenes by a language model (Scene-Bench, Table 10, with what is said beside).

The model's JSON is checked; errors say what the model should correct. The sentence may be in any
language; names and what is said of the picture are English, which judges and composers read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from pydantic import ValidationError

from scenewright.agents.chat.language_replies import ask_for, digest_of, name_of, tool_of
from scenewright.agents.parsers.model_intent import read_intent
from scenewright.core.formats.base import explain, numbered, split_id
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

_LISTED = 12


def read_graph(data: Mapping[str, Any]) -> SceneGraph:
    """Return the graph in a language model's JSON.

    The form is ``{"objects": [{id, name, attributes}], "relationships": [{source, target,
    relation}]}``; ids are numbered anew, in order. An object may be a bare label, and an end of a
    relation a label that only one object has. A relation that is listed twice is taken once. Raises
    ``SceneError`` with the place for anything else.
    """
    return _graph(data)[0]


def read_reading(data: Mapping[str, Any], sentence: str) -> SceneGraph:
    """Return the scene in a language model's reading of ``sentence``.

    ``data`` as for :func:`read_graph`, with what the sentence says beside the graph
    (:mod:`.model_intent`). Raises ``SceneError`` with the place.
    """
    return read_intent(data, sentence, *_graph(data))


def _graph(data: Mapping[str, Any]) -> tuple[SceneGraph, dict[str, str]]:
    """Return the graph, and its ids by those in ``data``."""
    given = [_object(entry, f"objects[{at}]") for at, entry in enumerate(_list(data, "objects"))]
    if not given:
        raise SceneError("objects is empty: list every object, for example dog.1")
    items: list[SceneObject] = []
    ids: dict[str, str] = {}
    for old, new in zip(given, numbered(item.name for item in given), strict=True):
        # A repeated bare label is two objects, and ambiguous as an end of a relation.
        if old.id in ids and split_id(old.id)[1] is not None:
            raise SceneError(f"objects: the id {old.id!r} is used twice: number the instances")
        ids.setdefault(old.id, new)
        items.append(old.model_copy(update={"id": new}))
    return SceneGraph(objects=tuple(items), relations=_relations(data, ids, items)), ids


def read_relations(data: Mapping[str, Any], objects: Sequence[SceneObject]) -> SceneGraph:
    """Return the graph of given ``objects`` and the model's ``{"relationships": […]}``.

    Raises ``SceneError`` as :func:`read_graph`.
    """
    ids = {item.id: item.id for item in objects}
    return SceneGraph(objects=tuple(objects), relations=_relations(data, ids, objects))


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    if not isinstance(data, Mapping):
        raise SceneError(
            'the answer is not a JSON object: write {"objects": [], "relationships": []}'
        )
    found = data.get(key)
    if not isinstance(found, list):
        raise SceneError(f"{key} is missing or not a list: write an empty list if there is none")
    return found


def _object(entry: Any, where: str) -> SceneObject:
    if isinstance(entry, str):
        entry = {"id": entry, "name": split_id(entry)[0]}
    name = entry.get("name") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(name, str):
        fault = "has no name" if isinstance(entry, Mapping) else "is not an object"
        raise SceneError(f'{where} {fault}: write {{"id": "dog.1", "name": "dog"}}')
    id_ = entry.get("id")
    try:
        return SceneObject(
            id=id_ if isinstance(id_, str) and id_.strip() else name,
            name=name,
            attributes=_attributes(entry.get("attributes"), where),
        )
    except ValidationError as error:
        raise explain(error, where) from None
    except SceneError as error:
        raise SceneError(f"{where}: {error}") from None


def _attributes(given: Any, where: str) -> Attributes:
    if given is None:
        return Attributes()
    if isinstance(given, Mapping):
        return Attributes({str(key): str(value) for key, value in given.items()})
    if not isinstance(given, list):
        raise SceneError(f'{where}.attributes is not a list: write [{{"key": …, "value": …}}]')
    found: dict[str, dict[str, None]] = {}
    for at, entry in enumerate(given):
        if not isinstance(entry, Mapping) or not {"key", "value"} <= entry.keys():
            raise SceneError(f'{where}.attributes[{at}]: write {{"key": …, "value": …}}')
        # A red and white ball has two colours.
        found.setdefault(str(entry["key"]), {})[str(entry["value"])] = None
    return Attributes({key: " and ".join(values) for key, values in found.items()})


def _relations(
    data: Mapping[str, Any], ids: Mapping[str, str], items: Sequence[SceneObject]
) -> tuple[Relation, ...]:
    found: dict[Relation, None] = {}
    for at, entry in enumerate(_list(data, "relationships")):
        where = f"relationships[{at}]"
        if not isinstance(entry, Mapping):
            raise SceneError(f"{where} is not an object: write source, target and relation")
        predicate = entry.get("relation", entry.get("predicate"))
        if not isinstance(predicate, str) or not predicate.strip():
            raise SceneError(f'{where} has no relation: write one, for example "left of"')
        source, target = (
            _end(entry.get(key), f"{where}.{key}", ids, items) for key in ("source", "target")
        )
        if source == target:
            raise SceneError(f"{where}: {source} is related to itself: name two objects")
        try:
            found[Relation(source=source, predicate=predicate, target=target)] = None
        except ValidationError as error:
            raise explain(error, where) from None
    return tuple(found)


def _end(value: Any, where: str, ids: Mapping[str, str], items: Sequence[SceneObject]) -> str:
    text = value.strip() if isinstance(value, str) else ""
    named = [item for item in items if item.name.casefold() == text.casefold()]
    if text in ids and (len(named) < 2 or split_id(text)[1] is not None):
        return ids[text]
    if len(named) == 1:
        return named[0].id
    why = f"is the name of {len(named)} objects" if named else "is not an object"
    known = ", ".join(list(ids)[:_LISTED])
    raise SceneError(f"{where}: {value!r} {why}: write one of the ids {known}, or add the object")


CAPTION_PROMPT = "parse_caption"
MAX_CAPTION = 8000
"""Longest caption, in characters."""
_CHARACTERS = 4
"""Characters of a token, as an estimate."""
_REPLY_TOKENS, _TOKENS_OF_A_TOKEN = 150, 8
"""Tokens of a scene in JSON, as an estimate: of its frame, and for each token of the sentence."""


@dataclass(frozen=True)
class LanguageParser:
    """Reads captions with a language model that calls a tool with the scene."""

    chat: BaseChatModel
    """The language model."""

    @property
    def id(self) -> str:
        """``llm``."""
        return "llm"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, and the prompt."""
        return (
            f"llm@2 {name_of(self.chat)}#{digest_of(self.chat, load_prompt(CAPTION_PROMPT).hash)}"
        )

    def expected(self, caption: str) -> ExpectedUsage:
        """Return the expected usage of a reading that is right at once; no call."""
        prompt = load_prompt(CAPTION_PROMPT)
        told = (len(prompt.text) + len(json.dumps(prompt.output))) // _CHARACTERS
        said = -(-len(caption) // _CHARACTERS)
        usage = Usage(told + said, _REPLY_TOKENS + _TOKENS_OF_A_TOKEN * said)
        price = getattr(self.chat, "price", None)
        return ExpectedUsage(1, usage, None if price is None else price(usage))

    async def parse(self, caption: str) -> SceneGraph:
        """Return the scene of ``caption``, with what it says beside the graph.

        A scene that cannot be is sent back once with what is wrong. The rules check the reading
        (:func:`~scenewright.agents.parsers.model_intent.read_intent`). Raises ``SceneError`` for an
        empty or endless caption, ``ReplyError`` where the model gives no graph, and what the
        model's calls raise.
        """
        text = caption.strip()
        if not text:
            raise SceneError("the caption is empty: write a sentence, for example 'a red ball'")
        if len(text) > MAX_CAPTION:
            raise SceneError(
                f"the caption has {len(text)} characters, the limit is {MAX_CAPTION}: shorten it"
            )
        prompt = load_prompt(CAPTION_PROMPT)
        # Between the quotes of the prompt, a quote must not end the sentence.
        quoted = json.dumps(text, ensure_ascii=False)[1:-1]
        asked = HumanMessage(prompt.render(input_sentence=quoted))
        read = partial(read_reading, sentence=text)
        return (await ask_for(self.chat, [asked], tool_of(prompt), read)).value
