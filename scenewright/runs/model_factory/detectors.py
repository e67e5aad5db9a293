"""From a spec to its detector: ``miniature``, ``json:FILE``, ``transformers:MODEL``.

Models of transformers are shared by the process, as judges are; nothing is downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.core.ports.detector import DetectionError, Detector
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS, SHARED
from scenewright.tools.vision.detection.caching import CachedDetector

if TYPE_CHECKING:
    from scenewright.tools.vision.detection.local import LocalDetector

KINDS = ("miniature", "json", "transformers")
MINIATURE = "miniature"
SEGMENTER = MINIATURE_WEIGHTS / "segmenter"
"""The miniature's model of semantic segmentation."""
ZERO_SHOT = ("grounding-dino", "mm-grounding-dino", "owlvit", "owlv2", "omdet-turbo")
"""Values of ``model_type`` whose object detection takes the labels in words."""
_HEADS = (
    ("ForUniversalSegmentation", "panoptic"),
    ("ForInstanceSegmentation", "panoptic"),
    ("ForSegmentation", "panoptic"),
    ("ForSemanticSegmentation", "semantic"),
    ("ForObjectDetection", "boxes"),
)


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """What a spec leaves open; None is the detector's own default."""

    threshold: float | None = None
    """Least score of a detection, in [0, 1)."""
    device: str = "auto"
    """Where a model computes: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    max_side: int | None = None
    """Longest side in pixels that a model is shown; larger pictures are scaled down."""
    images: Path | None = None
    """Of ``json:FILE``: the folder that its file names are relative to."""
    stuff: tuple[str, ...] | None = None
    """Of segmentation: labels of the classes without instances, as the model writes them."""


def detector_of(spec: str, settings: DetectorSettings | None = None) -> Detector:
    """The detector of ``spec``.

    ``miniature`` finds the things of the miniature world, ``json:FILE`` gives recorded detections,
    ``transformers:FOLDER`` or ``transformers:OWNER/NAME`` is any model of object detection or
    segmentation, by what its configuration says that it is. Raises ``DetectionError`` for another
    spec, a model that is not on this machine or is none of these, and a file that cannot be read.
    """
    settings = settings or DetectorSettings()
    kind, _, model = spec.partition(":")
    if kind == MINIATURE and not model:
        return _shared(spec, settings, lambda: _miniature(settings))
    if kind == "json" and model:
        from scenewright.tools.vision.detection.recorded import RecordedDetector

        return RecordedDetector(model, threshold=settings.threshold or 0.0, images=settings.images)
    if kind == "transformers" and model:
        return _shared(spec, settings, lambda: _transformers(model, settings))
    raise DetectionError(
        f"{spec!r} is no detector: write miniature, json:FILE, or transformers:MODEL with a folder "
        "or a hub repository OWNER/NAME"
    )


def cached_detector_of(spec: str, settings: DetectorSettings | None = None) -> Detector:
    """The detector of ``spec`` that looks at a picture once for all who ask in this process;
    raises as :func:`detector_of`."""
    settings = settings or DetectorSettings()
    return SHARED.get(
        f"kept detector {spec} {settings}", lambda: CachedDetector(detector_of(spec, settings))
    )


def head_of(config: Mapping[str, Any]) -> str:
    """What a model does by its ``config.json``: ``panoptic``, ``semantic``, ``boxes``, or
    ``words`` where the labels are given in words; ``DetectionError`` for anything else."""
    names = [str(name) for name in config.get("architectures") or ()]
    for name in names:
        for ending, head in _HEADS:
            if name.endswith(ending):
                return (
                    "words" if head == "boxes" and config.get("model_type") in ZERO_SHOT else head
                )
    raise DetectionError(
        f"a model of class {', '.join(names) or 'unknown'} finds no things: use one for object "
        "detection, or for semantic, instance or panoptic segmentation"
    )


def _shared(spec: str, settings: DetectorSettings, make: Callable[[], LocalDetector]) -> Detector:
    return SHARED.get(f"detector {spec} {settings}", make)


def _miniature(settings: DetectorSettings) -> LocalDetector:
    if not (SEGMENTER / "config.json").is_file():
        raise DetectionError(
            f"the miniature's segmenter is not in {SEGMENTER}: train it with "
            "`scenewright miniature train segmenter`, or install the package anew"
        )
    from scenewright.tools.vision.detection.semantic import SemanticDetector

    return SemanticDetector(SEGMENTER, name="miniature/segmenter", **_given(settings, stuff=True))


def _transformers(model: str, settings: DetectorSettings) -> LocalDetector:
    from scenewright.tools.vision.detection.closed_set import ClosedSetDetector
    from scenewright.tools.vision.detection.local import folder_of
    from scenewright.tools.vision.detection.open_vocabulary import OpenVocabularyDetector
    from scenewright.tools.vision.detection.panoptic import PanopticDetector
    from scenewright.tools.vision.detection.semantic import SemanticDetector

    folder = folder_of(model)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        head = head_of(config)
    except (OSError, ValueError, AttributeError) as error:
        raise DetectionError(f"{folder}/config.json cannot be read: {error}") from error
    except DetectionError as error:
        raise DetectionError(f"{model}: {error}") from None
    given: dict[str, Any] = {"name": model, **_given(settings)}
    match head:
        case "words":
            return OpenVocabularyDetector(folder, kind=config["model_type"], **given)
        case "boxes":
            return ClosedSetDetector(folder, **given)
        case "semantic":
            return SemanticDetector(folder, **given, **_stuff(settings))
    return PanopticDetector(folder, **given, **_stuff(settings))


def _given(settings: DetectorSettings, *, stuff: bool = False) -> dict[str, Any]:
    chosen = {"threshold": settings.threshold, "max_side": settings.max_side}
    found: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    return {"device": settings.device, **found, **(_stuff(settings) if stuff else {})}


def _stuff(settings: DetectorSettings) -> dict[str, Any]:
    return {} if settings.stuff is None else {"stuff": settings.stuff}
