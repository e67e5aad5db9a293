"""Closed vocabularies: what is unknown of a fact, how the rest is asked, files of words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.core.closed_vocabulary import (
    ClosedVocabulary,
    VocabularyError,
    read_vocabulary,
    write_vocabulary,
)
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.questions import NO_RELATION, facts_of, soundness_facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.miniature.world import JUDGE_VOCABULARY, PREDICATES, RIVALS, VOCABULARY
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS


def unknown(text: str) -> dict[str, list[str]]:
    """Statement → words that the miniature's judges do not know, of the facts of ``text``."""
    return {
        fact.statement: [str(one) for one in found]
        for fact in facts_of(load_scene(text))
        if (found := JUDGE_VOCABULARY.unknown(fact))
    }


def choice(expected: str, *options: str) -> Fact:
    return Fact(
        id="r",
        kind="relation",
        subject="dog.1",
        target="table.1",
        predicate=expected,
        classes=("dog", "table"),
        statement=f"dog {expected} table",
        question="What is the relationship between the dog and the table in the image?",
        options=options,
        expected=expected,
    )


def test_words_outside_are_named_by_what_they_name() -> None:
    assert unknown("pink dog left of table") == {"dog is pink": ["the color 'pink'"]}
    assert unknown("astronaut riding horse") == {
        "astronaut": ["the class 'astronaut'"],
        "horse": ["the class 'horse'"],
        "astronaut riding horse": ["the class 'astronaut'", "the class 'horse'"],
    }
    assert unknown("cat kicking ball; big tree") == {
        "tree is big": ["the attribute 'size: big'"],
        "cat kicking ball": ["the predicate 'kicking'"],
    }
    assert unknown("red dog under table; person to the left of cat; cat beside hat") == {}


def test_a_word_that_only_the_question_says_is_found() -> None:
    found = unknown("pink dog on table; red dog on table")
    assert found["pink dog on table"] == ["the word 'pink'"]
    assert "red dog on table" not in found
    asked = Fact(
        id="f", kind="object", subject="x", statement="x", question='Is this "an astronaut"?'
    )
    assert [one.word for one in JUDGE_VOCABULARY.unknown(asked)] == ["astronaut"]


def test_a_value_counts_under_its_own_key_alone() -> None:
    fact = facts_of(load_scene("red dog"))[1]
    assert not JUDGE_VOCABULARY.unknown(fact)
    assert not JUDGE_VOCABULARY.unknown(fact.model_copy(update={"key": "colour"}))
    assert JUDGE_VOCABULARY.unknown(fact.model_copy(update={"key": "collar"}))


def test_unknown_wrong_options_give_their_places_to_rivals() -> None:
    asked, back = JUDGE_VOCABULARY.worded(choice("on", "eating", "on", "behind", NO_RELATION))
    assert asked.options == ("under", "on", "above", NO_RELATION)
    assert asked.expected == "on"
    assert back["on"] == "on"
    short, _ = JUDGE_VOCABULARY.worded(choice("on", "on", NO_RELATION))
    assert short.options == ("on", "under", "above", NO_RELATION)


def test_a_synonym_is_asked_in_the_vocabularys_own_word_and_read_back() -> None:
    asked, back = JUDGE_VOCABULARY.worded(
        choice("next to", "holding", "beside", "next to", NO_RELATION)
    )
    assert asked.expected == "near"
    # Of two options that read alike the expected one stays.
    assert asked.options == ("holding", "near", "wearing", NO_RELATION)
    assert back["near"] == "next to"


def test_that_no_predicate_holds_is_said_of_known_ones_only() -> None:
    fact = choice(NO_RELATION, "on", "eating", NO_RELATION)
    assert [one.word for one in JUDGE_VOCABULARY.unknown(fact)] == ["eating"]
    assert not JUDGE_VOCABULARY.unknown(choice(NO_RELATION, "on", "under", NO_RELATION))


def test_without_words_everything_is_known() -> None:
    for fact in facts_of(load_scene("pink astronaut kicking horse")):
        assert not ClosedVocabulary().unknown(fact)
        assert ClosedVocabulary().worded(fact) == (fact, {})


def test_the_miniatures_models_name_the_words_of_its_world() -> None:
    judges = sorted((MINIATURE_WEIGHTS / "judges").iterdir())
    assert len(judges) >= 4
    assert {read_vocabulary(folder) == JUDGE_VOCABULARY for folder in judges} == {True}
    assert read_vocabulary(MINIATURE_WEIGHTS / "generator") == VOCABULARY
    assert set(RIVALS) == set(PREDICATES)
    for predicate, rivals in RIVALS.items():
        assert predicate not in rivals
        assert len(rivals) >= 2
        assert set(rivals) <= set(PREDICATES)


def test_soundness_is_known_where_it_was_taught(tmp_path: Path) -> None:
    taught = replace(JUDGE_VOCABULARY, soundness=True)
    untaught = replace(JUDGE_VOCABULARY, soundness=False)
    whole, extra = soundness_facts_of(load_scene("dog on table"))
    for fact in (whole, extra):
        assert taught.unknown(fact) == ()
        assert taught.worded(fact) == (fact, {})
        assert "no other forms" in untaught.reason(untaught.unknown(fact))
    _, strange = soundness_facts_of(load_scene("astronaut on table"))
    assert [str(one) for one in taught.unknown(strange)] == ["the class 'astronaut'"]
    write_vocabulary(tmp_path, taught)
    assert read_vocabulary(tmp_path) == taught
    assert "soundness" not in untaught.as_json()


def test_numbers_beyond_those_that_were_taught_are_unscored() -> None:
    dogs = tuple(SceneObject(id=f"dog.{number}", name="dog") for number in range(1, 8))
    seven = facts_of(SceneGraph(objects=dogs))
    unknown = [JUDGE_VOCABULARY.unknown(fact) for fact in seven]
    assert [len(found) for found in unknown] == [0] * 6 + [1]
    said = JUDGE_VOCABULARY.reason(unknown[-1])
    assert said == "the number '7' is outside its vocabulary (it counts to 6)"
    assert not replace(JUDGE_VOCABULARY, most=None).unknown(seven[-1])


def test_files_come_back_and_faults_are_named(tmp_path: Path) -> None:
    assert read_vocabulary(tmp_path) is None
    write_vocabulary(tmp_path, JUDGE_VOCABULARY)
    assert read_vocabulary(tmp_path) == JUDGE_VOCABULARY
    (tmp_path / "vocabulary.json").write_text('{"classes": 3}')
    with pytest.raises(VocabularyError, match="classes"):
        read_vocabulary(tmp_path)
