"""What a language model reads beside the graph, and how the rules check it."""

from __future__ import annotations

from typing import Any

import pytest

from scenewright.agents.composers.check import changes_of
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.parsers.language import LanguageParser, read_reading
from scenewright.agents.parsers.model_intent import numbers_in
from scenewright.core.intent import Count, Exclusion, Global
from scenewright.core.scene import SceneError
from tests.agents.replying import ReplyingChat

SENTENCE = "An oil painting of two cats with balls at night, no people."
CATS: dict[str, Any] = {
    "objects": ["cat.1", "cat.2", "ball.1", "ball.2"],
    "relationships": [],
    "english": "",
    "globals": [{"kind": "medium", "text": "oil painting"}],
    "exclusions": [{"name": "person", "text": "no people", "of": ""}],
    "counts": [{"objects": ["cat.1", "cat.2"], "kind": "exact", "number": 2}],
    "texts": [],
    "unread": [],
    "doubts": [
        {
            "kind": "attachment",
            "text": "with balls",
            "question": "Do the cats have the balls?",
            "choices": [
                {"label": "they do", "sentence": "Two cats hold balls."},
                {"label": "beside them", "sentence": "Two cats are beside balls."},
            ],
        }
    ],
}
CHINESE = "夜晚的两只狗，没有人"  # noqa: RUF001
DOGS: dict[str, Any] = {
    "language": "zh",
    "objects": ["dog.1", "dog.2"],
    "relationships": [],
    "english": "Two dogs at night, without people.",
    "globals": [{"kind": "time", "text": "at night"}],
    "exclusions": [{"name": "person", "text": "without people", "of": ""}],
}


def test_all_that_is_said_beside_the_graph_is_read() -> None:
    intent = read_reading(CATS, SENTENCE).intent
    assert intent.sentence == SENTENCE
    assert intent.exclusions == (Exclusion(name="person", text="no people"),)
    assert intent.counts[0] == Count(objects=("cat.1", "cat.2"), kind="exact", number=2)
    [doubt] = intent.doubts
    assert SENTENCE[doubt.start : doubt.end] == "with balls"
    assert [one.label for one in doubt.choices] == ["they do", "beside them"]


def test_the_rules_add_what_the_reading_lacks() -> None:
    said = "an oil painting of a cat by a mysterious dripping fountain at night, no people"
    intent = read_reading({"objects": ["cat"], "relationships": []}, said).intent
    assert Global(kind="time", text="at night") in intent.globals
    assert [one.text for one in intent.exclusions] == ["no people"]
    [lost] = intent.unread
    assert said[lost.start : lost.end] == lost.text == "mysterious dripping fountain"


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [("balls", "open"), ("two balls", "exact"), ("a pair of balls", "exact")],
)
def test_a_number_that_nobody_said_is_open(sentence: str, kind: str) -> None:
    data = {
        "objects": ["ball.1", "ball.2"],
        "relationships": [],
        "counts": [{"objects": ["ball.1", "ball.2"], "kind": "exact", "number": 2}],
    }
    for given in (data, {**data, "counts": []}):
        [count] = read_reading(given, sentence).intent.counts
        assert (count.kind, count.number) == (kind, None if kind == "open" else 2)


def test_a_number_said_of_others_is_not_taken() -> None:
    data = {"objects": ["cat.1", "cat.2", "ball.1", "ball.2"], "relationships": []}
    cats, balls = read_reading(data, "two small cats with balls").intent.counts
    assert (cats.kind, cats.number, balls.kind, balls.number) == ("exact", 2, "open", None)


def test_attributes_that_nobody_said_are_left_out() -> None:
    said = {"color": "red", "material": "wooden", "age": "old"}
    item = {"id": "chair.1", "name": "chair", "attributes": said}
    data = {"objects": [item, "person"], "relationships": []}
    scene = read_reading(data, "a nurse beside a reddish-brown chair of wood, red cushions")
    assert dict(scene.objects[0].attributes) == {"color": "red", "material": "wooden"}


def test_numbers_are_read_in_words_digits_and_products() -> None:
    assert numbers_in("Twenty three birds, 12 cats and a pair") == {2, 3, 12, 20, 23}
    assert 4 in numbers_in("two girls, each with two balloons")
    assert 4 not in numbers_in("two girls and two balloons")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"globals": [{"kind": "colour", "text": "oil painting"}]},
            r"globals\[0\]\.kind: Input should be 'medium'",
        ),
        ({"globals": [{"kind": "mood", "text": "gloomy"}]}, "'gloomy' is not a passage"),
        (
            {"exclusions": [{"name": "", "text": "no people"}]},
            r"exclusions\[0\] has no name",
        ),
        ({"exclusions": [{"name": "hat", "text": "no people", "of": "x"}]}, "'x' is not an object"),
        (
            {"counts": [{"objects": ["cat.1"], "kind": "some", "number": 2}]},
            r"counts\[0\]\.kind: Input should be 'exact'",
        ),
        (
            {"counts": [{"objects": [], "kind": "open", "number": 0}]},
            r"counts\[0\]\.objects is empty",
        ),
        (
            {"counts": [{"objects": ["cat.1", "cat.2"], "kind": "exact", "number": 1}]},
            "the number is 1, but there are 2",
        ),
        ({"unread": ["a dragon"]}, "'a dragon' is not a passage"),
        ({"objects": [*CATS["objects"], "dragon"]}, "'dragon': the sentence names no such object"),
        ({"language": "de"}, "english is empty"),
        (
            {"doubts": [{**CATS["doubts"][0], "choices": []}]},
            r"doubts\[0\]\.choices: List should have at least 2",
        ),
        (
            {"doubts": [{**CATS["doubts"][0], "question": ""}]},
            r"doubts\[0\]\.question: String should have at least 1",
        ),
        ({"texts": "OPEN"}, "texts: Input should be a valid list"),
    ],
)
async def test_a_wrong_reading_is_sent_back_once(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SceneError, match=says):
        read_reading({**CATS, **wrong}, SENTENCE)
    chat = ReplyingChat(replies=[{**CATS, **wrong}, CATS])
    assert (await LanguageParser(chat).parse(SENTENCE)).intent.doubts
    assert len(chat.sent) == 2


async def test_a_sentence_in_another_language_keeps_its_words_and_has_english_facts() -> None:
    untold = {**DOGS, "english": ""}
    chat = ReplyingChat(replies=[untold, DOGS])
    scene = await LanguageParser(chat).parse(CHINESE)
    assert "translate the whole sentence" in str(chat.sent[1][-1].text)
    assert scene.sentence == CHINESE
    assert scene.english == DOGS["english"]
    assert scene.intent.counts == (Count(objects=("dog.1", "dog.2"), kind="exact", number=2),)
    with pytest.raises(SceneError, match="'狗' is not English"):
        read_reading({**DOGS, "objects": ["狗"]}, CHINESE)


@pytest.mark.parametrize(
    ("languages", "prompt"),
    [(("*",), CHINESE), (("en", "zh"), CHINESE), (("en", "de"), DOGS["english"])],
)
async def test_a_prompt_is_in_its_language_where_the_model_reads_it(
    languages: tuple[str, ...], prompt: str
) -> None:
    scene = read_reading(DOGS, CHINESE)
    composer = SentenceComposer(verbatim=True, languages=languages)
    assert await composer.compose(scene, 0) == prompt
    assert changes_of(scene, prompt).text == ""
    assert "night" in changes_of(scene, "Two dogs, no people.").text
