"""Models on this machine from their names: pipelines, judges, detectors and OLIP scorers.

Models are built once and shared by the process (:data:`SHARED`); nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from scenewright.config.local_images import AdapterSpec
from scenewright.config.profiles import BackendSpec, LocalJudgeSpec, SettingsError, reached_by
from scenewright.config.settings import Settings, load_settings
from scenewright.core.ports.backend import ImageBackend
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.ports.vision import DetectionError, Detector, RealismError, RealismScorer
from scenewright.tools.vision.detection.caching import CachedDetector

if TYPE_CHECKING:
    from scenewright.tools.vision.detection.local import LocalDetector

T = TypeVar("T")

_IMPORTING = threading.Lock()
LIBRARIES = ("torch", "diffusers", "transformers", "accelerate", "peft")
"""Libraries of the extra ``local``, which models on this machine need."""
MINIATURE_WEIGHTS = Path(__file__).parents[2] / "miniature" / "weights"
_MINIATURE = "miniature/"
_MINIATURE_BACKENDS = {"miniature": "generator", "miniature-editor": "editor"}
"""Model of a backend → folder of its weights."""


@contextmanager
def importing() -> Iterator[None]:
    """Import model libraries in one thread at a time: begun in several, they trip over each other.

    Raises ``SettingsError`` where the extra ``local`` is not installed.
    """
    with _IMPORTING:
        try:
            yield
        except ModuleNotFoundError as error:
            if not lacks_local(error):
                raise
            raise SettingsError(NO_LOCAL) from error


NO_LOCAL = (
    "models on this machine need the extra `local`: pip install 'scenewright[local]'; a profile "
    "of an API (as --profile openai) works without"
)


def lacks_local(error: ModuleNotFoundError) -> bool:
    """Return whether a library of the extra ``local`` is what could not be imported."""
    return (error.name or "").partition(".")[0] in LIBRARIES


class Registry:
    """Objects by key, each made once; makers of different keys run side by side."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._objects: dict[str, Any] = {}

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the object of ``key``, made by ``make`` at the first call.

        A failed try is not kept.
        """
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._objects:
                self._objects[key] = make()
            return cast(T, self._objects[key])

    async def aclose(self) -> None:
        """Free every model."""
        with self._guard:
            objects, self._objects = list(self._objects.values()), {}
        await asyncio.gather(*(item.aclose() for item in objects))


SHARED = Registry()
"""The models of this process."""


def make_backend(spec: BackendSpec) -> ImageBackend:
    """Return a new backend of ``spec``; raises ``BackendError`` if its files are not there."""
    # Imported here: a run with a scripted or remote backend must not load torch.
    with importing():
        from scenewright.tools.backends.diffusers import DiffusersBackend
        from scenewright.tools.backends.pipeline import import_pipelines

        import_pipelines()
    options: dict[str, Any] = spec.model_dump(
        include={"device", "dtype", "scheduler", "variant", "offload", "compile", "slicing"}
    )
    options |= {"default_size": spec.size, "cache": spec.cache, "loras": spec.loras}
    options |= {"partial_images": spec.partial_images, "quantization": spec.quantization}
    options |= {"prompt_upsampler": spec.prompt_upsampler, "base_model": spec.base_model}
    if spec.max_references is not None:
        options["max_references"] = spec.max_references
    if spec.model == "miniature":
        adapter = AdapterSpec(repository=str(MINIATURE_WEIGHTS / "ip-adapter"))
        return DiffusersBackend(
            str(backend_folder(spec.model)), name="miniature", ip_adapter=adapter, **options
        )
    if spec.model in _MINIATURE_BACKENDS:
        return DiffusersBackend(str(backend_folder(spec.model)), name=spec.model, **options)
    return DiffusersBackend(spec.model, ip_adapter=spec.adapter, **options)


def shared_local_judge(
    spec: str,
    settings: Settings | None = None,
    detector: str | None = None,
    *,
    make: Callable[[str, LocalJudgeSpec | None], Judge] | None = None,
) -> Judge:
    """Return the local judge ``kind:model``, loaded once per process as the settings say.

    It needs no ``detector``. ``make`` builds it (default: :func:`make_local_judge`).
    """
    how = (settings or load_settings()).local_judges
    model = reached_by(spec)[1]
    return SHARED.get(
        f"judge {spec} {how.model_dump_json()}", lambda: (make or make_local_judge)(model, how)
    )


def make_local_judge(model: str, how: LocalJudgeSpec | None = None) -> Judge:
    """Return a new judge ``local:model``; raises ``JudgeError`` if its files are not there."""
    with importing():
        from scenewright.agents.judges.local import LocalJudge

    if model.startswith(_MINIATURE):
        return LocalJudge(judge_folder(model), name=model, how=how)
    return LocalJudge(model, how=how)


def make_local_decision_judge(model: str, how: LocalJudgeSpec | None = None) -> Judge:
    """Return a new judge ``decision:local/model``.

    Raises ``JudgeError`` if its files are not there.
    """
    with importing():
        from scenewright.agents.judges.decisions.local import LocalDecisionJudge

    if model.startswith(_MINIATURE):
        config = MINIATURE_WEIGHTS / "decision.json"
        return LocalDecisionJudge(judge_folder(model), name=model, config=config, how=how)
    return LocalDecisionJudge(model, how=how)


def judge_folder(model: str) -> Path:
    """Return the folder of the judge ``local:model``, unless ``model`` names a hub repository."""
    if model.startswith(_MINIATURE):
        return MINIATURE_WEIGHTS / "judges" / model.removeprefix(_MINIATURE)
    return Path(model).expanduser()


def backend_folder(model: str) -> Path:
    """Return the folder of the pipeline ``diffusers:model``, if it is no hub repository."""
    own = _MINIATURE_BACKENDS.get(model)
    return Path(model).expanduser() if own is None else MINIATURE_WEIGHTS / own


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
    """Settings that a spec leaves open; None is the detector's own default."""

    threshold: float | None = None
    """Least score of a detection, in [0, 1)."""
    device: str = "auto"
    """Device of a model: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``."""
    max_side: int | None = None
    """Longest side in pixels that a model is shown; larger pictures are scaled down."""
    images: Path | None = None
    """Of ``json:FILE``: the folder that its file names are relative to."""
    stuff: tuple[str, ...] | None = None
    """Of segmentation: labels of the classes without instances, as the model writes them."""


