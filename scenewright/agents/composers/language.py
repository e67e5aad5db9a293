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
from scenewright.agents.composers.check import CHECK_VERSION, compared, lost_facts, unusable_reason
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.judges.pictures import ImagePreparation, prepare, text_tokens
from scenewright.core.english import article
from scenewright.core.error_text import error_text
from scenewright.core.formats import megasg
from scenewright.core.ports.composer import (
    Composer,
    ComposerError,
    LostFact,
    PromptBudget,
    ReportingComposer,
    Wording,
    compose_with_origin,
)
from scenewright.core.referring import noun_phrase
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.prompts import load_prompt
from scenewright.providers.replies import best_object
from scenewright.providers.usage import ExpectedUsage, Usage

OBJECT_PROMPT = "compose_object"
SEEN_PROMPT = "compose_object_seen"
WHOLE_PROMPT = "compose_whole"
_MAX_LENGTH = 240
"""Longest description of an object, in characters."""


def linearize(scene: SceneGraph, described: Mapping[str, str] | None = None) -> str:
    """Return ``scene`` as JSON lines for a prompt: each object with the relations it begins.

    ``described``: object id → description, in place of attribute values before the label.
    """
    plain = {item.id: noun_phrase(item) for item in scene.objects}
    lines = []
    for item in scene.objects:
        begin = (described or {}).get(item.id) or f"{article(plain[item.id])} {plain[item.id]}"
        joined = [
            f"{relation.predicate} the {plain[relation.target]}"
            for relation in scene.relations
            if relation.source == item.id
        ]
        lines.append({"object": begin, "relations": joined})
    return as_data(lines)


async def refine_objects(
    chat: BaseChatModel,
    scene: SceneGraph,
    views: Mapping[str, Image.Image],
    preparation: ImagePreparation,
) -> dict[str, str]:
    """Return object id → description by the model, with one call per distinct object.

    Of an object that has a view (by its id) the model sees it, in a call of its own. A description
    that loses the label or an attribute is not used; the object is then described by its attribute
    values and label. Raises what the model's calls raise, and ``ImageError`` for a view that cannot
    be sent.
    """
    rules = SystemMessage(load_prompt(RULES_PROMPT).text)

    async def refined(item: SceneObject) -> str:
        content: Any = object_request(item)
        if item.id in views:
            picture = await prepare(views[item.id], preparation)
            text = {"type": "text", "text": object_request(item, SEEN_PROMPT)}
            content = [picture.block, text]
        reply = reply_text(await chat.ainvoke([rules, HumanMessage(content)]))
        found = (best_object(reply, None) or {}).get("description")
        phrase = noun_phrase(item)
        plain = f"{article(phrase)} {phrase}"
        if not isinstance(found, str) or not 0 < len(found.strip()) <= _MAX_LENGTH:
            return plain
        words = " ".join(found.split()).rstrip(".")
        alone = SceneGraph(objects=(item,))
        return plain if unusable_reason(alone, words) or lost_facts(alone, words) else words

    kinds = different_objects(scene, views)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(refined(items[0])) for items in kinds]
    except ExceptionGroup as errors:
        # One failure represents all: they come from one account.
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    pairs = zip(kinds, tasks, strict=True)
    return {item.id: task.result() for items, task in pairs for item in items}


def different_objects(
    scene: SceneGraph, pictures: Collection[str] = ()
) -> tuple[list[SceneObject], ...]:
    """Return the objects by label and attributes; those with ids in ``pictures`` are distinct."""
    kinds: dict[object, list[SceneObject]] = {}
    for item in scene.objects:
        look = (item.name, item.attributes, item.id if item.id in pictures else "")
        kinds.setdefault(look, []).append(item)
    return tuple(kinds.values())


def object_request(item: SceneObject, prompt: str = OBJECT_PROMPT) -> str:
    """Return the request for an object, without a picture or beside it (:data:`SEEN_PROMPT`)."""
    data: dict[str, Any] = {"label": item.name, "attributes": dict(item.attributes)}
    return load_prompt(prompt).render(object=as_data(data))


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


