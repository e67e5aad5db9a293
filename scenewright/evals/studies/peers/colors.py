"""What colour a detected thing has: by an encoder of pictures and texts, or by a judge.

GenEval classifies the thing alone on grey, cut to its box, with CLIP and three texts a colour
(Ghosh et al., 2023, released code).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
from PIL import Image

from scenewright.config.settings import Settings, SettingsError
from scenewright.core.ports.vision import Detection
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.store.journal import Features

if TYPE_CHECKING:
    from scenewright.evals.metrics.encoders import TextImageEncoder
    from scenewright.tools.vision.extraction.judged_readers import JudgedAttributes

KINDS = ("clip", "judge", "judge-alone")
TEMPLATES = ("a photo of a {color} {name}", "a photo of a {color}-colored {name}",
             "a photo of a {color} object")  # fmt: skip
"""Of the released code; a colour's vector is that of the mean of the three."""
BACKGROUND = (153, 153, 153)
"""What is around the thing: #999."""


class ColorReader(Protocol):
    """Names colours."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a thing could get another colour."""
        ...

    @property
    def palette(self) -> tuple[str, ...] | None:
        """The colours that it tells apart; None: any."""
        ...

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """The colour of each of ``things``, which are of one class; None where none can be told.
        ``every``: all detections of the picture. Raises what its model raises."""
        ...


@dataclass(frozen=True)
class ClipColors:
    """Implements :class:`ColorReader` by zero-shot classification."""

    encoder: TextImageEncoder
    """Of pictures and texts."""
    palette: tuple[str, ...]
    """The colours that there are."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the encoder, the texts and the colours."""
        return _digest("clip", self.encoder.fingerprint, list(TEMPLATES), list(self.palette))

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """The likeliest colour of each thing."""
        if not things:
            return []
        name = things[0].name
        texts = [t.format(color=c, name=name) for c in self.palette for t in TEMPLATES]
        vectors = (await self.encoder.texts(texts)).vectors
        means = vectors.reshape(len(self.palette), len(TEMPLATES), -1).mean(1)
        colors: Features = means / np.linalg.norm(means, axis=1, keepdims=True)
        crops = await asyncio.to_thread(lambda: [alone(image, thing) for thing in things])
        likeness = await self.encoder.images(crops) @ colors.T
        return [self.palette[int(at)] for at in likeness.argmax(1)]


@dataclass(frozen=True)
class JudgedColors:
    """Implements :class:`ColorReader` by a judge, who is asked for each colour."""

    reader: JudgedAttributes
    """Asks; its values are those of the key ``color``."""

    @property
    def fingerprint(self) -> str:
        """Of who asks."""
        return self.reader.fingerprint

    @property
    def palette(self) -> tuple[str, ...]:
        """The values that the judge is asked for."""
        return tuple(self.reader.values["color"])

    async def read(
        self, image: Image.Image, things: Sequence[Detection], every: Sequence[Detection]
    ) -> list[str | None]:
        """The likeliest colour of each thing. Raises ``ExtractionError`` if the judge's
        answers do not tell it."""
        from scenewright.core.ports.vision import ExtractionError, ReadAttribute, Thing, Unread

        around = [Thing(str(at), one) for at, one in enumerate(every)]
        found: list[str | None] = []
        for one in things:
            thing = next((t for t in around if t.detection is one), Thing("thing", one))
            read = await self.reader.read(image, thing, ["color"], around)
            lost = next((each for each in read if isinstance(each, Unread)), None)
            if lost is not None:
                raise ExtractionError(lost.reason)
            found += [each.value for each in read if isinstance(each, ReadAttribute)] or [None]
        return found


def alone(image: Image.Image, thing: Detection) -> Image.Image:
    """``thing`` on grey by its mask, where it has one, cut to its box, which holds a pixel."""
    shown = image.convert("RGB")
    if thing.mask is not None:
        sheet = Image.fromarray(thing.mask.astype(np.uint8) * 255)
        shown = Image.composite(shown, Image.new("RGB", shown.size, BACKGROUND), sheet)
    left, top, right, bottom = (int(side) for side in thing.box)
    return shown.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def colors_of(spec: str, palette: Sequence[str], settings: Settings) -> ColorReader:
    """The reader of ``clip:MODEL`` (a folder or ``OWNER/NAME`` of CLIP's kind, or ``miniature``),
    ``judge:ACCOUNT:MODEL``, which is shown the thing alone, or ``judge-alone:ACCOUNT:MODEL``, which
    is shown the picture with other things of the class painted over.

    Raises ``MetricError`` for another, or if a model is not there.
    """
    kind, _, model = spec.partition(":")
    if kind not in KINDS or not model:
        raise MetricError(
            f"colors is {spec!r}: use clip:MODEL, judge:ACCOUNT:MODEL or judge-alone:ACCOUNT:MODEL"
        )
    if kind == "clip":
        from scenewright.evals.metrics.extractors import encoder_of

        return ClipColors(encoder_of("geneval", model, {}), tuple(palette))
    from scenewright.core.ports.judge import JudgeError
    from scenewright.runs.model_factory.profiles import judge_of
    from scenewright.tools.vision.extraction.judged_parser import ExtractionPanel
    from scenewright.tools.vision.extraction.judged_readers import JudgedAttributes

    try:
        judge = judge_of(model, settings)
    except (JudgeError, SettingsError) as error:
        raise MetricError(f"colors: {error}") from error
    # The release takes the likeliest colour, however likely.
    return JudgedColors(
        JudgedAttributes(
            ExtractionPanel([judge]),
            {"color": tuple(palette)},
            "crop" if kind == "judge" else "alone",
            0.0,
        )
    )


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