def detector_of(spec: str, settings: DetectorSettings | None = None) -> Detector:
    """Return the detector of ``spec``.

    ``miniature`` finds the things of the miniature world, ``json:FILE`` gives recorded detections,
    ``transformers:FOLDER`` or ``transformers:OWNER/NAME`` is any model of object detection or
    segmentation, by what its configuration says that it is. Raises ``DetectionError`` for another
    spec, a model that is not on this machine or not one of these, and a file that cannot be read.
    """
    settings = settings or DetectorSettings()
    kind, _, model = spec.partition(":")
    key = f"detector {spec} {settings}"
    if kind == MINIATURE and not model:
        return SHARED.get(key, lambda: _miniature(settings))
    if kind == "json" and model:
        from scenewright.tools.vision.detection.files import RecordedDetector

        return RecordedDetector(model, threshold=settings.threshold or 0.0, images=settings.images)
    if kind == "transformers" and model:
        return SHARED.get(key, lambda: _transformers(model, settings))
    raise DetectionError(
        f"{spec!r} is not a detector: write miniature, json:FILE, or transformers:MODEL with a "
        "folder or a hub repository OWNER/NAME"
    )


def cached_detector_of(spec: str, settings: DetectorSettings | None = None) -> Detector:
    """Return the detector of ``spec`` that looks at a picture once for all who ask in this process.

    Raises as :func:`detector_of`.
    """
    settings = settings or DetectorSettings()
    return SHARED.get(
        f"kept detector {spec} {settings}", lambda: CachedDetector(detector_of(spec, settings))
    )


def head_of(config: Mapping[str, Any]) -> str:
    """Return the task of a model by its ``config.json``: ``panoptic``, ``semantic`` or ``boxes``.

    ``words`` if the labels are given as text (open vocabulary). Raises ``DetectionError`` for
    anything else.
    """
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


