"""The two-stage extractor: what comes together, and what a failing part costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from scenewright.core.ports.vision import (
    DetectionError,
    Dropped,
    ExtractionError,
    PairScores,
    ReadAttribute,
    Unread,
    Verification,
)
from scenewright.evals.store.extractions import data_of, extraction_of
from scenewright.tools.vision.extraction.building import MergeRule, Thresholds
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from tests.tools.vision.extraction.conformance import ExtractorConformance, check
from tests.tools.vision.extraction.extraction_doubles import (
    SIZE,
    GivenDetector,
    GivenReader,
    GivenScorer,
    GivenVerifier,
    picture,
    seen,
)

DETECTOR = GivenDetector([seen("person"), seen("ball", (40, 20, 60, 40), 0.8)])
SCORES = [
    PairScores("person.1", "ball.1", 0.1, {"kicking": 0.9, "left of": 0.6, "holding": 0.2}),
    PairScores("ball.1", "person.1", 0.7, {"on": 0.9}),
]


def extractor(**changes: object) -> TwoStageExtractor:
    made = TwoStageExtractor(
        GivenDetector(DETECTOR.found),
        GivenReader({"ball.1": [ReadAttribute("color", "red", 0.7)]}),
        GivenScorer(SCORES),
        GivenVerifier({"left of": Verification(False, 0.2), "kicking": Verification(True, 0.95)}),
        keys=lambda label: ("color",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


class TestConformance(ExtractorConformance):
    @pytest.fixture
    def extractor(self) -> TwoStageExtractor:
        return extractor()

    @pytest.fixture
    def broken(self) -> TwoStageExtractor:
        return extractor(detector=GivenDetector(DetectionError("the weights are not there")))


async def test_the_parts_come_together() -> None:
    found = await extractor().extract(picture())
    assert [item.id for item in found.scene.objects] == ["person.1", "ball.1"]
    assert found.scene.object("ball.1").attributes == {"color": "red"}
    assert [str(relation) for relation in found.scene.relations] == ["person.1 kicking ball.1"]
    assert found.confidence == {
        "o:person.1": 0.9,
        "o:ball.1": 0.8,
        "a:ball.1:color": 0.7,
        "r:person.1|kicking|ball.1": 0.95,
    }
    assert found.dropped == (
        Dropped("color of person.1", "attributes", "it could not be seen for sure"),
        Dropped("person.1 holding ball.1", "relations", "score 0.20 < 0.4"),
        Dropped("ball.1 and person.1", "relations", "no relation 0.70 ≥ 0.5"),
        Dropped("person.1 left of ball.1", "verification", "not confirmed, 0.20"),
    )
    assert found.complete
    assert found.reason == ""


async def test_without_a_verifier_both_edges_of_a_pair_stand() -> None:
    found = await extractor(verifier=None).extract(picture())
    assert [r.predicate for r in found.scene.relations] == ["kicking", "left of"]
    assert found.confidence["r:person.1|left of|ball.1"] == 0.6


async def test_each_failing_part_costs_only_itself() -> None:
    reader = GivenReader({"person.1": RuntimeError("cut off"), "ball.1": []})
    found = await extractor(reader=reader).extract(picture())
    assert len(found.scene.relations) == 1
    assert found.unread == (
        Unread("attributes", "RuntimeError: cut off", ("person.1",), ("color",)),
    )
    assert found.reason == "color of person.1: RuntimeError: cut off"
    assert not found.complete
    assert found.unread_parts("attributes", "person.1")
    assert not found.unread_parts("attributes", "ball.1")
    # It is not known that no colour can be seen.
    assert not any("person.1" in one.what for one in found.dropped if one.stage == "attributes")
    scorer = GivenScorer(ExtractionError("the model gave no JSON"))
    found = await extractor(scorer=scorer).extract(picture())
    assert found.scene.object("ball.1").attributes
    assert not found.scene.relations
    assert found.unread == (Unread("relations", "the model gave no JSON"),)
    assert found.unread_parts("relations", "person.1", "ball.1")
    assert not found.unread_parts("attributes", "ball.1")
    found = await extractor(verifier=GivenVerifier(RuntimeError("cut off"))).extract(picture())
    assert not found.scene.relations
    ends = ("person.1", "ball.1")
    assert found.unread == tuple(
        Unread("relations", "RuntimeError: cut off", ends, (predicate,))
        for predicate in ("kicking", "left of")
    )
    assert found.reason == "kicking of person.1 and ball.1: RuntimeError: cut off, and 1 more"
    scorer = GivenScorer([PairScores("person.1", "ball.1", 9.0, {"on": 1.0}), *SCORES])
    found = await extractor(scorer=scorer).extract(picture())
    assert len(found.scene.relations) == 1
    assert ["is 9.0" in one.reason for one in found.unread_parts("relations", *ends)] == [True]
    assert not found.unread_parts("relations", "ball.1", "person.1")


async def test_nothing_seen_is_an_empty_graph() -> None:
    found = await extractor(detector=GivenDetector()).extract(picture())
    assert not found.scene
    assert not found.dropped
    alone = await extractor(detector=GivenDetector([seen("ball")])).extract(picture())
    assert len(alone.scene.objects) == 1
    assert not alone.scene.relations


async def test_crowds_are_merged_and_scores_of_instances_joined() -> None:
    crowd = [seen("sheep", (x, 4, x + 12, 16), 0.9 - x / 100) for x in (0, 10, 20)]
    detector = GivenDetector([*crowd, seen("dog", (40, 20, 60, 40))])
    scorer = GivenScorer(
        [
            PairScores("dog.1", "sheep.2", 0.2, {"chasing": 0.5}),
            PairScores("dog.1", "sheep.3", 0.6, {"chasing": 0.8}),
            PairScores("sheep.1", "sheep.2", 0.0, {"beside": 1.0}),
        ]
    )
    made = extractor(detector=detector, scorer=scorer, verifier=None, scored="instances")
    found = await made.extract(picture())
    assert [item.id for item in found.scene.objects] == ["sheep.1", "dog.1"]
    assert [str(r) for r in found.scene.relations] == ["dog.1 chasing sheep.1"]
    assert found.confidence["r:dog.1|chasing|sheep.1"] == 0.8
    assert [one.id for one in scorer.things[0]] == ["sheep.1", "sheep.2", "sheep.3", "dog.1"]
    assert found.dropped[0].stage == "merging"
    check(found, SIZE)
    single = await replace(made, merging=None).extract(picture())
    assert len(single.scene.objects) == 4


async def test_attributes_are_known_to_the_scorer_if_they_are_read_first() -> None:
    scorer = GivenScorer()
    await extractor(scorer=scorer).extract(picture())
    await extractor(scorer=scorer, attributes_first=True).extract(picture())
    assert [one.attributes for one in scorer.things[0]] == [(), ()]
    assert scorer.things[1][1].attributes == (ReadAttribute("color", "red", 0.7),)


async def test_detections_are_sifted_and_told() -> None:
    many = [seen("dog", score=0.9), seen("\x00", score=0.8), seen(" hot   dog", score=0.7)]
    detector = GivenDetector([*many, seen("cat", score=0.6), seen("cow", score=0.1)])
    made = extractor(detector=detector, most=2, labels=("dog",))
    found = await made.extract(picture())
    assert [item.id for item in found.scene.objects] == ["dog.1", "hot dog.1"]
    assert detector.labels == [("dog",)]
    assert not found.scene.relations
    assert any("what was not detected" in one.reason for one in found.dropped)
    told = [(one.what, one.reason) for one in found.dropped if one.stage == "detection"]
    assert told == [("cat 0.60", "2 things are kept"), ("cow 0.10", "2 things are kept")]
    (nameless,) = found.unread_parts("objects")
    assert "control characters" in nameless.reason


async def test_values_that_no_scene_can_hold_are_told() -> None:
    reader = GivenReader({"ball.1": [ReadAttribute("color", "x" * 300)]})
    found = await extractor(reader=reader).extract(picture())
    assert not found.scene.object("ball.1").attributes
    (lost,) = found.unread_parts("attributes", "ball.1")
    assert lost.words == ("color",)
    assert "300 characters" in lost.reason


async def test_a_reader_that_fails_on_one_key_loses_that_key() -> None:
    silent = Unread("attributes", "it is silent", ("ball.1",), ("size",))
    reader = GivenReader({"ball.1": [ReadAttribute("color", "red"), silent]})
    found = await extractor(reader=reader, keys=lambda label: ("color", "size")).extract(picture())
    assert found.scene.object("ball.1").attributes == {"color": "red"}
    assert found.unread == (silent,)


async def test_a_pair_that_the_scorer_fails_on_is_unknown_also_between_crowds() -> None:
    lost = Unread("relations", "HTTP 503", ("person.1", "ball.1"), ("holding",))
    found = await extractor(scorer=GivenScorer([lost])).extract(picture())
    assert found.unread == (lost,)
    crowd = [seen("sheep", (x, 4, x + 12, 16)) for x in (0, 10, 20)]
    inside = Unread("relations", "HTTP 503", ("sheep.1", "sheep.2"))
    other = Unread("relations", "HTTP 503", ("sheep.3", "dog.1"))
    made = extractor(
        detector=GivenDetector([*crowd, seen("dog", (40, 20, 60, 40))]),
        scorer=GivenScorer([inside, other]),
        scored="instances",
    )
    found = await made.extract(picture())
    assert found.unread == (replace(other, objects=("sheep.1", "dog.1")),)


@dataclass
class Flaky:
    """Wraps a part: fails where a call's number is among ``failing``; counts the calls."""

    part: Any
    failing: set[int]
    calls: int = 0

    @property
    def fingerprint(self) -> str:
        return str(self.part.fingerprint)

    async def _do(self, work: Any, given: Any) -> Any:
        self.calls += 1
        if self.calls in self.failing:
            raise RuntimeError("HTTP 503")
        return await work(*given)

    async def detect(self, *given: Any) -> Any:
        return await self._do(self.part.detect, given)

    async def read(self, *given: Any) -> Any:
        return await self._do(self.part.read, given)

    async def score(self, *given: Any) -> Any:
        return await self._do(self.part.score, given)

    async def verify(self, *given: Any) -> Any:
        return await self._do(self.part.verify, given)