@dataclass(frozen=True)
class Table6Composer(ReportingComposer):
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

    def messages(self, scene: SceneGraph, within: SceneGraph | None = None) -> list[BaseMessage]:
        """Return the messages for ``scene``; the whole scene has no effect."""
        return [HumanMessage(_table6(scene))]

    def expected(self, scene: SceneGraph) -> ExpectedUsage:
        """Return the expected usage of one prompt; no call."""
        lines = linearize(scene)
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
class LanguageComposer(ReportingComposer):
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

    def expected(self, scene: SceneGraph) -> ExpectedUsage:
        """Return the expected usage of one prompt that is complete at once; no call.

        By a quarter of the characters; the text is taken to be as long as the scene in lines.
        """
        rules = text_tokens(load_prompt(RULES_PROMPT).text)
        last = text_tokens(self._rules())
        lines = linearize(scene)
        usage, calls = Usage(), 1
        if self.stages:
            asked = load_prompt(WHOLE_PROMPT).render(linearized=lines)
            for item, *_ in different_objects(scene):
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
        cause: Exception | None = None
        try:
            refined = None
            if self.stages:
                refined = await refine_objects(self.chat, scene, views or {}, self.preparation)
            messages = self.messages(scene, within, refined)
            for author in ("model", "model again"):
                reply = await self.chat.ainvoke(messages)
                text, missing, problem = _judged(scene, reply_text(reply))
                lost = missing if author == "model" else lost
                if not problem:
                    return Wording(text, author, name, lost)
                told = load_prompt(AGAIN_PROMPT).render(problem=problem)
                messages = [*messages, reply, *answers_to(reply, told)]
            problem = shortened(problem)
        except Exception as error:
            # Whatever the model's library raises: a run has a scene to draw all the same.
            lost, problem, cause = (), error_text(error), error
        if self.otherwise is None:
            raise ComposerError(_unwritten(self.id, name, problem)) from cause
        _LOG.warning(
            "%s did not compose the prompt (%s): it is written by %s",
            *(name, problem, self.otherwise.id),
        )
        wording = await compose_with_origin(self.otherwise, scene, seed, within)
        return replace(wording, lost=lost, problem=f"{name}: {problem}")

    def messages(
        self,
        scene: SceneGraph,
        within: SceneGraph | None = None,
        refined: Mapping[str, str] | None = None,
    ) -> list[BaseMessage]:
        """Return the messages for ``scene``, or those of the last of :attr:`stages`.

        ``refined``: object id → what an earlier step made of it.
        """
        rules = SystemMessage(self._rules())
        if self.stages:
            text = load_prompt(WHOLE_PROMPT).render(linearized=linearize(scene, refined))
        else:
            text = _table6(scene)
        intent = scene.intent
        beside: dict[str, Any] = {
            "sentence": scene.english,
            "of the whole picture": [one.text for one in intent.globals],
            "texts to be written": list(intent.texts),
            "not in the picture": [one.text for one in intent.exclusions],
        }
        if said := {key: value for key, value in beside.items() if value}:
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


def _judged(scene: SceneGraph, reply: str) -> tuple[str, tuple[LostFact, ...], str]:
    """Return the description in a model's reply, lost facts and the problem to report to it."""
    text = _description(reply)
    problem = f"there is {_NO_DESCRIPTION}."
    if len(text) > MAX_LENGTH:
        problem = f"it has {len(text)} characters, and at most {MAX_LENGTH} are wanted."
    elif text:
        problem = unusable_reason(scene, text)
    if problem:
        return "", (), problem
    lost = lost_facts(scene, text)
    missing = [f"{fact.kind}: {fact.statement}" for fact in lost]
    missing += [
        f"{one.kind}: {one.text}" for one in scene.intent.globals if compared(one.text, text).lost
    ]
    if missing:
        problem = f"it does not state these facts of the scene:\n{as_data(missing)}"
    return text, lost, problem
