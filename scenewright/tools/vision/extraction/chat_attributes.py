"""Attributes by a multimodal language model (XTC-Bench, Sec. 3.2.3 and 6.2.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.language_replies import (
    ReplyError,
    as_data,
    ask_for,
    digest_of,
    name_of,
    tool_of,
)
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.core.ports.extractor import ExtractionError, ReadAttribute, Thing
from scenewright.core.scene import SceneError, clean_name
from scenewright.prompts import load_prompt
from scenewright.tools.vision.extraction.views import detail_crop, spotlight

PROMPT = "extract_attributes"
UNKNOWN = frozenset(
    {"unknown", "n/a", "na", "none visible", "not visible", "unclear", "cannot be seen", "unsure"}
)
"""Values, in lower case, that say that nothing can be said."""


@dataclass(frozen=True)
class ChatAttributes:
    """Implements :class:`~scenewright.core.ports.extractor.AttributeReader`.

    The model sees the detail crop, then the semantic spotlight, reasons, and calls a tool.
    """

    chat: BaseChatModel
    """The language model; it must take images."""
    preparation: ImagePreparation = field(default_factory=ImagePreparation)
    """What is done to each view before it is sent."""

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt and the preparation of images."""
        digest = digest_of(self.chat, load_prompt(PROMPT).hash, repr(self.preparation))
        return f"chat attributes@1 {name_of(self.chat)}#{digest}"

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute, ...]:
        """What the model says of ``keys``, in their order, without what it does not know.

        Raises ``ExtractionError`` where it gives nothing usable, ``ImageError`` for a view that
        cannot be sent, and what the model's calls raise.
        """
        if not keys:
            return ()
        prompt = load_prompt(PROMPT)
        crop, spot = await asyncio.gather(
            asyncio.to_thread(detail_crop, image, thing.detection),
            asyncio.to_thread(spotlight, image, thing.detection),
        )
        text = prompt.render(key_set=as_data(list(keys)), label=as_data(thing.detection.name))
        shown = [(await prepare(view, self.preparation)).block for view in (crop, spot)]
        asked = HumanMessage(content=[*shown, {"type": "text", "text": text}])
        tool = tool_of(prompt)
        try:
            return (await ask_for(self.chat, [asked], tool, partial(read_values, keys=keys))).value
        except ReplyError as error:
            raise ExtractionError(str(error)) from error


def read_values(data: Mapping[str, Any], keys: Sequence[str]) -> tuple[ReadAttribute, ...]:
    """The values of ``{"attributes": [{key, value}]}``, one a key, in the order of ``keys``.

    Unknown values and keys that were not asked for are left out; of a key that stands several
    times the values are joined. Raises ``ValueError`` for what is not of that form.
    """
    given = data.get("attributes")
    if isinstance(given, Mapping):
        given = [{"key": key, "value": value} for key, value in given.items()]
    if not isinstance(given, list):
        raise ValueError('attributes is missing or no list: write [{"key": …, "value": …}]')
    by_fold = {_fold(key): key for key in keys}
    found: dict[str, dict[str, None]] = {}
    for at, entry in enumerate(given):
        if not isinstance(entry, Mapping) or not {"key", "value"} <= entry.keys():
            raise ValueError(f'attributes[{at}]: write {{"key": …, "value": …}}')
        key, value = by_fold.get(_fold(str(entry["key"]))), entry["value"]
        if key is None or value is None:
            continue
        try:
            clean = clean_name(str(value), f"the value of {key!r}").strip(" .")
        except SceneError as error:
            raise ValueError(f"attributes[{at}]: {error}") from None
        if clean and _fold(clean) not in UNKNOWN:
            found.setdefault(key, {})[clean] = None
    return tuple(ReadAttribute(key, " and ".join(found[key])) for key in keys if key in found)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")
