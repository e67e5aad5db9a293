"""The realism of a picture by its objects: detected, filtered, scored, averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL import Image

from scenewright.core.ports.detector import Detection, Detector
from scenewright.core.ports.realism_scorer import ObjectRealism, RealismScorer
from scenewright.tools.vision.realism.objects import SALIENT, image_realism, scored_objects


@dataclass(frozen=True, slots=True)
class PictureRealism:
    """How real the objects of one picture look, and what they say of all of it."""

    objects: tuple[tuple[Detection, ObjectRealism], ...]
    """What was scored, largest first."""
    found: int
    """What was detected, with what was left out: too small, too unsure, or without instances."""
    most: int = SALIENT
    """So many of the largest objects speak for the picture."""

    @property
    def ocr(self) -> float | None:
        """Mean OcR of the largest objects, from 1 to 5; none if none of these was scored
        (Liang et al., Sec. 3.3.3)."""
        return self._mean(lambda one: one.average)

    @property
    def shape(self) -> float | None:
        """The same of shape."""
        return self._mean(lambda one: one.shape)

    @property
    def texture(self) -> float | None:
        """The same of texture."""
        return self._mean(lambda one: one.texture)

    @property
    def joint(self) -> float | None:
        """The same of both, asked or regressed at once; none where the scorer does not tell."""
        return self._mean(lambda one: one.joint)

    @property
    def reason(self) -> str:
        """Why there is no :attr:`ocr`; empty if there is one."""
        if self.ocr is not None:
            return ""
        if self.objects:
            said = [one.reason for _, one in self.objects[: self.most] if one.reason]
            return said[0] if said else "the scorer gave no shape and texture scores"
        if self.found:
            return (
                f"none of {self.found} detections counts: they are below 1 % of the picture, "
                "unsure, or regions without instances"
            )
        return "no object was detected"

    def _mean(self, of: Callable[[ObjectRealism], float | None]) -> float | None:
        return image_realism([(item, of(one)) for item, one in self.objects], self.most)


async def picture_realism(
    image: Image.Image,
    detector: Detector,
    scorer: RealismScorer,
    *,
    labels: Sequence[str] = (),
    most: int = SALIENT,
) -> PictureRealism:
    """The realism of ``image`` by the objects that ``detector`` finds.

    Each object that counts is scored
    (:func:`~scenewright.tools.vision.realism.objects.scored_objects`). ``labels``: classes that are
    looked for, all that the detector knows if there are none. Raises ``DetectionError``,
    ``RealismError`` and ``ImageError`` as the two ports say.
    """
    found = await detector.detect(image, labels)
    objects = scored_objects(found, image.size)
    scores = await scorer.score(image, objects) if objects else []
    return PictureRealism(tuple(zip(objects, scores, strict=True)), len(found), most)