def _miniature(settings: DetectorSettings) -> LocalDetector:
    if not (SEGMENTER / "config.json").is_file():
        raise DetectionError(
            f"the miniature's segmenter is not in {SEGMENTER}: train it with "
            "`scenewright miniature train segmenter`, or install the package anew"
        )
    with importing():
        from scenewright.tools.vision.detection.local import SemanticDetector

    return SemanticDetector(SEGMENTER, name="miniature/segmenter", **_given(settings, stuff=True))


def _transformers(model: str, settings: DetectorSettings) -> LocalDetector:
    with importing():
        from scenewright.tools.vision.detection.local import (
            ClosedSetDetector,
            PanopticDetector,
            SemanticDetector,
        )
        from scenewright.tools.vision.detection.open_vocabulary import OpenVocabularyDetector
        from scenewright.tools.vision.local_model import folder_of

    folder = folder_of(model, DetectionError)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        head = head_of(config)
    except (OSError, ValueError, AttributeError) as error:
        raise DetectionError(f"{folder}/config.json cannot be read: {error}") from error
    except DetectionError as error:
        raise DetectionError(f"{model}: {error}") from None
    named = {"name": model, **_given(settings, stuff=head in ("semantic", "panoptic"))}
    if head == "words":
        return OpenVocabularyDetector(folder, kind=config["model_type"], **named)
    heads: dict[str, type[LocalDetector]] = {
        "boxes": ClosedSetDetector,
        "semantic": SemanticDetector,
    }
    return heads.get(head, PanopticDetector)(folder, **named)


def _given(settings: DetectorSettings, *, stuff: bool = False) -> dict[str, Any]:
    names = ("threshold", "max_side", "device", *(("stuff",) if stuff else ()))
    found = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


MINIATURE_PREFIX = "miniature/"
OLIP_WEIGHTS = MINIATURE_WEIGHTS / "olip"
"""The miniature's heads, one folder each."""


def olip_of(spec: str) -> RealismScorer:
    """Return the scorer of ``olip:MODEL``.

    A folder, a hub repository ``OWNER/NAME`` or ``miniature/olip-a``. Raises ``RealismError`` for
    another spec, or if a model is not here.
    """
    kind, _, model = spec.partition(":")
    if kind != "olip" or not model:
        raise RealismError(
            f"{spec!r} is not an OLIP scorer: write olip:MODEL, as olip:miniature/olip-a"
        )

    def made() -> RealismScorer:
        with importing():
            from scenewright.tools.vision.realism.blip import BlipEncoder
            from scenewright.tools.vision.realism.olip_scorer import OlipScorer, saved_olip

        folder: str | Path = model
        if model.startswith(MINIATURE_PREFIX):
            folder = OLIP_WEIGHTS / model.removeprefix(MINIATURE_PREFIX)
            if not (folder / "config.json").is_file():
                raise RealismError(
                    f"the miniature's {folder.name} is not in {OLIP_WEIGHTS}: "
                    "train it with `scenewright miniature train olip`, or install the package anew"
                )
        saved = saved_olip(folder)
        encoder = SHARED.get(
            f"encoder {saved.encoder}",
            lambda: BlipEncoder(saved.encoder, name=Path(saved.encoder).name),
        )
        return OlipScorer(saved, name=model, encoder=encoder)

    return SHARED.get(f"realism scorer {spec}", made)


def realism_judge_of(
    spec: str, settings: Settings | None = None, detector: str | None = None
) -> Judge:
    """Return the judge of realism by ``olip:MODEL``, for the objects that ``detector`` finds.

    ``detector`` as :func:`~scenewright.runs.model_factory.local_models.detector_of` takes it; the
    miniature's own heads come with the miniature's detector where none is named. Raises
    ``JudgeError`` for another spec, without a detector, or if a model is not on this machine.
    """
    from scenewright.tools.vision.realism.olip_judge import OlipJudge

    _, _, model = spec.partition(":")
    named = detector or ("miniature" if model.startswith(MINIATURE_PREFIX) else None)
    if named is None:
        raise JudgeError(
            f"{spec} judges what a detector finds: name one in the profile, for example "
            "detector = 'transformers:OWNER/NAME'"
        )

    def made() -> Judge:
        try:
            return OlipJudge(olip_of(spec), cached_detector_of(named))
        except (DetectionError, RealismError) as error:
            raise JudgeError(f"{spec}: {error}") from error

    return SHARED.get(f"judge {spec} {named}", made)
