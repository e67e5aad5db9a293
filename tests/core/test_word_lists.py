"""Lists of words are in one place each: what another table says is read off there."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from scenewright.agents.composers.reading import KINDS_OF, SAID_FOR
from scenewright.agents.parsers.tagging import PEOPLE, is_animate, rough
from scenewright.core.formats.phrases import ADJECTIVES, PREDICATES
from scenewright.core.inflection import WordLists, split_phrases, verb_base
from scenewright.core.ports.vision import Detection, Thing
from scenewright.core.vocabulary import (
    FAIR_PSG,
    PLACES,
    VERB_KINDS,
    WORDINGS,
    entails,
    excludes,
    kind_of,
    same_verbs,
    synonymous,
    verbs_in_text,
)
from scenewright.evals.studies.xtc.questions import predicate_class
from scenewright.tools.vision.extraction.pairs import contacts


def data(package: str, name: str) -> dict[str, Any]:
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def test_lists_are_read_as_they_are_written() -> None:
    lists = WordLists(
        {"a": {"words": "x y\nx", "phrases": "one two,  three", "said": "p q=r, s=t"}}
    )
    assert lists.ordered("a", "words") == ("x", "y", "x")
    assert lists.words("a", "words") == {"x", "y"}
    assert lists.phrases("a", "phrases") == (("one", "two"), ("three",))
    assert lists.pairs("a", "said", ",") == {"p q": "r", "s": "t"}
    assert split_phrases(" , ") == ()


def test_who_people_are_stands_once() -> None:
    """The composers' and matchers' row of a person is the parser's list of people."""
    row = data("scenewright.agents.composers", "nouns.toml")
    for section in ("kinds", "said_for"):
        said = {" ".join(words) for words in split_phrases(row[section]["person"])}
        assert not said & PEOPLE
    assert PEOPLE - {"person"} <= SAID_FOR["person"]
    assert {"man", "astronaut", "adult"} <= KINDS_OF["person"]
    # A pitcher may be a jug: a text may say it for a person, a graph does not mean it.
    assert "pitcher" not in KINDS_OF["person"]


def test_kinds_of_verbs_are_read_off_the_predicates() -> None:
    said = tomllib.loads(
        (files("scenewright.core") / "vocabulary.toml").read_text(encoding="utf-8")
    )
    kinds = data("scenewright.core", "verbs.toml")["kinds"]
    for kind, verbs in kinds.items():
        for verb in verbs:
            assert VERB_KINDS[verb] == kind
    begun = {verb_base(predicate.split()[0]) for predicate in said_predicates(said)}
    assert not begun & {verb for verbs in kinds.values() for verb in verbs}
    assert VERB_KINDS["sit"] == "posture"
    # "hanging on" is a posture and "hanging from" is not: the verb alone tells nothing.
    assert "hang" not in VERB_KINDS


def said_predicates(said: dict[str, list[dict[str, str]]]) -> list[str]:
    return [row["name"] for row in said["predicate"]]


@pytest.mark.parametrize(
    ("predicate", "category"),
    [
        ("perched on", "Posture"),
        ("squatting beside", "Posture"),
        ("skiing down", "Locomotion"),
        ("dragging", "Social"),
        ("covering with", "Spatial"),
    ],
)
def test_categories_of_xtc_read_the_vocabulary(predicate: str, category: str) -> None:
    assert predicate_class(predicate) == category
    assert all(predicate_class(one).casefold() == kind_of(one) for one in FAIR_PSG)


def test_triplet_lines_read_the_vocabularys_predicates() -> None:
    lacking = {wording for wording in WORDINGS if tuple(wording.split()) not in PREDICATES}
    assert lacking == {*data("scenewright.core", "verbs.toml")["lines"]["without"]}
    for place in PLACES:
        assert ("sitting", *place.split()) in PREDICATES
    assert ("lying", "in", "the", "background", "of") in PREDICATES
    assert entails("lying in the background of", "in the background of")


def test_predicates_are_said_as_the_vocabulary_reads_them() -> None:
    """A text says a predicate of a data set in a wording of the same meaning."""
    lists = WordLists.of("scenewright.agents.composers", "english.toml")
    said = lists.pairs("predicates", "said", ",")
    assert said["on top"] == "on top of"
    assert not {one: other for one, other in said.items() if not synonymous(one, other)}


def test_verbs_of_one_row_do_not_exclude_each_other() -> None:
    rows = data("scenewright.core", "verbs.toml")["verbs"]
    for row in (*rows["same"], *rows["said_for"]):
        assert not [(a, b) for a in row for b in row if excludes(a, b)]
    for row in rows["said_for"]:
        assert not [(a, b) for a in row for b in row if a != b and a in same_verbs(b)]
    assert "gripping" in same_verbs("holding")
    assert "carrying" in verbs_in_text("holding") - same_verbs("holding")
    # "Grabbing" may be said of a ball that is caught; a ball that is held need not be caught.
    assert "grabbing" in verbs_in_text("catching")
    assert "catching" not in verbs_in_text("holding")


def test_who_is_animate_stands_once() -> None:
    """The boxes of a horse allow what those of a person allow."""
    for name in ("person", "horse", "young woman", "elephants"):
        assert is_animate(name)
    boxes = (0.0, 0.0, 10.0, 10.0), (0.0, 8.0, 10.0, 20.0)
    for name, can in (("horse", True), ("house", False)):
        above, below = (
            Thing(str(at), Detection(kind, box))
            for at, (kind, box) in enumerate(zip((name, "boat"), boxes, strict=True))
        )
        assert ("riding" in contacts(above, below, 20)) is can


def test_captions_know_the_adjectives_of_triplet_lines() -> None:
    words = data("scenewright.agents.parsers", "words.toml")["adjectives"]
    for key in ("color", "size", "material"):
        assert not {word for word in words[key].split() if ADJECTIVES.get(word) == key}
    assert {rough("navy"), rough("tiny"), rough("wooden")} <= {"adjective", "either"}
