"""The two-stage extractor: things first, then what is said of them (XTC-Bench, Sec. 3.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import Any, Literal

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.error_text import error_text
from scenewright.core.images import ImageError, to_rgb
from scenewright.core.ports.judge import Judge
from scenewright.core.ports.vision import (
    AttributeReader,
    Candidate,
    Detection,
    DetectionError,
    Detector,
    Dropped,
    Extraction,
    ExtractionError,
    PairScores,
    ReadAttribute,
    RelationScorer,
    RelationVerifier,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.scene import MAX_OBJECTS, SceneError, clean_name
from scenewright.core.vocabulary import EXCLUSIVE
from scenewright.tools.digests import short_digest
from scenewright.tools.vision.concurrency import map_bounded
from scenewright.tools.vision.detection.masks import data_of_detection, detection_of
from scenewright.tools.vision.extraction.building import (
    MergedDetections,
    MergeRule,
    Thresholds,
    above_thresholds,
    build_extraction,
    merge_detections,
    merge_scores,
    without_rivals,
)
from scenewright.tools.vision.extraction.partial_results import (
    DETECTIONS,
    PartialResults,
    attributes_part,
    check_part,
    scores_part,
)

Keys = Callable[[str], Sequence[str]]
"""From a class label to the attribute keys that are asked for."""
Scored = Literal["things", "instances"]
"""Input of the scorer of relations: what is left after merging, or every instance, as a
trained one wants; the scores of instances are joined where these were merged."""


@dataclass(frozen=True)
class TwoStageExtractor:
    """Extractor in two stages: detection first, then attributes and relations.

    Implements :class:`~scenewright.core.ports.vision.GraphExtractor` and
    :class:`~scenewright.core.ports.vision.Resumable`. Detects, merges, reads attributes and
    scores relations side by side, applies thresholds, verifies, applies exclusive predicates. A
    part that fails costs only itself and is listed in ``unread``.
    """

    detector: Detector
    """Finds the things."""
    reader: AttributeReader | None = None
    """Reads their attributes; none: they have none."""
    scorer: RelationScorer | None = None
    """Scores the relations; none: there are none."""
    verifier: RelationVerifier | None = None
    """Confirms what passed the thresholds; none: all of it stands."""
    keys: Keys = lambda label: ()
    """Attribute keys of a class."""
    keys_id: str = ""
    """Changes with :attr:`keys`: a function has no fingerprint."""
    labels: tuple[str, ...] = ()
    """Classes that are looked for; none: all that the detector knows."""
    most: int = 100
    """Most detections that are kept, by score."""
    merging: MergeRule | None = field(default_factory=MergeRule)
    """Rule by which crowds of one class become one node; None: none does."""
    scored: Scored = "things"
    """Input of the scorer."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    """Thresholds of relations."""
    exclusive: frozenset[str] = EXCLUSIVE
    """Predicates that one subject alone can have toward an object."""
    attributes_first: bool = False
    """Read the attributes before relations are scored, not beside it: for scorers and verifiers
    that tell two things of one class apart by them."""
    concurrent: int = 8
    """Most things whose attributes are read at once."""
    owns_detector: bool = True
    """Whether :meth:`aclose` closes the detector; one that others use stays open."""
    id: str = "two-stage"
    """Name in tables."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 1 <= self.most <= MAX_OBJECTS or self.concurrent < 1:
            raise ExtractionError(
                f"most {self.most}, concurrent {self.concurrent}: use 1 to {MAX_OBJECTS}, and 1 or "
                "more"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Of every part and every rule."""
        parts: Sequence[Any] = (self.reader, self.scorer, self.verifier)
        rules = [
            None if self.merging is None else asdict(self.merging),
            asdict(self.thresholds),
            sorted(self.exclusive),
            *(self.keys_id, list(self.labels), 0.0, self.most, self.scored),
            self.attributes_first,
        ]
        models = [None if part is None else part.fingerprint for part in parts]
        return f"two-stage@2#{short_digest(self.detector.fingerprint, models, rules)}"

    @property
    def judges(self) -> tuple[Judge, ...]:
        """The judges that its parts ask, each once."""
        benches = [
            getattr(part, "bench", None) for part in (self.reader, self.scorer, self.verifier)
        ]
        asked = [judge for one in benches if one is not None for judge in one.judges]
        return tuple({judge.id: judge for judge in asked}.values())

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """Return the classes searched for, the attribute values and the predicates.

        Values and predicates only where reader and scorer have lists of them; there are none
        without a reader or a scorer. See :func:`~scenewright.core.ports.vision.vocabulary_of`.
        """
        words = self.detector.vocabulary
        classes = self.labels or (None if words is None else words.classes)
        values: Mapping[str, Sequence[str]] | None = getattr(self.reader, "values", None)
        predicates: Sequence[str] | None = getattr(self.scorer, "predicates", None)
        values = {} if self.reader is None else values
        predicates = () if self.scorer is None else predicates
        if classes is None and values is None and predicates is None:
            return None
        return ClosedVocabulary(
            classes=classes,
            attributes=None if values is None else {k: tuple(v) for k, v in values.items()},
            predicates=None if predicates is None else tuple(predicates),
        )

    async def extract(self, image: Image.Image) -> Extraction:
        """Return the graph of ``image``.

        Raises ``ExtractionError`` if nothing can be detected for want of a model, and
        ``ImageError`` for an image that cannot be read.
        """
        return await self._extract(image, PartialResults({}))

    async def resume(self, image: Image.Image, before: Extraction) -> Extraction:
        """Return the same, with only that asked again which is unread in ``before``."""
        return await self._extract(image, PartialResults(before.answered))

    async def _extract(self, image: Image.Image, known: PartialResults) -> Extraction:
        picture = await asyncio.to_thread(to_rgb, image)
        # The detector gets the image as it was given: recorded ones know it by its file's name.
        found, dropped, unread = await self._detected(image, known)
        things = merge_detections(found, self.merging)
        dropped += things.told
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._attributes(picture, things.things, known))
            if self.attributes_first:
                read = (await reading)[0]
                described = [replace(t, attributes=read.get(t.id, ())) for t in things.things]
                things = replace(things, things=tuple(described))
            scoring = group.create_task(self._scores(picture, found, things, known))
        attributes, unseen, lost = reading.result()
        scores, unscored = scoring.result()
        ids = {one.id for one in things.things}
        candidates: list[Candidate] = []
        below: list[Dropped] = []
        for pair in scores:
            if not {pair.source, pair.target} <= ids:
                # A pair of unknown ids costs itself.
                what = f"{pair.source} and {pair.target}"
                below.append(Dropped(what, "relations", "the scores name what was not detected"))
                continue
            some, gone = above_thresholds([pair], self.thresholds)
            candidates += some
            below += gone
        if self.attributes_first:
            unscored += _untold(things.things, lost, scores)
        sure, refused, unsure = await self._verified(picture, things.things, candidates, known)
        kept, rivals = without_rivals([one for one, _ in sure], self.exclusive)
        dropped += [*unseen, *below, *refused, *rivals]
        unread += [*lost, *unscored, *unsure]
        said = {one.relation: check for one, check in sure}
        made = build_extraction(things.things, attributes, kept, said, dropped, unread)
        return made if made.complete else replace(made, answered=known.data)

    async def aclose(self) -> None:
        """Free the detector if it is this extractor's own; judges and language models are not."""
        if self.owns_detector:
            await self.detector.aclose()

    async def _detected(
        self, image: Image.Image, known: PartialResults
    ) -> tuple[list[Detection], list[Dropped], list[Unread]]:
        before = known.get(DETECTIONS, lambda **row: detection_of(row))
        try:
            found = await self.detector.detect(image, self.labels) if before is None else before
        except (ImageError, asyncio.CancelledError):
            raise
        except DetectionError as error:
            raise ExtractionError(str(error)) from error
        except Exception as error:
            raise ExtractionError(f"nothing was detected: {error_text(error)}") from error
        kept: list[Detection] = []
        dropped: list[Dropped] = []
        unread: list[Unread] = []
        for one in found:
            what = f"{one.name} {one.score:.2f}"
            try:
                name = clean_name(one.name, "a label")
            except SceneError as error:
                unread.append(Unread("objects", f"a detection has no usable label: {error}"))
                continue
            if len(kept) >= self.most:
                dropped.append(Dropped(what, "detection", f"{self.most} things are kept"))
            else:
                kept.append(one if one.name == name else replace(one, name=name))
        if not unread:
            known.data[DETECTIONS] = [data_of_detection(one) for one in found]
        return kept, dropped, unread

    async def _attributes(
        self, image: Image.Image, things: Sequence[Thing], known: PartialResults
    ) -> tuple[dict[str, tuple[ReadAttribute, ...]], list[Dropped], list[Unread]]:
        reader = self.reader
        if reader is None:
            return {}, [], []

        async def read(thing: Thing) -> Sequence[ReadAttribute | Unread]:
            keys = tuple(self.keys(thing.detection.name))
            if not keys:
                return ()
            part = attributes_part(thing.id)
            before = known.get(part, ReadAttribute)
            if before is not None:
                return before
            try:
                fresh = await reader.read(image, thing, keys, things)
                results = [_in_scene_words(one, thing.id) for one in fresh]
                known.keep(part, results)
                return results
            except Exception as error:
                # What cannot be read of one thing must not cost the others.
                return (Unread("attributes", error_text(error), (thing.id,), keys),)

        found: dict[str, tuple[ReadAttribute, ...]] = {}
        dropped: list[Dropped] = []
        unread: list[Unread] = []
        every = await map_bounded(read, things, self.concurrent)
        for thing, results in zip(things, every, strict=True):
            found[thing.id] = tuple(one for one in results if isinstance(one, ReadAttribute))
            lost = [one for one in results if isinstance(one, Unread)]
            told = {one.key for one in found[thing.id]} | {w for one in lost for w in one.words}
            unread += lost
            dropped += [
                Dropped(f"{key} of {thing.id}", "attributes", "it could not be seen for sure")
                for key in self.keys(thing.detection.name)
                if key not in told
            ]
        return found, dropped, unread

    async def _scores(
        self,
        image: Image.Image,
        found: Sequence[Detection],
        things: MergedDetections,
        known: PartialResults,
    ) -> tuple[list[PairScores], list[Unread]]:
        if self.scorer is None or len(things.things) < 2:
            return [], []
        alone = things.things if self.scored == "things" else merge_detections(found, None).things
        try:
            results: Sequence[PairScores | Unread] | None
            results = known.get(scores_part(alone), PairScores)
            if results is None:
                fresh = await self.scorer.score(image, alone)
                results = [_in_range(one) for one in fresh]
                known.keep(scores_part(alone), results)
            scores = [one for one in results if isinstance(one, PairScores)]
            lost = [one for one in results if isinstance(one, Unread)]
            if self.scored == "things":
                return scores, lost
            owner = dict(zip((one.id for one in alone), things.owner, strict=True))
            ends = [tuple(owner[id_] for id_ in one.objects) for one in lost]
            unread = [replace(one, objects=end) for one, end in zip(lost, ends, strict=True)]
            # Relations within a thing are none.
            return merge_scores(scores, owner), [
                one for one in unread if len(set(one.objects)) != 1
            ]
        except Exception as error:
            # The objects and what was read of them stand without relations.
            return [], [Unread("relations", error_text(error))]

    async def _verified(
        self,
        image: Image.Image,
        things: Sequence[Thing],
        candidates: Sequence[Candidate],
        known: PartialResults,
    ) -> tuple[list[tuple[Candidate, Verification | None]], list[Dropped], list[Unread]]:
        if self.verifier is None or not candidates:
            return [(one, None) for one in candidates], [], []
        by_id: Mapping[str, Thing] = {one.id: one for one in things}
        parts = [check_part(things, one.relation) for one in candidates]
        before = [known.get(part, Verification) for part in parts]
        asked = [one for one, checks in zip(candidates, before, strict=True) if checks is None]
        try:
            fresh = await self.verifier.verify(image, by_id, asked) if asked else ()
            if len(fresh) != len(asked):
                raise ExtractionError(f"{len(fresh)} answers to {len(asked)} candidates")
        except Exception as error:
            lost = Verification(None, reason=error_text(error), failed=True)
            fresh = (lost,) * len(asked)
        rest = iter(fresh)
        checks = [next(rest) if stored is None else stored[0] for stored in before]
        for part, check in zip(parts, checks, strict=True):
            if not check.failed:
                known.data[part] = asdict(check)
        kept: list[tuple[Candidate, Verification | None]] = []
        dropped: list[Dropped] = []
        unread: list[Unread] = []
        for one, check in zip(candidates, checks, strict=True):
            if check.holds:
                kept.append((one, check))
                continue
            if check.holds is None and check.failed:
                ends = (one.relation.source, one.relation.target)
                why = check.reason or "the verifier gave no answer"
                unread.append(Unread("relations", why, ends, (one.relation.predicate,)))
                continue
            sure = "" if check.confidence is None else f", {check.confidence:.2f}"
            reason = f"not confirmed{sure}"
            if check.holds is None:
                # Precision comes first: what nobody confirms is not in the graph.
                reason = f"it could not be confirmed: {check.reason or 'no answer'}"
            dropped.append(Dropped(str(one.relation), "verification", reason))
        return kept, dropped, unread


def _untold(
    things: Sequence[Thing], lost: Sequence[Unread], scores: Sequence[PairScores]
) -> list[Unread]:
    """Pairs of one class that were not asked about because attributes could not be read.

    These might have told the two apart.
    """
    reasons = {one.objects[0]: one.reason for one in lost}
    asked = {(one.source, one.target) for one in scores}
    pairs = [
        (a, b)
        for a, b in permutations(things, 2)
        if a.detection.name == b.detection.name and {a.id, b.id} & reasons.keys()
    ]
    return [
        Unread(
            "relations",
            f"the two could not be told apart: {reasons.get(a.id) or reasons[b.id]}",
            (a.id, b.id),
        )
        for a, b in pairs
        if not {(a.id, b.id), (b.id, a.id)} & asked
    ]


def _in_scene_words(read: ReadAttribute | Unread, thing: str) -> ReadAttribute | Unread:
    """``read`` in the words of a scene; those that no scene can hold are no answer."""
    if isinstance(read, Unread):
        return read
    try:
        key = clean_name(read.key, "an attribute key")
        return replace(read, key=key, value=clean_name(read.value, f"the value of {key!r}"))
    except SceneError as error:
        return Unread("attributes", str(error), (thing,), (read.key,))


def _in_range(scores: PairScores | Unread) -> PairScores | Unread:
    """``scores``, of which those that are no probabilities are no answer."""
    if isinstance(scores, Unread):
        return scores
    try:
        above_thresholds([scores], Thresholds())
    except ExtractionError as error:
        return Unread("relations", str(error), (scores.source, scores.target))
    return scores
