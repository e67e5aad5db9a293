"""The published sets of prompts as they were released: counts, scenes and dependencies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scenewright.core.questions import facts_of
from scenewright.evals.datasets import dsg, prompt_sets
from scenewright.evals.datasets.base import Dataset, Item

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


def release(name: str) -> Path:
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"the release of {name} is not beside the repository")
    return folder


def check(found: Dataset) -> list[Item]:
    """Its items; ids are unique, parents come before their children."""
    items = list(found)
    assert len({item.id for item in items}) == len(items)
    for item in items:
        seen: set[str] = set()
        for fact in item.facts:
            assert set(fact.parents) <= seen, (item.id, fact.id)
            assert fact.id not in seen
            seen.add(fact.id)
        if item.scene is not None:
            assert item.scene.objects
            facts_of(item.scene)
    return items


def test_dsg_1k() -> None:
    found = dsg.load(release("dsg"))
    items = check(found)
    assert len(items) == 1060
    assert sum(len(item.facts) for item in items) == 8182
    assert dict(found.left_out) == {
        dsg.NO_NUMBER: 10,
        dsg.LOST: 8,
        dsg.ITSELF: 44,
        dsg.CIRCLE: 4,
    }
    kinds = Counter(fact.kind for item in items for fact in item.facts)
    assert kinds == {"object": 3574, "attribute": 2616, "relation": 1992}
    assert sum(item.scene is not None for item in items) == 1046
    said = [item.scene.intent for item in items if item.scene is not None]
    stated = [
        (fact.value, item.scene.intent.globals)
        for item in items
        for fact in item.facts
        if fact.key == "global" and item.scene is not None
    ]
    assert len(stated) > 300
    assert all(any(one.text in (value or "") for one in found) for value, found in stated)
    assert {"medium", "style", "artist", "quality"} < {o.kind for i in said for o in i.globals}
    counts = Counter(count.kind for intent in said for count in intent.counts)
    assert counts["exact"] > 150
    assert counts["open"] > 15
    for item in items:
        for fact in item.facts:
            ends = {fact.subject, fact.target} - {None, dsg.WHOLE}
            assert item.scene is None or all(end in item.scene for end in ends)


def test_the_facts_of_tifa160_with_their_slips() -> None:
    found = dsg.load(release("dsg") / "tifa160-dev-anns.csv")
    items = check(found)
    assert len(items) == 160
    assert found.left_out[dsg.NO_QUESTION] == 78
    assert found.left_out[dsg.NOT_BINARY] == 1
    # Three rows repeat a number, two of them without a question.
    assert found.left_out[dsg.TWICE] == 1
    assert sum(len(item.facts) for item in items) == 920 - 78 - 1 - 1
    # A count whose question was never written is in the scene all the same.
    (zebras,) = (item for item in items if item.id == "coco_555553")
    assert zebras.scene is not None
    assert [o.id for o in zebras.scene.objects if o.name == "zebra"] == [
        "zebra.1",
        "zebra.2",
        "zebra.3",
    ]


def test_tifa() -> None:
    folder = release("tifa")
    items = check(prompt_sets.load_tifa(folder, parse="none"))
    assert len(items) == 4081
    assert Counter(item.group for item in items) == {
        "COCO": 2000,
        "PartiPrompts": 1420,
        "PaintSkills": 500,
        "DrawBench": 161,
    }
    assert sum("coco_val_id" in item.meta for item in items) == 2000


def test_the_questions_of_tifa() -> None:
    found = prompt_sets.load_tifa(
        release("tifa"), parse="rules", questions="sample_question_answers.json"
    )
    asked = {item.id: item for item in found if item.facts}
    assert {k: len(v.facts) for k, v in asked.items()} == {
        "coco_301091": 11,
        "drawbench_52": 8,
    }
    surfer = asked["coco_301091"]
    choice = surfer.facts[1]
    assert choice.question == "Who is on the beach?"
    assert choice.options == ("surfer", "swimmer", "diver", "skier")
    assert choice.expected == "surfer"
    assert (choice.kind, choice.subject) == ("object", "surfer.1")
    assert surfer.scene is not None
    assert choice.subject in surfer.scene


def test_geneval() -> None:
    items = check(prompt_sets.load_geneval(release("geneval")))
    assert len(items) == 553
    assert Counter(item.meta["tag"] for item in items) == {
        "position": 100,
        "color_attr": 100,
        "two_object": 99,
        "colors": 94,
        "counting": 80,
        "single_object": 80,
    }
    counting = [item for item in items if item.meta["tag"] == "counting"]
    # The published evaluation counts exactly: each of them says what is one too many.
    assert all(item.facts[-1].id.startswith("x:") for item in counting)
    positions = [item for item in items if item.meta["tag"] == "position"]
    for item in positions:
        assert item.scene is not None
        (relation,) = item.scene.relations
        first, second = item.scene.object(relation.source), item.scene.object(relation.target)
        said = f"{first.name} {relation.predicate} "
        assert said in item.prompt
        assert item.prompt.endswith(f" {second.name}")


def test_partiprompts() -> None:
    items = check(prompt_sets.load_parti(release("partiprompts")))
    assert len(items) == 1632
    assert len({item.group for item in items}) == 12
    assert len({item.category for item in items}) == 11
    assert sum(item.scene is not None for item in items) >= 0.99 * len(items)
    refused = [item for item in items if item.scene is None]
    assert all("no_scene" in item.meta for item in refused)
    (kitchen,) = (i.scene for i in items if i.prompt == "a kitchen without a refrigerator")
    assert kitchen is not None
    assert [one.name for one in kitchen.intent.exclusions] == ["refrigerator"]
    # Quotation marks are part of the prompt.
    assert any(item.prompt.startswith('"G I G G L E"') for item in items)