@pytest.mark.parametrize("failing", ["reader", "scorer", "verifier"])
async def test_what_failed_alone_is_asked_again(failing: str) -> None:
    whole = extractor()
    names = ("detector", "reader", "scorer", "verifier")
    parts = {name: Flaky(getattr(whole, name), {1} if name == failing else set()) for name in names}
    made = extractor(**parts)
    before = await made.extract(picture())
    assert not before.complete
    assert all("HTTP 503" in one.reason for one in before.unread)
    stored = extraction_of(json.loads(json.dumps(data_of(before))))
    first = {name: part.calls for name, part in parts.items()}
    healed = await made.resume(picture(), stored)
    assert healed == await whole.extract(picture())
    assert not healed.answered
    more = {name: part.calls - first[name] for name, part in parts.items()}
    # A scorer that failed had left nothing to verify.
    assert more == {
        name: int(name == failing or (name, failing) == ("verifier", "scorer")) for name in names
    }


async def test_a_candidate_that_failed_is_verified_alone() -> None:
    asked: list[list[str]] = []

    class Listening(GivenVerifier):
        async def verify(self, image: Any, things: Any, candidates: Any) -> Any:
            asked.append([one.relation.predicate for one in candidates])
            return await super().verify(image, things, candidates)

    answers = {"kicking": Verification(True, 0.95), "left of": Verification(None, failed=True)}
    verifier = Listening(answers)
    made = extractor(verifier=verifier)
    before = await made.extract(picture())
    answers["left of"] = Verification(False, 0.2)
    assert await made.resume(picture(), before) == await extractor().extract(picture())
    assert asked == [["kicking", "left of"], ["left of"]]


