"""Scores of public benchmarks that no other metric of the package gives.

The rules are those of the published code, stated here as functions of answers, boxes and cosines;
the models behind them are the user's. A failed part is unscored, never zero.

**ConceptMix** (Wu et al., NeurIPS 2024): a picture of a prompt with k concepts is right, 1, if
every question about it is answered with yes, else 0.

**WISE** (Niu et al., 2025): WiScore = (0.7 · consistency + 0.2 · realism + 0.1 · aesthetic
quality) / 2, each mark from 0 to 2, against the prompt and the explanation of what it means.
WISE_Verified (April 2026) replaces it by one question that is answered with yes or no.

**T2I-CompBench(++)** (Huang et al., NeurIPS 2023, TPAMI 2025), by category: attributes are the
product over noun phrases of P(yes) to ``PHRASE?``; places in the picture and numbers are rules over
detections; what things do is the cosine of CLIP; complex prompts are the mean of those that apply
(3-in-1). Noun phrases, names and relations come from the item's scene here, from a parser there.

**Grounded facts** are ours: the facts of the item's scene by the grounded protocol, none under a
denied one, whatever questions the set brings.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import Box, Detection, DetectionError, Detector
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.benchmark_prompts import EXPLANATION
from scenewright.evals.datasets.prompt_sets import THREE_IN_ONE
from scenewright.evals.metrics.base import MetricError, MetricScore, Need, Sample, text
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of
from scenewright.evals.studies.peers.direct_scoring import OptionRater, mark_fact
from scenewright.evals.studies.peers.panel_metric import MetricJudges, PanelMetric, metric_judges_of
from scenewright.evals.studies.peers.question_metrics import Dsg, Tifa
from scenewright.evals.studies.peers.questions import QuestionSource
from scenewright.runs.model_factory.local_models import DetectorSettings, cached_detector_of
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.detection.boxes import iou
from scenewright.tools.vision.detection.labels import unknown_labels


class GroundedFacts(Dsg):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "grounded_facts"
    needs: frozenset[Need] = frozenset({"image", "scene"})


def make_grounded(settings: Settings | None, **voting: Any) -> GroundedFacts:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(GroundedFacts.name, settings, **voting)
    return GroundedFacts(bench, QuestionSource("scene", protocol="grounded"))


class AllCorrect(Tifa):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "all_correct"

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return :func:`all_correct`."""
        return all_correct(likely)


def all_correct(likely: Array) -> float | None:
    """Return 1 if every question (n_facts,) is above ½, 0 if one is not.

    None where that hangs on a question without an answer (NaN).
    """
    if (likely <= THRESHOLD).any():
        return 0.0
    return None if np.isnan(likely).any() else 1.0


def make_all_correct(
    settings: Settings | None, questions: Any = "item", **voting: Any
) -> AllCorrect:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(AllCorrect.name, settings, **voting)
    return AllCorrect(bench, QuestionSource(questions))


WISE_WEIGHTS: Mapping[str, float] = {"consistency": 0.7, "realism": 0.2, "aesthetic quality": 0.1}
WISE_HIGHEST = 2
WISE_QUESTIONS: Mapping[str, str] = {
    "consistency": "From 0 (misses what is meant) over 1 (in part) to 2 (completely), how well "
    'does the picture show what is meant by "{text}"? It means: {explanation}',
    "realism": "From 0 (physically impossible) over 1 (minor flaws) to 2 (like a photograph), how "
    "real does the picture look?",
    "aesthetic quality": "From 0 (poor) over 1 (plain) to 2 (exceptional), how good is the picture "
    "as a composition?",
}
VERIFIED_QUESTION = (
    'Does the picture correctly show what is meant by "{text}" ({explanation}), and is it '
    "realistic and clear enough to tell?"
)


