"""Prompts by a language model: Scene-Bench's Table 6 as printed, and ours, which loses no fact.

:class:`Table6Composer` sends the paper's words and takes what comes back. :class:`LanguageComposer`
puts rules before them, or asks in the stages of XTC-Bench (Sec. 3.2.4); what comes back is checked,
lost facts are named and the model is asked once more. What is still incomplete, or could not be
had at all, is told, and another composer writes or the run ends, as its profile says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from PIL import Image

from scenewright.agents.chat.language_replies import (
    as_data,
    digest_of,
    error_text,
    json_object,
    name_of,
    reply_text,
    shortened,
)
from scenewright.agents.composers.check import CHECK_VERSION, lost_facts, unfit
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.composers.stages import (
    OBJECT_PROMPT,
    SEEN_PROMPT,
    WHOLE_PROMPT,
    Views,
    different_objects,
    linearize,
    lines_as_data,
    object_request,
    refine_objects,
)
from scenewright.agents.judges.pictures import ImagePreparation
from scenewright.agents.judges.tokens import text_tokens
from scenewright.core.formats import megasg
from scenewright.core.ports.composer import (
    Composer,
    ComposerError,
    LostFact,
    PromptRoom,
    Wording,
    worded,
)
from scenewright.core.regions import Region
from scenewright.core.scene import SceneGraph
from scenewright.prompts import load_prompt
from scenewright.providers.usage import Expected, Usage

SCENE_PROMPT = "compose_scene"
RULES_PROMPT = "compose_rules"
PART_PROMPT = "compose_part"
AGAIN_PROMPT = "compose_again"
ROOM_PROMPT = "compose_room"
MAX_LENGTH = 4000
"""Longest prompt that is taken from a model, in characters."""

_WORDS_A_TOKEN = 0.75
_OBJECT_TOKENS = 40
"""Tokens of a description of one object."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """A text of the model, judged."""

    text: str
    lost: tuple[LostFact, ...]
    problem: str
    """What the model is told; empty if nothing is wrong."""


@dataclass(frozen=True)
class Table6Composer:
    """Scene composition as the paper prints it: its prompt as the user's only text, no check."""

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
        """The prompt of ``scene``; of :meth:`word`, the text alone."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """None: the model puts things where it likes."""
        return {}

    def messages(self, scene: SceneGraph, within: SceneGraph | None = None) -> list[BaseMessage]:
        """What is sent for ``scene``; the whole scene has no effect."""
        return [HumanMessage(_table6(scene))]

    def expected(self, scene: SceneGraph) -> Expected:
        """What one prompt is expected to take; no call."""
        lines = lines_as_data(linearize(scene))
        return _expected(self.chat, 1, Usage(text_tokens(_table6(scene)), text_tokens(lines)))

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        """The prompt of ``scene`` and who wrote it; seed and whole scene have no effect.

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
    """Implements :class:`~scenewright.core.ports.composer.Composer` by a language model.

    A call that is lost after its account's own tries, or a reply that is of no use twice, is told
    with the prompt, and :attr:`otherwise` writes it.
    """

    chat: BaseChatModel
    """The language model."""
    stages: bool
    """Whether each object is worded by itself first: as many calls more as there are different
    objects."""
    otherwise: Composer | None = field(default_factory=SentenceComposer)
    """Writes what the model does not; None: ``ComposerError`` is raised."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to views of objects before they are sent."""
    room: PromptRoom | None = None
    """What the image model reads of a prompt, which the language model is told; None: all."""

    @property
    def id(self) -> str:
        """``llm`` or ``stages``."""
        return "stages" if self.stages else "llm"

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompts, the check and the rules behind it."""
        names = [RULES_PROMPT, PART_PROMPT, AGAIN_PROMPT]
        names += [OBJECT_PROMPT, SEEN_PROMPT, WHOLE_PROMPT] if self.stages else [SCENE_PROMPT]
        parts = [load_prompt(name).hash for name in names]
        parts += [str(CHECK_VERSION), self.otherwise.fingerprint if self.otherwise else "fail"]
        parts += [repr(self.preparation)] if self.stages else []
        parts += [load_prompt(ROOM_PROMPT).hash, str(self.room.budget)] if self.room else []
        digest = digest_of(self.chat, *parts)
        return f"{self.id}@1 {name_of(self.chat)}#{digest}"

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        """The prompt of ``scene``; of :meth:`word`, the text alone."""
        return (await self.word(scene, seed, within)).prompt

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        """None: the model puts things where it likes."""
        return {}

    def expected(self, scene: SceneGraph) -> Expected:
        """What one prompt is expected to take, if the model's first text says all; no call.

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
        """The prompt of ``scene`` and who wrote it; ``seed`` is for :attr:`otherwise` alone.

        Of a part of ``within`` the model is shown the whole too, so that both get one setting.
        ``views``: object id → its detail crop, which the model sees when it words the object by
        itself (XTC-Bench, Sec. 3.2.4); without :attr:`stages` they are of no use. Raises
        ``ComposerError`` where the model does not write and nothing else does.
        """
        name = name_of(self.chat)
        lost: tuple[LostFact, ...] = ()
        try:
            seen = Views(views, self.preparation) if views else None
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
        told = await worded(self.otherwise, scene, seed, within)
        return replace(told, lost=lost, problem=f"{name}: {problem}")

    async def _by_model(
        self, scene: SceneGraph, within: SceneGraph | None, views: Views | None
    ) -> Wording:
        name = name_of(self.chat)
        messages = await self._request(scene, within, views)
        reply = await self.chat.ainvoke(messages)
        first = _judged(scene, reply_text(reply))
        if not first.problem:
            return Wording(first.text, "model", name)
        told = load_prompt(AGAIN_PROMPT).render(problem=first.problem)
        again = await self.chat.ainvoke([*messages, reply, HumanMessage(told)])
        second = _judged(scene, reply_text(again))
        if second.problem:
            return Wording("", "model again", name, first.lost, shortened(second.problem))
        return Wording(second.text, "model again", name, first.lost)

    async def _request(
        self, scene: SceneGraph, within: SceneGraph | None, views: Views | None
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
        """What is sent for ``scene``, in the last step of :attr:`stages`; ``refined``: object id →
        what an earlier step made of it."""
        rules = SystemMessage(self._rules())
        if self.stages:
            lines = linearize(scene, refined)
            text = load_prompt(WHOLE_PROMPT).render(linearized=lines_as_data(lines))
        else:
            text = _table6(scene)
        if within is not None and within != scene:
            whole = as_data(megasg.write(within))
            text += f"\n\n{load_prompt(PART_PROMPT).render(scene_graph=whole)}"
        return [rules, HumanMessage(text)]

    def _rules(self) -> str:
        """What stands before the scene, with the image model's limit if it has one."""
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


def _expected(chat: BaseChatModel, calls: int, usage: Usage) -> Expected:
    price = getattr(chat, "price", None)
    return Expected(calls, usage, None if price is None else price(usage))


def _description(reply: str) -> str:
    """The description in a model's reply; empty if there is none."""
    found = json_object(reply)
    if found is None and "{" not in reply:
        # Some models write the description and no JSON around it.
        text = reply
    else:
        value = (found or {}).get("description")
        text = value if isinstance(value, str) else ""
    return " ".join(text.split())


def _judged(scene: SceneGraph, reply: str) -> _Try:
    """The description in a model's reply, and what is wrong with it."""
    text = _description(reply)
    if not text:
        return _Try("", (), f"there is {_NO_DESCRIPTION}.")
    if len(text) > MAX_LENGTH:
        return _Try("", (), f"it has {len(text)} characters, and at most {MAX_LENGTH} are wanted.")
    if wrong := unfit(scene, text):
        return _Try("", (), wrong)
    lost = lost_facts(scene, text)
    problem = ""
    if lost:
        facts = as_data([f"{fact.kind}: {fact.statement}" for fact in lost])
        problem = f"it does not say these facts of the scene:\n{facts}"
    return _Try(text, lost, problem)
