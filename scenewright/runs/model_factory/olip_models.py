"""From ``olip:MODEL`` to the scorer of realism, and to the judge that a profile makes of it.

Scorers are shared by the process, and so is the encoder under several of them; nothing is
downloaded.
"""

from __future__ import annotations

from pathlib import Path

from scenewright.core.ports.detector import DetectionError
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.ports.realism_scorer import RealismError, RealismScorer
from scenewright.runs.model_factory.detectors import cached_detector_of
from scenewright.runs.model_factory.local_models import IMPORTING, MINIATURE_WEIGHTS, SHARED

MINIATURE = "miniature/"
OLIP_WEIGHTS = MINIATURE_WEIGHTS / "olip"
"""The miniature's heads, one folder each."""


def olip_of(spec: str) -> RealismScorer:
    """The scorer of ``olip:MODEL``: a folder, a hub repository ``OWNER/NAME`` or
    ``miniature/olip-a``. Raises ``RealismError`` for another spec, or if a model is not here."""
    kind, _, model = spec.partition(":")
    if kind != "olip" or not model:
        raise RealismError(f"{spec!r} is no OLIP: write olip:MODEL, as olip:miniature/olip-a")

    def made() -> RealismScorer:
        with IMPORTING:
            from scenewright.tools.vision.realism.olip_encoder import BlipEncoder
            from scenewright.tools.vision.realism.olip_scorer import OlipScorer, saved_olip

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


def realism_judge_of(spec: str, detector: str | None = None) -> Judge:
    """The judge of realism by ``olip:MODEL``, for the objects that ``detector`` finds.

    ``detector`` as :func:`~scenewright.runs.model_factory.detectors.detector_of` takes it; the
    miniature's own heads come with the miniature's detector where none is named. Raises
    ``JudgeError`` for another spec, without a detector, or if a model is not on this machine.
    """
    from scenewright.tools.vision.realism.olip_judge import OlipJudge

    _, _, model = spec.partition(":")
    named = detector or ("miniature" if model.startswith(MINIATURE) else None)
    if named is None:
        raise JudgeError(
            f"{spec} judges what a detector finds: name one in the profile, for example "
            "detector = 'transformers:OWNER/NAME'"
        )

    def made() -> Judge:
        try:
            return OlipJudge(olip_of(spec), cached_detector_of(named), owned=False)
        except (DetectionError, RealismError) as error:
            raise JudgeError(f"{spec}: {error}") from error

    return SHARED.get(f"judge {spec} {named}", made)