class Wise(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "wise"

    def __init__(self, bench: MetricJudges, version: str = "verified") -> None:
        """Score by the rules of ``version``: ``verified`` or ``legacy``.

        Raises ``MetricError`` for another.
        """
        super().__init__(bench)
        self._legacy = text("version", version, ("verified", "legacy")) == "legacy"

    def wording(self) -> str:
        """Return the questions."""
        return " ".join(WISE_QUESTIONS.values()) if self._legacy else VERIFIED_QUESTION

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return one mark for each of :data:`WISE_WEIGHTS`, or the one question."""
        meant = sample.item.meta.get(EXPLANATION)
        if not meant:
            raise MetricError("the item does not explain what its prompt means: take the set wise")
        said = {"text": " ".join(sample.prompt.split()), "explanation": meant}
        if self._legacy:
            return [
                mark_fact(key, question=question.format(**said), highest=WISE_HIGHEST)
                for key, question in WISE_QUESTIONS.items()
            ]
        question = VERIFIED_QUESTION.format(**said)
        about = {"kind": "object", "subject": "picture", "statement": sample.prompt}
        return [Fact.model_validate({"id": "wise:verified", "question": question, **about})]

    def voted(self, facts: Sequence[Fact], votes: Array, said: Array) -> Array:
        """Return marks as they are; of the one question the choice."""
        return said if self._legacy else votes

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return WiScore, 0 to 1; of the one question 1 or 0."""
        if np.isnan(likely).any():
            return None
        return wiscore(*likely) if self._legacy else float(likely[0] > THRESHOLD)

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """Return the marks by name, 0 to 2."""
        return {
            str(fact.key): None if np.isnan(share) else WISE_HIGHEST * float(share)
            for fact, share in zip(facts, likely, strict=True)
            if fact.key
        }


def wiscore(consistency: float, realism: float, aesthetic: float) -> float:
    """Return the weighted mean of marks that are given as shares of the highest, 0 to 1."""
    pairs = zip(WISE_WEIGHTS.values(), (consistency, realism, aesthetic), strict=True)
    return float(sum(weight * mark for weight, mark in pairs))


def make_wise(settings: Settings | None, version: Any = "verified", **voting: Any) -> Wise:
    """Make the metric of the registry; raises ``MetricError`` for a wrong option."""

    def rater(spec: str, here: Settings) -> Judge:
        judge = build_judge(spec, here)
        return OptionRater(judge) if version == "legacy" else judge

    return Wise(metric_judges_of(Wise.name, settings, **voting, made_by=rater), version)


PERSONS = ("girl", "boy", "man", "woman")
"""Names that UniDet's classes call a person."""
NEAR = ("on side of", "next to", "near")
SIDES: Mapping[str, tuple[int, int]] = {
    "on the left of": (0, 1),
    "on the right of": (0, -1),
    "on the bottom of": (1, -1),
    "on the top of": (1, 1),
}
"""Words → axis, and the sign of the second centre minus the first."""
NEAR_PIXELS, NEAR_IOU = 150.0, 0.1
SAME = 0.9
"""Share of overlap above which two detections of a class are one."""


def locality_of(prompt: str) -> str:
    """Return the first of the published words of place that ``prompt`` holds; empty if none."""
    return next((words for words in (*NEAR, *SIDES) if words in prompt), "")


def position_score(locality: str, first: Box, second: Box) -> float:
    """Return how far two boxes (xmin, ymin, xmax, ymax), in pixels, are placed as said, 0 to 1."""
    one, two = (np.array(box).reshape(2, 2).mean(0) for box in (first, second))
    gap = two - one
    if locality in NEAR:
        near = bool((np.abs(gap) < NEAR_PIXELS).any())
        return 1.0 if near else NEAR_PIXELS / float(np.abs(gap).max())
    if locality not in SIDES:
        return 0.0
    axis, sign = SIDES[locality]
    if gap[axis] * sign <= 0 or abs(gap[axis]) <= abs(gap[1 - axis]):
        return 0.0
    shared = iou(first, second)
    return 1.0 if shared < NEAR_IOU else NEAR_IOU / shared


def spatial_score(prompt: str, first: Detection | None, second: Detection | None) -> float:
    """Return T2I-CompBench's score of two things that were found, or not: 0, or from ½ to 1."""
    score = sum(0.25 * one.score for one in (first, second) if one is not None)
    if first is not None and second is not None:
        score += position_score(locality_of(prompt), first.box, second.box) / 2
    return score if score >= 0.5 else 0.0


def numeracy_score(wanted: Mapping[str, int], found: Sequence[Detection]) -> float:
    """Return the score of numbers: half for each name that is there, half for its exact number.

    Names are those of the prompt, each compared with the detections of its class: "two boys and a
    girl" are two numbers of persons, as published.
    """
    kept: list[Detection] = []
    for one in found:
        if not any(one.name == other.name and _one(one.box, other.box) for other in kept):
            kept.append(one)
    counts = Counter(one.name for one in kept)
    there = [(counts[_class(name)], n) for name, n in wanted.items()]
    return sum(0.5 * (seen > 0) + 0.5 * (seen == n) for seen, n in there) / len(there)


def _one(a: Box, b: Box) -> bool:
    # Sides are counted in whole pixels, as published.
    sides = [max(0.0, min(a[at + 2], b[at + 2]) - max(a[at], b[at]) + 1) for at in (0, 1)]
    areas = [(box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)]
    shared = sides[0] * sides[1]
    return max(shared / (sum(areas) - shared), *(shared / area for area in areas)) > SAME


STATE = "state"
"""Key of the attribute that says what an object does."""


def phrases_of(scene: SceneGraph) -> tuple[str, ...]:
    """Return the noun phrases of ``scene``: each object with its attributes, each once.

    What an object does ("sitting") is no part of its noun phrase.
    """
    return tuple(
        dict.fromkeys(
            " ".join([*(v for k, v in one.attributes.items() if k != STATE), one.name])
            for one in scene.objects
        )
    )


def _class(name: str) -> str:
    return "person" if name in PERSONS else name


SPATIAL, NUMERACY, ACTION = "spatial", "numeracy", "action"
PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("color", "shape", "texture"), ("attribute",)),
    "spatial": (SPATIAL,),
    "numeracy": (NUMERACY,),
    "non_spatial": (ACTION,),
    "complex": ("attribute", SPATIAL, ACTION),
}
"""Category → what its score is the mean of; a complex prompt may leave one of the last two out."""


