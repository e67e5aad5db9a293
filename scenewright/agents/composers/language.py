"""Prompts by a language model: Scene-Bench's Table 6 as printed, and a checked composer.

:class:`Table6Composer` sends the paper's words and takes the reply as it is.
:class:`LanguageComposer` adds rules, or composes in the stages of XTC-Bench (Sec. 3.2.4): the graph
in lines, each object refined alone, then the whole. An object worded apart from the others cannot
take on their attributes; where there is a picture of an object by itself, the model may look at it.

The reply is checked, lost facts are named and the model is asked once more. If the text is still
incomplete or there is none, the problem is reported, and another composer writes or the run ends,
as the profile says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from PIL import Image

from scenewright.agents.chat.language_replies import (
    answers_to,
    as_data,
    digest_of,
    name_of,
    reply_text,
    shortened,
)
from scenewright.agents.composers.check import CHECK_VERSION, lost_facts, unusable_reason
from scenewright.agents.composers.comparison import compared
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.judges.pictures import ImagePreparation, prepare, text_tokens
from scenewright.core.english import article
from scenewright.core.error_text import error_text
from scenewright.core.formats import megasg
from scenewright.core.layout import Region
from scenewright.core.ports.composer import (
    Composer,
    ComposerError,
    LostFact,
    PromptBudget,
    Wording,
    compose_with_origin,
)
from scenewright.core.questions import noun_phrase
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.prompts import load_prompt
from scenewright.providers.replies import best_object
from scenewright.providers.usage import ExpectedUsage, Usage

OBJECT_PROMPT = "compose_object"
SEEN_PROMPT = "compose_object_seen"
WHOLE_PROMPT = "compose_whole"
_MAX_LENGTH = 240
"""Longest description of an object, in characters."""


@dataclass(frozen=True, slots=True)
class DescribedObject:
    """A described object and the relations in which it is the subject."""

    object: str
    """Its description: ``a red ball``."""
    relations: tuple[str, ...]
    """``on the blue table``, in the scene's order."""


def linearize(
    scene: SceneGraph, described: dict[str, str] | None = None
) -> tuple[DescribedObject, ...]:
    """Return ``scene`` as lines, one per object with its facts.

    ``described``: object id → description, in place of attribute values before the label.
    """
    items = {item.id: item for item in scene.objects}
    plain = {item.id: noun_phrase(item) for item in scene.objects}
    lines = []
    for item in scene.objects:
        begin = (described or {}).get(item.id) or f"{article(plain[item.id])} {plain[item.id]}"
        joined = tuple(
            f"{relation.predicate} the {noun_phrase(items[relation.target])}"
            for relation in scene.relations
            if relation.source == item.id
        )
        lines.append(DescribedObject(begin, joined))
    return tuple(lines)


def lines_as_data(lines: tuple[DescribedObject, ...]) -> str:
    """Return the lines as JSON for a prompt."""
    return as_data([{"object": line.object, "relations": list(line.relations)} for line in lines])


@dataclass(frozen=True, slots=True)
class ObjectPictures:
    """Pictures of single objects."""

    pictures: Mapping[str, Image.Image]
    """Object id → its detail crop; objects without one are described by their attributes alone."""
    preparation: ImagePreparation


