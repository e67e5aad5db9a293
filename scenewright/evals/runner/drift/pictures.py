"""The sentinel pictures that ship: blurred paintings, each with questions whose answers are known.

They are hard on purpose: judges differ most where they are least sure, and a question that every
model answers alike tells nothing of which one it was. ``benchmarks/_sentinels.py`` paints and
chooses them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.images import load_image

FOLDER = Path(__file__).parent / "pictures"
QUESTIONS = "questions.json"


@dataclass(frozen=True, slots=True, eq=False)
class SentinelPicture:
    """A picture and what is asked about it, in one request where the judge can."""

    image: Image.Image
    """RGB."""
    facts: tuple[Fact, ...]
    """The questions; their ids are their own among all sentinel pictures."""
    holds: tuple[bool, ...]
    """The truth of each."""

    def copy(self, number: int) -> Image.Image:
        """Return the picture with one pixel of its edge inverted, another one for each ``number``.

        To a gateway or provider that repeats its answer to a known request it is a new picture.
        """
        found = self.image.copy()
        width, height = found.size
        edge = [(x, y) for y in (0, height - 1) for x in range(width)]
        edge += [(x, y) for x in (0, width - 1) for y in range(1, height - 1)]
        # The second time round in pairs, so that copies stay different.
        for at in {number % len(edge), number // len(edge) + number % len(edge)}:
            place = edge[at % len(edge)]
            red, green, blue = found.getpixel(place)  # type: ignore[misc]
            found.putpixel(place, (255 - red, 255 - green, 255 - blue))
        return found


@cache
def digest_of_pictures() -> str:
    """Return the digest of the pictures that ship and of their questions."""
    files = sorted(FOLDER.iterdir())
    parts = [f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def sentinel_pictures() -> tuple[SentinelPicture, ...]:
    """Return the pictures that ship, always in the same order."""
    table = json.loads((FOLDER / QUESTIONS).read_text(encoding="utf-8"))
    return tuple(
        SentinelPicture(
            image=load_image(FOLDER / row["file"]),
            facts=tuple(Fact.model_validate(one["fact"]) for one in row["questions"]),
            holds=tuple(one["holds"] for one in row["questions"]),
        )
        for row in table
    )
