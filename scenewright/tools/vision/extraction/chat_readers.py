"""Attributes and relations by a multimodal language model.

Attributes as of XTC-Bench (Sec. 3.2.3 and 6.2.3), relations between given boxes as of Scene-Bench
(Algorithm 1), and candidate relations asked one by one (XTC-Bench, Sec. 6.2.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError, as_data
from scenewright.core.error_text import error_text
from scenewright.core.ports.vision import (
    Candidate,
    ExtractionError,
    PairScores,
    ReadAttribute,
    Thing,
    Verification,
)
from scenewright.core.scene import SceneError, clean_name
from scenewright.prompts import load_prompt
from scenewright.tools.vision.concurrency import map_bounded
from scenewright.tools.vision.extraction.one_stage import PictureParser
from scenewright.tools.vision.extraction.views import detail_crop, marked_pair, spotlight
from scenewright.tools.vision.picture_chat import PictureChat

PROMPT = "extract_attributes"
VERIFY_PROMPT = "verify_relation"
UNKNOWN = frozenset(
    {"unknown", "n/a", "na", "none visible", "not visible", "unclear", "cannot be seen", "unsure"}
)
"""Values, in lower case, that say that nothing can be said."""


@dataclass(frozen=True)
class ChatAttributes(PictureChat):
    """Implements :class:`~scenewright.core.ports.vision.AttributeReader`.

    The model sees the detail crop, then the semantic spotlight, reasons, and calls a tool.
    """

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt and the preparation of images."""
        return f"chat attributes@1 {self.digest(load_prompt(PROMPT).hash)}"

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute, ...]:
        """Return the model's values for ``keys``, in their order, without those it does not know.

        Raises ``ExtractionError`` for an unusable reply, ``ImageError`` for a view that cannot be
        sent, and the errors of the model's calls.
        """
        if not keys:
            return ()
        prompt = load_prompt(PROMPT)
        views = await asyncio.gather(
            asyncio.to_thread(detail_crop, image, thing.detection),
            asyncio.to_thread(spotlight, image, thing.detection),
        )
        text = prompt.render(key_set=as_data(list(keys)), label=as_data(thing.detection.name))
        try:
            return await self.ask(prompt, text, views, partial(read_values, keys=keys))
        except ReplyError as error:
            raise ExtractionError(str(error)) from error


def read_values(data: Mapping[str, Any], keys: Sequence[str]) -> tuple[ReadAttribute, ...]:
    """Return the values of ``{"attributes": [{key, value}]}``, one a key, in the order of ``keys``.

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


@dataclass(frozen=True)
class ChatRelations:
    """Implements :class:`~scenewright.core.ports.vision.RelationScorer`.

    The model names relations and scores none: what it names scores 1, all else is no relation.
    """

    parser: PictureParser
    """Parser that names them."""

    @cached_property
    def fingerprint(self) -> str:
        """The parser's."""
        return f"chat relations@1 {self.parser.fingerprint}"

    async def score(self, image: Image.Image, things: Sequence[Thing]) -> tuple[PairScores, ...]:
        """Return the pairs that the model names, with score 1 for each predicate.

        Raises ``ExtractionError`` for a reply that cannot be used, and what the model's calls
        raise.
        """
        if len(things) < 2:
            return ()
        try:
            scene = await self.parser.parse(image, [one.detection for one in things])
        except (ReplyError, SceneError) as error:
            raise ExtractionError(str(error)) from error
        # The parser numbers the detections by class in order: things may be named otherwise.
        ids = {item.id: one.id for item, one in zip(scene.objects, things, strict=True)}
        found: dict[tuple[str, str], dict[str, float]] = {}
        for relation in scene.relations:
            ends = (ids[relation.source], ids[relation.target])
            found.setdefault(ends, {})[relation.predicate] = 1.0
        return tuple(
            PairScores(source, target, 0.0, predicates)
            for (source, target), predicates in found.items()
        )


@dataclass(frozen=True)
class ChatVerifier(PictureChat):
    """Implements :class:`~scenewright.core.ports.vision.RelationVerifier`.

    The model sees the picture with the subject in a red and the object in a blue box, one
    candidate a call.
    """

    concurrent: int = 8
    """Most calls under way at once."""

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompt and the preparation of images."""
        return f"chat verifier@1 {self.digest(load_prompt(VERIFY_PROMPT).hash)}"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        """One verification a candidate, in order; a call that fails is one without an answer."""
        prompt = load_prompt(VERIFY_PROMPT)

        async def verify_one(candidate: Candidate) -> Verification:
            relation = candidate.relation
            try:
                ends = [things[one].detection for one in (relation.source, relation.target)]
                view = await asyncio.to_thread(marked_pair, image, *ends)
                text = prompt.render(
                    subject=as_data(ends[0].name),
                    predicate=as_data(relation.predicate),
                    object=as_data(ends[1].name),
                )
                return Verification(await self.ask(prompt, text, [view], read_answer))
            except Exception as error:
                # A call that fails costs its candidate, not the others.
                return Verification(None, reason=error_text(error), failed=True)

        return tuple(await map_bounded(verify_one, candidates, self.concurrent))


def read_answer(data: Mapping[str, Any]) -> bool:
    """Return whether ``{"answer": "Yes"}`` says yes; ``ValueError`` for anything but yes and no."""
    given = data.get("answer")
    word = given.strip(" .").casefold() if isinstance(given, str) else given
    if word in ("yes", True):
        return True
    if word in ("no", False):
        return False
    raise ValueError("answer: write 'Yes' or 'No'")
