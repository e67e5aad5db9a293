"""Plain sentences: readable English without a language model, and nothing that nobody asked for."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given

from scenewright.agents.composers.check import dropped_facts, lost_facts, without_excluded
from scenewright.agents.composers.english import predicate_in_english
from scenewright.agents.composers.sentences import SentenceComposer, sentences, sentences_within
from scenewright.agents.judges.pictures import text_tokens
from scenewright.agents.parsers.rules import parse_caption
from scenewright.agents.parsers.tagging import PEOPLE, is_animate, is_person
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.formats import load_scene, loads_scene
from scenewright.core.intent import Intent
from scenewright.core.ports.composer import Composer, PromptBudget
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from tests.strategies import scenes

TABLE_6 = {
    "objects": ["cymbal.1", "cymbal.2", "drum.3", "guitar.4", "microphone.5", "person.6"],
    "relationships": [
        {"source": "person.6", "target": "guitar.4", "relation": "playing"},
        {"source": "person.6", "target": "microphone.5", "relation": "using"},
        {"source": "guitar.4", "target": "cymbal.1", "relation": "near"},
        {"source": "guitar.4", "target": "drum.3", "relation": "near"},
    ],
}


def test_the_papers_own_example_reads_like_english_and_names_no_place() -> None:
    """Scene-Bench, Table 6."""
    assert sentences(loads_scene(json.dumps(TABLE_6))) == (
        "A person is playing a guitar and using a microphone. "
        "The guitar is near a cymbal and a drum. There is another cymbal."
    )


def scene(objects: dict[str, dict[str, str]], *relations: tuple[str, str, str]) -> SceneGraph:
    return SceneGraph(
        objects=tuple(
            SceneObject(id=key, name=key.partition(".")[0], attributes=attributes)
            for key, attributes in objects.items()
        ),
        relations=tuple(Relation(source=s, predicate=p, target=t) for s, p, t in relations),
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (scene({"dog.1": {}}), "A dog."),
        (scene({"ball.1": {"color": "red"}, "dog.1": {}, "dog.2": {}}), "A red ball and two dogs."),
        # A state goes on with where it is.
        (
            scene(
                {"man.1": {"state": "sit"}, "chair.1": {"material": "wooden"}},
                ("man.1", "in", "chair.1"),
            ),
            "A man is sitting in a wooden chair.",
        ),
        # What one has stands with it.
        (
            scene(
                {"man.1": {}, "hat.1": {}, "horse.1": {"color": "brown", "size": "big"}},
                ("man.1", "has", "hat.1"),
                ("man.1", "rides", "horse.1"),
            ),
            "A man with a hat is riding a big brown horse.",
        ),
        # Like instances are counted, others told apart.
        (
            scene(
                {"woman.1": {}, "woman.2": {}, "flag.1": {}},
                ("woman.1", "holding", "flag.1"),
                ("woman.2", "holding", "flag.1"),
            ),
            "Two women are holding a flag.",
        ),
        (
            scene(
                {"woman.1": {}, "woman.2": {}, "bag.1": {}, "bag.2": {}},
                ("woman.1", "holding", "bag.1"),
                ("woman.2", "holding", "bag.2"),
            ),
            "Two women are each holding a bag.",
        ),
        (
            scene({"person.1": {}, "person.2": {}, "guitar.1": {}}, ("person.2", "play", "guitar.1")),  # noqa: E501
            "A person is playing a guitar. There is another person.",
        ),
        (
            scene(
                {"dog.1": {"color": "red"}, "dog.2": {"color": "black"}, "cat.1": {}, "cup.1": {}},
                ("dog.1", "chasing", "cat.1"),
                ("dog.2", "behind", "dog.1"),
                ("dog.2", "near", "cup.1"),
            ),
            "A black dog is behind a red dog and near a cup. The red dog is chasing a cat.",
        ),
        # A chain is one sentence.
        (
            scene(
                {"car.1": {}, "truck.1": {}, "house.1": {}},
                ("car.1", "behind", "truck.1"),
                ("truck.1", "parked", "house.1"),
            ),
            "A car is behind a truck, which is parked on a house.",
        ),
        (scene({"sky.1": {"color": "blue"}, "grass.1": {}}, ("sky.1", "above", "grass.1")),
         "A blue sky is above grass."),
        (scene({"cup.1": {}, "tea.1": {}}, ("cup.1", "of", "tea.1")), "There is a cup of tea."),
        # Clauses and verb phrases stand behind the noun, and nothing is said twice.
        (
            scene({"beaver.1": {"state": "dignified and stand"}, "tie.1": {"type": "neck"}},
                  ("beaver.1", "has", "tie.1")),
            "A dignified beaver with a neck tie is standing.",
        ),
        (scene({"right arm.1": {"state": "up and bent"}}), "A bent right arm is up."),
        (
            scene({"monkey.1": {"state": "swing and stand"}, "bar.1": {}},
                  ("monkey.1", "swing on", "bar.1")),
            "A monkey is standing and swinging on a bar.",
        ),
        (scene({"sign.1": {"text": "KEEP OFF"}}), 'A sign that says "KEEP OFF".'),
        (scene({"heart.1": {"material": "autumn leaves"}}), "A heart made of autumn leaves."),
        (
            scene({"bus.1": {}, "traffic light.1": {}, "traffic light.2": {}},
                  ("bus.1", "near", "traffic light.1")),
            "A bus is near a traffic light. There is another traffic light.",
        ),
        (scene({"Jeff Bezos.1": {}, "hat.1": {}}, ("Jeff Bezos.1", "wears", "hat.1")),
         "Jeff Bezos is wearing a hat."),
        # What somebody has is theirs, and little more is said with it.
        (
            scene({"panda.1": {}, "glasses.1": {}, "head.1": {}}, ("panda.1", "with", "glasses.1"),
                  ("panda.1", "has", "head.1"), ("glasses.1", "on", "head.1")),
            "There is a panda with glasses on its head.",
        ),
        (
            scene({"owl.1": {}, "man.1": {}, "head.1": {}}, ("man.1", "has", "head.1"),
                  ("owl.1", "on", "head.1")),
            "An owl is on a man's head.",
        ),
        (scene({"box.1": {}, "cat.1": {}}, ("box.1", "has", "cat.1"), ("cat.1", "in", "box.1")),
         "A box has a cat in it."),
        # The same of several is said once.
        (
            scene({"car.1": {}, "bus.1": {}, "cup.1": {"color": "red"}, "road.1": {}},
                  ("car.1", "on", "road.1"), ("bus.1", "on", "road.1"), ("cup.1", "on", "road.1")),
            "A car, a bus and a red cup are on a road.",
        ),
        (scene({"hat.1": {}, "man.1": {}}, ("hat.1", "on", "man.1"), ("hat.1", "above", "man.1")),
         "A hat is on and above a man."),
        (
            scene({"dog.1": {}, "cat.1": {}, "cat.2": {}, "bed.1": {}}, ("dog.1", "near", "cat.1"),
                  ("dog.1", "near", "cat.2"), ("cat.1", "on", "bed.1")),
            "A dog is near two cats. The first cat is on a bed.",
        ),
    ],
)  # fmt: skip
def test_scenes_read_like_english(asked: SceneGraph, said: str) -> None:
    assert sentences(asked) == said


def said_as(asked: SceneGraph, **intent: object) -> SceneGraph:
    return asked.model_copy(update={"intent": Intent.model_validate(intent)})


CAT = scene({"cat.1": {}, "hat.1": {}}, ("cat.1", "wears", "hat.1"))


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ([("medium", "oil painting")], "An oil painting of a cat wearing a hat."),
        ([("artist", "in the style of Van Gogh"), ("medium", "Photo")],
         "A photo of a cat wearing a hat, in the style of Van Gogh."),
        ([("style", "digital art")], "Digital art of a cat wearing a hat."),
        ([("view", "close-up"), ("medium", "in watercolor")],
         "A close-up of a cat wearing a hat, in watercolor."),
        ([("time", "at night"), ("quality", "4k"), ("aspect", "--ar 16:9"), ("aspect", "16:9")],
         "A cat wearing a hat at night, 4k. --ar 16:9"),
    ],
)  # fmt: skip
def test_a_picture_comes_before_what_it_shows_and_all_else_behind(
    wishes: list[tuple[str, str]], said: str
) -> None:
    asked = said_as(CAT, globals=[{"kind": kind, "text": text} for kind, text in wishes])
    assert sentences(asked) == said


def test_a_verb_of_its_own_becomes_a_clause_behind_the_noun() -> None:
    asked = scene({"man.1": {}, "box.1": {}, "cat.1": {}}, ("box.1", "contains", "cat.1"),
                  ("box.1", "near", "man.1"))  # fmt: skip
    asked = said_as(asked, globals=[{"kind": "medium", "text": "drawing"}])
    assert sentences(asked) == "A drawing of a box that contains a cat and is near a man."


THREE = {"boat.1": {}, "boat.2": {}, "boat.3": {}}


@pytest.mark.parametrize(
    ("count", "said"),
    [
        ({"kind": "exact", "number": 3}, "Three boats."),
        ({"kind": "exact", "number": 20}, "20 boats."),
        ({"kind": "least", "number": 3}, "At least three boats."),
        ({"kind": "least"}, "Several boats."),
        ({"kind": "open"}, "Boats."),
    ],
)
def test_numbers_are_said_as_they_were_meant(count: dict[str, object], said: str) -> None:
    asked = said_as(scene(THREE), counts=[{**count, "objects": list(THREE)}])
    assert sentences(asked) == said
    if count["kind"] != "exact":
        assert lost_facts(asked, said) == ()


def test_those_of_an_open_number_are_never_told_apart() -> None:
    asked = scene({"people.1": {}, "people.2": {}, "people.3": {}, "kite.1": {}, "kite.2": {}},
                  ("people.1", "flying", "kite.1"), ("people.2", "flying", "kite.2"),
                  ("people.3", "flying", "kite.1"))  # fmt: skip
    counts = [{"kind": "open", "objects": [o.id for o in asked.objects if o.name == name]}
              for name in ("people", "kite")]  # fmt: skip
    assert sentences(said_as(asked, counts=counts)) == "People are flying kites."


def test_articles_are_those_of_the_sentence() -> None:
    asked = scene({"man.1": {}, "baseball.1": {}, "beach.1": {}, "Statue of Liberty.1": {}},
                  ("man.1", "playing", "baseball.1"), ("man.1", "on", "beach.1"),
                  ("man.1", "near", "Statue of Liberty.1"))  # fmt: skip
    said = "a man playing baseball on the beach near the Statue of Liberty"
    assert sentences(said_as(asked, sentence=said)) == (
        "A man is playing baseball on the beach and near the Statue of Liberty."
    )


@pytest.mark.parametrize(
    ("said", "composed"),
    [
        # What the sentence joins by "of" stays joined, whoever has it.
        ("a girl holding a jar of honey", "A girl is holding a jar of honey."),
        ("a drawing of a fox on a box of old toys", "A drawing of a fox on a box of old toys."),
        # Adjectives stand where the sentence has them, and in its order.
        ("a sleeping boy on a round old bed", "A sleeping boy is on a round old bed."),
        ("a crown made of ice", "A crown made of ice."),
        ("two trucks parked near a barn", "Two trucks are parked near a barn."),
        ("three candles lined up in a row on a cake", "Three candles are lined up on a cake."),
        ("a poster of modern cubism", "There is a poster of modern cubism."),
        # Where one is stands with the noun, and a way with the movement.
        ("a nurse in a blue coat holding a cup", "A nurse in a blue coat is holding a cup."),
        ("a boy riding a horse across a river", "A boy is riding a horse across a river."),
        ("a cat on a rug in a kitchen", "A cat is on a rug in a kitchen."),
        ("a lamp with a window in the background",
         "There is a lamp with a window in the background."),
        # Whose it is, where that is the subject.
        ("a woman brushing her hair", "A woman is brushing her hair."),
        ("a man reading a book with a star on its cover",
         "A man is reading a book with a star on its cover."),
        ("a horse's head", "There is a horse's head."),
        ("a girl wearing glasses and red beret", "A girl is wearing glasses and a red beret."),
        ("a girl looking at sheep", "A girl is looking at sheep."),
        ("a boy throws a ball to a dog", "A boy is throwing a ball to a dog."),
        # Of two alike each has its own words.
        ("a big box behind the small box", "A big box is behind the small box."),
        ("a cup of soup with a spoon in it",
         "A spoon is in a cup of soup."),
        # A noun before its noun is one.
        ("a shelf with ribbons rolls", "There is a shelf with ribbon rolls."),
        ("a store with sports shoes", "There is a store with sports shoes."),
        # A name of no dictionary has no article, another word of none has.
        ("tigerman eating a pear", "Tigerman is eating a pear."),
        ("a drawing of jorin feldik", "A drawing of jorin feldik."),
        ("a boy near a quombat", "A boy is near a quombat."),
        ("a crane with the text 'the sea'", 'A crane that says "the sea".'),
        ("the NASA logo on a mug", "The NASA logo is on a mug."),
        ("A GREEN KITE OVER A BARN", "A green kite is over a barn."),
        # Lists keep their commas.
        ("masks with happy, sad, tired and angry eyes",
         "There are masks with happy, sad, tired and angry eyes."),
        ("a big red old barn", "A big red old barn."),
        ("two goats facing each other", "Two goats are facing each other."),
        ("a flag touching the top of a mast", "A flag is touching the top of a mast."),
        ("a book cover with an illustration of a fox",
         "There is a book cover with an illustration of a fox."),
        ("three sets of twins on a sofa", "Three sets of twins are on a sofa."),
    ],
)  # fmt: skip
def test_a_composed_prompt_keeps_the_wording_of_its_sentence(said: str, composed: str) -> None:
    assert sentences(parse_caption(said)) == composed


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (scene({"woman.1": {}, "apple.1": {"color": "red"}, "horse.1": {}},
               ("woman.1", "giving", "apple.1"), ("woman.1", "giving to", "horse.1")),
         "A woman is giving a red apple to a horse."),
        (scene({"cat.1": {}, "dog.1": {}}, ("cat.1", "facing", "dog.1"),
               ("dog.1", "facing", "cat.1")),
         "A cat and a dog are facing each other."),
        (scene({"cup.1": {}, "shelf.1": {}}, ("cup.1", "on", "shelf.1"),
               ("shelf.1", "has", "cup.1")),
         "A shelf has a cup on it."),
        (scene({"roll.1": {}, "jam.1": {}, "butter.1": {}}, ("roll.1", "has", "jam.1"),
               ("roll.1", "has", "butter.1"), ("jam.1", "on", "roll.1"),
               ("butter.1", "on", "roll.1")),
         "A roll has jam and butter on it."),
        (scene({"rocket.1": {"state": "rising", "place": "in foreground"}}),
         "A rocket is rising in the foreground."),
        (scene({"flag.1": {"color": "red and green and white"}}),
         "A red, green and white flag."),
        (scene({"person.1": {}, "wall.1": {}}, ("person.1", "painted", "wall.1")),
         "A person is painted on a wall."),
        (scene({"person.1": {}, "path.1": {}}, ("person.1", "trodded", "path.1")),
         "A person is trodding a path."),
    ],
)  # fmt: skip
def test_what_belongs_together_is_one_phrase(asked: SceneGraph, said: str) -> None:
    assert sentences(asked) == said


def test_one_of_several_is_said_with_those_counted() -> None:
    asked = scene({**THREE, "sail.1": {}}, ("boat.2", "under", "sail.1"))
    counts = [{"kind": "least", "objects": list(THREE)}]
    assert sentences(said_as(asked, counts=counts)) == "One of several boats is under a sail."


def test_exclusions_and_texts_that_nothing_bears_are_said() -> None:
    asked = said_as(
        scene({"man.1": {}, "street.1": {}}, ("man.1", "on", "street.1")),
        exclusions=[
            {"name": "car", "text": "and without cars"},
            {"name": "hat", "text": "without a hat", "of": "man.1"},
        ],
        texts=["HELLO"],
    )
    text = sentences(asked)
    assert text == 'A man without a hat on a street, with the text "HELLO", without cars.'
    assert without_excluded(text, asked, avoids=True) == (
        'A man without a hat on a street, with the text "HELLO".'
    )


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("left of", "to the left of"), ("is on a", "on"), ("hold", "holding"), ("wears", "wearing"),
        ("sat on", "sitting on"), ("held by", "held by"), ("attached", "attached to"),
        ("has", "have"), ("contains", "contain"), ("in front", "in front of"), ("rode", "riding"),
        ("on the side of", "on the side of"), ("squat", "squatting"), ("covered", "covered with"),
    ],
)  # fmt: skip
def test_predicates_of_data_sets_become_verb_phrases(predicate: str, said: str) -> None:
    assert predicate_in_english(predicate).words == said


@given(scenes())
def test_every_object_is_named_once_or_more_and_nothing_is_left_to_chance(
    asked: SceneGraph,
) -> None:
    composer = SentenceComposer()
    assert isinstance(composer, Composer)
    text = asyncio.run(composer.compose(asked, 1))
    assert text == asyncio.run(composer.compose(asked, 2))
    assert composer.places(asked, 1) == {}
    folded = text.casefold()
    assert all(item.name.casefold() in folded for item in asked.objects if "." not in item.name)


def test_real_profiles_have_a_language_model_or_plain_sentences() -> None:
    """The grid, its settings and its colours belong to the miniature alone."""
    for name, profile in BUILT_IN.items():
        if name.startswith("miniature"):
            assert profile.composer == "grid"
            continue
        assert profile.composer == ("llm" if profile.chat else "sentence")
        assert not profile.composer_defaults


def test_a_profile_with_a_language_model_composes_with_it() -> None:
    base = {"name": "mine", "backend": "diffusers:x", "judges": ["local:a"]}
    assert Profile.model_validate(base).composer == "sentence"
    assert Profile.model_validate({**base, "chat": "openai:gpt-4.1"}).composer == "llm"
    assert Profile.model_validate({**base, "chat": "scripted:director"}).composer == "sentence"
    saved = Profile.model_validate({**base, "composer": "rules"})
    assert saved.composer == "grid", "saved profiles and manifests name it so"


def test_no_place_and_no_setting_is_named_that_the_scene_does_not() -> None:
    text = sentences(load_scene("car behind another car; lamp left of tree; boat"))
    for word in ("meadow", "room", "beach", "top", "bottom", "middle", "center"):
        assert word not in text


BUSY = load_scene("red ball on blue table; dog left of table; dog | chasing | cat; cat behind lamp")


def within(asked: SceneGraph, budget: int) -> tuple[str, set[str]]:
    """The prompt of so many tokens, and the facts that it drops."""
    text, unsaid = sentences_within(asked, PromptBudget(budget, text_tokens))
    facts = facts_of(asked)
    dropped = dropped_facts(asked, facts, text, None, unsaid)
    return text, {fact.statement for fact in facts if fact.id in dropped}


def test_a_prompt_that_has_room_stays_as_it_is() -> None:
    assert within(BUSY, text_tokens(sentences(BUSY))) == (sentences(BUSY), set())


def test_a_longer_one_says_every_fact_without_function_words() -> None:
    text, dropped = within(BUSY, text_tokens(sentences(BUSY)) - 1)
    assert text == (
        "Dog chasing cat and to the left of blue table. Red ball on table. Cat behind lamp."
    )
    assert dropped == set()


def test_what_has_no_room_is_dropped_relations_first_then_attributes_then_objects() -> None:
    facts = facts_of(BUSY)
    kinds = {fact.statement: fact.kind for fact in facts}
    seen: set[str] = set()
    for budget in range(text_tokens(sentences(BUSY, brief=True)), 0, -1):
        text, dropped = within(BUSY, budget)
        assert text_tokens(text) <= budget or len(dropped) == len(facts) - 1
        lost = {kinds[statement] for statement in dropped}
        bare = SceneGraph(objects=tuple(SceneObject(id=o.id, name=o.name) for o in BUSY.objects))
        objects = {statement for statement in dropped if kinds[statement] == "object"}
        assert objects == within(bare, budget)[1], "no attribute takes an object's room"
        seen |= lost
    assert seen == {"object", "attribute", "relation"}
    assert text == "Ball.", "something is drawn"


@pytest.mark.slow
@pytest.mark.parametrize("budget", [75, 255, 511])
def test_budgets_of_clip_sd3_and_flux_hold_as_much_as_has_room(budget: int) -> None:
    colors = ("red", "blue", "green", "black")
    objects = tuple(
        SceneObject(id=f"thing{n}.1", name=f"thing{n}", attributes={"color": colors[n % 4]})
        for n in range(140)
    )
    relations = tuple(
        Relation(source=objects[n].id, predicate="behind", target=objects[(n * 7 + 1) % 140].id)
        for n in range(140)
        if n != (n * 7 + 1) % 140
    )
    text, dropped = within(SceneGraph(objects=objects, relations=relations), budget)
    assert budget - 8 < text_tokens(text) <= budget
    assert dropped


def test_the_composer_of_a_model_that_reads_little_keeps_to_it() -> None:
    plain, small = SentenceComposer(), SentenceComposer(PromptBudget(12, text_tokens))
    assert plain.fingerprint != small.fingerprint
    told = asyncio.run(small.word(BUSY, 0))
    assert told.prompt == asyncio.run(small.compose(BUSY, 0))
    assert text_tokens(told.prompt) <= 12
    assert ("ball.1",) not in told.unsaid
    assert ("dog.1", "left of", "table.1") in told.unsaid
    assert asyncio.run(plain.word(BUSY, 0)).unsaid == ()


def test_who_stands_for_those_whom_the_parser_takes_for_people() -> None:
    """One list: whom a caption says "who" of is a being to the tagger, and no animal is a who."""
    assert all(is_person(name) and is_animate(name) for name in PEOPLE)
    assert is_person("old man")
    assert is_person("firefighters")
    for name in ("dog", "robot", "fire truck"):
        assert not is_person(name)
    asked = load_scene("dog behind umpire; umpire left of car")
    assert sentences(asked) == "A dog is behind an umpire, who is to the left of a car."
