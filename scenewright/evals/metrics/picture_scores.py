"""Scores of single pictures: SGScore, CLIPScore and preference of judges.

**SGScore** (Scene-Bench, Eq. 2–4): how much of a scene a picture shows, by the verdicts of a panel:
``α·ObjectRecall + (1 − α)·RelationRecall``, in [0, 1] (the paper's tables show percent). A fact
that is void, because its object is absent, counts as not satisfied; one that no judge could answer
is left out. Facts of either protocol, or a set's own questions, make a card of the same form, so
that all are scored alike.

**CLIPScore** ``w·max(cos(E_I, E_T), 0)`` (Hessel et al., 2021). They take w = 2.5 and put "A photo
depicts" before each caption; papers on image generation, Scene-Bench among them, report 100 times
the cosine of the plain text, as torchmetrics does, which is the default here.

**Preference**: how often judges that see two pictures find a fact better satisfied by the drawn
one. The other picture is the item's original photo, or one of the same item drawn by something
else. Each judge is asked about every fact in both orders (:mod:`scenewright.agents.judges.remote`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from scenewright.config.settings import Settings
from scenewright.core.facts import ScoreCard
from scenewright.core.images import ImageError, load_image, picture_named
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    names_in,
    real,
    spent_on,
    text,
)
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.agents.judges.remote import RemoteJudge
    from scenewright.evals.metrics.pairs import Comparison


class SGScore:
    """SGScore of a picture.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name = "sgscore"
    higher_is_better = True
    needs: frozenset[Need] = frozenset({"judges"})

    def __init__(self, alpha: float | None = None) -> None:
        """Use ``alpha`` as the weight of the objects in [0, 1].

        None: that of the card, which is the evaluation's. Raises ``MetricError`` for another value.
        """
        self._alpha = None if alpha is None else real("alpha", alpha, 0.0, 1.0)

    @property
    def version(self) -> str:
        """Number, and ``alpha`` where it is not the card's."""
        return "2" if self._alpha is None else f"2:alpha={self._alpha:g}"

    async def score(self, sample: Sample) -> MetricScore:
        """Return SGScore, with the recalls and the share of all facts as parts.

        Unscored without judges, or if no object or no relation could be judged; the known parts
        stay. The recalls leave out single facts that could not be judged. Of what was said beside
        the graph ``further`` (numbers, exclusions, texts) and ``wishes`` are parts where asked.
        """
        card = sample.card
        if card is None:
            return MetricScore(value=None, reason="no judge judged the picture")
        if self._alpha is not None:
            card = card.model_copy(update={"alpha": self._alpha})
        value = card.sgscore
        return MetricScore(
            value=value,
            parts={
                "objects": card.objects.value,
                "attributes": card.attributes.value,
                "relations": card.relations.value,
                "fact_recall": card.fact_recall,
                "expected_recall": card.expected_recall,
                **({"further": card.further.value} if card.further.total else {}),
                **({"wishes": card.wishes.value} if card.wishes.total else {}),
            },
            reason=_reason(card) if value is None or card.unscored else "",
            unscored=card.unscored,
        )


def make_sgscore(settings: Settings | None, alpha: Any = None) -> SGScore:
    """Return the metric of the registry."""
    return SGScore(alpha)


def _reason(card: ScoreCard) -> str:
    if not card.verdicts:
        return "there are no facts to judge"
    unscored = [verdict for verdict in card.stated if verdict.state == "unscored"]
    if not unscored:
        return "no object and no relation was asked: see fact_recall for the other facts"
    (reason, _), *_ = Counter(v.reason or "no reason given" for v in unscored).most_common(1)
    return f"{len(unscored)} of {len(card.stated)} facts could not be judged: {reason}"


CLIP = "openai/clip-vit-base-patch16"


