"""Object-centric realism as a metric: how real the largest objects of a picture look, 1 to 5.

Liang et al., Sec. 3: a detector finds objects, a scorer gives each a shape and a texture score,
whose mean is its OcR, and the mean over the five largest objects is the score of the picture. Each
object is scored once; a retry asks only for what failed::

    <folder>/<fingerprint of the scorer>/<hash of the picture>.json

A file holds the scores of a picture's objects by place. It is written whole or not at all, and a
damaged one is made anew. Objects without a score, or with a reason why one is missing, are not
kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from scenewright.config.settings import Settings
from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import Detection, ObjectRealism, RealismError, RealismScorer
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    cache_folder,
    is_plugin,
    plugin_of,
    short_print,
    spent_on,
    text,
    whole,
)
from scenewright.evals.store.pictures import PictureValues
from scenewright.tools.vision.detection.masks import data_of_detection

if TYPE_CHECKING:
    from scenewright.core.ports.vision import Detector, RealismScorer

_Scores = dict[str, ObjectRealism]


class CachedScorer:
    """Realism scorer with a cache over another one, which it does not own.

    Implements :class:`~scenewright.core.ports.vision.RealismScorer`.
    """

    def __init__(self, scorer: RealismScorer, folder: str | Path | None = None) -> None:
        """Keep the scores of a scorer in ``folder`` for other processes, or in memory only."""
        self.scorer = scorer
        name = hashlib.sha256(scorer.fingerprint.encode()).hexdigest()[:32]
        self._files: PictureValues[_Scores] = PictureValues(
            None if folder is None else Path(folder) / name,
            lambda kept: {key: ObjectRealism(**one) for key, one in kept["objects"].items()},
            what="the scores of objects",
            wrong=RealismError,
        )

    @property
    def folder(self) -> Path | None:
        """Folder of this scorer's scores; made with the first one."""
        return self._files.folder

    @property
    def id(self) -> str:
        """Id of the other scorer."""
        return self.scorer.id

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the other scorer."""
        return self.scorer.fingerprint

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """Return the scores of objects; known ones are not asked for again.

        Raises ``RealismError`` as well if the scores cannot be written.
        """
        picture = await asyncio.to_thread(hash_of_image, image)
        keys = await asyncio.to_thread(lambda: [_key(item) for item in objects])
        async with self._files.lock(picture):
            known = await self._files.get(picture) or {}
            asked = {key: item for key, item in zip(keys, objects, strict=True) if key not in known}
            fresh: _Scores = {}
            data = None
            if asked:
                said = await self.scorer.score(image, list(asked.values()))
                fresh = dict(zip(asked, said, strict=True))
                whole = {key: one for key, one in fresh.items() if one.known and not one.reason}
                known = {**known, **whole}
                if whole:
                    data = {"objects": {key: asdict(one) for key, one in known.items()}}
            await self._files.put(picture, known, data)
            return [known.get(key) or fresh[key] for key in keys]

    async def aclose(self) -> None:
        """Clear the memory."""
        self._files.clear()


def _key(item: Detection) -> str:
    """Return the key of an object of a picture: its class and place."""
    data = {name: value for name, value in data_of_detection(item).items() if name != "score"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


OF_SCENE = "scene"
"""As ``labels``: the classes of the item's scene."""
FOLDER = "objects"
"""Below the cache: the scores of objects."""
_VERSION = 1
"""Increased when the same picture would get another score."""


