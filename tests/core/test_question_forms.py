"""Questions in free words: which ones a model of few words can be asked, and as what."""

from __future__ import annotations

import pytest

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.questions import NO_RELATION, PROTOCOLS, Protocol, facts_of
from scenewright.miniature.world import JUDGE_VOCABULARY
from scenewright.tools.director import Look


def asked(question: str, *options: str) -> str | None:
    """The question as the miniature's judges are asked it; None if they cannot say."""
    fact = Look(question=question, options=list(options or ("yes", "no"))).fact()
    if JUDGE_VOCABULARY.unknown(fact):
        return None
    return JUDGE_VOCABULARY.worded(fact)[0].question


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "text",
    [
        "red dog left of ball",
        "red dog; blue dog; cat",
        "red dog near blue dog",
        "red dog; red dog; dog near cat",
        "person wearing hat; person riding car",
        "two red balls; a green tree",
    ],
)
def test_what_a_scene_asks_is_known_without_the_scene(text: str, protocol: Protocol) -> None:
    facts = [fact for fact in facts_of(load_scene(text), protocol) if fact.kind != "count"]
    for fact in facts:
        bare = Fact(
            id="q", kind="object" if fact.is_binary else "relation", subject="x",
            statement="x", question=fact.question, options=fact.options, expected=fact.expected,
        )  # fmt: skip
        assert JUDGE_VOCABULARY.unknown(bare) == (), fact.question
        assert JUDGE_VOCABULARY.worded(bare)[0].question == fact.question


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("Is there a dog?", "Is there a dog in the image?"),
        ("Does the image show a dog?", "Is there a dog in the image?"),
        ('Does this figure show "a red dog"?', "Is there a red dog in the image?"),
        ("does this picture contain any dogs", "Is there a dog in the image?"),
        ("Is a dog visible in the photo?", "Is there a dog in the image?"),
        ("Can you see the dog here?", "Is there a dog in the image?"),
        ("Do you see a red ball?", "Is there a red ball in the image?"),
        ("Are there at least 3 hats in this image?", "Are there at least 3 hats in the image?"),
        ("Does it show at least 2 blue cars?", "Are there at least 2 blue cars in the image?"),
        ("is the TREE green?", "Is the tree green?"),
    ],
)
def test_whether_something_is_there_can_be_asked_in_other_words(said: str, question: str) -> None:
    assert asked(said) == question
    assert asked(said, "no", "yes") == question


@pytest.mark.parametrize(
    "said",
    [
        "Is there no dog?",
        "Is there a dog or a cat?",
        "Is the dog not red?",
        "Is this a dog?",
        "Is the dog a cat?",
        "Is there a red and blue dog?",
        "Are there 2 dogs?",
        "Are there fewer than 2 dogs in the image?",
        "Does the dog look at the cat?",
        "Is the dog on the table?",
        "What color is the image?",
        "How many dogs are there in the image?",
        "",
    ],
)
def test_another_form_is_never_guessed(said: str) -> None:
    fact = Fact(id="q", kind="object", subject="x", statement=said, question=said)
    (unknown,) = JUDGE_VOCABULARY.unknown(fact)
    assert unknown.part == "question"
    reason = JUDGE_VOCABULARY.reason((unknown,))
    assert reason.startswith("cannot say: it answers questions such as 'Is there a person in")


def test_options_are_part_of_the_form() -> None:
    assert asked("Is there a dog?", "one", "none") is None
    between = "What is the relationship between the dog and the ball in the image?"
    assert asked(between, "near", "on", NO_RELATION) == between
    assert asked(between, "yes", "no") is None
    assert asked(between, "near", "on") is None


def test_words_are_named_before_forms() -> None:
    fact = Look(question="Does the image show an astronaut?").fact()
    assert [str(one) for one in JUDGE_VOCABULARY.unknown(fact)] == ["the word 'astronaut'"]


def test_a_class_may_be_called_like_a_picture() -> None:
    words = ClosedVocabulary(classes=("painting", "wall"), attributes={"color": ("red",)})
    fact = Look(question="Does the image show the painting?").fact()
    assert words.unknown(fact) == ()
    assert words.worded(fact)[0].question == "Is there a painting in the image?"


def test_open_words_leave_every_form_open() -> None:
    fact = Look(question="Who stole the dog?").fact()
    assert ClosedVocabulary().unknown(fact) == ()
    assert ClosedVocabulary(classes=("dog",)).unknown(fact) == ()
    assert ClosedVocabulary(classes=("dog",)).worded(fact) == (fact, {})
