"""Prompts by a language model, none of whose facts is lost.

One call with the prompt of Scene-Bench (Table 6), or the stages of XTC-Bench (Sec. 3.2.4). What
comes back is checked by rules; lost facts are named and the model is asked once more; what is
still incomplete, or could not be had at all, is composed by rules.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from PIL import Image

from scenewright.agents.composer import RuleComposer
from scenewright.agents.composer_check import CHECK_VERSION, LostFact, lost_facts
from scenewright.agents.composer_stages import (
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
from scenewright.agents.language_replies import (
    as_data,
    digest_of,
    json_object,
    name_of,
    said,
    shortened,
)
from scenewright.calls.usage import Expected, Usage
from scenewright.formats import megasg
from scenewright.prompts import load_prompt
from scenewright.regions import Region
from scenewright.scene import SceneGraph

SCENE_PROMPT = "compose_scene"
RULES_PROMPT = "compose_rules"
PART_PROMPT = "compose_part"
AGAIN_PROMPT = "compose_again"
MAX_LENGTH = 4000
"""Longest prompt that is taken from a model, in characters."""

_OBJECT_TOKENS = 40
"""Tokens of a description of one object."""

Author = Literal["model", "model again", "rules"]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wording:
    """A prompt, and how it came about."""

    prompt: str
    """The text."""
    author: Author
    """``model``: its first text says all; ``model again``: the second does; ``rules``: neither."""
    lost: tuple[LostFact, ...] = ()
    """What the model's first text did not say."""
    problem: str = ""
    """Why the rules composed it; empty if they did not."""


@dataclass(frozen=True, slots=True)
class _Try:
    """A text of the model, judged."""

    text: str
    lost: tuple[LostFact, ...]
    problem: str
    """What the model is told; empty if nothing is wrong."""


@dataclass(frozen=True)
class LanguageComposer:
    """Implements :class:`~scenewright.agents.composer.Composer` by a language model.

    Never fails a run: a call that is lost after its account's own tries, or a reply that is of no
    use twice, is told in the log as a warning, and :attr:`rules` compose instead.
    """

    chat: BaseChatModel
    """The language model."""
    stages: bool
    """Whether each object is worded by itself first: as many calls more as there are different
    objects."""
    rules: RuleComposer
    """Composes what the model does not."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to views of objects before they are sent."""

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
        parts += [str(CHECK_VERSION), self.rules.fingerprint]
        parts += [repr(self.preparation)] if self.stages else []
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
        lines = lines_as_data(linearize(scene))
        usage, calls = Usage(), 1
        if self.stages:
            asked = load_prompt(WHOLE_PROMPT).render(linearized=lines)
            for item in different_objects(scene):
                calls += 1
                usage += Usage(rules + text_tokens(object_request(item)), _OBJECT_TOKENS)
        else:
            asked = load_prompt(SCENE_PROMPT).render(scene_graph=as_data(megasg.write(scene)))
        usage += Usage(rules + text_tokens(asked), text_tokens(lines))
        price = getattr(self.chat, "price", None)
        return Expected(calls, usage, None if price is None else price(usage))

    async def word(
        self,
        scene: SceneGraph,
        seed: int,
        within: SceneGraph | None = None,
        views: Mapping[str, Image.Image] | None = None,
    ) -> Wording:
        """The prompt of ``scene`` and who wrote it; ``seed`` is for the rules alone.

        Of a part of ``within`` the model is shown the whole too, so that both get one setting.
        ``views``: object id → its detail crop, which the model sees when it words the object by
        itself (XTC-Bench, Sec. 3.2.4); without :attr:`stages` they are of no use.
        """
        try:
            seen = Views(views, self.preparation) if views else None
            wording = await self._by_model(scene, within, seen)
        except Exception as error:
            # Whatever the model's library raises: a run has a scene to draw all the same.
            reason = shortened(f"{type(error).__name__}: {error}")
            wording = Wording("", "rules", problem=reason)
        if wording.author != "rules":
            return wording
        _LOG.warning(
            "%s did not compose the prompt (%s): the rules compose it",
            name_of(self.chat),
            wording.problem,
        )
        prompt = await self.rules.compose(scene, seed, within)
        return Wording(prompt, "rules", wording.lost, wording.problem)

    async def _by_model(
        self, scene: SceneGraph, within: SceneGraph | None, views: Views | None
    ) -> Wording:
        messages = await self._request(scene, within, views)
        reply = await self.chat.ainvoke(messages)
        first = _judged(scene, said(reply))
        if not first.problem:
            return Wording(first.text, "model")
        told = load_prompt(AGAIN_PROMPT).render(problem=first.problem)
        again = await self.chat.ainvoke([*messages, reply, HumanMessage(told)])
        second = _judged(scene, said(again))
        if second.problem:
            return Wording("", "rules", first.lost, shortened(second.problem))
        return Wording(second.text, "model again", first.lost)

    async def _request(
        self, scene: SceneGraph, within: SceneGraph | None, views: Views | None
    ) -> list[BaseMessage]:
        rules = SystemMessage(load_prompt(RULES_PROMPT).text)
        if self.stages:
            lines = linearize(scene, await refine_objects(self.chat, rules, scene, views))
            text = load_prompt(WHOLE_PROMPT).render(linearized=lines_as_data(lines))
        else:
            graph = as_data(megasg.write(scene))
            text = load_prompt(SCENE_PROMPT).render(scene_graph=graph)
        if within is not None and within != scene:
            whole = as_data(megasg.write(within))
            text += f"\n\n{load_prompt(PART_PROMPT).render(scene_graph=whole)}"
        return [rules, HumanMessage(text)]


def _judged(scene: SceneGraph, reply: str) -> _Try:
    """The description in a model's reply, and what is wrong with it."""
    found = json_object(reply)
    if found is None and "{" not in reply:
        # Some models write the description and no JSON around it.
        text = reply
    else:
        value = (found or {}).get("description")
        text = value if isinstance(value, str) else ""
    text = " ".join(text.split())
    if not text:
        return _Try("", (), 'there is no JSON object with the key "description" in it.')
    if len(text) > MAX_LENGTH:
        return _Try("", (), f"it has {len(text)} characters, and at most {MAX_LENGTH} are wanted.")
    lost = lost_facts(scene, text)
    problem = ""
    if lost:
        facts = as_data([f"{fact.kind}: {fact.statement}" for fact in lost])
        problem = f"it does not say these facts of the scene:\n{facts}"
    return _Try(text, lost, problem)
