"""Numbers of a caption: exact, at least, open, of one of several, and those that count nothing."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption


def counts(caption: str) -> list[tuple[str, int | None, int]]:
    found = parse_caption(caption).intent.counts
    return [(one.kind, one.number, len(one.objects)) for one in found]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("three dogs", [("exact", 3, 3)]),
        ("a dozen eggs", [("exact", 12, 12)]),
        ("two dozen eggs", [("exact", 24, 12)]),
        ("a pair of shoes", [("exact", 2, 2)]),
        ("at least three dogs", [("least", 3, 3)]),
        ("more than five cups", [("least", 5, 6)]),
        ("a dozen or so eggs", [("least", 12, 12)]),
        ("three or four ducks", [("least", 3, 3)]),
        ("several birds", [("least", None, 3)]),
        ("dogs", [("open", None, 2)]),
        ("a row of houses", [("open", None, 3)]),
        ("a crowd of people", [("open", None, 3)]),
        ("hundreds of balloons", [("open", None, 3)]),
        ("a row of four chairs", [("exact", 4, 4)]),
        ("both men", [("exact", 2, 2)]),
        ("a dog", []),
    ],
)
def test_a_count_says_how_it_is_meant(
    caption: str, expected: list[tuple[str, int | None, int]]
) -> None:
    assert counts(caption) == expected


@pytest.mark.parametrize(
    ("caption", "name"),
    [
        ("a 2-door car", "2-door car"),
        ("a 3-story house", "3-story house"),
        ("a two lane road", "two lane road"),
        ("a 1950s diner", "1950s diner"),
        ("a Boeing 747 over a city", "Boeing 747"),
        ("a 2019 Toyota on a street", "2019 Toyota"),
        ("a blue 1977 Ford on a road", "1977 Ford"),
        ("a size 10 shoe", "size 10 shoe"),
        ("a Route 66 sign", "Route 66 sign"),
        ("a family of four on the moon", "family of four"),
        ("a 19th century ship", "19th century ship"),
    ],
)
def test_a_number_within_a_name_counts_nothing(caption: str, name: str) -> None:
    assert parse_caption(caption).objects[0].name == name
    assert counts(caption) == []


def test_a_measure_is_a_size() -> None:
    scene = parse_caption("a 50 foot tall statue")
    assert scene.object("statue.1").attributes == {"size": "50 foot tall"}


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("three boats: a red boat, a green boat and a yellow boat", ["red", "green", "yellow"]),
        ("two dogs: one is brown, the other is white", ["brown", "white"]),
        ("Two birds, one red and the other blue", ["red", "blue"]),
        ("Two cups on a table, the second is blue", [None, "blue"]),
        ("three cats. One of them is black.", ["black", None, None]),
        ("five cars, three of which are red", ["red", "red", "red", None, None]),
        ("Three kites: two are red and one is blue", ["red", "red", "blue"]),
        ("five balloons, the largest of which is red", ["red", None, None, None, None]),
    ],
)
def test_what_is_said_of_one_is_said_of_no_other(caption: str, expected: list[str | None]) -> None:
    scene = parse_caption(caption)
    (count,) = scene.intent.counts
    assert [scene.object(one).attributes.get("color") for one in count.objects] == expected
    assert not scene.intent.unread


def test_a_list_after_a_colon_names_the_kinds() -> None:
    scene = parse_caption("three fruits: an apple, a pear and a banana")
    assert [item.name for item in scene.objects] == ["apple", "pear", "banana"]
    (count,) = scene.intent.counts
    assert (count.kind, count.number, len(count.objects)) == ("exact", 3, 3)


def test_another_is_a_new_one() -> None:
    scene = parse_caption("one cat is black and another is white")
    assert [dict(item.attributes) for item in scene.objects] == [
        {"color": "black"},
        {"color": "white"},
    ]


def test_both_animals_are_those_that_were_named() -> None:
    scene = parse_caption("a cat and a dog. Both animals are asleep. They are on a sofa.")
    assert [str(one) for one in scene.relations] == ["cat.1 on sofa.1", "dog.1 on sofa.1"]
    assert {item.attributes.get("state") for item in scene.objects[:2]} == {"asleep"}


def test_both_items_are_no_object() -> None:
    scene = parse_caption("A man holds both items in his hands.")
    assert {item.name for item in scene.objects} == {"man", "hand"}
    assert "items" in {passage.text for passage in scene.intent.unread}


def told(caption: str) -> set[str]:
    """Return attributes and relations as "ID value" and "SOURCE predicate TARGET"."""
    scene = parse_caption(caption)
    values = {f"{one.id} {value}" for one in scene.objects for value in one.attributes.values()}
    return values | {str(relation) for relation in scene.relations}


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        (
            "two children, one eating ice cream and the other holding a balloon",
            {"child.1 eating ice cream.1", "child.2 holding balloon.1"},
        ),
        (
            "three cats, one sleeping on a mat, another drinking milk",
            {"cat.1 sleeping", "cat.1 sleeping on mat.1", "cat.2 drinking milk.1"},
        ),
        ("two dogs and one barking fox", {"fox.1 barking"}),
        (
            "three cups, one red and the others blue",
            {"cup.1 red", "cup.2 blue", "cup.3 blue"},
        ),
        (
            "five apples, two red, two green and one yellow",
            {"apple.1 red", "apple.2 red", "apple.3 green", "apple.4 green", "apple.5 yellow"},
        ),
        (
            "a red cube on top of a blue cylinder, both inside a box",
            {
                *("cube.1 red", "cylinder.1 blue", "cube.1 on top of cylinder.1"),
                *("cube.1 inside box.1", "cylinder.1 inside box.1"),
            },
        ),
    ],
)
def test_several_are_told_one_by_one(caption: str, expected: set[str]) -> None:
    assert told(caption) == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a shelf full of books with a cat on the floor", "shelf.1 with cat.1"),
        ("a bowl full of dogs with long ears", "dog.1 with ear.1"),
        ("a woman looking out of a window at a mountain", "woman.1 looking at mountain.1"),
        ("a glass that is half empty", "glass.1 half empty"),
        ("a man with a beard and a woman with long hair", "woman.1 with hair.1"),
        ("a house with a red roof and a tree with flowers", "tree.1 with flower.1"),
        ("a table with a lamp and a vase with flowers", "table.1 with vase.1"),
        ("a tower made of books with an apple on top", "tower.1 with apple.1"),
        ("two knights fighting with swords in front of a castle", "knight.2 in front of castle.1"),
        ("a kitchen with a window above the sink", "window.1 above sink.1"),
        ("a flamingo standing on one leg in the sea", "flamingo.1 in sea.1"),
        ("a man looks at himself in a mirror", "man.1 looking at himself"),
    ],
)
def test_what_follows_is_said_of_whom_it_is_meant(caption: str, expected: str) -> None:
    assert expected in told(caption)


@pytest.mark.parametrize(
    ("caption", "other"),
    [
        ("a man with a beard and a woman with long hair", "man.1 with woman.1"),
        ("a man with a beard and a woman with long hair", "beard.1 with hair.1"),
        ("a table with a lamp and a vase with flowers", "lamp.1 with flower.1"),
    ],
)
def test_what_one_has_is_not_said_of_another(caption: str, other: str) -> None:
    assert other not in told(caption)