class CLIPScore:
    """CLIPScore of a picture.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name = "clipscore"
    higher_is_better = True
    needs: frozenset[Need] = frozenset({"image", "prompt"})

    def __init__(self, encoder: TextImageEncoder, scale: float = 100.0, prefix: str = "") -> None:
        """Score with ``encoder``; ``scale``: w above; ``prefix``: words before each text."""
        self._encoder = encoder
        self._scale = real("scale", scale, 1e-12)
        self._prefix = text("prefix", prefix)

    @property
    def version(self) -> str:
        """Number, scale, prefix and the encoder's fingerprint."""
        prefix = f":prefix={self._prefix}" if self._prefix else ""
        return f"1:scale={self._scale:g}{prefix}:{self._encoder.fingerprint[:16]}"

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score.

        Parts: ``cosine``, which may be below 0, and ``tokens_cut``, how many tokens at the end of
        the text the encoder had no room for (CLIP reads 77, start and end included).

        Unscored without a text. Raises ``ImageError`` for a picture that cannot be read.
        """
        if not sample.prompt.strip():
            return MetricScore(
                value=None, reason="the item has no text to compare the picture with"
            )
        words = f"{self._prefix} {sample.prompt}".strip() if self._prefix else sample.prompt
        picture = await asyncio.to_thread(sample.load)
        images = await self._encoder.images([picture])
        texts = await self._encoder.texts([words])
        cosine = float(np.dot(images[0].astype(np.float64), texts.vectors[0].astype(np.float64)))
        return MetricScore(
            value=self._scale * max(cosine, 0.0),
            parts={"cosine": cosine, "tokens_cut": float(texts.cut[0])},
        )


def make_clipscore(
    settings: Settings | None,
    extractor: Any = CLIP,
    scale: Any = 100.0,
    prefix: Any = "",
    **options: Any,
) -> CLIPScore:
    """Return the metric of the registry."""
    return CLIPScore(encoder_of("clipscore", extractor, options), scale, prefix)


ORIGINAL = "original"
_VERSION = 1
"""Increased when the same two pictures would get another score."""


class PreferenceMetric:
    """Preference of judges for a picture over another one.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name = "preference"
    higher_is_better = True

    def __init__(self, judges: Sequence[RemoteJudge], baseline: Path | None = None) -> None:
        """Compare with the pictures in ``baseline``, named by item id, or with the originals."""
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
        """Return the mean probability that the drawn picture satisfies a fact better.

        A value of 0.5 is no preference. Parts: shares of the facts that it ``won``, ``lost`` and
        ``tied`` by the judges' own choices, and ``unsteady``, where a choice changed with the
        order; floor of ``unsteady`` is 0, that of a coin .5. Comparisons without an answer are left
        out and counted.
        """
        from scenewright.core.questions import facts_of
        from scenewright.evals.metrics.pairs import compare

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
        """Return the usage of each judge, as if the other picture were as large."""
        from scenewright.core.questions import facts_of

        scene = sample.item.scene
        if scene is None:
            return {}
        facts = sample.facts or facts_of(scene)
        return {judge.id: judge.expected_pair((size, size), facts) for judge in self._judges}

    def _other(self, sample: Sample) -> Image.Image | None:
        if self._baseline is None:
            return None if sample.original is None else sample.original()
        found = picture_named(self._baseline, sample.item.id)
        return None if found is None else load_image(found)

    def _missing(self, sample: Sample) -> str:
        if self._baseline is None:
            return "the item has no original picture to compare with"
        return f"no picture {sample.item.id}.png in {self._baseline.name} to compare with"


def _scored(found: Sequence[Comparison]) -> MetricScore:
    took = spent_on(answer for one in found for answer in one.answers)
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


def make_preference(
    settings: Settings | None, judges: Any = None, baseline: Any = ORIGINAL
) -> PreferenceMetric:
    """Return the metric of the registry.

    Raises ``MetricError`` for a wrong option, a judge that is not there and one that cannot be
    shown two pictures.
    """
    from scenewright.agents.judges.remote import RemoteJudge
    from scenewright.config.settings import load_settings
    from scenewright.runs.model_factory.profiles import build_judge

    specs = names_in("judges", judges, "name chat models, such as openai:gpt-6-luna")
    here = settings or load_settings()
    folder = None
    if text("baseline", baseline) != ORIGINAL:
        folder = Path(baseline).expanduser()
        if not folder.is_dir():
            raise MetricError(
                f"preference: {baseline} is not a folder: give one of pictures named by item id, "
                f"or {ORIGINAL!r}"
            )
    found = [build_judge(spec, here) for spec in specs]
    comparing = [judge for judge in found if isinstance(judge, RemoteJudge)]
    if len(comparing) < len(found):
        unfit = next(judge.id for judge in found if not isinstance(judge, RemoteJudge))
        raise MetricError(
            f"preference: {unfit} looks at one picture at a time: name chat models of accounts, "
            "such as openai:gpt-6-luna"
        )
    return PreferenceMetric(comparing, folder)