async def test_two_of_a_class_whose_attributes_are_unknown_have_unknown_relations() -> None:
    detector = GivenDetector([seen("dog"), seen("dog", (40, 20, 60, 40)), seen("cat")])
    reader = GivenReader({"dog.2": RuntimeError("HTTP 503")})
    made = extractor(detector=detector, reader=reader, scorer=GivenScorer(), attributes_first=True)
    found = await made.extract(picture())
    unknown = {one.objects for one in found.unread if one.part == "relations"}
    assert unknown == {("dog.1", "dog.2"), ("dog.2", "dog.1")}
    assert all("HTTP 503" in one.reason for one in found.unread)


async def test_a_verifier_that_miscounts_confirms_nothing() -> None:
    class Short(GivenVerifier):
        async def verify(self, *given: object) -> tuple[Verification, ...]:  # type: ignore[override]
            return (Verification(True),)

    found = await extractor(verifier=Short()).extract(picture())
    assert not found.scene.relations
    assert {one.reason for one in found.unread} == {"1 answers to 2 candidates"}


async def test_only_an_own_detector_is_closed() -> None:
    for owns in (True, False):
        detector = GivenDetector()
        await extractor(detector=detector, owns_detector=owns).aclose()
        assert detector.closed is owns


def test_the_fingerprint_changes_with_every_part_and_rule() -> None:
    changed: list[dict[str, object]] = [
        {},
        {"detector": GivenDetector(fingerprint="given-2")},
        {"reader": GivenReader(fingerprint="reader-2")},
        {"scorer": GivenScorer(fingerprint="scorer-2")},
        {"verifier": GivenVerifier(fingerprint="verifier-2")},
        {"verifier": None},
        {"keys_id": "other"},
        {"labels": ("dog",)},
        {"most": 7},
        {"merging": None},
        {"merging": MergeRule(4)},
        {"scored": "instances"},
        {"thresholds": Thresholds(0.6)},
        {"exclusive": frozenset({"eating"})},
        {"attributes_first": True},
    ]
    assert len({extractor(**change).fingerprint for change in changed}) == len(changed)
    assert extractor(concurrent=3).fingerprint == extractor().fingerprint
    for wrong in ({"most": 0}, {"concurrent": 0}):
        with pytest.raises(ExtractionError):
            extractor(**wrong)
