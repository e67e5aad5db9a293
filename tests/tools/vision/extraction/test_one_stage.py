"""The one-stage extractor, by a language model and by judges."""

from __future__ import annotations

from typing import Any

import pytest

from scenewright.core.ports.vision import Unread
from scenewright.tools.vision.extraction.one_stage import OneStageExtractor, PictureParser
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.world import World, miniature_world
from tests.agents.replying import ReplyingChat
from tests.tools.vision.extraction.conformance import ExtractorConformance
from tests.tools.vision.extraction.extraction_doubles import SayingJudge, picture

GRAPH: dict[str, Any] = {
    "objects": [
        {"id": "dog.1", "name": "dog", "attributes": [{"key": "color", "value": "brown"}]},
        {"id": "ball.1", "name": "ball", "attributes": []},
    ],
    "relationships": [{"source": "dog.1", "target": "ball.1", "relation": "left of"}],
}
SILENT = "0 of 1 judges scored it, the quorum is 1 (test:judge: it is silent)"
SMALL = World(kinds=("dog", "cat"), attributes={"color": ("red", "blue")})


def by_chat(*replies: Any) -> OneStageExtractor:
    return OneStageExtractor.by_chat(PictureParser(ReplyingChat(replies=list(replies))))


def judge(chance: float | None) -> SayingJudge:
    def says(fact: Any, image: Any) -> dict[str, float] | None:
        if chance is None:
            return None
        sees = fact.question in ("Is there a dog in the image?", "Is the dog red?")
        return {"yes": chance if sees else 1 - chance, "no": 1 - chance if sees else chance}

    return SayingJudge(says)


class TestChat(ExtractorConformance):
    @pytest.fixture
    def extractor(self) -> OneStageExtractor:
        return by_chat(GRAPH)

    @pytest.fixture
    def broken(self) -> OneStageExtractor:
        return by_chat("I see nothing.")


class TestLostCalls(ExtractorConformance):
    @pytest.fixture
    def extractor(self) -> OneStageExtractor:
        return by_chat(GRAPH)

    @pytest.fixture
    def broken(self) -> OneStageExtractor:
        return by_chat(RuntimeError("no network"))


class TestJudges(ExtractorConformance):
    @pytest.fixture
    def extractor(self) -> OneStageExtractor:
        return OneStageExtractor.by_judges(ExtractionPanel([judge(0.9)]), SMALL)

    @pytest.fixture
    def broken(self) -> OneStageExtractor:
        return OneStageExtractor.by_judges(ExtractionPanel([judge(None)]), SMALL)


async def test_what_judges_confirm_is_the_graph() -> None:
    found = await OneStageExtractor.by_judges(ExtractionPanel([judge(0.9)]), SMALL).extract(
        picture()
    )
    assert [(i.id, dict(i.attributes)) for i in found.scene.objects] == [
        ("dog.1", {"color": "red"})
    ]
    assert not found.things
    assert not found.confidence


async def test_what_judges_give_no_answer_to_is_unread() -> None:
    def says(fact: Any, image: Any) -> dict[str, float] | None:
        if "cat" in fact.question or "red" in fact.question:
            return None
        sees = fact.question == "Is there a dog in the image?"
        return {"yes": float(sees), "no": float(not sees)}

    made = OneStageExtractor.by_judges(ExtractionPanel([SayingJudge(says)]), SMALL)
    found = await made.extract(picture())
    assert [item.id for item in found.scene.objects] == ["dog.1"]
    assert found.unread == (
        Unread("objects", SILENT, words=("cat",)),
        Unread("attributes", SILENT, ("dog.1",), ("color",)),
    )


async def test_relations_that_judges_give_no_answer_to_are_unread() -> None:
    def says(fact: Any, image: Any) -> dict[str, float] | None:
        if fact.kind == "relation":
            return None
        sees = fact.question.startswith("Is there")
        return {"yes": float(sees), "no": float(not sees)}

    world = World(kinds=("dog", "ball"), predicates=("left of",))
    found = await OneStageExtractor.by_judges(ExtractionPanel([SayingJudge(says)]), world).extract(
        picture()
    )
    assert {one.objects for one in found.unread} == {("dog.1", "ball.1"), ("ball.1", "dog.1")}
    assert found.unread_parts("relations", "dog.1", "ball.1")[0].words == ("left of",)


def test_fingerprints_change_with_judges_and_words() -> None:
    one, two = (
        ExtractionPanel([judge(0.9)]),
        ExtractionPanel([SayingJudge(lambda f, i: None, fingerprint="other")]),
    )
    prints = {
        OneStageExtractor.by_judges(one, SMALL).fingerprint,
        OneStageExtractor.by_judges(two, SMALL).fingerprint,
        OneStageExtractor.by_judges(one, miniature_world()).fingerprint,
        OneStageExtractor.by_judges(one, SMALL, most=3).fingerprint,
        by_chat(GRAPH).fingerprint,
    }
    assert len(prints) == 5
