"""The second consensus: relations that any model names are put to judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps
from scenewright.evals.annotation.pipeline import Building
from tests.evals.annotation.building import Photos, config_of, lines_of, voter

ON = ("dog.1", "on", "ball.1")
HOLDING = ("person.1", "holding", "ball.1")
NEAR = ("person.1", "near", "dog.1")


class Strict:
    """Says yes to one predicate, no to others, and nothing of ``near``."""

    id = "test:strict"
    fingerprint = "strict-1"
    caps = JudgeCaps(facts_per_call=32, probability="logprob", max_side=1024, local=True)

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.asked += [fact.question for fact in facts]
        return [self._one(fact) for fact in facts]

    def _one(self, fact: Fact) -> Answer:
        if fact.predicate == "near":
            return Answer(fact_id=fact.id, judge_id=self.id, state="unscored", reason="too dark")
        yes = fact.predicate == "holding"
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if yes else "no",
            probability=0.9 if yes else 0.2,
            method="logprob",
        )

    async def aclose(self) -> None:
        return None


async def test_judges_decide_and_are_asked_once(tmp_path: Path) -> None:
    photos = Photos(tmp_path / "photos", 2)
    voters = [voter("a:1", lambda ids: [ON, NEAR]), voter("b:2", lambda ids: [ON, HOLDING])]
    config = config_of("a:1", "b:2", consensus="judges", judges=("test:strict",))
    judge = Strict()
    for _ in range(2):
        building = Building(config, photos, tmp_path / "set", voters, None, [judge])
        try:
            made = await building.run(building.plan())
        finally:
            building.close()
    for line in lines_of(tmp_path / "set" / "graphs.jsonl"):
        [kept] = line["relationships"]
        assert (kept["relation"], kept["score"], kept["votes"]) == ("holding", 0.9, 1)
    assert made.graphs == 2
    questions = [text for text in judge.asked if "dog" not in text]
    assert (
        questions == ["What is the relationship between the person and the ball in the image?"] * 2
    )
    # What a judge could not tell is asked again, and nothing else.
    assert len(judge.asked) == 2 * 3 + 2


async def test_why_a_judge_said_nothing_is_kept(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    photos = Photos(tmp_path / "photos", 1)
    config = config_of("a:1", consensus="judges", judges=("test:strict",), least_relations=0)
    building = Building(
        config, photos, tmp_path / "set", [voter("a:1", lambda ids: [NEAR])], None, [Strict()]
    )
    try:
        await building.run(building.plan())
    finally:
        building.close()
    [row] = pq.read_table(tmp_path / "set" / "votes.parquet").to_pylist()
    assert (row["kept"], row["chance"], row["share"]) == (False, None, 1.0)
    assert "too dark" in row["reason"]