class OcrMetric:
    """Object-centric realism of a picture.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name = "ocr"
    higher_is_better = True

    def __init__(
        self,
        scorer: RealismScorer,
        detector: Detector,
        *,
        most: int = 5,
        labels: tuple[str, ...] = (),
        of_scene: bool = False,
    ) -> None:
        """Score objects that ``detector`` finds.

        Args:
            scorer: scores the realism of objects.
            detector: finds objects.
            most: number of the largest objects that count.
            labels: classes to look for; empty: all that the detector knows.
            of_scene: look for the classes of the item's scene.

        Raises:
            MetricError: a number is out of range.
        """
        self._scorer = scorer
        self._detector = detector
        self._most = whole("most", most, 1)
        self._labels = labels
        self._of_scene = of_scene

    @cached_property
    def version(self) -> str:
        """Number, fingerprints of scorer and detector, and classes to look for."""
        labels = OF_SCENE if self._of_scene else ",".join(self._labels)
        return (
            f"{_VERSION}:{short_print(self._scorer.fingerprint)}:{short_print(self._detector.fingerprint)}"
            f":most={self._most}:labels={labels}"
        )

    @property
    def needs(self) -> frozenset[Need]:
        """The picture, and its scene if that names the labels."""
        return frozenset({"image", "scene"} if self._of_scene else {"image"})

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score.

        Parts: ``shape``, ``texture`` and ``joint`` (the same means), ``objects`` (how many were
        scored), ``lost`` (how many could not be), ``detected`` (with what was left out as too
        small, too unsure, or without instances), and ``unknown`` (labels that the detector has no
        class for, if there are any).

        Tokens and dollars are those of all objects. Unscored with the reason where nothing was
        detected, none of the largest was scored, or the detector knows none of the labels. Where
        some were, it is their mean, and ``unscored`` counts the others of the largest.
        """
        from scenewright.core.ports.vision import DetectionError, RealismError
        from scenewright.tools.vision.detection.labels import unknown_labels
        from scenewright.tools.vision.realism.pictures import picture_realism

        labels = self._labels
        if self._of_scene:
            scene = sample.item.scene
            if scene is None:
                return MetricScore(value=None, reason="the item has no scene that names objects")
            labels = tuple(dict.fromkeys(item.name for item in scene.objects))
        unknown = unknown_labels(self._detector, labels)
        if labels and len(unknown) == len(set(labels)):
            return MetricScore(value=None, reason=next(iter(unknown.values())))
        labels = tuple(label for label in labels if label not in unknown)
        picture = await asyncio.to_thread(sample.load)
        try:
            found = await picture_realism(
                picture, self._detector, self._scorer, labels=labels, most=self._most
            )
        except (DetectionError, RealismError) as error:
            return MetricScore(value=None, reason=str(error))
        scored = sum(one.average is not None for _, one in found.objects)
        parts = {
            "shape": found.shape,
            "texture": found.texture,
            "joint": found.joint,
            "objects": float(scored),
            "lost": float(len(found.objects) - scored),
            "detected": float(found.found),
            **({"unknown": float(len(unknown))} if unknown else {}),
        }
        largest = [one for _, one in found.objects[: self._most]]
        lost = [one.reason for one in largest if one.average is None]
        reason = found.reason
        if lost and not reason:
            why = next(filter(None, lost), "no shape and texture scores")
            reason = f"{len(lost)} of {len(largest)} objects could not be scored: {why}"
        took = spent_on(one for _, one in found.objects)
        return MetricScore(value=found.ocr, parts=parts, reason=reason, unscored=len(lost), **took)


def make(
    settings: Settings | None,
    scorer: Any = None,
    detector: Any = None,
    most: Any = 5,
    labels: Any = "",
    folder: Any = None,
) -> OcrMetric:
    """Return the metric of the registry.

    ``folder`` keeps the scores of objects, so that a retry asks for those that failed alone. Raises
    ``MetricError`` if scorer or detector are not named, or not on this machine.
    """
    for name, value in (("scorer", scorer), ("detector", detector)):
        if value is None:
            raise MetricError(
                f"ocr needs a {name}: name both in its options, for example "
                '{ name = "ocr", options = { scorer = "olip:miniature/olip-b", '
                'detector = "miniature" } }'
            )
    from scenewright.runs.model_factory.local_models import cached_detector_of

    named = tuple(part.strip() for part in text("labels", labels).split(",") if part.strip())
    of_scene = named == (OF_SCENE,)
    return OcrMetric(
        CachedScorer(_scorer(text("scorer", scorer), settings), cache_folder(folder, FOLDER)),
        cached_detector_of(text("detector", detector)),
        most=most,
        labels=() if of_scene else named,
        of_scene=of_scene,
    )


def _scorer(name: str, settings: Settings | None) -> RealismScorer:
    from scenewright.runs.model_factory.realism_scorers import KINDS, scorer_of

    if is_plugin(name) and name.partition(":")[0] not in KINDS:
        what = "is not a scorer of realism: it needs id, fingerprint, score and aclose"
        own: RealismScorer = plugin_of(name, RealismScorer, what, settings)
        return own
    made = scorer_of(name, settings)
    # Asked for now, so that a model that is not there is told before the work begins.
    _ = made.fingerprint
    return made