class CompBench(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "compbench"
    maker = 2
    needs: frozenset[Need] = frozenset({"image", "prompt", "scene"})

    def __init__(
        self,
        bench: MetricJudges,
        detector: Detector | None = None,
        encoder: TextImageEncoder | None = None,
    ) -> None:
        """Ask ``bench`` about attributes; find things by ``detector``, actions by ``encoder``."""
        super().__init__(bench)
        self._detector, self._encoder = detector, encoder

    def wording(self) -> str:
        """Return the fingerprints of detector and encoder."""
        models = (self._detector, self._encoder)
        return " ".join("" if one is None else one.fingerprint for one in models)

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """Return one question a noun phrase, where the category asks about attributes."""
        if "attribute" not in self._parts(sample):
            return ()
        assert sample.item.scene is not None
        return [
            Fact(
                id=f"phrase:{at}",
                kind="attribute",
                subject=said,
                statement=said,
                question=f"{said[:1].upper()}{said[1:]}?",
            )
            for at, said in enumerate(phrases_of(sample.item.scene))
        ]

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """Return the product of the probabilities; None where one is missing."""
        return None if np.isnan(likely).any() else float(likely.prod())

    async def score(self, sample: Sample) -> MetricScore:
        """Return the mean of the parts that the item's category has."""
        try:
            wanted = self._parts(sample)
        except MetricError as error:
            return MetricScore(value=None, reason=str(error))
        base = await super().score(sample) if "attribute" in wanted else None
        parts: dict[str, float | None] = {} if base is None else {"attribute": base.value}
        reasons = [base.reason] if base is not None and base.value is None else []
        for name in wanted:
            if name == "attribute":
                continue
            try:
                parts[name] = await self._measured(name, sample)
            except (MetricError, DetectionError) as error:
                parts[name] = None
                reasons.append(str(error))
        known = [value for value in parts.values() if value is not None]
        value = sum(known) / len(known) if len(known) == len(parts) else None
        if base is None:
            return MetricScore(value=value, parts=parts, reason="; ".join(reasons))
        told = "; ".join(reasons) if value is None else base.reason
        return base.model_copy(
            update={"value": value, "parts": {**base.parts, **parts}, "reason": told}
        )

    def _parts(self, sample: Sample) -> tuple[str, ...]:
        category = sample.item.category
        if category not in PARTS:
            raise MetricError(
                f"there is no rule for the category {category or 'of no name'} here: T2I-CompBench "
                "measures depth (3d_spatial) by a model of its own"
            )
        leaves = {SPATIAL: ACTION, ACTION: SPATIAL}.get(sample.item.meta.get(THREE_IN_ONE, ""))
        return tuple(name for name in PARTS[category] if name != leaves)

    async def _measured(self, name: str, sample: Sample) -> float:
        scene = sample.item.scene
        assert scene is not None
        image = await asyncio.to_thread(sample.load)
        if name == ACTION:
            if self._encoder is None:
                raise MetricError('no encoder is named: give extractor, for example "OWNER/NAME"')
            # Adjectives are left out, as published; a state is what something does.
            words = {
                word
                for one in scene.objects
                for key, value in one.attributes.items()
                if key != STATE
                for word in value.split()
            }
            said = sample.prompt.split()
            if sample.item.category == "complex":
                said = [word for word in said if word not in words]
            encoded = await self._encoder.texts([" ".join(said)])
            cosine = float((await self._encoder.images([image]) @ encoded.vectors.T)[0, 0])
            if not np.isfinite(cosine):
                raise MetricError("the encoder gives vectors that have no direction")
            return cosine
        if self._detector is None:
            raise MetricError('no detector is named: give detector, for example "transformers:…"')
        if name == SPATIAL and not scene.relations:
            raise MetricError("the scene of the prompt has no relation")
        names = {one.id: _class(one.name) for one in scene.objects}
        classes = list(dict.fromkeys(names.values()))
        for reason in unknown_labels(self._detector, classes).values():
            raise MetricError(reason)
        detected = await self._detector.detect(image, classes)
        found = sorted(detected, key=lambda one: -one.score)
        if name == NUMERACY:
            return numeracy_score(Counter(one.name for one in scene.objects), found)
        # A complex prompt also has relations that are no place.
        place = locality_of(sample.prompt)
        placed = (one for one in scene.relations if place and place in one.predicate)
        relation = next(placed, scene.relations[0])
        ends = [
            next((one for one in found if one.name == names[end]), None)
            for end in (relation.source, relation.target)
        ]
        return spatial_score(sample.prompt, *ends)


def make_compbench(
    settings: Settings | None, detector: Any = None, extractor: Any = None, **voting: Any
) -> CompBench:
    """Make the metric of the registry.

    Raises ``MetricError`` for a wrong option, and ``DetectionError`` if the detector is not on this
    machine.
    """
    here = settings or load_settings()
    bench = metric_judges_of(CompBench.name, here, **voting)
    encoder = None if extractor is None else encoder_of(CompBench.name, extractor, {})
    found = None
    if detector is not None:
        found = cached_detector_of(text("detector", detector), DetectorSettings())
    return CompBench(bench, found, encoder)
