"""Infotexts: how a picture came about, in AUTOMATIC1111's form, written and read.

Also what ``png-info`` tells of a picture.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress

from PIL import Image

from scenewright.core.images import FORMATS
from scenewright.service.compat.automatic1111.bodies import PictureInfo
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.pictures import picture_in
from scenewright.service.core.settings import ServiceSettings

KEY = "parameters"
"""Key of the infotext in a PNG file."""
_NEGATIVE = "Negative prompt:"
_PAIR = re.compile(r'\s*([\w][\w \-/]*):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
_LEAST_PAIRS = 3
"""AUTOMATIC1111 takes a last line with fewer for a part of the prompt."""
_SIZE = re.compile(r"(\d+)x(\d+)")
_DATA = re.compile(r"data:[\w.+/-]*(?:;[\w=.-]+)*;base64,", re.ASCII)
_MOST_ITEMS, _MOST_TEXT = 50, 20_000


def written(prompt: str, negative_prompt: str, told: Mapping[str, object]) -> str:
    """Return an infotext: the prompts, and a line of what is ``told``; none of it is left out."""
    lines = [prompt]
    if negative_prompt:
        lines.append(f"{_NEGATIVE} {negative_prompt}")
    texts = {name: str(value) for name, value in told.items() if value is not None}
    for name, text in texts.items():
        if not text or any(mark in text for mark in ",:\n"):
            texts[name] = json.dumps(text)
    return "\n".join([*lines, ", ".join(f"{name}: {text}" for name, text in texts.items())])


def parameters_of(text: str) -> dict[str, str]:
    """Return an infotext taken apart; sizes also as ``NAME-1`` and ``NAME-2``."""
    *lines, last = text.strip().split("\n")
    pairs = _PAIR.findall(last)
    if len(pairs) < _LEAST_PAIRS:
        lines, pairs = [*lines, last], []
    prompt: list[str] = []
    negative: list[str] = []
    into = prompt
    for line in lines:
        bare = line.strip()
        if bare.startswith(_NEGATIVE):
            into, bare = negative, bare.removeprefix(_NEGATIVE).strip()
        into.append(bare)
    found = {"Prompt": "\n".join(prompt), "Negative prompt": "\n".join(negative)}
    for name, value in pairs:
        plain = value.strip()
        if value.startswith('"'):
            plain = value
            with suppress(ValueError):
                plain = str(json.loads(value))
        size = _SIZE.fullmatch(plain)
        if size is not None:
            found |= {f"{name}-1": size[1], f"{name}-2": size[2]}
        else:
            found[name] = plain
    return found


async def info_of(given: str, settings: ServiceSettings) -> PictureInfo:
    """Return what the file of a picture, in base64, says of itself.

    Raises ``Unprocessable`` or ``TooLarge`` for what is no picture within the limits.
    """
    text = given.strip()
    begins = _DATA.match(text)
    try:
        data = base64.b64decode(text[begins.end() :] if begins else text, validate=True)
    except (binascii.Error, ValueError):
        raise Unprocessable("image is not valid base64: send the file itself in base64") from None
    # All limits are checked there; only then are the texts in the file looked at.
    await picture_in(data, settings)

    def read() -> dict[str, str]:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            # A PNG may have texts behind its pixels.
            image.load()
            found = {str(key): text for key, text in image.info.items() if isinstance(text, str)}
        kept = sorted(found.items(), key=lambda item: item[0] != KEY)[:_MOST_ITEMS]
        return {name[:200]: value[:_MOST_TEXT] for name, value in kept}

    texts = await asyncio.to_thread(read)
    info = texts.pop(KEY, "")
    return PictureInfo(info=info, items=texts, parameters=parameters_of(info) if info else {})
