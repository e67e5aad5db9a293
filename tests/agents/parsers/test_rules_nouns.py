"""Noun phrases of captions: what holds what, numbers of groups, which of several, and names."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption


def said(caption: str) -> tuple[list[str], set[str]]:
    scene = parse_caption(caption)
    return [item.id for item in scene.objects], {str(one) for one in scene.relations}


def attributes(caption: str) -> list[dict[str, str]]:
    return [dict(item.attributes) for item in parse_caption(caption).objects]


def counts(caption: str) -> list[tuple[str, int | None, int]]:
    found = parse_caption(caption).intent.counts
    return [(one.kind, one.number, len(one.objects)) for one in found]


@pytest.mark.parametrize(
    ("caption", "relations"),
    [
        ("a jug of milk behind a loaf", {"milk.1 in jug.1", "jug.1 behind loaf.1"}),
        ("a platter of cheese on a bench", {"cheese.1 on platter.1", "platter.1 on bench.1"}),
        ("a meadow of poppies under a cliff",
         {"poppy.1 in meadow.1", "poppy.2 in meadow.1", "meadow.1 under cliff.1"}),
        ("a bowl of plums, cherries and figs",
         {f"{fruit}.{n} in bowl.1" for fruit in ("plum", "cherry", "fig") for n in (1, 2)}),
        ("a mug of tea and a napkin on a tray",
         {"tea.1 in mug.1", "mug.1 on tray.1", "napkin.1 on tray.1"}),
        ("a basket of puppies sleeping on a rug",
         {"puppy.1 in basket.1", "puppy.2 in basket.1",
          "puppy.1 sleeping on rug.1", "puppy.2 sleeping on rug.1"}),
        ("a statue of a bear in a square", {"statue.1 of bear.1", "statue.1 in square.1"}),
        ("a map of Chile above a desk", {"map.1 of Chile.1", "map.1 above desk.1"}),
        ("a bust of a queen wearing a crown", {"bust.1 of queen.1", "queen.1 wearing crown.1"}),
        ("the wheel of a cart and the wheel of a bike",
         {"cart.1 has wheel.1", "bike.1 has wheel.2"}),
    ],
)  # fmt: skip
def test_what_is_of_what(caption: str, relations: set[str]) -> None:
    assert said(caption)[1] == relations


def test_each_bowl_has_its_own_soup() -> None:
    objects, relations = said("a bowl of soup beside a pot of soup. The bowl of soup is hot.")
    assert objects == ["bowl.1", "soup.1", "pot.1", "soup.2"]
    assert {"soup.1 in bowl.1", "soup.2 in pot.1"} < relations


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a trio of owls", [("exact", 3, 3)]),
        ("a quartet of singers", [("exact", 4, 4)]),
        ("pairs of boots", [("open", None, 4)]),
        ("a pile of two crates", [("exact", 2, 2)]),
        ("three slices of cake", [("exact", 3, 3)]),
        ("slices of bread", [("open", None, 2)]),
        ("each chair has a cushion", [("open", None, 2), ("open", None, 2)]),
        ("four tables with a lamp on each", [("exact", 4, 4), ("exact", 4, 4)]),
        ("two girls, each of them holding a kite", [("exact", 2, 2), ("exact", 2, 2)]),
        ("one of the man's hands", [("exact", 1, 1)]),
    ],
)
def test_groups_have_the_number_that_they_say(
    caption: str, expected: list[tuple[str, int | None, int]]
) -> None:
    assert counts(caption) == expected
    assert not parse_caption(caption).intent.unread or "pile" in caption


def test_several_slices_are_slices_and_no_cakes() -> None:
    assert {item.name for item in parse_caption("two slices of cake").objects} == {"slice of cake"}


@pytest.mark.parametrize(
    ("caption", "colors"),
    [
        ("a pile of three crates. A red crate is on the top, the middle crate is green, "
         "a blue crate is at the bottom.", ["red", "green", "blue"]),
        ("three kites: a red one, a green one and a yellow one", ["red", "green", "yellow"]),
        ("three kites: a red kite and two green ones", ["red", "green", "green"]),
        ("Three cars. A white car is on the left. The other cars are black.",
         ["white", "black", "black"]),
        ("Two geese swim. The grey goose sleeps.", ["grey", None]),
        ("two cups, one black and one white. The black cup is empty.", ["black", "white"]),
    ],
)  # fmt: skip
def test_several_are_told_one_by_one(caption: str, colors: list[str | None]) -> None:
    scene = parse_caption(caption)
    assert [item.attributes.get("color") for item in scene.objects] == colors
    assert {one.text for one in scene.intent.unread} <= {"pile"}


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a white hen and a brown hen. The former is asleep, the latter is awake.",
         [{"color": "white", "state": "asleep"}, {"color": "brown", "state": "awake"}]),
        ("a hen and a duck. Both are white.", [{"color": "white"}, {"color": "white"}]),
        ("a brown hen and a white hen. The white one sleeps.",
         [{"color": "brown"}, {"color": "white", "state": "sleeping"}]),
        ("a hen in a barn. Another one sleeps.", [{}, {}, {"state": "sleeping"}]),
        ("a hen in a barn. The other hen sleeps.", [{}, {}, {"state": "sleeping"}]),
    ],
)  # fmt: skip
def test_what_a_later_phrase_means(caption: str, expected: list[dict[str, str]]) -> None:
    assert attributes(caption) == expected


def test_a_shorter_name_means_what_was_named() -> None:
    objects, _ = said("a 3x3 puzzle cube and a lamp. The puzzle cube is blue.")
    assert objects == ["3x3 puzzle cube.1", "lamp.1"]


def test_the_only_person_is_meant_by_another_name() -> None:
    objects, relations = said("A person rides a bike. There is a fence behind the woman.")
    assert objects == ["woman.1", "bike.1", "fence.1"]
    assert relations == {"woman.1 riding bike.1", "fence.1 behind woman.1"}
    assert said("A boy and a girl wave. The man sits.")[0] == ["boy.1", "girl.1", "man.1"]


def test_each_other_is_one_for_the_other() -> None:
    _, relations = said("a hen and a duck facing each other")
    assert relations == {"hen.1 facing duck.1", "duck.1 facing hen.1"}


@pytest.mark.parametrize(
    ("caption", "name", "values"),
    [
        ("a proud and waving boy", "boy", {"state": "proud and waving"}),
        ("a long haired cat", "cat", {"state": "long haired"}),
        ("a hand carved bowl", "bowl", {"state": "hand carved"}),
        ("a full grown bull", "bull", {"state": "full grown"}),
        ("The van is colored green and white", "van", {"color": "green and white"}),
        ("a square slice of pizza", "pizza", {"shape": "square"}),
        ("a partial lunar eclipse", "eclipse", {"state": "partial and lunar"}),
        ("a kitchen marble counter", "kitchen marble counter", {}),
        ("Pinocchio on a sofa", "Pinocchio", {}),
        ("Supreme Court Justices in a hall", "Supreme Court Justice", {}),
        ("a rubik's cube", "rubik's cube", {}),
        ("a barber's chair", "barber's chair", {}),
        ("an overhead green lamp", "lamp", {"state": "overhead", "color": "green"}),
        ("a home kitchen", "kitchen", {"state": "home"}),
        ("a camera remote on a shelf", "camera remote", {}),
        ("a skis", "skis", {}),
        ("a carpet with wolf's heads", "carpet", {}),
    ],
)
def test_words_before_a_noun(caption: str, name: str, values: dict[str, str]) -> None:
    scene = parse_caption(caption)
    assert (scene.objects[0].name, dict(scene.objects[0].attributes)) == (name, values)
    assert not scene.intent.unread
    assert not any(item.name == "wolf" for item in scene.objects)


def test_a_plural_after_with_is_no_verb() -> None:
    assert said("a porch with Christmas lights all over it")[1] == {
        f"Christmas light.{n} over porch.1" for n in (1, 2)
    }


@pytest.mark.parametrize(
    ("caption", "texts"),
    [
        ("a fence with the word 'DANGER' painted on it", {"fence": "DANGER"}),
        ("a hill of daisies with the word 'HI' written on them", {"daisy": "HI"}),
        ("a cat writing MEOW on a wall", {"wall": "MEOW"}),
        ("an ape with the word 'no' in a speech bubble", {"speech bubble": "no"}),
        ("a wooden 'Fresh Eggs' sign", {"sign": "Fresh Eggs"}),
        ("a station clock that reads 10:25", {"station clock": "10:25"}),
        ("a sign that says 'OPEN' on a brick wall", {"sign": "OPEN"}),
        ("a shirt reading 'HELLO' on a chair", {"shirt": "HELLO"}),
        ("a poster with the word 'SALE' above a shelf", {"poster": "SALE"}),
    ],
)
def test_a_text_is_on_what_it_is_written_on(caption: str, texts: dict[str, str]) -> None:
    scene = parse_caption(caption)
    borne = {o.name: o.attributes["text"] for o in scene.objects if "text" in o.attributes}
    assert borne == texts


def test_a_text_that_is_written_on_nothing_is_no_ones() -> None:
    scene = parse_caption("a girl writing 'hello'")
    assert "text" not in scene.objects[0].attributes
    assert scene.intent.texts == ("hello",)


def test_the_owner_of_one_of_several_is_who_was_named() -> None:
    scene = parse_caption("A woman is holding a cup. One of the woman's rings is gold.")
    assert [item.name for item in scene.objects].count("woman") == 1


def test_someone_is_one_person_whatever_is_one_and_the_other() -> None:
    scene = parse_caption("Somebody stands with one hand up and the other down.")
    assert [item.name for item in scene.objects].count("somebody") == 1


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        # A noun and a participle before a noun are one adjective.
        ("a bus driving through tourist crowded streets", ["bus", "street", "street"]),
        ("a woman with acrylic painted nails", ["woman", "nail", "nail"]),
        # What covers is there, a name follows what is labelled, and persons do what follows them.
        ("a moss covered wall", ["wall", "moss"]),
        ("a crate labeled olive oil", ["crate"]),
        # "One" is another one of its kind, in its own colour.
        ("several red mugs and one green one", ["mug", "mug", "mug", "mug"]),
        ("a clock of how the engine works", ["clock", "engine"]),
        ("a nurse giving an explanation of milking", ["nurse", "explanation", "milking"]),
        ("the geyser Old Faithful", ["geyser Old Faithful"]),
        ("a poster of Winnie the Pooh", ["poster", "Winnie the Pooh"]),
    ],
)
def test_words_that_make_one_noun_phrase(caption: str, expected: list[str]) -> None:
    assert [item.name for item in parse_caption(caption).objects] == expected


def test_what_lies_on_its_own_side_is_told_so() -> None:
    (table,) = parse_caption("a table turned on it's side").objects
    assert table.attributes == {"state": "turned on its side"}


def test_the_artists_after_by_are_no_objects() -> None:
    said = parse_caption("a barn by Peter Holm, Jim Burns, Ann Moore, highly detailed")
    assert [item.name for item in said.objects] == ["barn"]


@pytest.mark.parametrize(
    ("caption", "passage"),
    [
        ("some goats and one is by a lake", "one"),
        ("a goat on a hill with others looking on", "others"),
        ("a fox, jorin feldik", "jorin feldik"),
    ],
)
def test_who_is_meant_by_one_or_by_an_unknown_name_is_in_doubt(caption: str, passage: str) -> None:
    assert passage in [doubt.text for doubt in parse_caption(caption).doubts]
