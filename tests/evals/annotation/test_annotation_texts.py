"""What a language model says of lists: synonyms, classes, attribute instances, each checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.parsers.classes import SCENE_CATEGORIES
from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.annotation.text_stages import (
    MOST_WORDS,
    Synonyms,
    class_of,
    propose_synonyms,
    read_classes,
    read_instances,
    read_synonyms,
    resolve,
)
from scenewright.evals.errors import AnnotationError
from scenewright.evals.store.ledger import Ledger
from tests.agents.replying import ReplyingChat
from tests.evals.annotation.building import calls_of, text_model

WORDS = st.sampled_from("abcdef")


@given(st.dictionaries(WORDS, WORDS))
def test_a_mapping_has_no_chains_or_is_refused(mapping: dict[str, str]) -> None:
    circular = any(word in _followed(mapping, word) for word in mapping)
    if circular:
        with pytest.raises(AnnotationError, match="circle"):
            resolve(mapping, set("abcdef"))
        return
    found = resolve(mapping, set("abcdef"))
    assert set(found) == set(mapping)
    assert not set(found.values()) & set(mapping)


def _followed(mapping: dict[str, str], word: str) -> list[str]:
    seen: list[str] = []
    while word in mapping and mapping[word] not in seen:
        word = mapping[word]
        seen.append(word)
    return seen


def test_targets_must_be_predicates_of_the_set() -> None:
    assert resolve({"on top of": "on", "unused": "gone"}, {"on", "on top of"})["on top of"] == "on"
    with pytest.raises(AnnotationError, match="becomes 'upon', which is not a predicate"):
        resolve({"on top of": "upon"}, {"on", "on top of"})


async def test_what_a_model_merges_is_checked_and_asked_once(tmp_path: Path) -> None:
    said = {"on top of": "on", "atop": "upon", "near": "near", "on": "on top of"}
    model = text_model(said)
    counts = {"on": 9, "on top of": 3, "near": 2}
    with Ledger(tmp_path / "ledger") as ledger:
        found = await propose_synonyms(ledger, model, counts)
        again = await propose_synonyms(ledger, model, counts)
    assert found.mapping == {"on top of": "on"}
    assert len(found.refused) == 2
    assert again == found
    # The first reply was wrong in parts and was sent back; nothing was asked a third time.
    assert calls_of(model) == 2


async def test_a_large_vocabulary_is_asked_in_parts(tmp_path: Path) -> None:
    counts = {f"word {n}": 10_000 - n for n in range(MOST_WORDS + 100)}
    model = text_model({})
    with Ledger(tmp_path / "ledger") as ledger:
        await propose_synonyms(ledger, model, counts)
    chat = model.chat
    assert isinstance(chat, ReplyingChat)
    asked = [str(messages[0].text) for messages in chat.sent]
    assert len(asked) == 2
    assert all('"word 0"' in text for text in asked)
    assert f'"word {MOST_WORDS + 99}"' in asked[1]


async def test_a_model_that_fails_merges_nothing_and_says_why(tmp_path: Path) -> None:
    chat = ReplyingChat(replies=[ConnectionError("no line")], sent=[], tools=[])
    with Ledger(tmp_path / "ledger") as ledger:
        found = await propose_synonyms(ledger, TextModel("x:y", chat), {"on": 1, "upon": 1})
    assert found.mapping == {}
    assert "no line" in found.refused[0]


def test_a_file_of_synonyms_is_read_and_its_mistakes_named(tmp_path: Path) -> None:
    path = tmp_path / "synonyms.json"
    assert read_synonyms(path) is None
    path.write_text(json.dumps({"mapping": {"Upon": "on"}}))
    found = read_synonyms(path)
    assert found is not None
    assert found.resolved({"on", "upon"}) == {"upon": "on"}
    for text, message in (
        ("{", "not valid JSON"),
        ('{"mapping": {"on": 3}}', "mapping.on"),
        ('{"maping": {}}', "maping"),
    ):
        path.write_text(text)
        with pytest.raises(AnnotationError, match=message):
            read_synonyms(path)
    with pytest.raises(AnnotationError, match="a → b → a"):
        Synonyms(mapping={"a": "b", "b": "a"}).resolved({"a", "b"})


@pytest.mark.parametrize("group", SCENE_CATEGORIES)
def test_every_class_is_known_however_it_is_written(group: str) -> None:
    for category in SCENE_CATEGORIES[group]:
        assert class_of(group.upper(), category.replace("/", " / ")) == (group, category)
    assert class_of("Non-People Centric", "nature") == ("Non-People-Centric", "Nature")


def test_a_class_of_the_other_level_is_none() -> None:
    with pytest.raises(ValueError, match="choose one of Nature"):
        class_of("Non-People-Centric", "Daily Life")
    with pytest.raises(ValueError, match="level 1"):
        class_of("Animals", "Nature")


def test_unclassified_images_are_kept_as_such() -> None:
    good = {"image_id": "1", "level 1": "People-Centric", "level 2": "Daily Life"}
    bad = {"image_id": "2", "level 1": "People-Centric", "level 2": "Zoo"}
    strange = {**good, "image_id": "7"}
    for rows, message in (
        ([good], "image_id 2: the model left it out"),
        ([good, bad], "choose one of"),
        ([good, bad, strange], "no image_id 7"),
        ([good, good, bad], "twice"),
    ):
        with pytest.raises(ValueError, match=message):
            read_classes({"images": rows}, False, ["1", "2"])
    found = read_classes({"images": [good, bad, strange]}, True, ["1", "2"])
    assert found["1"] == ("People-Centric", "Daily Life", "")
    assert found["2"][:2] == ("", "")
    assert "Zoo" in found["2"][2]


def test_instances_name_their_category_and_say_more() -> None:
    good = ["red apple", "green apple", "ripe apple"]
    rows = [{"category": "Apple", "instances": good}]
    assert read_instances({"instances": rows}, False, ["apple"])["instances"] == {"apple": good}
    # The form that the prompt of the paper shows.
    assert read_instances({"apple": good}, False, ["apple"])["instances"] == {"apple": good}
    for wrong in (good[:2], [*good[:2], "apple"], [*good[:2], "red car"], [*good[:2], good[0]], 3):
        rows = [{"category": "apple", "instances": wrong}]  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="apple"):
            read_instances({"instances": rows}, False, ["apple"])
        assert read_instances({"instances": rows}, True, ["apple"])["lost"].keys() == {"apple"}
