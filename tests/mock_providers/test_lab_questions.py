"""TIFA and DSG over the wire: the metrics' own questions from a model behind each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.agents.chat.model import account_chat
from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.peers.panel_metric import MetricJudges
from scenewright.evals.studies.peers.question_metrics import Dsg, Tifa
from scenewright.evals.studies.peers.questions import (
    DsgMaker,
    QuestionMaker,
    QuestionSource,
    TifaMaker,
)
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers import AnswerStore
from scenewright.providers.caller import Caller
from tests.doubles import ScriptedJudge, painted

TEXT = "two dogs left of a small red ball on a wooden table"


@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic"])
async def test_questions_are_written_filtered_kept_and_answered(
    lab: ThreadedMockProviders, key: str, provider: str, tmp_path: Path
) -> None:
    caller = Caller("lab", priced=False, attempts=3)
    url = lab.openai_url if provider == "openai" else lab.url
    chat = account_chat(provider, "instant", caller, api_key=key, base_url=url)
    image = painted((8, 8), (0, 0, 0))
    sample = Sample(Item(id="x", prompt=TEXT), TEXT, "f" * 64, lambda: image)
    asked = MetricJudges((ScriptedJudge("one", level=lambda fact: -1),), AnswerStore(None))
    try:
        with Ledger(tmp_path / "q.db") as ledger:
            model = TextModel("lab:instant", chat)
            lab.schedule("invalid_json", key=key)
            makers: list[QuestionMaker] = [
                TifaMaker(ledger, model, "both"),
                DsgMaker(ledger, model),
            ]
            tifa, dsg = (QuestionSource("chat", maker) for maker in makers)
            assert (await Tifa(asked, tifa).score(sample)).value == 1.0
            assert (await Dsg(asked, dsg).score(sample)).value == 1.0
            questions = {fact.question: fact for fact in (await tifa.of(sample)).facts}
            graph = {fact.question: fact for fact in (await dsg.of(sample)).facts}
            answered = lab.report()["accounts"][key]["answered"]
            # Another process, or another day: nothing is asked twice.
            for maker in makers:
                await maker.make(TEXT)
            assert lab.report()["accounts"][key]["answered"] == answered
    finally:
        await chat.aclose()
        await caller.aclose()
    assert {"Is there a dog?", "Is there a ball?", "Is there a table?"} == set(questions)
    assert set(graph) == set(questions)
    assert all(fact.expected == "yes" for fact in questions.values())
