"""A judge of realism: finds the objects of a picture and says how real each looks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cached_property

from PIL import Image

from scenewright.config.model_identity import ModelIdentity, identity_of_spec
from scenewright.core.error_text import error_text
from scenewright.core.facts import Answer, Fact, FactKind
from scenewright.core.ports.judge import JudgeCaps, JudgeError, unscored
from scenewright.core.ports.vision import (
    HIGHEST,
    Detection,
    DetectionError,
    Detector,
    ObjectRealism,
    RealismError,
    RealismScorer,
    normalized,
)
from scenewright.core.questions import object_in_words
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.detection.labels import normalized_label, unknown_labels
from scenewright.tools.vision.realism.pictures import (
    LEAST_SCORE,
    InstanceReader,
    assign_objects,
    candidates,
)

_READING = 1
"""Raised when the same object would get another score."""


THRESHOLD = 0.5
"""Normalised score above which an aspect counts as real: more than 3 of 5."""
_FACTS = 512
_MAX_SIDE = 1333
_KINDS: frozenset[FactKind] = frozenset({"realism"})


class OlipJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge` for facts of realism.

    A detector looks once, for the classes that the facts speak of; each object of the scene gets
    a detected one of its class (:mod:`scenewright.tools.vision.realism.pictures`: by likeness to
    its phrase if the scorer can tell, else by size) and is scored by any
    :class:`~scenewright.core.ports.vision.RealismScorer`, OLIP or another. The probability
    of a fact is its score from 1 to 5 on the scale from 0 to 1 (method ``regression``); ``region``
    is the object's box. What was not detected, or could not be scored, is unscored with its reason.
    """

    def __init__(self, scorer: RealismScorer, detector: Detector) -> None:
        """Others use ``scorer`` and ``detector`` as well: :meth:`aclose` leaves them open."""
        self._scorer = scorer
        self._detector = detector

    @property
    def id(self) -> str:
        """The scorer's: ``olip:`` and the name."""
        return self._scorer.id

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of scorer, detector and the rules by which objects are found."""
        return json_digest(
            self._scorer.fingerprint, self._detector.fingerprint, THRESHOLD, _READING
        )

    @property
    def identity(self) -> ModelIdentity:
        """The scorer, whatever finds the objects for it."""
        named = identity_of_spec(self.id)
        return ModelIdentity(
            self.id,
            "" if named is None else named.name,
            self._scorer.fingerprint,
            self.fingerprint,
        )

    @property
    def caps(self) -> JudgeCaps:
        """Facts of realism only."""
        return JudgeCaps(
            facts_per_call=_FACTS,
            probability="regression",
            max_side=_MAX_SIDE,
            local=True,
            kinds=_KINDS,
            vocabulary=self._detector.vocabulary,
        )

    async def load(self) -> None:
        """Load the models now; ``JudgeError`` if that fails."""
        for part in (self._scorer, self._detector):
            load = getattr(part, "load", None)
            if load is None:
                continue
            try:
                await load()
            except (DetectionError, RealismError) as error:
                raise JudgeError(f"{self.id}: {error}") from error

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact, in order; facts of other kinds are unscored."""
        started = time.perf_counter()
        answers: dict[str, Answer] = {}
        for fact in facts:
            if reason := self._refusal(fact):
                (answers[fact.id],) = unscored(self.id, [fact], reason)
        asked = [fact for fact in facts if fact.id not in answers]
        if asked:
            try:
                found = await self._answers(image, asked)
            except Exception as error:
                # A judge that fails must not take the others down: its silence is recorded.
                found = unscored(self.id, asked, error_text(error))
            seconds = (time.perf_counter() - started) / len(asked)
            for answer in found:
                answers[answer.fact_id] = answer.model_copy(update={"seconds": seconds})
        return [answers[fact.id] for fact in facts]

    async def aclose(self) -> None:
        """Nothing: scorer and detector are shared with others."""

    async def _answers(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        labels = {fact.subject: str(fact.value) for fact in facts}
        phrases = {fact.subject: object_in_words(fact) for fact in facts}
        found = await self._detector.detect(image, tuple(dict.fromkeys(labels.values())))
        chosen: dict[str, Detection] = {}
        reasons: dict[str, str] = {}
        for label in {normalized_label(one): one for one in labels.values()}.values():
            same = {
                key: phrases[key]
                for key, own in labels.items()
                if normalized_label(own) == normalized_label(label)
            }
            seen = candidates(found, label, len(same), image.size)
            picked = await self._assigned(image, label, same, seen)
            chosen |= picked
            for key in same.keys() - picked.keys():
                reasons[key] = self._missing_reason(label, found, len(seen))
        keys = list(chosen)
        scores = await self._scorer.score(image, [chosen[key] for key in keys])
        scored = dict(zip(keys, scores, strict=True))
        return [
            self._answer(
                fact,
                chosen[fact.subject],
                scored[fact.subject],
                [one.id for one in facts if one.subject == fact.subject],
            )
            if fact.subject in scored
            else unscored(self.id, [fact], reasons[fact.subject])[0]
            for fact in facts
        ]

    async def _assigned(
        self, image: Image.Image, label: str, wanted: Mapping[str, str], seen: Sequence[Detection]
    ) -> dict[str, Detection]:
        """Return the object of each of ``wanted`` (subject → phrase, of one class), if any."""
        if not seen:
            return {}
        phrases = list(wanted.values())
        likeness = None
        # Where all are called the same, or there is no choice, words tell nothing.
        described = any(normalized_label(one) != normalized_label(label) for one in phrases)
        several = len(seen) > 1 or len(wanted) > 1
        if described and several and isinstance(self._scorer, InstanceReader):
            likeness = await self._scorer.likeness(image, seen, phrases)
        places = assign_objects(phrases, seen, likeness)
        return {key: seen[at] for key, at in zip(wanted, places, strict=True) if at is not None}

    def _missing_reason(self, label: str, found: Sequence[Detection], seen: int) -> str:
        if seen:
            return f"{self._detector.id} found only {seen} of class {label}, for other objects"
        alike = [one for one in found if normalized_label(one.name) == normalized_label(label)]
        if any(not one.stuff for one in alike):
            best = max(one.score for one in alike if not one.stuff)
            return (
                f"{self._detector.id} is not sure of any {label}: {best:.2f}, below {LEAST_SCORE}"
            )
        if alike:
            return f"{label} is a region without instances to {self._detector.id}: it has no shape"
        return f"{self._detector.id} found no {label}"

    def _answer(
        self, fact: Fact, where: Detection, realism: ObjectRealism, same: Sequence[str]
    ) -> Answer:
        """Return the answer to ``fact``, with its share of the cost of facts on the ``same``."""
        score = realism.shape if fact.key == "shape" else realism.texture
        at, of = same.index(fact.id), len(same)
        common = {
            "region": where.box,
            "tokens_in": realism.tokens_in // of + (at < realism.tokens_in % of),
            "tokens_out": realism.tokens_out // of + (at < realism.tokens_out % of),
            "usd": realism.usd / of,
            "model": f"{self.id.partition(':')[2]}:{self._scorer.fingerprint[:12]}",
        }
        if score is None:
            reason = realism.reason or f"{self.id} gave no {fact.key} score"
            return unscored(self.id, [fact], reason)[0].model_copy(update=common)
        probability = min(1.0, max(0.0, normalized(score)))
        real = probability > THRESHOLD
        other = next(option for option in fact.options if option != fact.expected)
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if real else "no",
            choice=fact.expected if real else other,
            probability=probability,
            method="regression",
            rationale=f"{fact.key} {score:.1f} of {HIGHEST:.0f}",
            **common,
        )

    def _refusal(self, fact: Fact) -> str:
        """Why ``fact`` is not for this judge; empty if it is."""
        if fact.kind != "realism":
            return f"judges the realism of objects, and no facts of the kind {fact.kind}"
        if fact.key not in ("shape", "texture"):
            return f"judges shape and texture, not {fact.key}"
        if not fact.value:
            return "the fact does not say of which class its object is"
        return unknown_labels(self._detector, [fact.value]).get(fact.value, "")