async def refine_objects(
    chat: BaseChatModel,
    rules: SystemMessage,
    scene: SceneGraph,
    views: ObjectPictures | None = None,
) -> dict[str, str]:
    """Return object id → description by the model, with one call per distinct object.

    Of an object that has a view the model sees it, in a call of its own. A description that loses
    the label or an attribute is not used; the object is then described by its attribute values and
    label. Raises what the model's calls raise, and ``ImageError`` for a view that cannot be sent.
    """
    pictures = views.pictures if views is not None else {}
    kind_of = {item.id: _look(item, item.id in pictures) for item in scene.objects}
    kinds = {kind_of[item.id]: item for item in different_objects(scene, pictures)}
    tasks: dict[str, asyncio.Task[str]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            for key, item in kinds.items():
                tasks[key] = group.create_task(_refined(chat, rules, item, views))
    except ExceptionGroup as errors:
        # One failure represents all: they come from one account.
        raise _first(errors) from None
    return {object_id: tasks[key].result() for object_id, key in kind_of.items()}


def different_objects(scene: SceneGraph, pictures: Collection[str] = ()) -> tuple[SceneObject, ...]:
    """Return the objects that differ by label and attributes.

    Objects with ids in ``pictures`` count as distinct.
    """
    kinds: dict[str, SceneObject] = {}
    for item in scene.objects:
        kinds.setdefault(_look(item, item.id in pictures), item)
    return tuple(kinds.values())


def object_request(item: SceneObject) -> str:
    """Return the request for an object without a picture."""
    data: dict[str, Any] = {"label": item.name, "attributes": dict(item.attributes)}
    return load_prompt(OBJECT_PROMPT).render(object=as_data(data))


def _look(item: SceneObject, seen: bool) -> str:
    return as_data([item.name, dict(item.attributes), [item.id] if seen else []])


async def _asked(item: SceneObject, views: ObjectPictures | None) -> HumanMessage:
    if views is None or item.id not in views.pictures:
        return HumanMessage(object_request(item))
    data: dict[str, Any] = {"label": item.name, "attributes": dict(item.attributes)}
    picture = await prepare(views.pictures[item.id], views.preparation)
    text = load_prompt(SEEN_PROMPT).render(object=as_data(data))
    return HumanMessage(content=[picture.block, {"type": "text", "text": text}])


async def _refined(
    chat: BaseChatModel, rules: SystemMessage, item: SceneObject, views: ObjectPictures | None
) -> str:
    reply = reply_text(await chat.ainvoke([rules, await _asked(item, views)]))
    found = (best_object(reply, None) or {}).get("description")
    phrase = noun_phrase(item)
    plain = f"{article(phrase)} {phrase}"
    if not isinstance(found, str) or not 0 < len(found.strip()) <= _MAX_LENGTH:
        return plain
    words = " ".join(found.split()).rstrip(".")
    alone = SceneGraph(objects=(item,))
    return plain if unusable_reason(alone, words) or lost_facts(alone, words) else words


def _first(errors: BaseExceptionGroup[Exception]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


SCENE_PROMPT = "compose_scene"
RULES_PROMPT = "compose_rules"
PART_PROMPT = "compose_part"
AGAIN_PROMPT = "compose_again"
ROOM_PROMPT = "compose_room"
SAID_PROMPT = "compose_said"
MAX_LENGTH = 4000
"""Longest prompt that is taken from a model, in characters."""

_WORDS_A_TOKEN = 0.75
_OBJECT_TOKENS = 40
"""Tokens of a description of one object."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """A checked text of the model."""

    text: str
    lost: tuple[LostFact, ...]
    problem: str
    """Problem to report to the model; empty if there is none."""


@dataclass(frozen=True)
class Table6Composer:
    """Scene composition with the paper's prompt as the user's only text, without a check."""

    chat: BaseChatModel
    """The language model."""

    @property
    def id(self) -> str:
        """``table6``."""
        return "table6"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, and the prompt."""
        return (
            f"table6@1 {name_of(self.chat)}#{digest_of(self.chat, load_prompt(SCENE_PROMPT).hash)}"
        )

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return the prompt of ``scene``; of :meth:`word`, the text alone."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return none: the model decides about places."""
        return {}

    def messages(self, scene: SceneGraph, within: SceneGraph | None = None) -> list[BaseMessage]:
        """Return the messages for ``scene``; the whole scene has no effect."""
        return [HumanMessage(_table6(scene))]

    def expected(self, scene: SceneGraph) -> ExpectedUsage:
        """Return the expected usage of one prompt; no call."""
        lines = lines_as_data(linearize(scene))
        return _expected(self.chat, 1, Usage(text_tokens(_table6(scene)), text_tokens(lines)))

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """Return the prompt of ``scene`` and who wrote it; seed and whole scene have no effect.

        Raises ``ComposerError`` for a call that is lost or a reply without a description.
        """
        name = name_of(self.chat)
        try:
            text = _description(reply_text(await self.chat.ainvoke(self.messages(scene))))
        except Exception as error:
            reason = error_text(error)
            raise ComposerError(_unwritten(self.id, name, reason)) from error
        if not text:
            raise ComposerError(_unwritten(self.id, name, f"its reply has {_NO_DESCRIPTION}"))
        return Wording(text, "model", name)


@dataclass(frozen=True)
class LanguageComposer:
    """Composer that uses a language model.

    A call that fails after its account's retries, or a reply that is unusable twice, is reported
    with the prompt, and :attr:`otherwise` writes it.
    """

    chat: BaseChatModel
    """The language model."""
    stages: bool
    """Whether each object is described first: one more call per distinct object."""
    otherwise: Composer | None = field(default_factory=SentenceComposer)
    """Fallback composer; None: ``ComposerError`` is raised."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """Preparation of pictures of objects."""
    room: PromptBudget | None = None
    """Part of a prompt that the image model reads, given to the language model; None: all."""

    @property
    def id(self) -> str:
        """``llm`` or ``stages``."""
        return "stages" if self.stages else "llm"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompts, the check and the rules behind it."""
        names = [RULES_PROMPT, PART_PROMPT, AGAIN_PROMPT, SAID_PROMPT]
        names += [OBJECT_PROMPT, SEEN_PROMPT, WHOLE_PROMPT] if self.stages else [SCENE_PROMPT]
        parts = [load_prompt(name).hash for name in names]
        parts += [str(CHECK_VERSION), self.otherwise.fingerprint if self.otherwise else "fail"]
        parts += [repr(self.preparation)] if self.stages else []
        parts += [load_prompt(ROOM_PROMPT).hash, str(self.room.budget)] if self.room else []
        digest = digest_of(self.chat, *parts)
        return f"{self.id}@1 {name_of(self.chat)}#{digest}"

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """Return the prompt of ``scene``; of :meth:`word`, the text alone."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """Return none: the model decides about places."""
        return {}

    def expected(self, scene: SceneGraph) -> ExpectedUsage:
        """Return the expected usage of one prompt that is complete at once; no call.

        By a quarter of the characters; the text is taken to be as long as the scene in lines.
        """
        rules = text_tokens(load_prompt(RULES_PROMPT).text)
        last = text_tokens(self._rules())
        lines = lines_as_data(linearize(scene))
        usage, calls = Usage(), 1
        if self.stages:
            asked = load_prompt(WHOLE_PROMPT).render(linearized=lines)
            for item in different_objects(scene):
                calls += 1
                usage += Usage(rules + text_tokens(object_request(item)), _OBJECT_TOKENS)
        else:
            asked = load_prompt(SCENE_PROMPT).render(scene_graph=as_data(megasg.write(scene)))
        usage += Usage(last + text_tokens(asked), text_tokens(lines))
        return _expected(self.chat, calls, usage)

    async def word(
        self,
        scene: SceneGraph,
        seed: int,
        within: SceneGraph | None = None,
        views: Mapping[str, Image.Image] | None = None,
    ) -> Wording:
        """Return the prompt of ``scene`` and who wrote it; ``seed`` is for :attr:`otherwise` alone.

        Of a part of ``within`` the model is shown the whole too, so that both get one setting.
        ``views``: object id → its detail crop, which the model sees when it words the object by
        itself (XTC-Bench, Sec. 3.2.4); without :attr:`stages` they are of no use. Raises
        ``ComposerError`` where the model does not write and nothing else does.
        """
        name = name_of(self.chat)
        lost: tuple[LostFact, ...] = ()
        try:
            seen = ObjectPictures(views, self.preparation) if views else None
            wording = await self._by_model(scene, within, seen)
            if not wording.problem:
                return wording
            problem, lost = wording.problem, wording.lost
        except Exception as error:
            # Whatever the model's library raises: a run has a scene to draw all the same.
            problem = error_text(error)
            if self.otherwise is None:
                raise ComposerError(_unwritten(self.id, name, problem)) from error
        if self.otherwise is None:
            raise ComposerError(_unwritten(self.id, name, problem))
        _LOG.warning(
            "%s did not compose the prompt (%s): it is written by %s",
            *(name, problem, self.otherwise.id),
        )
        told = await compose_with_origin(self.otherwise, scene, seed, within)
        return replace(told, lost=lost, problem=f"{name}: {problem}")

    async def _by_model(
        self, scene: SceneGraph, within: SceneGraph | None, views: ObjectPictures | None
    ) -> Wording:
        name = name_of(self.chat)
        messages = await self._request(scene, within, views)
        reply = await self.chat.ainvoke(messages)
        first = _judged(scene, reply_text(reply))
        if not first.problem:
            return Wording(first.text, "model", name)
        told = load_prompt(AGAIN_PROMPT).render(problem=first.problem)
        again = await self.chat.ainvoke([*messages, reply, *answers_to(reply, told)])
        second = _judged(scene, reply_text(again))
        if second.problem:
            return Wording("", "model again", name, first.lost, shortened(second.problem))
        return Wording(second.text, "model again", name, first.lost)

    async def _request(
        self, scene: SceneGraph, within: SceneGraph | None, views: ObjectPictures | None
    ) -> list[BaseMessage]:
        if not self.stages:
            return self.messages(scene, within)
        rules = SystemMessage(load_prompt(RULES_PROMPT).text)
        return self.messages(scene, within, await refine_objects(self.chat, rules, scene, views))

    def messages(
        self,
        scene: SceneGraph,
        within: SceneGraph | None = None,
        refined: dict[str, str] | None = None,
    ) -> list[BaseMessage]:
        """Return the messages for ``scene``, or those of the last of :attr:`stages`.

        ``refined``: object id → what an earlier step made of it.
        """
        rules = SystemMessage(self._rules())
        if self.stages:
            lines = linearize(scene, refined)
            text = load_prompt(WHOLE_PROMPT).render(linearized=lines_as_data(lines))
        else:
            text = _table6(scene)
        if said := _said(scene):
            text += f"\n\n{load_prompt(SAID_PROMPT).render(said=as_data(said))}"
        if within is not None and within != scene:
            whole = as_data(megasg.write(within))
            text += f"\n\n{load_prompt(PART_PROMPT).render(scene_graph=whole)}"
        return [rules, HumanMessage(text)]

    def _rules(self) -> str:
        """Return the instructions before the scene, with the image model's limit if any."""
        text = load_prompt(RULES_PROMPT).text
        if self.room is None:
            return text
        tokens = self.room.budget
        told = load_prompt(ROOM_PROMPT).render(
            tokens=str(tokens), words=str(int(tokens * _WORDS_A_TOKEN))
        )
        return f"{text}\n\n{told}"


_NO_DESCRIPTION = 'no JSON object with the key "description" in it'


def _unwritten(composer: str, model: str, problem: str) -> str:
    return (
        f"the composer {composer} wrote no prompt ({model}: {problem}): try again, or choose "
        'another one in the profile, for example composer = "sentences"'
    )


def _table6(scene: SceneGraph) -> str:
    return load_prompt(SCENE_PROMPT).render(scene_graph=as_data(megasg.write(scene)))


def _said(scene: SceneGraph) -> dict[str, Any]:
    """Return what a person said beside ``scene`` as data; empty if they said nothing."""
    intent = scene.intent
    said = {
        "sentence": scene.english,
        "of the whole picture": [one.text for one in intent.globals],
        "texts to be written": list(intent.texts),
        "not in the picture": [one.text for one in intent.exclusions],
    }
    return {key: value for key, value in said.items() if value}


def _expected(chat: BaseChatModel, calls: int, usage: Usage) -> ExpectedUsage:
    price = getattr(chat, "price", None)
    return ExpectedUsage(calls, usage, None if price is None else price(usage))


def _description(reply: str) -> str:
    """Return the description in a model's reply; empty if there is none."""
    found = best_object(reply, None)
    if found is None and "{" not in reply:
        # Some models write the description and no JSON around it.
        text = reply
    else:
        value = (found or {}).get("description")
        text = value if isinstance(value, str) else ""
    return " ".join(text.split())


def _judged(scene: SceneGraph, reply: str) -> _Try:
    """Return the description in a model's reply, and what is wrong with it."""
    text = _description(reply)
    if not text:
        return _Try("", (), f"there is {_NO_DESCRIPTION}.")
    if len(text) > MAX_LENGTH:
        return _Try("", (), f"it has {len(text)} characters, and at most {MAX_LENGTH} are wanted.")
    if wrong := unusable_reason(scene, text):
        return _Try("", (), wrong)
    lost = lost_facts(scene, text)
    missing = [f"{fact.kind}: {fact.statement}" for fact in lost]
    missing += [
        f"{one.kind}: {one.text}" for one in scene.intent.globals if compared(one.text, text).lost
    ]
    problem = ""
    if missing:
        problem = f"it does not state these facts of the scene:\n{as_data(missing)}"
    return _Try(text, lost, problem)
