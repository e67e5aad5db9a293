"""The PSG-style score as a metric: the graph seen in a picture against the requested one.

A :class:`~scenewright.core.ports.vision.GraphExtractor` reads the graph, a saliency model or the
rule ``centre-and-size`` tells which of its objects are in front, and
:func:`scenewright.evals.metrics.graph_edit.psg_score` compares. No judge is asked: what the
extractor misses or invents lowers the score, whatever the picture shows.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from PIL import Image

from scenewright.config.settings import Settings
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.evals.metrics.base import (
    MetricError,
    MetricScore,
    Need,
    Sample,
    cache_folder,
    is_plugin,
    plugin_of,
    real,
    short_print,
    switch,
    text,
)
from scenewright.evals.metrics.graph_edit import EditLimits, PsgScore, psg_score
from scenewright.evals.metrics.graph_matching.text_similarity import TextSimilarity
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.core.ports.vision import Extraction, GraphExtractor
    from scenewright.evals.store.extractions import Extractions
    from scenewright.tools.vision.detection.birefnet import BiRefNet

NONE = "none"
"""As ``saliency``: all objects weigh alike."""
RULE = "centre-and-size"
NODES, ATTRIBUTES, EDGES = "nodes", "attributes", "edges"
_PART_OF = {"value": ATTRIBUTES, "attribute": ATTRIBUTES, "predicate": EDGES}
"""Kind of an unknown word → the part that needs it."""
_VERSION = 4
"""Increased when the same picture and scene would get another score."""


class PsgMetric:
    """PSG-style score of a picture.

    Implements :class:`~scenewright.evals.metrics.base.ItemMetric`.
    """

    name = "psg"
    higher_is_better = True
    needs: frozenset[Need] = frozenset({"image", "scene"})

    def __init__(
        self,
        extractions: Extractions,
        similarity: TextSimilarity,
        *,
        least: float = 0.0,
        background_weight: float = 0.5,
        saliency: BiRefNet | None = None,
        by_boxes: bool = True,
        threshold: float = 0.5,
        seconds: float = 10.0,
        paid: tuple[str, ...] = (),
    ) -> None:
        """Score with the graphs of ``extractions``.

        Args:
            extractions: store of the extractor that reads graphs.
            similarity: compares texts.
            least: similarities below this count as 0.
            background_weight: weight of objects in the background.
            saliency: model that tells the foreground; None: see ``by_boxes``.
            by_boxes: without a model, use the rule ``centre-and-size``; False: all are in front.
            threshold: salience from which an object is in front.
            seconds: time limit of one distance.
            paid: models of accounts that the extractor asks.

        Raises:
            MetricError: a number is out of range.
        """
        self._extractions = extractions
        self._similarity = similarity
        self._least = real("least", least, 0.0, 1.0)
        self._weight = real("background_weight", background_weight, 1e-6, 1.0)
        self._saliency = saliency
        self._by_boxes = by_boxes
        self._threshold = real("threshold", threshold, 0.0, 1.0)
        self._paid = paid
        self._limits = EditLimits(seconds=real("seconds", seconds, 0.0, 86_400.0))

    @cached_property
    def version(self) -> str:
        """Number, fingerprint of the extractor, similarity, weights, and rule of the foreground."""
        if self._saliency is not None:
            front = f"{short_print(self._saliency.fingerprint)}@{self._threshold:g}"
        else:
            front = f"{RULE}@{self._threshold:g}" if self._by_boxes else NONE
        return (
            f"{_VERSION}:{short_print(self._extractions.extractor.fingerprint)}:{self._similarity.id}"
            f":least={self._least:g}:background={self._weight:g}:{front}"
            f":seconds={self._limits.seconds:g}"
        )

    @property
    def judges(self) -> tuple[Any, ...]:
        """The judges of an extractor that asks some."""
        return tuple(getattr(self._extractions.extractor, "judges", ()))

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Return one call or more of each model of an account.

        Their price is not known: what they are asked hangs on what they see.
        """
        return {
            name: ExpectedUsage(1, usd=None) for name in self._paid if sample.item.scene is not None
        }

    async def score(self, sample: Sample) -> MetricScore:
        """Return the score.

        Parts: ``nodes``, ``attributes`` and ``edges`` (Dice coefficients), each and the whole as
        ``…recall`` and ``…precision``; ``highest`` is the score's upper bound, the score itself
        where the distance is exact; ``background`` tells how many objects of the picture are in the
        background.

        Unscored without a scene, and with the reason if the picture could not be read, whole or in
        part: what is unknown is neither missing nor there, and both enter the score. ``unread``
        then counts such parts. A scene with a class, an attribute or a predicate that the extractor
        never puts in a graph is unscored as well; where that is no class, the parts that do not
        need it have their scores.
        """
        from scenewright.core.ports.vision import DetectionError, ExtractionError

        scene = sample.item.scene
        if scene is None:
            return MetricScore(value=None, reason="the item has no scene to compare with")
        outside, lacking = self._outside(scene)
        if NODES in lacking:
            return MetricScore(value=None, reason=outside)
        picture = await asyncio.to_thread(sample.load)
        try:
            seen = await self._extractions.of(picture, sample.image)
            if not seen.complete:
                return MetricScore(
                    value=None,
                    parts={"unread": float(len(seen.unread))},
                    reason=f"part of the picture's graph is unknown: {seen.reason}",
                )
            behind = await self._background(picture, seen)
        except (ExtractionError, DetectionError) as error:
            return MetricScore(value=None, reason=f"no graph of the picture: {error}")
        found = await asyncio.to_thread(
            psg_score,
            _without(scene, lacking),
            seen.scene,
            similarity=self._similarity,
            least=self._least,
            background=behind,
            background_weight=self._weight,
            limits=self._limits,
        )
        parts = _parts(found, len(behind), lacking)
        if lacking:
            return MetricScore(value=None, parts=parts, reason=outside)
        return MetricScore(value=found.value, parts=parts)

    def _outside(self, scene: SceneGraph) -> tuple[str, frozenset[str]]:
        """Return why the extractor could not see all of ``scene``, and the parts that need it.

        Both are empty if it could.
        """
        from scenewright.core.ports.vision import vocabulary_of

        extractor = self._extractions.extractor
        words = vocabulary_of(extractor)
        if words is None:
            return "", frozenset()
        # The distance takes a relation and its converse for one.
        unknown = words.unknown_in(scene, converses=True)
        if not unknown:
            return "", frozenset()
        lacking = frozenset(_PART_OF.get(one.part, NODES) for one in unknown)
        return f"{extractor.id}: {words.reason(unknown)}", lacking

    async def _background(self, picture: Image.Image, seen: Extraction) -> frozenset[str]:
        """Return the objects in the background; an object of unknown place is in front."""
        from scenewright.tools.vision.detection.saliency import foreground

        if not seen.things or (self._saliency is None and not self._by_boxes):
            return frozenset()
        salient = None if self._saliency is None else await self._saliency.saliency(picture)
        front = foreground(seen.things, salient, picture.size, self._threshold)
        return frozenset(o.id for o in seen.scene.objects if o.id in seen.things) - front


