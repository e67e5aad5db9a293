"""Scores of relations that something else gave: a function, or a file of a trained model.

A file holds the pairs of one picture, or of several by the SHA-256 of their PNG bytes
(:func:`scenewright.core.images.hash_of_image`)::

    {"pairs": [{"source": "person.1", "target": "ball.1", "none": 0.1,
                "predicates": {"kicking": 0.8}}]}

    {"images": {"9f86d0…": [{"source": …}]}}

Ids number the detections by class in the detector's order, the best score first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.error_text import error_text
from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import ExtractionError, PairScores, Thing
from scenewright.core.user_files import read_user_text
from scenewright.core.validation import first_problem

Scores = Callable[[Image.Image, Sequence[Thing]], Sequence[PairScores]]
"""From a picture and its things to the scores of pairs; a predicate model as one function."""


class PairRow(BaseModel):
    """The scores of one ordered pair in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: str
    """Id of the subject."""
    target: str
    """Id of the object."""
    none: float = Field(default=0.0, ge=0.0, le=1.0)
    """Score of no relation."""
    predicates: dict[str, float]
    """Predicate → its score in [0, 1]."""

    @model_validator(mode="after")
    def _check(self) -> PairRow:
        wrong = {word: v for word, v in self.predicates.items() if not 0.0 <= v <= 1.0}
        if wrong:
            raise ValueError(f"scores must be in [0, 1], not {wrong}")
        return self

    @property
    def scores(self) -> PairScores:
        """The row as scorers return it."""
        return PairScores(self.source, self.target, self.none, self.predicates)


class ScoreFile(BaseModel):
    """A file of scores: ``pairs`` of any picture, or ``images`` by content hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pairs: tuple[PairRow, ...] | None = None
    """Of the one picture that the file is about."""
    images: dict[str, tuple[PairRow, ...]] | None = None
    """SHA-256 (hex) of the picture's PNG bytes → its pairs."""

    @model_validator(mode="after")
    def _check(self) -> ScoreFile:
        if (self.pairs is None) == (self.images is None):
            raise ValueError('write either "pairs" for one picture or "images" for several')
        return self


@dataclass(frozen=True)
class ScoreTable:
    """Implements :class:`~scenewright.core.ports.vision.RelationScorer` by a function."""

    scores: Scores
    """Gives the scores; called in a thread. What it raises is told as an ``ExtractionError``."""
    fingerprint: str
    """Changes whenever a pair could get other scores."""

    @classmethod
    def load(cls, path: Path) -> ScoreTable:
        """Return the scores of a file; ``ExtractionError`` names the entry that cannot be used."""
        data = read_user_text(path, ExtractionError).encode()
        try:
            table = ScoreFile.model_validate_json(data)
        except ValidationError as error:
            problem = first_problem(error, "the file")
            if error.errors()[0]["type"] == "json_invalid":
                raise ExtractionError(
                    f'{path} is not JSON ({problem}): write {{"pairs": [{{"source": "dog.1", '
                    '"target": "ball.1", "none": 0.1, "predicates": {"chasing": 0.8}}]}'
                ) from error
            raise ExtractionError(f"{path}, {problem}") from error
        images = table.images

        def found(image: Image.Image, things: Sequence[Thing]) -> list[PairScores]:
            rows = table.pairs
            if images is not None:
                name = hash_of_image(image)
                rows = images.get(name)
                if rows is None:
                    raise ExtractionError(f"{path} has no scores of the picture {name}: add them")
            return [row.scores for row in rows or ()]

        digest = hashlib.sha256(data).hexdigest()[:12]
        return cls(found, f"score table@1 {path.name}#{digest}")

    async def score(self, image: Image.Image, things: Sequence[Thing]) -> tuple[PairScores, ...]:
        """Return the function's scores; ``ExtractionError`` for scores of absent things."""
        try:
            found = await asyncio.to_thread(self.scores, image, things)
        except ExtractionError:
            raise
        except Exception as error:
            raise ExtractionError(f"no scores: {error_text(error)}") from error
        known = {one.id for one in things}
        for pair in found:
            foreign = {pair.source, pair.target} - known
            if foreign:
                raise ExtractionError(
                    f"the scores name {sorted(foreign)[0]!r}, which was not detected: there are "
                    f"{', '.join(sorted(known)[:12]) or 'no objects'}"
                )
        return tuple(found)
