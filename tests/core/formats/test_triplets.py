"""How triplet lines are read, and what their writing looks like."""

from __future__ import annotations

import pytest

from scenewright.core.formats import FormatError, dump_scene, load_scene
from scenewright.core.formats.phrases import ADJECTIVES, PREDICATES, key_of


def objects(text: str) -> dict[str, dict[str, str]]:
    return {item.id: dict(item.attributes) for item in load_scene(text).objects}


def triples(text: str) -> list[str]:
    return [f"{r.source} {r.predicate} {r.target}" for r in load_scene(text).relations]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red ball on table; dog left of table", ["ball.1 on table.1", "dog.1 left of table.1"]),
        ("A dog to the left of the table.", ["dog.1 to the left of table.1"]),
        ("person sitting on a bench", ["person.1 sitting on bench.1"]),
        ("person sitting in front of house", ["person.1 sitting in front of house.1"]),
        ("dog is on table\ncat near dog", ["dog.1 on table.1", "cat.1 near dog.1"]),
        ("dog left of the washing machine", ["dog.1 left of washing machine.1"]),
        ("red ball | sitting on | table", ["ball.1 sitting on table.1"]),
        ("<red ball, sitting on, table>", ["ball.1 sitting on table.1"]),
        ("dog -> chasing -> cat", ["dog.1 chasing cat.1"]),
        ("dog | zorks | table", ["dog.1 zorks table.1"]),
        ('dog | "|" | table', ["dog.1 | table.1"]),
        ("dog LEFT OF table", ["dog.1 left of table.1"]),
        ("dog | LEFT OF | table", ["dog.1 LEFT OF table.1"]),
        ('"ball on stick" near "salt, pepper"', ["ball on stick.1 near salt, pepper.1"]),
        ("dog near another dog; dog.2 near dog.1", ["dog.1 near dog.2", "dog.2 near dog.1"]),
        ("dog#7 near dog#3", ["dog.7 near dog.3"]),
        ("dog on rug; dog on rug", ["dog.1 on rug.1"]),
        ("# a comment\ndog on rug", ["dog.1 on rug.1"]),
        ("two dogs on table", ["dog.1 on table.1", "dog.2 on table.1"]),
        (
            "two dogs left of 2 cats",
            [f"dog.{a} left of cat.{b}" for a in (1, 2) for b in (1, 2)],
        ),
        ("two dogs on rug; two dogs near cat", [
            "dog.1 on rug.1", "dog.2 on rug.1", "dog.1 near cat.1", "dog.2 near cat.1"
        ]),
        ("dog on rug; second dog near dog.1; the second dog on bed", [
            "dog.1 on rug.1", "dog.2 near dog.1", "dog.2 on bed.1"
        ]),
    ],
)  # fmt: skip
def test_relations(text: str, expected: list[str]) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a red ball", {"ball.1": {"color": "red"}}),
        ("the big red wooden box", {
            "box.1": {"size": "big", "color": "red", "material": "wooden"}
        }),
        ("light blue car", {"car.1": {"color": "light blue"}}),
        ("glass", {"glass.1": {}}),
        ("orange", {"orange.1": {}}),
        ("wooden glass", {"glass.1": {"material": "wooden"}}),
        ("two boxes", {"box.1": {}, "box.2": {}}),
        ("three red sheep", {f"sheep.{n}": {"color": "red"} for n in (1, 2, 3)}),
        ("red ball; blue ball", {"ball.1": {"color": "red"}, "ball.2": {"color": "blue"}}),
        ("red ball; ball", {"ball.1": {"color": "red"}}),
        ("big red ball; red ball", {"ball.1": {"color": "red", "size": "big"}}),
        ("Dog on rug; dog near cat", {"Dog.1": {}, "rug.1": {}, "cat.1": {}}),
        ('"Dog" on rug; "dog" near cat', {"Dog.1": {}, "rug.1": {}, "dog.1": {}, "cat.1": {}}),
        ("ball.1 [color=red]; ball.1 [size=odd]", {"ball.1": {"color": "red", "size": "odd"}}),
        ('cat [mood="a, b = c"]', {"cat.1": {"mood": "a, b = c"}}),
        ("big cat [mood=sad]", {"cat.1": {"mood": "sad", "size": "big"}}),
        ('red "hot air balloon".3', {"hot air balloon.3": {"color": "red"}}),
        ("one dog; another red dog", {"dog.1": {}, "dog.2": {"color": "red"}}),
        ("hot air balloon near hut; hot air balloon", {"hot air balloon.1": {}, "hut.1": {}}),
    ],
)  # fmt: skip
def test_objects(text: str, expected: dict[str, dict[str, str]]) -> None:
    assert objects(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dog zorks the table", r"dog zorks the table.*\| predicate \|"),
        ("dog on rug\ndog zorking the table", r"line 2, .*dog zorking.*no known relation"),
        ("person sitting on bench holding cup", "more than one relation.*'sitting on' and 'hold"),
        ("dog left of", "nothing follows 'left of'"),
        ("left of dog", "nothing stands before 'left of'"),
        ("dog | on", "expected three parts, found 2"),
        ("dog | on | ", "expected three parts"),
        ("dog | on | rug | mat", "expected three parts, found 4"),
        ("<dog, on, rug", "'<' is not closed"),
        ("red ball; blue ball; ball on rug", '"red ball" or "blue ball" or "ball.1"'),
        ("two dogs; dog on rug", r"2 objects fit.*dog\.1.*another dog"),
        ("two dogs; three dogs", "2 named before"),
        ("third dog", "only 0"),
        ("dog near dog", "related to itself.*another dog"),
        ("red blue ball", "two values of color"),
        ("red ball [color=blue]", "color is given twice"),
        ("red ball.1; blue ball.1", "ball.1 has color 'red' already"),
        ("several dogs", "say how many"),
        ("no cat on table", "'no' says what is not there"),
        ("dog not on table", "'not' says what is not there"),
        ("two dogs.1", "either dogs.1 or the number in words"),
        ("dog, cat", "separate statements with ';'"),
        ("a dog and a cat", 'two statements.*"salt and pepper"'),
        ('dog "x', "quote is not closed"),
        (r'"\q" near dog', "double quotes"),
        ('my "dog" friend near cat', "quoted label alone"),
        ("ball [red]", r"\[key=value"),
        ("ball [a=1, a=2]", "given twice"),
        ("ball ]", "put the label in quotes"),
        ("[color=red] near dog", r"no name|not JSON"),
        ("dog {x}", "put the label in quotes"),
        ("dog\x07 on rug", "control character"),
        ("\n".join(f"o{n} on rug" for n in range(600)), "more than 512 objects"),
        ("dog;" * 20_001, "20000 statements"),
    ],
)
def test_errors_name_the_fragment_and_the_remedy(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        load_scene(text)


@pytest.mark.parametrize(
    "text",
    [
        "red ball on table\ndog left of table\n",
        "dog.1 near dog.2\n",
        'dog | "|" | cat\n',
        "dog | zorks | cat\n",
        '"ball on stick" near cat\n',
        'cat.1 [mood="a, b"]\n',
        "red dog.1 near dog.2\n",
    ],
)
def test_writing_is_plain_where_it_can_be(text: str) -> None:
    assert dump_scene(load_scene(text), "triplets") == text


def test_every_known_predicate_is_read() -> None:
    for words in sorted(PREDICATES):
        predicate = " ".join(words)
        assert triples(f"dog {predicate} table") == [f"dog.1 {predicate} table.1"]


def test_every_known_adjective_is_read() -> None:
    for word in sorted(ADJECTIVES):
        assert objects(f"{word} thing") == {"thing.1": {key_of(word): word}}


def test_scenes_between_rules() -> None:
    text = "dog on rug\n---\ncat\n\n---\n"
    with pytest.raises(FormatError, match="holds 2 scenes: give index=0 to 1"):
        load_scene(text)
    assert load_scene(text, index=1).objects[0].name == "cat"
    with pytest.raises(FormatError, match="no scene 2"):
        load_scene(text, index=2)
    with pytest.raises(FormatError, match=r"scene 2, line 2, .*zorks"):
        load_scene("dog on rug\n---\ncat zorks the dog", index=0)
