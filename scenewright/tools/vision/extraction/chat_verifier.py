"""Candidate relations asked of a multimodal language model (XTC-Bench, Sec. 6.2.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import as_data, ask_for, digest_of, name_of, tool_of
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.core.ports.extractor import Candidate, Thing, Verification
from scenewright.prompts import load_prompt
from scenewright.tools.vision.extraction.views import marked_pair

PROMPT = "verify_relation"


@dataclass(frozen=True)
class ChatVerifier:
    """Implements :class:`~scenewright.core.ports.extractor.RelationVerifier`.

    The model sees the picture with the subject in a red and the object in a blue box, one
    candidate a call.
    """

    chat: BaseChatModel
    """The language model; it must take images."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to the picture before it is sent."""
    concurrent: int = 8
    """Most calls under way at once."""

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt and the preparation of images."""
        digest = digest_of(self.chat, load_prompt(PROMPT).hash, repr(self.preparation))
        return f"chat verifier@1 {name_of(self.chat)}#{digest}"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """One verification a candidate, in order; a call that fails is one without an answer."""
        turn = asyncio.Semaphore(max(1, self.concurrent))

        async def one(candidate: Candidate) -> Verification:
            async with turn:
                try:
                    return Verification(await self._asked(image, things, candidate))
                except Exception as error:
                    # A call that fails costs its candidate, not the others.
                    return Verification(
                        None, reason=f"{type(error).__name__}: {error}", failed=True
                    )

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(candidate)) for candidate in candidates]
        return tuple(task.result() for task in tasks)

    async def _asked(
        self, image: Image.Image, things: Mapping[str, Thing], candidate: Candidate
    ) -> bool:
        relation = candidate.relation
        source, target = things[relation.source].detection, things[relation.target].detection
        prompt = load_prompt(PROMPT)
        view = await asyncio.to_thread(marked_pair, image, source, target)
        text = prompt.render(
            subject=as_data(source.name),
            predicate=as_data(relation.predicate),
            object=as_data(target.name),
        )
        picture = await prepare(view, self.preparation)
        asked = HumanMessage(content=[picture.block, {"type": "text", "text": text}])
        tool = tool_of(prompt)
        return (await ask_for(self.chat, [asked], tool, read_answer)).value


def read_answer(data: Mapping[str, Any]) -> bool:
    """Whether ``{"answer": "Yes"}`` says yes; ``ValueError`` for anything but yes and no."""
    given = data.get("answer")
    word = given.strip(" .").casefold() if isinstance(given, str) else given
    if word in ("yes", True):
        return True
    if word in ("no", False):
        return False
    raise ValueError("answer: write 'Yes' or 'No'")
