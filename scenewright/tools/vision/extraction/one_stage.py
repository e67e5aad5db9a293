"""The one-stage extractor: a reader of pictures gives the whole graph at once.

The reader is a multimodal language model (Scene-Bench, Algorithm 1), or judges with a vocabulary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from PIL import Image

from scenewright.agents.chat.language_replies import ReplyError, as_data
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.parsers.language import read_graph, read_relations
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.error_text import error_text
from scenewright.core.formats.base import numbered
from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import (
    Detection,
    Extraction,
    ExtractionError,
)
from scenewright.core.scene import SceneError, SceneGraph, SceneObject
from scenewright.prompts import load_prompt
from scenewright.tools.digests import short_digest
from scenewright.tools.vision.extraction.judged_parser import SURE, JudgedPictureParser
from scenewright.tools.vision.extraction.panel_questions import (
    ExtractionPanel,
)
from scenewright.tools.vision.extraction.world import World
from scenewright.tools.vision.picture_chat import PictureChat

IMAGE_PROMPT = "parse_image"
BOXES_PROMPT = "parse_image_boxes"
SAMPLING: dict[str, float] = {"temperature": 0.7, "top_p": 0.95}
"""Sampling of Algorithm 1. Its top_k of 64 is the default of the model family that it names, and
OpenAI takes none: it is not sent."""


def sampling_of(caps: ModelCaps) -> dict[str, float]:
    """Return the sampling settings for a model of ``caps``.

    Algorithm 1's values if it accepts a temperature, else its defaults.
    """
    sent = {str(name): value for name, value in caps.sampling.items()}
    return {**sent, **SAMPLING} if "temperature" in sent else sent


@dataclass(frozen=True)
class PictureParser(PictureChat):
    """Reads images with a multimodal language model that calls a tool with the graph."""

    @cached_property
    def fingerprint(self) -> str:
        """Model and its settings, prompts and the preparation of images."""
        prompts = [load_prompt(name).hash for name in (IMAGE_PROMPT, BOXES_PROMPT)]
        return f"llm image@1 {self.digest(*prompts)}"

    async def parse(self, image: Image.Image, detections: Sequence[Detection] = ()) -> SceneGraph:
        """Return the scene graph of ``image``; of ``detections``, if given, the relations alone.

        Raises ``SceneError`` for a detection that lies outside of the image, ``ImageError`` for an
        image that cannot be sent, ``ReplyError`` where the model gives no graph, and what the
        model's calls raise.
        """
        read: Callable[[Mapping[str, Any]], SceneGraph]
        size = f"({image.width}, {image.height})"
        if detections:
            objects = tuple(
                SceneObject(id=id_, name=found.name)
                for id_, found in zip(numbered(d.name for d in detections), detections, strict=True)
            )
            boxes = [
                f"{item.id}:{_box(found, image.size)}"
                for item, found in zip(objects, detections, strict=True)
            ]
            prompt = load_prompt(BOXES_PROMPT)
            text = prompt.render(objects=as_data(boxes), size=size)
            read = partial(read_relations, objects=objects)
        else:
            prompt = load_prompt(IMAGE_PROMPT)
            text = prompt.render(size=size)
            read = read_graph
        return await self.ask(prompt, text, [image], read)


def _box(found: Detection, size: tuple[int, int]) -> list[int]:
    left, top, right, bottom = found.box
    if not (0 <= left < right <= size[0] and 0 <= top < bottom <= size[1]):
        raise SceneError(
            f"the box {found.box} of {found.name!r} is not inside an image of {size[0]}×{size[1]}: "
            "write (xmin, ymin, xmax, ymax) in pixels"
        )
    return [round(value) for value in found.box]


@dataclass(frozen=True)
class OneStageExtractor:
    """Implements :class:`~scenewright.core.ports.vision.GraphExtractor`.

    It knows no places and gives no confidences, for its readers give none.
    """

    read: Callable[[Image.Image], Awaitable[Extraction]]
    """Reads whole graphs: a language model, or judges with a vocabulary."""
    fingerprint: str
    """The reader's."""
    id: str = "one-stage"
    """Name in tables."""
    vocabulary: ClosedVocabulary | None = None
    """The words of its graphs, where it is asked for a list of them."""
    judges: tuple[Judge, ...] = ()
    """The judges that read, where judges do."""

    @classmethod
    def by_chat(cls, parser: PictureParser) -> OneStageExtractor:
        """By a multimodal language model (Scene-Bench, Algorithm 1)."""

        async def read(image: Image.Image) -> Extraction:
            return Extraction(await parser.parse(image))

        return cls(read, f"one-stage@1 {parser.fingerprint}")

    @classmethod
    def by_judges(cls, bench: ExtractionPanel, world: World, most: int = 2) -> OneStageExtractor:
        """By judges that are asked every word of ``world``.

        ``most``: things of one kind that are told apart.
        """
        parser = JudgedPictureParser(bench.judges, world, bench.panel, most)
        digest = short_digest(bench.fingerprint, world.model_dump(mode="json"), most, SURE)
        words = ClosedVocabulary(world.kinds, dict(world.attributes), world.predicates)
        return cls(
            parser.read,
            f"one-stage@2 judged#{digest}",
            vocabulary=words,
            judges=tuple(bench.judges),
        )

    async def extract(self, image: Image.Image) -> Extraction:
        """Return the graph of ``image``.

        Raises ``ExtractionError`` where the reader gives none, and ``ImageError`` for an image that
        cannot be read.
        """
        picture = await asyncio.to_thread(to_rgb, image)
        try:
            return await self.read(picture)
        except (ImageError, ExtractionError):
            raise
        except (ReplyError, SceneError) as error:
            raise ExtractionError(str(error)) from error
        except Exception as error:
            raise ExtractionError(f"no graph: {error_text(error)}") from error

    async def aclose(self) -> None:
        """Nothing: judges and language models are shared with others."""
        return
