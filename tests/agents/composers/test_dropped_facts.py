"""Which facts of a scene lie in the part of a prompt that is not read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from scenewright.agents.composers.check import dropped_facts
from scenewright.agents.composers.reading import Text
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of

SCENE = load_scene("red ball on table; dog left of table; dog near chair")
FACTS = facts_of(SCENE)
PROMPT = "A red ball on a table. A dog is left of the table. Another dog is near a chair."


def dropped(read: int | None, prompt: str = PROMPT) -> set[str]:
    found = dropped_facts(SCENE, FACTS, prompt, read)
    statements = {fact.id: fact.statement for fact in FACTS}
    assert len(found) == len(set(found))
    return {statements[id_] for id_ in found}


def test_a_prompt_that_is_read_to_its_end_drops_nothing() -> None:
    assert dropped(None) == set()
    assert dropped(len(PROMPT)) == set()


def test_everything_is_dropped_where_nothing_is_read() -> None:
    assert dropped(0) == {fact.statement for fact in FACTS}


@pytest.mark.parametrize("words", [("chair",), ("chair", "near a chair", "Another dog")])
def test_facts_are_dropped_with_their_words(words: tuple[str, ...]) -> None:
    lost = dropped(PROMPT.index(words[-1]))
    assert any("chair" in statement for statement in lost)
    assert not any("ball" in statement or "table" in statement for statement in lost)


def test_a_relation_is_dropped_though_both_its_objects_are_read() -> None:
    prompt = "A dog, a red ball, a table. The ball is on the table."
    scene = load_scene("red ball on table; dog")
    facts = facts_of(scene)
    found = dropped_facts(scene, facts, prompt, prompt.index("The ball"))
    assert [fact.kind for fact in facts if fact.id in found] == ["relation"]


def test_the_second_of_two_is_dropped_alone() -> None:
    scene = load_scene("dog.1; dog.2; cat")
    facts = facts_of(scene)
    prompt = "A dog and a cat, and beside them another dog."
    found = dropped_facts(scene, facts, prompt, prompt.index("and beside"))
    assert [fact.subject for fact in facts if fact.id in found] == [scene.objects[1].id]


def test_what_the_prompt_never_said_is_not_dropped() -> None:
    assert dropped(10, "A quiet evening in the mountains.") == set()


def test_a_prompt_that_is_no_sentence_is_compared_by_its_words() -> None:
    scene = load_scene("ball on table; dog left of table")
    facts = facts_of(scene)
    prompt = "ball.1, table.1, dog.1; ball.1 on table.1, dog.1 left of table.1"
    found = dropped_facts(scene, facts, prompt, prompt.index(" left"))
    assert [fact.statement for fact in facts if fact.id in found] == ["dog left of table"]


def test_the_prompt_is_read_once_however_many_facts_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    balls = [f"red ball.{at}" for at in range(1, 31)]
    pairs = itertools.pairwise(balls)
    scene = load_scene("; ".join(f"{one} left of {other}" for one, other in pairs))
    sentence = "A red ball is left of another red ball. "
    prompt = sentence * 29
    texts: list[str] = []
    plain = Text.of

    def noted(text: str, labels: Iterable[str]) -> Text:
        texts.append(text)
        return plain(text, labels)

    monkeypatch.setattr(Text, "of", noted)
    facts = facts_of(scene)
    read = 10 * len(sentence)
    found = set(dropped_facts(scene, facts, prompt, read))
    assert texts == [prompt, prompt[:read]]
    relations = [fact.id for fact in facts if fact.kind == "relation"]
    assert [id_ in found for id_ in relations] == [False] * 10 + [True] * 19
    assert {fact.id for fact in facts if fact.subject == "ball.1"} & found == set()


def test_a_label_within_a_longer_one_is_not_named() -> None:
    scene = load_scene("hand bag; bag")
    facts = facts_of(scene)
    prompt = "Two hand bags, and a bag."
    found = dropped_facts(scene, facts, prompt, prompt.index(" and"))
    assert [fact.statement for fact in facts if fact.id in found] == ["bag"]
