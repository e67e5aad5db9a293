"""Judges that are served by another version in the middle, where no evaluation watches them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.evals.judge_reports.grading import Grading
from scenewright.evals.judge_reports.judge_runs import PLAIN, run_judges
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.sources.live_judges import query_table
from scenewright.providers import AnswerStore
from scenewright.tools.vision.extraction.panel_questions import _answers
from tests.evals.oracle import Oracle

FACTS = synthetic_facts(4, seed=11)


@dataclass
class Changing(Oracle):
    """Tells v1 for its first two calls and v2 from then on."""

    local: bool = True

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        model = "v1" if len(self.asked) < 2 else "v2"
        found = await super().answer(image, facts)
        return [answer.model_copy(update={"model": model}) for answer in found]


async def test_a_report_card_says_so(caplog: pytest.LogCaptureFixture) -> None:
    judge = Changing(FACTS, name="card")
    with caplog.at_level(logging.WARNING, "scenewright.providers"):
        found = await run_judges([judge], FACTS, store=AnswerStore(None), plan=PLAIN)
    (mixture,) = {one.mixture for one in found}
    assert mixture.startswith("Model changed: oracle:card was served as v1 (")
    made = Grading(FACTS, seed=1).report(found, "tests")
    said = made.document("Judges", "Card", "").markdown()
    assert mixture in said
    # The log tells it once, as soon as it is seen.
    (line,) = [r.getMessage() for r in caplog.records if "oracle:card" in r.getMessage()]
    assert "is now served as v2: what is made of its answers is of both" in line


async def test_a_panel_study_says_so() -> None:
    loaded = await query_table(
        "t", "About.", FACTS, [Changing(FACTS, name="study"), Oracle(FACTS)], AnswerStore(None)
    )
    (note,) = loaded.notes
    assert note.startswith("Model changed: oracle:study was served as v1 (")


async def test_judges_that_are_asked_without_a_store_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    judge = Changing(FACTS, name="extractor")
    image = FACTS[0].picture.load()
    with caplog.at_level(logging.WARNING, "scenewright.providers"):
        for _ in range(4):
            await _answers(judge, image, [FACTS[0].fact])
    assert len([r for r in caplog.records if "oracle:extractor was served" in r.message]) == 1


async def test_one_version_says_nothing() -> None:
    (found,) = await run_judges([Oracle(FACTS)], FACTS, store=AnswerStore(None), plan=PLAIN)
    assert found.mixture == ""
