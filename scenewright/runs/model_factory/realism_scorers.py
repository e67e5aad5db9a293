"""From a spec to who scores the realism of objects: ``olip:MODEL`` and its relatives.

Scorers are shared by the process, as judges are, and so is the encoder under several of them;
nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable

from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings, load_settings
from scenewright.core.ports.judge import JudgeError
from scenewright.core.ports.vision import RealismError, RealismScorer
from scenewright.runs.model_factory.local_models import (
    MINIATURE_WEIGHTS,
    SHARED,
    importing,
    olip_of,
)
from scenewright.runs.model_factory.profiles import build_chat, build_judge, preparation_of

KINDS = ("olip", "vlm", "clip", "blip", "vqa", "judge")


def scorer_of(spec: str, settings: Settings | None = None) -> RealismScorer:
    """Return the scorer of ``spec``.

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


def _by_chat(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    from scenewright.tools.vision.realism.vlm import STRATEGIES, VlmScorer

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
        made = build_chat(chat, known, role="grader")
        preparation = preparation_of(chat, known)
    except (JudgeError, SettingsError) as error:
        raise RealismError(f"{spec}: {error}") from error
    chosen = strategy or STRATEGIES["zero-shot-img-base"]
    return VlmScorer(made, chosen, preparation=preparation)


def _alignment(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    def made() -> RealismScorer:
        with importing():
            from scenewright.tools.vision.realism.alignment import AlignmentScorer, ClipEncoder
            from scenewright.tools.vision.realism.blip import BlipEncoder

        if spec.startswith("clip:"):
            return AlignmentScorer(ClipEncoder(model, name=model))
        folder = MINIATURE_WEIGHTS / "blip" if model == "miniature" else model
        return AlignmentScorer(BlipEncoder(folder, name=model))

    return SHARED.get(f"realism scorer {spec}", made)


def _by_judge(spec: str, model: str, settings: Settings | None) -> RealismScorer:
    from scenewright.tools.vision.realism.judged import JudgeScorer, VqaScorer

    try:
        judge = build_judge(model, settings)
    except (JudgeError, SettingsError) as error:
        raise RealismError(f"{spec}: {error}") from error
    if judge.caps.kinds is not None and "realism" not in judge.caps.kinds:
        raise RealismError(f"{spec}: {model} answers no questions about realism")
    return VqaScorer(judge) if spec.startswith("vqa:") else JudgeScorer([judge])


_MAKERS: dict[str, Callable[[str, str, Settings | None], RealismScorer]] = {
    "olip": lambda spec, model, settings: olip_of(spec),
    "vlm": _by_chat,
    "clip": _alignment,
    "blip": _alignment,
    "vqa": _by_judge,
    "judge": _by_judge,
}
