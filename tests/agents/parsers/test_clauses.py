"""What sentences tell by their clauses: who does what, what is where, and what only says how."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption


def relations(caption: str) -> set[str]:
    return {str(one) for one in parse_caption(caption).relations}


def attributes(caption: str) -> dict[str, dict[str, str]]:
    return {item.id: dict(item.attributes) for item in parse_caption(caption).objects}


def names(caption: str) -> list[str]:
    return [item.name for item in parse_caption(caption).objects]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A fox reads a book, and so does an owl.",
         {"fox.1 reading book.1", "owl.1 reading book.1"}),
        ("A boy wears a hat, as does his sister.",
         {"boy.1 wearing hat.1", "boy.1 has sister.1", "sister.1 wearing hat.1"}),
        ("a cat sleeps on a bed and a dog does too",
         {"cat.1 sleeping on bed.1", "dog.1 sleeping on bed.1"}),
        ("a red cube is on the table and a blue one on the chair",
         {"cube.1 on table.1", "cube.2 on chair.1"}),
        ("The mouse the cat watches sits on a rug.",
         {"cat.1 watching mouse.1", "mouse.1 sitting on rug.1"}),
        ("This girl is holding the kite she made for a friend",
         {"girl.1 holding kite.1", "girl.1 made kite.1"}),
        ("A puppy plays with a kitten that is on a chair.",
         {"puppy.1 playing with kitten.1", "kitten.1 on chair.1"}),
        ("The girl who whistles walks a dog", {"girl.1 walking dog.1"}),
        ("two dogs run before the boy throws a stick", {"boy.1 throwing stick.1"}),
        ("A man is wearing a coat and a woman with a dog is holding a bag",
         {"man.1 wearing coat.1", "woman.1 with dog.1", "woman.1 holding bag.1"}),
        ("a monk has fallen asleep beside a fountain", {"monk.1 beside fountain.1"}),
        ("Captain Anna Brook pilots a plane", {"Captain Anna Brook.1 piloting plane.1"}),
        ("a field with a tractor about to run over a hat",
         {"field.1 with tractor.1", "tractor.1 running over hat.1"}),
        ("a bear standing on a rock and his ears are up",
         {"bear.1 standing on rock.1", "bear.1 has ear.1", "bear.1 has ear.2"}),
        ("a cat and a dog, both wearing hats",
         {f"{one} wearing hat.{n}" for one in ("cat.1", "dog.1") for n in (1, 2)}),
        ("a boy roller skating near a lake", {"boy.1 roller skating near lake.1"}),
        ("a kite flying near a dog walking on a wall",
         {"kite.1 flying near dog.1", "dog.1 walking on wall.1"}),
        ("a nurse in white sleeping on a bench", {"nurse.1 sleeping on bench.1"}),
        ("a man pointing a torch up at the moon",
         {"man.1 pointing torch.1", "torch.1 up at moon.1"}),
        ("a girl eating soup outside from a bowl", {"girl.1 eating soup.1", "soup.1 from bowl.1"}),
        ("a boy skiing downhill a slope", {"boy.1 skiing downhill slope.1"}),
        ("goats standing with the moon rising behind them",
         {f"goat.{n} standing with moon.1" for n in (1, 2)}
         | {f"moon.1 rising behind goat.{n}" for n in (1, 2)}),
        ("a bottle of red in a box", {"bottle.1 in box.1"}),
        ("a man with red hair in a blue coat", {"man.1 with hair.1", "man.1 in coat.1"}),
        ("three goats looking at each other",
         {f"goat.{n} looking at goat.{m}" for n in (1, 2, 3) for m in (1, 2, 3) if n != m}),
        ("a car behind a fence and parking lot",
         {"car.1 behind fence.1", "car.1 behind parking lot.1"}),
        ("the pizza is beginning to melt on a plate", {"pizza.1 melting on plate.1"}),
        ("Frogs are sitting on logs. One of them is reading a map.",
         {"frog.1 sitting on log.1", "frog.2 sitting on log.2", "frog.1 reading map.1"}),
    ],
)  # fmt: skip
def test_each_clause_has_its_own_subject(caption: str, expected: set[str]) -> None:
    assert relations(caption) == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a kettle beside a plate with toast on it",
         {"kettle.1 beside plate.1", "toast.1 on plate.1"}),
        ("a box to the left of a bag with a face painted on it",
         {"box.1 to the left of bag.1", "face.1 painted on bag.1"}),
        ("a van with a flower painted on it and parked on grass",
         {"flower.1 painted on van.1", "van.1 parked on grass.1"}),
        ("a boat with the sun setting behind it", {"sun.1 setting behind boat.1"}),
        ("a man eats noodles in a car", {"man.1 eating noodle.1", "man.1 eating noodle.2",
                                         "man.1 in car.1"}),
        ("a woman looking at a clock on the wall", {"woman.1 looking at clock.1",
                                                    "clock.1 on wall.1"}),
        ("two people looking at a street from a tower",
         {"people.1 looking at street.1", "people.2 looking at street.1",
          "people.1 from tower.1", "people.2 from tower.1"}),
        ("two cows standing in the sun in front of a tent",
         {"cow.1 standing in sun.1", "cow.2 standing in sun.1",
          "cow.1 in front of tent.1", "cow.2 in front of tent.1"}),
        ("a seal balancing a ball on its nose",
         {"seal.1 balancing ball.1", "seal.1 has nose.1", "ball.1 on nose.1"}),
        ("milk pouring from a glass into a bowl",
         {"milk.1 pouring from glass.1", "milk.1 into bowl.1"}),
        ("a raft moved on a lake by an oar", {"raft.1 moved on lake.1", "raft.1 by oar.1"}),
        ("the bird has a white belly with a brown tail",
         {"bird.1 has belly.1", "bird.1 with tail.1"}),
        ("a bus has bright stickers on the doors",
         {"bus.1 has sticker.1", "bus.1 has sticker.2", "sticker.1 on door.1",
          "sticker.2 on door.2"}),
    ],
)  # fmt: skip
def test_a_place_is_that_of_what_can_be_there(caption: str, expected: set[str]) -> None:
    assert relations(caption) == expected


@pytest.mark.parametrize(
    ("caption", "objects", "key", "value"),
    [
        ("a waiter disguised as a bear", ["waiter"], "state", "disguised as bear"),
        ("a kid pretending to be a knight", ["kid"], "state", "pretending to be knight"),
        ("a robot is car surfing", ["robot"], "state", "car surfing"),
        ("a dog looking left", ["dog"], "state", "looking left"),
        ("a child looks sad", ["child"], "state", "sad"),
        ("a bird made of bread and cheese", ["bird"], "material", "bread and cheese"),
        ("a jar labeled rat poison", ["jar"], "text", "rat poison"),
        ("a sign that says Keep Out", ["sign"], "text", "Keep Out"),
        ("a wheel made of red yarn", ["wheel"], "material", "red yarn"),
        ("a lit up clock", ["clock"], "state", "lit up"),
        ("a boy doubled over", ["boy"], "state", "doubled over"),
    ],
)
def test_what_only_tells_how_is_no_object(
    caption: str, objects: list[str], key: str, value: str
) -> None:
    assert names(caption) == objects
    assert next(iter(attributes(caption).values()))[key] == value


def test_adverbs_and_particles_say_how_things_are() -> None:
    assert attributes("two horses stand together in a field")["horse.2"] == {
        "state": "standing together"
    }
    assert attributes("a dog wearing a cap backwards")["cap.1"] == {"state": "backwards"}
    assert names("a boy holding a banana peel") == ["boy", "banana peel"]
    faces = attributes("four icons with happy, tired and sobbing faces")["face.1"]
    assert faces == {"state": "happy and tired and sobbing"}


@pytest.mark.parametrize(
    ("caption", "places"),
    [
        ("a red cube is on the left and a blue one on the right",
         {"cube.1": "on left", "cube.2": "on right"}),
        ("In this picture I can see a goat, it is white and I can see the grass at the bottom.",
         {"grass.1": "at bottom"}),
        ("right arm down on side, left arm up", {"right arm.1": "down on side"}),
    ],
)  # fmt: skip
def test_what_has_a_place_has_but_its_own(caption: str, places: dict[str, str]) -> None:
    found = attributes(caption)
    assert {one: found[one]["place"] for one in found if "place" in found[one]} == places


@pytest.mark.parametrize(
    ("caption", "bearer"),
    [
        ("a meadow of tulips, with the word 'hope' written on them in blue paint", "tulip.1"),
        ("a monkey writing 'hope' on a wall", "wall.1"),
        ("a desk with the text 'hope' in the sky above it", "sky.1"),
        ("a jar with a key in it, with the text 'hope'", "jar.1"),
        ("a cat with a balloon over its head with the word 'hope'", "balloon.1"),
        ("tulips with the text 'hope' made by the petals", "petal.1"),
        ("a box next to a mug with 'hope' on it", "mug.1"),
    ],
)
def test_a_text_is_borne_by_what_the_words_around_it_name(caption: str, bearer: str) -> None:
    found = attributes(caption)
    kinds = {one.partition(".")[0] for one, said in found.items() if said.get("text") == "hope"}
    assert kinds == {bearer.partition(".")[0]}


@pytest.mark.parametrize(
    "caption",
    [
        "Draw me a fox with a lantern",
        "generate an image of a fox with a lantern",
        "I want a picture of a fox with a lantern",
        "Please show a fox with a lantern",
        "Can you create a photo of a fox with a lantern?",
    ],
)
def test_what_asks_for_a_picture_is_not_in_it(caption: str) -> None:
    scene = parse_caption(caption)
    assert names(caption) == ["fox", "lantern"]
    assert not scene.intent.unread
    assert not scene.intent.doubts


def test_a_word_that_can_ask_is_read_where_it_names_something() -> None:
    assert names("paint on a wall") == ["paint", "wall"]
    assert names("design for a chair")[0] == "design"


def test_texts_after_one_another_have_one_bearer() -> None:
    assert attributes("a brush with the words 'salt' and 'pepper' on it") == {
        "brush.1": {"text": "salt and pepper"}
    }


def test_a_picture_of_a_thing_that_must_not_be_there_is_denied_as_a_whole() -> None:
    scene = parse_caption("a stone pedestal without a statue of a horse on it")
    assert [item.name for item in scene.objects] == ["pedestal"]
    assert [one.name for one in scene.intent.exclusions] == ["statue"]


@pytest.mark.parametrize(
    ("caption", "objects", "wishes"),
    [
        ("a parrot in the rain forest", ["parrot", "rain forest"], []),
        ("two wolves in night vision", ["wolf", "wolf", "night vision"], []),
        ("two black dogs photo", ["dog", "dog"], ["photo"]),
        ("a knight, dramatic lighting, shot on Kodak Portra 400", ["knight"],
         ["dramatic lighting", "shot on Kodak Portra 400"]),
        ("a moth, watercolor, delicate, muted colors", ["moth"],
         ["watercolor", "delicate", "muted colors"]),
        ("a whale, cosmic horror, distant planets, 8k", ["whale", "planet", "planet"],
         ["cosmic horror", "8k"]),
        ("an owl in the style of ana and liu dark cinematic", ["owl"],
         ["in the style of ana and liu dark cinematic"]),
        ("a close up of a bee", ["bee"], ["close up"]),
        ("a scene with a city", ["city"], []),
        ("--ar 4:5 a tall ship", ["ship"], ["--ar 4:5"]),
        ("red paper:: tarot card::2 moon", ["paper", "tarot card", "moon"], []),
    ],
)  # fmt: skip
def test_style_is_told_apart_from_things(
    caption: str, objects: list[str], wishes: list[str]
) -> None:
    assert names(caption) == objects
    assert [one.text for one in parse_caption(caption).intent.globals] == wishes


def test_an_artist_s_style_is_no_mood() -> None:
    kinds = [one.kind for one in parse_caption("a hut in the style of ana moody").intent.globals]
    assert set(kinds) <= {"style", "artist"}


def test_a_number_that_weighs_a_part_counts_nothing() -> None:
    counts = parse_caption("black paper::2 moon over a hill").intent.counts
    assert not [one for one in counts if one.kind == "exact"]
