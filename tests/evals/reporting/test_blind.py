"""What relation questions give away without the picture: by counts, and by a language model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.core.formats import load_scene
from scenewright.core.predicate_statistics import PredicateStatistics
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import MetricError, Sample
from scenewright.evals.reporting.blind import (
    SceneQuestions,
    blind_of,
    blind_recall,
    constant_guesses,
    frequency_guesses,
)
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.peers.question_metrics import Blind
from tests.agents.replying import ReplyingChat


def asked(*texts: str) -> list[SceneQuestions]:
    """Scenes with their questions, whose wrong options are those of a small table."""
    own = PredicateStatistics(
        {("man", "riding", "horse"): 3, ("man", "feeding", "horse"): 2, ("man", "behind", "x"): 2}
    )
    scenes = [load_scene(text) for text in texts]
    return [SceneQuestions(scene, facts_of(scene, predicates=own)) for scene in scenes]


def test_the_predicate_of_the_pair_in_other_scenes_is_guessed() -> None:
    rows = asked("man riding horse", "man riding horse", "man riding horse", "man feeding horse")
    guesses = frequency_guesses(rows)
    # The scene itself is held out: three scenes say riding, the fourth is guessed wrong.
    assert [guess.right for guess in guesses] == [1.0, 1.0, 1.0, 0.0]
    assert all(guess.seen for guess in guesses)
    found = blind_recall(rows)
    assert found is not None
    assert found.recall.value == pytest.approx(0.75)
    assert found.chance == pytest.approx(0.25)


def test_one_answer_to_all_is_right_where_it_is_right_most_often() -> None:
    rows = asked("man riding horse", "man riding horse", "man feeding horse")
    assert [guess.right for guess in constant_guesses(rows)] == [1.0, 1.0, 0.0]


class Tables:
    """Tables of an evaluation in memory."""

    def __init__(self, asked: list[SceneQuestions], recalls: dict[str, list[float | None]]) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {"items": [], "scores": []}
        for at, one in enumerate(asked):
            facts = "[" + ",".join(fact.model_dump_json() for fact in one.facts) + "]"
            scene = one.scene.model_dump_json()
            self.tables["items"].append({"item": str(at), "scene": scene, "facts": facts})
            for arm, values in recalls.items():
                row = {"item": str(at), "arm": arm, "panel": "report", "metric": "sgscore"}
                self.tables["scores"] += [
                    {**row, "part": "relations", "value": values[at]},
                    {**row, "part": "objects", "value": 1.0},
                ]

    def rows(self, table: str, columns: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the columns of a table."""
        for row in self.tables[table]:
            yield {column: row[column] for column in columns}


def test_recall_is_told_above_what_is_right_without_the_picture() -> None:
    rows = asked("man riding horse", "man riding horse", "man riding horse", "man feeding horse")
    tables: Any = Tables(rows, {"good": [1.0] * 4, "bad": [1.0, None, 0.0, 0.0]})
    found = blind_of(tables)
    assert found is not None
    assert found.recall.value == pytest.approx(0.75)
    # Of the second scene of the bad arm nothing is known: its blind share counts for no one.
    values = {arm: figure.value for (arm, panel), figure in found.above.items()}
    assert values == {"good": pytest.approx(0.25), "bad": pytest.approx(1 / 3 - 2 / 3)}
    assert "above the baseline: good (report) +0.250" in found.sentence


def test_nothing_to_hold_out_or_to_ask_has_no_baseline() -> None:
    assert blind_recall(asked("man riding horse")) is None
    assert blind_recall(asked("man", "horse")) is None


def sample(text: str) -> Sample:
    scene = load_scene(text)
    return Sample(
        item=Item(id="one", scene=scene),
        prompt=text,
        image="0" * 64,
        load=lambda: Image.new("RGB", (8, 8)),
        facts=facts_of(scene),
    )


def scored(folder: Path, text: str, *replies: Any) -> tuple[Any, ReplyingChat]:
    chat = ReplyingChat(replies=list(replies))
    with Ledger(folder / "q.db") as ledger:
        metric = Blind(ledger, TextModel("replying", chat))
        return asyncio.run(metric.score(sample(text))), chat


def guesses(*letters: str) -> dict[str, Any]:
    return {"answers": [{"number": n, "option": one} for n, one in enumerate(letters, start=1)]}


def test_a_language_model_guesses_without_the_picture(tmp_path: Path) -> None:
    text = "man riding horse; dog on rug"
    relations = [fact for fact in sample(text).facts if fact.kind == "relation"]
    right = ["ABCD"[fact.options.index(fact.expected)] for fact in relations]
    none = ["ABCD"[fact.options.index(NO_RELATION)] for fact in relations]
    score, chat = scored(tmp_path, text, guesses(right[0], f"{none[1]})"))
    assert score.value == 0.5
    assert score.parts == {"chance": 0.25}
    # It sees the questions and options, and nothing that tells which one is right.
    assert relations[0].question in chat.said()
    assert "expected" not in chat.said()
    again, chat = scored(tmp_path, text, RuntimeError("not called"))
    assert (again.value, chat.sent) == (0.5, [])


def test_a_reply_that_leaves_a_question_out_is_no_score_and_asked_for_again(tmp_path: Path) -> None:
    text = "man riding horse; dog on rug"
    with pytest.raises(MetricError, match="left out"):
        scored(tmp_path, text, guesses("A"), guesses("A"))
    score, chat = scored(tmp_path, text, guesses("D", "D"))
    assert (score.value, len(chat.sent)) == (0.0, 1)


def test_a_scene_without_relations_is_unscored(tmp_path: Path) -> None:
    score, chat = scored(tmp_path, "man; horse", RuntimeError("not called"))
    assert (score.value, score.reason, chat.sent) == (None, "no relation is asked for", [])
