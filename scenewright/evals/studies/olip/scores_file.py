"""File of the scores of pictures: one JSON line each, appended as they come.

The same command reads it again and scores only what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from scenewright.core.images import ImageError
from scenewright.core.ports.vision import Box, Detection, Detector, ObjectRealism, RealismScorer
from scenewright.core.validation import first_problem
from scenewright.evals.store.json_lines import append_lines
from scenewright.tools.vision.realism.pictures import PictureRealism

STANDARD_OUTPUT = Path("-")
_BEGINNING = '{"image":'


class ScoredObject(BaseModel):
    """One object in the record of its picture; scores from 1 to 5, null where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    """Its class."""
    box: Box
    """Left, top, right, bottom in pixels."""
    confidence: float
    """Of its detection."""
    shape: float | None
    """Realism of its shape."""
    texture: float | None
    """Realism of its texture."""
    joint: float | None
    """Of both at once."""
    ocr: float | None
    """Mean of shape and texture."""
    reason: str
    """Why a score is missing."""
    tokens_in: int
    """Input tokens that it took."""
    tokens_out: int
    """Output tokens, likewise."""
    usd: float
    """US dollars, likewise."""
    seconds: float
    """Wall time, likewise."""


class ScoredPicture(BaseModel):
    """A line of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str
    """The picture's file."""
    hash: str
    """Its content."""
    size: tuple[int, int]
    """Width and height in pixels."""
    ocr: float | None
    """Realism of the picture: mean OcR of its largest objects."""
    shape: float | None
    """The same mean of shape."""
    texture: float | None
    """The same mean of texture."""
    joint: float | None
    """The same mean of both at once."""
    reason: str
    """Why there is no ``ocr``."""
    most: int
    """So many of the largest objects count."""
    detected: int
    """How many were detected, with those that were left out."""
    objects: tuple[ScoredObject, ...]
    """Those that were scored, largest first."""
    scorer: str
    """Who scored."""
    detector: str
    """What found them."""
    made_by: str
    """Digest of both models and of the labels that were looked for."""


@dataclass
class ScoresFile:
    """Known scores of pictures, and the file for new ones."""

    place: Path | None
    """The file, ``-`` for standard output, or None."""
    scorer: str
    """Id of who scores."""
    detector: str
    """Id of what finds objects."""
    made_by: str
    """As in :class:`ScoredPicture`."""
    _known: dict[str, ScoredPicture] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        place: Path | None,
        scorer: RealismScorer,
        detector: Detector,
        labels: Sequence[str] = (),
    ) -> ScoresFile:
        """Return the file with its scores of these models.

        Lines of other models stay as they are; an incomplete last line is left out. Raises
        ``ImageError`` if it cannot be read or written, or holds anything else.
        """
        parts = [scorer.fingerprint, detector.fingerprint, sorted(set(labels))]
        made_by = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        found = cls(place, scorer.id, detector.id, made_by)
        if place is None or found.is_output:
            return found
        try:
            text = place.read_text(encoding="utf-8") if place.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise ImageError(f"{place} cannot be read: {why}; name another file") from error
        *lines, torn = text.split("\n")
        for number, line in enumerate(lines, start=1):
            try:
                one = ScoredPicture.model_validate_json(line)
            except ValidationError as error:
                raise ImageError(
                    f"{place}, line {number}, is not a score of this command "
                    f"({first_problem(error)}): name another file"
                ) from error
            if one.made_by == made_by:
                found._known[one.hash] = one
        # A line that a kill cut off is removed with the next one that is written.
        if torn and not torn.startswith(_BEGINNING):
            raise ImageError(f"{place} is not a file of scores of this command: name another file")
        return found

    @property
    def is_output(self) -> bool:
        """Return whether scores go to standard output."""
        return self.place == STANDARD_OUTPUT

    def known(self, image_hash: str, most: int) -> PictureRealism | None:
        """Return the scores of the picture with this content, or None.

        None also if scores are missing that another try may give.
        """
        kept = self._known.get(image_hash)
        if kept is None or kept.most != most or any(one.ocr is None for one in kept.objects):
            return None
        objects = tuple(
            (
                Detection(one.name, one.box, one.confidence),
                ObjectRealism(one.shape, one.texture, one.joint, one.reason),
            )
            for one in kept.objects
        )
        return PictureRealism(objects, kept.detected, most)

    def add(
        self, path: Path, size: tuple[int, int], image_hash: str, found: PictureRealism
    ) -> None:
        """Write the scores of a picture; ``ImageError`` if that fails."""
        one = ScoredPicture(
            image=str(path),
            hash=image_hash,
            size=size,
            **{name: _rounded(getattr(found, name)) for name in _MEANS},
            reason=found.reason,
            most=found.most,
            detected=found.found,
            objects=tuple(_object(item, scores) for item, scores in found.objects),
            scorer=self.scorer,
            detector=self.detector,
            made_by=self.made_by,
        )
        line = one.model_dump_json()
        if self.is_output:
            print(line, flush=True)
        elif self.place is not None:
            try:
                append_lines(self.place, [line])
            except OSError as error:
                raise ImageError(
                    f"{self.place} cannot be written: {error.strerror or error}; what was scored "
                    "so far is in it"
                ) from error
            self._known[image_hash] = one


_MEANS = ("ocr", "shape", "texture", "joint")


def _object(item: Detection, scores: ObjectRealism) -> ScoredObject:
    left, top, right, bottom = (round(float(value), 2) for value in item.box)
    return ScoredObject(
        name=item.name,
        box=(left, top, right, bottom),
        confidence=round(float(item.score), 4),
        shape=_rounded(scores.shape),
        texture=_rounded(scores.texture),
        joint=_rounded(scores.joint),
        ocr=_rounded(scores.average),
        reason=scores.reason,
        tokens_in=scores.tokens_in,
        tokens_out=scores.tokens_out,
        usd=scores.usd,
        seconds=round(scores.seconds, 4),
    )


def _rounded(value: float | None) -> Any:
    return None if value is None else round(value, 4)