def _without(scene: SceneGraph, lacking: frozenset[str]) -> SceneGraph:
    """Return ``scene`` without the elements that the ``lacking`` parts compare."""
    if not lacking:
        return scene
    objects = scene.objects
    if ATTRIBUTES in lacking:
        objects = tuple(SceneObject(id=item.id, name=item.name) for item in objects)
    return SceneGraph(objects=objects, relations=() if EDGES in lacking else scene.relations)


def _parts(found: PsgScore, behind: int, lacking: frozenset[str]) -> dict[str, float | None]:
    kinds = {NODES: found.nodes, ATTRIBUTES: found.attributes, EDGES: found.edges}
    known = {name: share for name, share in kinds.items() if name not in lacking}
    parts = {name: share.dice for name, share in known.items()}
    whole = {} if lacking else {"": found.whole}
    for prefix, share in (whole | {f"{name}_": share for name, share in known.items()}).items():
        parts |= {f"{prefix}recall": share.recall, f"{prefix}precision": share.precision}
    if lacking:
        return parts | dict.fromkeys(sorted(lacking))
    return parts | {"highest": found.highest, "background": float(behind)}


def make(
    settings: Settings | None,
    extractor: Any = None,
    similarity: Any = "exact",
    least: Any = 0.0,
    background_weight: Any = 0.5,
    saliency: Any = RULE,
    threshold: Any = 0.5,
    trust_remote_code: Any = False,
    seconds: Any = 10.0,
    folder: Any = None,
) -> PsgMetric:
    """Return the metric of the registry.

    Raises ``MetricError`` if no extractor is named, or a model is not on this machine.
    """
    from scenewright.evals.store.extractions import shared_extractions

    rule = text("saliency", saliency)
    trusted = switch("trust_remote_code", trust_remote_code)
    salient = None
    if rule not in (NONE, RULE):
        from scenewright.tools.vision.detection.birefnet import saliency_of

        salient = saliency_of(rule, trust_remote_code=trusted)
    return PsgMetric(
        shared_extractions(_extractor(extractor, settings), cache_folder(folder, "extractions")),
        _similarity(text("similarity", similarity)),
        least=least,
        background_weight=background_weight,
        saliency=salient,
        by_boxes=rule != NONE,
        threshold=threshold,
        seconds=seconds,
        paid=_paid_by(extractor),
    )


def _paid_by(name: str) -> tuple[str, ...]:
    from scenewright.runs.model_factory.extractors import paid_by, spec_of

    return () if is_plugin(name) else paid_by(spec_of(name))


def _extractor(name: Any, settings: Settings | None) -> GraphExtractor:
    from scenewright.core.ports.vision import GraphExtractor
    from scenewright.runs.model_factory.extractors import NAMES, extractor_of

    if name is None:
        raise MetricError(
            "psg needs an extractor, which reads the graph off a picture: name one in its options, "
            'for example { name = "psg", options = { extractor = "miniature" } }; there are '
            f"{', '.join(NAMES)}, and module:function of your own"
        )
    name = text("extractor", name)
    if is_plugin(name):
        what = "is not an extractor of graphs: it needs id, fingerprint, extract and aclose"
        own: GraphExtractor = plugin_of(name, GraphExtractor, what, settings)
        return own
    return extractor_of(name, settings)


def _similarity(name: str) -> TextSimilarity:
    from scenewright.evals.metrics.graph_matching.embeddings import similarity_of

    if is_plugin(name):
        what = "is not a similarity of texts: it needs id and similarities"
        own: TextSimilarity = plugin_of(name, TextSimilarity, what)
        return own
    return similarity_of(name)
