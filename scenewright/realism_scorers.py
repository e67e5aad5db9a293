"""From a spec to who scores the realism of objects: ``olip:MODEL`` and its relatives.

Scorers are shared by the process, as judges are, and so is the encoder under several of them;
nothing is downloaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from scenewright.agents.detection.kept import KeptDetector
from scenewright.detectors import DetectorSettings, detector_of
from scenewright.ports.detector import DetectionError, Detector
from scenewright.ports.judge import Judge, JudgeError
from scenewright.ports.realism_scorer import RealismError, RealismScorer
from scenewright.profiles import MINIATURE_WEIGHTS, SHARED, chat_of, judge_of
from scenewright.settings import (
    CHAT_KINDS,
    Settings,
    SettingsError,
    load_settings,
    split_judge,
)

KINDS = ("olip", "vlm", "clip", "blip", "vqa", "judge")
MINIATURE = "miniature/"
OLIP_WEIGHTS = MINIATURE_WEIGHTS / "olip"
"""The miniature's heads, one folder each."""
# Importing the model libraries in several threads at once trips over itself.
_IMPORTING = threading.Lock()


def scorer_of(spec: str, settings: Settings | None = None) -> RealismScorer:
    """The scorer of ``spec``.

    ``olip:MODEL`` are trained heads: a folder, a hub repository ``OWNER/NAME`` or
    ``miniature/olip-a``. ``vlm:ACCOUNT:MODEL`` asks a multimodal language model, with another of
    the zero-shot strategies as ``vlm:ACCOUNT:MODEL:zero-shot-crop-s5``. ``clip:MODEL`` and
    ``blip:MODEL`` compare an object with a text; ``vqa:JUDGE`` and ``judge:JUDGE`` ask a judge
    ``kind:model``. Raises ``RealismError`` for another spec, or if a model or key is not here.
    """
    kind, _, model = spec.partition(":")
    make = _MAKERS.get(kind)
    if make is None or not model:
        raise RealismError(
            f"{spec!r} scores no objects: write KIND:MODEL with a kind of {', '.join(KINDS)}, for "
            "example olip:miniature/olip-a"
        )
    return make(spec, model, settings)


def realism_judge_of(spec: str, detector: str | None = None) -> Judge:
    """The judge of realism by ``olip:MODEL``, for the objects that ``detector`` finds.

    ``detector`` as :func:`scenewright.detectors.detector_of` takes it; the miniature's own heads
    come with the miniature's detector where none is named. Raises ``JudgeError`` for another
    spec, without a detector, or if a model is not on this machine.
    """
    from scenewright.agents.judges.olip import OlipJudge

    _, _, model = spec.partition(":")
    named = detector or ("miniature" if model.startswith(MINIATURE) else None)
    if named is None:
        raise JudgeError(
            f"{spec} judges what a detector finds: name one in the profile, for example "
            "detector = 'transformers:OWNER/NAME'"
        )

    def made() -> Judge:
        try:
            return OlipJudge(scorer_of(spec), kept_detector_of(named), owned=False)
        except (DetectionError, RealismError) as error:
            raise JudgeError(f"{spec}: {error}") from error

    return SHARED.get(f"judge {spec} {named}", made)


def kept_detector_of(spec: str, settings: DetectorSettings | None = None) -> Detector:
    """The detector of ``spec`` that looks at a picture once for all who ask in this process;
    raises as :func:`scenewright.detectors.detector_of`."""
    settings = settings or DetectorSettings()
    return SHARED.get(
        f"kept detector {spec} {settings}", lambda: KeptDetector(detector_of(spec, settings))
    )


def _olip(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    def made() -> RealismScorer:
        with _IMPORTING:
            from scenewright.agents.realism.olip_encoder import BlipEncoder
            from scenewright.agents.realism.olip_scorer import OlipScorer, saved_olip

        folder: str | Path = model
        if model.startswith(MINIATURE):
            folder = OLIP_WEIGHTS / model.removeprefix(MINIATURE)
            if not (folder / "config.json").is_file():
                raise RealismError(
                    f"the miniature's {model.removeprefix(MINIATURE)} is not in {OLIP_WEIGHTS}: "
                    "train it with `scenewright miniature train olip`, or install the package anew"
                )
        saved = saved_olip(folder)
        encoder = SHARED.get(
            f"encoder {saved.encoder}",
            lambda: BlipEncoder(saved.encoder, name=Path(saved.encoder).name),
        )
        return OlipScorer(saved, name=model, encoder=encoder)

    return SHARED.get(f"realism scorer {spec}", made)


def _vlm(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    from scenewright.agents.judges.models import caps_of
    from scenewright.agents.judges.pictures import ImagePreparation
    from scenewright.agents.realism.vlm import STRATEGIES, VlmScorer

    known = settings or load_settings()
    named, _, last = model.rpartition(":")
    strategy = STRATEGIES.get(last)
    chat = model if strategy is None else named
    if strategy is not None and strategy.few_shot:
        raise RealismError(
            f"{spec}: {last} needs rated examples, which no name can give; use a zero-shot "
            "strategy here"
        )
    try:
        kind, name = split_judge(chat)
        made = chat_of(chat, known, role="grader")
        preparation = (
            ImagePreparation()
            if kind in CHAT_KINDS
            else caps_of(known.account(kind).provider, name).preparation
        )
    except (JudgeError, SettingsError) as error:
        raise RealismError(f"{spec}: {error}") from error
    chosen = strategy or STRATEGIES["zero-shot-img-base"]
    return VlmScorer(made, chosen, preparation=preparation)


def _clip(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    def made() -> RealismScorer:
        with _IMPORTING:
            from scenewright.agents.realism.alignment import ClipScorer

        return ClipScorer(model, name=model)

    return SHARED.get(f"realism scorer {spec}", made)


def _blip(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    def made() -> RealismScorer:
        with _IMPORTING:
            from scenewright.agents.realism.alignment import BlipMatchScorer

        folder = MINIATURE_WEIGHTS / "blip" if model == "miniature" else model
        return BlipMatchScorer(folder, name=model)

    return SHARED.get(f"realism scorer {spec}", made)


def _judged(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    from scenewright.agents.realism.judged import JudgeScorer, VqaScorer

    try:
        judge = judge_of(model, settings)
    except (JudgeError, SettingsError) as error:
        raise RealismError(f"{spec}: {error}") from error
    if judge.caps.kinds is not None and "realism" not in judge.caps.kinds:
        raise RealismError(f"{spec}: {model} answers no questions about realism")
    return VqaScorer(judge) if spec.startswith("vqa:") else JudgeScorer([judge])


_MAKERS: dict[str, Callable[[str, str, Settings | None], RealismScorer]] = {
    "olip": _olip,
    "vlm": _vlm,
    "clip": _clip,
    "blip": _blip,
    "vqa": _judged,
    "judge": _judged,
}
