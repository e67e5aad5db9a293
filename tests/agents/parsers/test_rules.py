"""Captions to scene graphs by rules: what each kind of phrase becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.agents.parsers.mentions import MOST_INSTANCES
from scenewright.agents.parsers.rules import (
    MAX_CHARACTERS,
    CaptionError,
    parse_caption,
    read_source,
    read_text,
)
from scenewright.core.formats import FormatError
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneError, SceneGraph


def names(scene: SceneGraph) -> list[str]:
    return [item.id for item in scene.objects]


def relations(caption: str) -> set[str]:
    return {str(relation) for relation in parse_caption(caption).relations}


def attributes(caption: str, object_id: str) -> dict[str, str]:
    return dict(parse_caption(caption).object(object_id).attributes)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a dog", ["dog.1"]),
        ("a fire hydrant in a living room", ["fire hydrant.1", "living room.1"]),
        ("three dogs", ["dog.1", "dog.2", "dog.3"]),
        ("2 knives and a fork", ["knife.1", "knife.2", "fork.1"]),
        ("a pair of shoes", ["shoe.1", "shoe.2"]),
        ("several birds", ["bird.1", "bird.2", "bird.3"]),
        ("a group of people", ["people.1", "people.2", "people.3"]),
        ("a slice of pizza", ["pizza.1"]),
        ("a chair beside a chair", ["chair.1", "chair.2"]),
        ("a dog. The dog is brown.", ["dog.1"]),
        ("a cat and another cat", ["cat.1", "cat.2"]),
        ("person wear shirt. person wear hat", ["person.1", "shirt.1", "hat.1"]),
        ("In this image we can see a boat", ["boat.1"]),
        ("a pair of scissors", ["scissors.1"]),
        ("two pairs of jeans", ["jeans.1", "jeans.2"]),
        ("three pairs of shoes", [f"shoe.{n}" for n in range(1, 7)]),
        ("a boy in blue shorts", ["boy.1", "shorts.1"]),
        ("a man wearing glasses", ["man.1", "glasses.1"]),
        ("two glasses of wine", ["glass.1", "glass.2", "wine.1"]),
        ("a brown and a white dog", ["dog.1", "dog.2"]),
        ("a brown dog on a sofa and a white one", ["dog.1", "sofa.1", "dog.2"]),
        ("a black and white dog", ["dog.1"]),
        ("an older woman", ["woman.1"]),
        ("a train track next to a traffic light", ["train track.1", "traffic light.1"]),
    ],
)
def test_objects_are_instances(caption: str, expected: list[str]) -> None:
    assert names(parse_caption(caption)) == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a cat on top of a box", {"cat.1 on top of box.1"}),
        ("a lamp to the left of the bed", {"lamp.1 to the left of bed.1"}),
        ("a dog in front of a red house", {"dog.1 in front of house.1"}),
        (
            "a man wearing a red hat and holding an umbrella",
            {"man.1 wearing hat.1", "man.1 holding umbrella.1"},
        ),
        ("a woman who rides a horse", {"woman.1 riding horse.1"}),
        ("The man in a suit is holding a cup", {"man.1 in suit.1", "man.1 holding cup.1"}),
        ("a cat and a dog on a sofa", {"cat.1 on sofa.1", "dog.1 on sofa.1"}),
        ("a plate with a fork and a knife", {"plate.1 with fork.1", "plate.1 with knife.1"}),
        ("two dogs on a sofa", {"dog.1 on sofa.1", "dog.2 on sofa.1"}),
        ("a man's hat", {"man.1 has hat.1"}),
        ("A boy sits. He holds a kite.", {"boy.1 holding kite.1"}),
        ("On the table there is a vase", {"vase.1 on table.1"}),
        ("behind the wave there are trees", {"tree.1 behind wave.1", "tree.2 behind wave.1"}),
        ("a car covered with snow", {"car.1 covered with snow.1"}),
        ("people fly kites", {"people.1 flying kite.1", "people.2 flying kite.2"}),
        ("a player is about to kick a ball", {"player.1 kicking ball.1"}),
        ("a zebra 's head", {"zebra.1 has head.1"}),
        ("the boys' bikes", {"boy.1 has bike.1", "boy.2 has bike.2"}),
        ("a cat by a car window", {"car.1 has window.1", "cat.1 by window.1"}),
        ("the roof of a house", {"house.1 has roof.1"}),
        ("a snow covered hill", {"hill.1 covered with snow.1"}),
        ("a man dressed in a suit", {"man.1 wearing suit.1"}),
        ("a woman older than the man", {"woman.1 older than man.1"}),
        (
            "a rail attached to the left side of a wall",
            {"rail.1 attached to the left side of wall.1"},
        ),
        (
            "a boat in the water filled with sand",
            {"boat.1 in water.1", "boat.1 filled with sand.1"},
        ),
        ("a man on the left wearing a hat", {"man.1 wearing hat.1"}),
        (
            "a plate filled with food on a table",
            {"plate.1 filled with food.1", "plate.1 on table.1"},
        ),
        (
            "a knife with a silver blade resting on a board",
            {"knife.1 with blade.1", "knife.1 resting on board.1"},
        ),
        (
            "two men in suits sharing a meal",
            {"man.1 in suit.1", "man.2 in suit.2", "man.1 sharing meal.1", "man.2 sharing meal.1"},
        ),
        ("a pan with a pizza on it", {"pizza.1 on pan.1"}),
        ("A man is standing and a woman is sitting on a chair", {"woman.1 sitting on chair.1"}),
        ("The tree leaves on the ground are red.", {f"tree leaf.{n} on ground.1" for n in (1, 2)}),
        ("A bus leaves the old station", {"bus.1 leaving station.1"}),
        ("a man sweeping sand with a broom", {"man.1 sweeping sand.1", "man.1 with broom.1"}),
        (
            "A knight slays a dragon with a sword",
            {"knight.1 slaying dragon.1", "knight.1 with sword.1"},
        ),
        (
            "a woman is fighting a wolf with a long spear",
            {"woman.1 fighting wolf.1", "woman.1 with spear.1"},
        ),
        ("a boy hitting a man with a hat", {"boy.1 hitting man.1", "man.1 with hat.1"}),
        (
            "a knight meets a dragon with a sword",
            {"knight.1 meeting dragon.1", "dragon.1 with sword.1"},
        ),
    ],
)
def test_relations_have_their_subject_predicate_and_object(
    caption: str, expected: set[str]
) -> None:
    assert relations(caption) == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a cup of coffee next to a laptop", {"coffee.1 in cup.1", "cup.1 next to laptop.1"}),
        ("a bottle of wine and a glass of water on a tray",
         {"wine.1 in bottle.1", "water.1 in glass.1", "bottle.1 on tray.1", "glass.1 on tray.1"}),
        ("a drawing of a cat on a mug", {"cat.1 on mug.1"}),
        ("a room with a painting of a corgi on the wall",
         {"room.1 with painting.1", "painting.1 of corgi.1", "painting.1 on wall.1"}),
        ("To the left of the tree there is a car, and to the right of it a bike",
         {"car.1 to the left of tree.1", "bike.1 to the right of tree.1"}),
        ("there is a cat on the sofa and under it a dog",
         {"cat.1 on sofa.1", "dog.1 under sofa.1"}),
        ("a pineapple with a beer to its left",
         {"beer.1 to the left of pineapple.1"}),
        ("a horse with a man on top", {"horse.1 with man.1", "man.1 on top of horse.1"}),
        ("above the door hangs a clock", {"clock.1 above door.1"}),
        ("the boy that the dog is following carries a stick",
         {"dog.1 following boy.1", "boy.1 carrying stick.1"}),
        ("a judge with white hair who is touching a sheep",
         {"judge.1 with hair.1", "judge.1 touching sheep.1"}),
        ("a house whose roof is red", {"house.1 has roof.1"}),
        ("a woman close to the door with her mouth open",
         {"woman.1 close to door.1", "woman.1 with mouth.1"}),
        ("a girl giving an apple to a bird",
         {"girl.1 giving apple.1", "girl.1 giving to bird.1"}),
        ("A man gives a woman a flower", {"man.1 giving to woman.1", "man.1 giving flower.1"}),
        ("a sloth wearing glasses and a hat teaching calculus",
         {"sloth.1 wearing glasses.1", "sloth.1 wearing hat.1", "sloth.1 teaching calculus.1"}),
        ("a man that looks like a king wearing a red shirt",
         {"man.1 looking like king.1", "man.1 wearing shirt.1"}),
        ("a bowl filled with fruit sitting on a tray",
         {"bowl.1 filled with fruit.1", "bowl.1 sitting on tray.1"}),
        ("a man and his dog walk along the beach",
         {"man.1 has dog.1", "man.1 walking along beach.1", "dog.1 walking along beach.1"}),
        ("a boy going to school", {"boy.1 going to school.1"}),
        ("a monkey trying to open a coconut", {"monkey.1 opening coconut.1"}),
        ("a dog wearing a man's hat", {"dog.1 wearing man's hat.1"}),
    ],
)  # fmt: skip
def test_who_is_where_and_does_what(caption: str, expected: set[str]) -> None:
    assert relations(caption) == expected


@pytest.mark.parametrize(
    ("caption", "places"),
    [
        ("at the top is a red kite and at the bottom is a white dog",
         {"kite.1": "at top", "dog.1": "at bottom"}),
        ("on the left is a cat and on the right is a dog",
         {"cat.1": "on left", "dog.1": "on right"}),
        ("a dog on the left and a cat on the right", {"dog.1": "on left", "cat.1": "on right"}),
        ("a dog and a cat on the left", {"dog.1": "on left", "cat.1": "on left"}),
    ],
)  # fmt: skip
def test_each_has_its_own_place(caption: str, places: dict[str, str]) -> None:
    scene = parse_caption(caption)
    assert {item.id: item.attributes["place"] for item in scene.objects} == places
    assert "type" not in {key for item in scene.objects for key in item.attributes}


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a train conductor's hat on a table", ["train conductor's hat", "table"]),
        ("children's drawings", ["children's drawing"]),
        ("Jeff Bezos and Elon Musk in Paris", ["Jeff Bezos", "Elon Musk", "Paris"]),
        ("the Mona Lisa near New York City", ["Mona Lisa", "New York City"]),
        ("a tour of the Chapel of Bones", ["tour", "Chapel of Bones"]),
        ("three security guards", ["security guard"]),
        ("a yellow circle and a small red square", ["circle", "square"]),
        ("a woman dressed in red carrying a yellow umbrella", ["woman", "umbrella"]),
    ],
)
def test_names_keep_their_words(caption: str, expected: list[str]) -> None:
    scene = parse_caption(caption)
    assert list(dict.fromkeys(item.name for item in scene.objects)) == expected


@pytest.mark.parametrize(
    ("caption", "bearer", "text"),
    [
        ("a sign with the words 'KEEP OFF'", "sign.1", "KEEP OFF"),
        ("the words 'KEEP OFF' on a wall", "wall.1", "KEEP OFF"),
        ("Flowers and the word 'PEACE' are painted on the wall", "wall.1", "PEACE"),
        ("a t-shirt with 'Rocks!' written on it", "t-shirt.1", "Rocks!"),
        ("a billboard saying DRINK WATER", "billboard.1", "DRINK WATER"),
        ("the word 'START'", "text.1", "START"),
    ],
)
def test_a_text_is_that_of_what_bears_it(caption: str, bearer: str, text: str) -> None:
    scene = parse_caption(caption)
    assert scene.object(bearer).attributes["text"] == text
    assert not any("word" in item.name for item in scene.objects)


def test_a_text_that_nothing_bears_is_kept() -> None:
    assert parse_caption("a dog. The text 'SALE'.").intent.texts == ("SALE",)


def test_the_other_one_is_no_end_of_the_relation_before_it() -> None:
    assert relations("a brown dog on a sofa and a white one") == {"dog.1 on sofa.1"}


def test_who_acts_is_the_person_not_what_stands_nearest() -> None:
    said = relations("a tall man with a long beard standing behind a small table")
    assert "man.1 standing behind table.1" in said
    assert not any(relation.startswith("beard") for relation in said)


def test_where_the_clothes_are_is_where_the_wearer_is() -> None:
    said = relations("a man wearing a red hat behind a table")
    assert said == {"man.1 wearing hat.1", "man.1 behind table.1"}


def test_the_object_of_one_relation_is_the_subject_of_the_next() -> None:
    assert "lamp.1 on table.1" in relations("a dog next to a lamp on a table")


@pytest.mark.parametrize(
    ("caption", "object_id", "expected"),
    [
        ("a small red metal box", "box.1", {"size": "small", "color": "red", "material": "metal"}),
        ("a light blue car", "car.1", {"color": "light blue"}),
        ("a black and white cat", "cat.1", {"color": "black and white"}),
        ("The frisbee is white in color.", "frisbee.1", {"color": "white"}),
        ("The dog is brown and furry", "dog.1", {"color": "brown", "texture": "furry"}),
        ("a chair made of wood", "chair.1", {"material": "wood"}),
        ("a cake in the shape of a heart", "cake.1", {"shape": "heart"}),
        ("a running horse", "horse.1", {"state": "running"}),
        ("a dog sleeping", "dog.1", {"state": "sleeping"}),
        ("parked cars", "car.2", {"state": "parked"}),
        ("a striped old sofa", "sofa.1", {"texture": "striped", "age": "old"}),
        ("trees in the background", "tree.1", {"place": "in background"}),
        ("In the background there is a fence.", "fence.1", {"place": "in background"}),
        ("a sign with the words 'no dogs'", "sign.1", {"text": "no dogs"}),
        ("a very large, open window", "window.1", {"size": "large", "state": "open"}),
        ("an older woman", "woman.1", {"age": "older"}),
        ("the biggest dog", "dog.1", {"size": "biggest"}),
        ("a heart shaped box", "box.1", {"shape": "heart"}),
        ("a woman dressed in black", "woman.1", {"state": "dressed in black"}),
        ("a man dressed as a clown", "man.1", {"state": "dressed as clown"}),
        ("a cup with pink , red , and blue dots", "dot.1", {"color": "pink and red and blue"}),
        ("A man is standing and a woman is sitting", "man.1", {"state": "standing"}),
        ("a standing couple", "couple.1", {"state": "standing"}),
    ],
)
def test_attributes_have_their_key(caption: str, object_id: str, expected: dict[str, str]) -> None:
    assert attributes(caption, object_id) == expected


def test_what_is_written_is_not_read_as_a_scene() -> None:
    scene = parse_caption("a wall with the text 'a cat on a red table'")
    assert {item.name for item in scene.objects} == {"wall"}


@pytest.mark.parametrize(
    "caption",
    [
        "a photo of a dog",
        "an oil painting of a dog, highly detailed, trending on artstation",
        "Studio shot of a dog, 8k, octane render --ar 16:9 --v 4",
        "a dog, digital art by Greg Rutkowski",
        "a dog in the style of van Gogh",
        "dog https://example.org/a.png",
    ],
)
def test_style_is_set_aside(caption: str) -> None:
    assert names(parse_caption(caption)) == ["dog.1"]


@pytest.mark.parametrize(
    "nothing",
    ["", "   ", "...", "!?", "the of and", "--ar 16:9", "a photo of", "\x00\u200b", "is in"],
)
def test_a_caption_that_names_nothing_is_a_clear_error(nothing: str) -> None:
    with pytest.raises(CaptionError, match="names no object: describe what is to be seen"):
        parse_caption(nothing)
    assert issubclass(CaptionError, SceneError)


def test_a_text_that_is_no_caption_is_a_clear_error() -> None:
    with pytest.raises(CaptionError, match=f"limit is {MAX_CHARACTERS}"):
        parse_caption("dog " * MAX_CHARACTERS)


def test_great_numbers_become_what_a_scene_can_hold() -> None:
    assert len(parse_caption("a million and 1,000,000 balloons").objects) <= MOST_INSTANCES + 2
    assert len(parse_caption("fifty dogs").objects) == MOST_INSTANCES


def test_every_fact_of_a_caption_can_be_asked() -> None:
    scene = parse_caption(
        "Two brown dogs chase a red ball on the grass. The dogs are happy. "
        "In the background there are several old trees and a wooden fence."
    )
    questions = {fact.question for fact in facts_of(scene)}
    assert "Are there at least 2 dogs in the image?" in questions
    assert "Is the ball red?" in questions
    assert len(questions) > 12


@pytest.mark.parametrize(
    ("text", "relations", "unread"),
    [
        ("red ball on table; dog", ["ball.1 on table.1"], ""),
        ("ball.2 | on | table", ["ball.2 on table.1"], ""),
        ("cup of tea on table", ["tea.1 in cup.1", "cup.1 on table.1"], ""),
        ("A red ball is on a table. A dog is left of the table.",
         ["ball.1 on table.1", "dog.1 left of table.1"], ""),
        ("a photo of a cat on a sofa", ["cat.1 on sofa.1"], ""),
        ("A cat is on a sofa. Ein Hund auf dem Tisch.",
         ["cat.1 on sofa.1"], "Ein Hund auf dem Tisch"),
    ],
)  # fmt: skip
def test_a_text_is_triplets_where_it_reads_as_such_and_else_a_caption(
    text: str, relations: list[str], unread: str
) -> None:
    found = read_text(text)
    assert [str(relation) for relation in found.relations] == relations
    assert " ".join(passage.text for passage in found.intent.unread) == unread


def test_a_text_that_is_neither_is_refused_by_the_reader_that_it_is_meant_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(FormatError, match=r"write subject \| predicate \| object"):
        read_text("ball | on")
    with pytest.raises(FormatError, match="not a scene graph"):
        read_text('{"red": "ball"}')
    with pytest.raises(CaptionError, match=r"'Ein Hund sitzt auf der Bank' \(characters 0 to 27"):
        read_text("Ein Hund sitzt auf der Bank.")
    file = tmp_path / "scene.txt"
    file.write_text("A red ball is on a table. A dog is left of it.")
    assert len(read_source(file).relations) == 2


@pytest.mark.parametrize(
    ("caption", "objects", "said"),
    [
        (
            "A dragon breathes fire on a castle",
            ["dragon.1", "fire.1", "castle.1"],
            {"dragon.1 breathing fire.1", "fire.1 on castle.1"},
        ),
        ("A yeti gnarfs a bone", ["yeti.1", "bone.1"], {"yeti.1 gnarfing bone.1"}),
        ("A hobbit yodels on a hill", ["hobbit.1", "hill.1"], {"hobbit.1 yodeling on hill.1"}),
        ("The wizard zorps a frog", ["wizard.1", "frog.1"], {"wizard.1 zorping frog.1"}),
        ("Knights storgle the gate", ["knight.1", "knight.2", "gate.1"],
         {"knight.1 storgling gate.1", "knight.2 storgling gate.1"}),
        ("The cat now blorps into a box", ["cat.1", "box.1"], {"cat.1 blorping into box.1"}),
        ("Two men snarf soup", ["man.1", "man.2", "soup.1"],
         {"man.1 snarfing soup.1", "man.2 snarfing soup.1"}),
        ("a man and a dog snorf across a road", ["man.1", "dog.1", "road.1"],
         {"man.1 snorfing across road.1", "dog.1 snorfing across road.1"}),
        ("A man in a suit shakes a tree", ["man.1", "suit.1", "tree.1"],
         {"man.1 in suit.1", "man.1 shaking tree.1"}),
        ("A girl with a bow and a dress hugs a bear", ["girl.1", "bow.1", "dress.1", "bear.1"],
         {"girl.1 with bow.1", "girl.1 with dress.1", "girl.1 hugging bear.1"}),
        ("A man with a hat and a cane waves", ["man.1", "hat.1", "cane.1"],
         {"man.1 with hat.1", "man.1 with cane.1"}),
        ("An elephant sprays water on its calf", ["elephant.1", "water.1", "calf.1"],
         {"elephant.1 spraying water.1", "water.1 on calf.1", "elephant.1 has calf.1"}),
    ],
)  # fmt: skip
def test_a_verb_of_no_list_is_told_by_its_place(
    caption: str, objects: list[str], said: set[str]
) -> None:
    assert names(parse_caption(caption)) == objects
    assert relations(caption) == said


@pytest.mark.parametrize(
    ("caption", "objects"),
    [
        ("A winter sports resort in the mountains", ["winter sports resort.1"]),
        ("The kitchen cabinets above the stove", ["kitchen cabinet.1", "kitchen cabinet.2"]),
        ("The dog toys on the floor", ["dog toy.1", "dog toy.2"]),
        ("The horse stables behind the barn", ["horse stable.1", "horse stable.2"]),
        ("A computer games console on a table", ["computer games console.1"]),
        ("a couple bananas on a plate", ["banana.1", "banana.2"]),
        ("soup with pasta letters that say hello", ["soup.1", "pasta letter.1", "pasta letter.2"]),
    ],
)
def test_a_name_of_several_nouns_stays_one_name(caption: str, objects: list[str]) -> None:
    assert names(parse_caption(caption))[: len(objects)] == objects


@pytest.mark.parametrize(
    ("text", "objects", "beside"),
    [
        ("a cat at night", ["cat"], ["at night"]),
        ("dog in the rain", ["dog"], ["in the rain"]),
        ("a table with no cars", ["table"], ["with no cars"]),
        ("red ball on table", ["ball", "table"], []),
    ],
)
def test_a_line_with_wishes_is_a_sentence_and_no_triplet(
    text: str, objects: list[str], beside: list[str]
) -> None:
    scene = read_text(text)
    assert [item.name for item in scene.objects] == objects
    intent = scene.intent
    assert [one.text for one in (*intent.globals, *intent.exclusions)] == beside
