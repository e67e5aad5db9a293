"""Preference: how often judges that see two pictures find a fact better held by the drawn one.

The other picture is the item's original photo, or one of the same item drawn by something else.
Each judge is asked about every fact in both orders (:mod:`scenewright.agents.judges.remote`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from scenewright.config.settings import Settings, SettingsError
from scenewright.core.images import ImageError, load_image
from scenewright.evals.metrics.base import MetricError, MetricScore, Need, Sample
from scenewright.evals.metrics.options import text
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.agents.judges.remote import Comparison, RemoteJudge

ORIGINAL = "original"
_VERSION = 1
"""Raised when the same two pictures would get another score."""
_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


class PreferenceMetric:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "preference"
    higher_is_better = True

    def __init__(self, judges: Sequence[RemoteJudge], baseline: Path | None = None) -> None:
        """``baseline``: folder of the other pictures, named by item id; None: the originals."""
        self._judges = tuple(judges)
        self._baseline = baseline

    @cached_property
    def version(self) -> str:
        """Number, fingerprints of the judges and, of a folder, its place."""
        told = [judge.fingerprint for judge in self._judges]
        told.append(ORIGINAL if self._baseline is None else str(self._baseline))
        return f"{_VERSION}:{hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]}"

    @property
    def needs(self) -> frozenset[Need]:
        """The picture and its scene, and the original where that is the other one."""
        return frozenset({"image", "scene", *(() if self._baseline else ("original",))})

    async def score(self, sample: Sample) -> MetricScore:
        """Return the mean probability that the drawn picture holds a fact better; .5: no better.

        Parts: shares of the facts that it ``won``, ``lost`` and ``tied`` by the judges' own
        choices, and ``unsteady``, where a choice changed with the order; floor of ``unsteady`` is
        0, that of a coin .5. Comparisons without an answer are left out and counted.
        """
        from scenewright.agents.judges.remote import compare
        from scenewright.core.questions import facts_of

        scene = sample.item.scene
        if scene is None:
            return MetricScore(value=None, reason="the item has no scene")
        try:
            other = await asyncio.to_thread(self._other, sample)
        except ImageError as error:
            return MetricScore(value=None, reason=str(error))
        if other is None:
            return MetricScore(value=None, reason=self._missing(sample))
        drawn = await asyncio.to_thread(sample.load)
        facts = sample.facts or facts_of(scene)
        found = await asyncio.gather(
            *(compare(judge, drawn, other, facts) for judge in self._judges)
        )
        return _scored([one for each in found for one in each])

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Of each judge, as if the other picture were as large."""
        from scenewright.core.questions import facts_of

        scene = sample.item.scene
        if scene is None:
            return {}
        facts = sample.facts or facts_of(scene)
        return {judge.id: judge.expected_pair((size, size), facts) for judge in self._judges}

    def _other(self, sample: Sample) -> Image.Image | None:
        if self._baseline is None:
            return None if sample.original is None else sample.original()
        places = (self._baseline / f"{sample.item.id}{ending}" for ending in _ENDINGS)
        place = next((place for place in places if place.is_file()), None)
        return None if place is None else load_image(place)

    def _missing(self, sample: Sample) -> str:
        if self._baseline is None:
            return "the item has no original picture to compare with"
        return f"no picture {sample.item.id}.png in {self._baseline.name} to compare with"


def _scored(found: Sequence[Comparison]) -> MetricScore:
    answers = [answer for one in found for answer in one.answers]
    took = {
        "tokens_in": sum(answer.tokens_in for answer in answers),
        "tokens_out": sum(answer.tokens_out for answer in answers),
        "usd": sum(answer.usd for answer in answers),
    }
    told = [one for one in found if one.probability is not None]
    lost = [one for one in found if one.probability is None]
    reason = f"{len(lost)} of {len(found)} comparisons failed: {lost[0].reason}" if lost else ""
    if not told:
        reason = reason or "the scene has no facts to compare by"
        return MetricScore(value=None, reason=reason, unscored=len(lost), **took)

    def share(which: str) -> float:
        return sum(one.preferred == which for one in told) / len(told)

    return MetricScore(
        value=sum(one.probability or 0.0 for one in told) / len(told),
        parts={
            "won": share("first"),
            "lost": share("second"),
            "tied": share("tie"),
            "unsteady": sum(not one.steady for one in told) / len(told),
        },
        reason=reason,
        unscored=len(lost),
        **took,
    )


def make(
    settings: Settings | None, judges: Any = None, baseline: Any = ORIGINAL
) -> PreferenceMetric:
    """Return the metric of the registry. Raises ``MetricError`` for a wrong option, a judge that
    is not there and one that cannot be shown two pictures."""
    from scenewright.agents.judges.remote import RemoteJudge
    from scenewright.config.settings import load_settings
    from scenewright.core.ports.judge import JudgeError
    from scenewright.runs.model_factory.profiles import judge_of

    specs = [judges] if isinstance(judges, str) else judges
    if not isinstance(specs, list | tuple) or not specs:
        raise MetricError(
            f"preference: judges is {judges!r}: name chat models, such as openai:gpt-6-luna"
        )
    here = settings or load_settings()
    folder = None
    if text("baseline", baseline) != ORIGINAL:
        folder = Path(baseline).expanduser()
        if not folder.is_dir():
            raise MetricError(
                f"preference: {baseline} is no folder: give one of pictures named by item id, or "
                f"{ORIGINAL!r}"
            )
    try:
        found = [judge_of(text("judges", spec), here) for spec in specs]
    except (SettingsError, JudgeError) as error:
        raise MetricError(f"preference: {error}") from error
    comparing = [judge for judge in found if isinstance(judge, RemoteJudge)]
    if len(comparing) < len(found):
        unfit = next(judge.id for judge in found if not isinstance(judge, RemoteJudge))
        raise MetricError(
            f"preference: {unfit} looks at one picture at a time: name chat models of accounts, "
            "such as openai:gpt-6-luna"
        )
    return PreferenceMetric(comparing, folder)
