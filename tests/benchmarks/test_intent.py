"""The benchmark of intent: what counts as lost, invented and right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks._harness import DATA
from benchmarks._intent_truth import Truth, Verdict, base, judged
from benchmarks._intent_truth import load as load_truth
from benchmarks.intent import (
    SETS,
    Sender,
    Sent,
    Sentence,
    composed_prompts,
    drawn,
    faults,
    first_object,
    grammar,
    invented_numbers,
    load,
    main,
    mark,
    measure,
    measure_truth,
    numbers_of,
    read,
    silent,
)
from scenewright.agents.composers.check import compared
from scenewright.core.intent import Count, Exclusion, Global, Intent, Passage
from scenewright.core.scene import Relation, SceneGraph, SceneObject

beside = pytest.mark.skipif(
    not all((DATA / name).is_dir() for name in SETS.values()),
    reason="the public releases are not beside the repository",
)

TRUTH = """
[parti.p1]
half = "tuned"
objects = "2 dog=dog|puppy; * tree; ~ water?; cat"
attributes = "dog: brown, wet?; any: winter"
relations = "dog|cat / sit under|under|<above / tree; 1 dog / chase / cat"
globals = "medium: oil painting"
exclusions = "person"
texts = "KEEP OFF"
"""


def one(text: str, tmp_path: Path) -> Truth:
    path = tmp_path / "truth.toml"
    path.write_text(text)
    return load_truth(path)[0]


def scene(
    objects: Sequence[str],
    relations: Sequence[tuple[str, str, str]] = (),
    attributes: dict[str, dict[str, str]] | None = None,
    **intent: Any,
) -> SceneGraph:
    return SceneGraph(
        objects=tuple(
            SceneObject(id=o, name=o.split(".")[0], attributes=(attributes or {}).get(o, {}))
            for o in objects
        ),
        relations=tuple(Relation(source=a, predicate=p, target=b) for a, p, b in relations),
        intent=Intent(**intent),
    )


RELATIONS = [
    *(("dog.1", "sitting under", tree) for tree in ("tree.1", "tree.2")),
    ("dog.2", "under", "tree.1"),
    ("dog.1", "chases", "cat.1"),
]


def reading(**changed: Any) -> SceneGraph:
    """A right reading of :data:`TRUTH`, with some of it ``changed``."""
    given: dict[str, Any] = {
        "objects": ["dog.1", "dog.2", "tree.1", "tree.2", "cat.1"],
        "relations": RELATIONS,
        "attributes": {d: {"color": "brown"} for d in ("dog.1", "dog.2")}
        | {t: {"state": "winter"} for t in ("tree.1", "tree.2")},
        "counts": (
            Count(objects=("dog.1", "dog.2"), kind="exact", number=2),
            Count(objects=("tree.1", "tree.2"), kind="open"),
        ),
        "globals": (Global(kind="medium", text="an oil painting"),),
        "exclusions": (Exclusion(name="person", text="no people"),),
        "texts": ("keep off",),
    }
    return scene(**(given | changed))


def test_a_reading_with_every_fact_is_right(tmp_path: Path) -> None:
    truth = one(TRUTH, tmp_path)
    assert judged(reading(), truth) == Verdict(asked=10)
    assert judged(None, truth).faults == ["refused"]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"counts": ()}, "number of tree is not *"),
        ({"counts": (Count(objects=("dog.1", "dog.2"), kind="open"),
                     Count(objects=("tree.1", "tree.2"), kind="open"))}, "number of dog is not 2"),
        ({"texts": ()}, "missed text KEEP OFF"),
        ({"exclusions": ()}, "missed exclusion person"),
        ({"exclusions": (Exclusion(name="person", text="no people"),
                         Exclusion(name="hat", text="no hats"))}, "added exclusion hat"),
        ({"globals": ()}, "missed medium: oil painting"),
        ({"globals": (Global(kind="time", text="oil painting"),)}, "missed medium: oil painting"),
        ({"globals": (Global(kind="medium", text="oil painting"),
                      Global(kind="light", text="dusk"))}, "added light 'dusk'"),
        ({"attributes": {"dog.1": {"color": "brown"}, "tree.1": {"state": "winter"}}},
         "missed attribute dog: brown"),
        ({"attributes": {d: {"color": "brown and black"} for d in ("dog.1", "dog.2")}
          | {"tree.1": {"state": "winter"}}}, "added black of dog.1"),
        ({"relations": [("dog.1", "chases", "cat.1")]},
         "missed relation dog|cat sit under tree"),
        ({"relations": [*RELATIONS, ("cat.1", "holding", "tree.1")]}, "added cat.1 holding tree.1"),
        ({"relations": [*RELATIONS, ("dog.2", "chases", "cat.1")]},
         "missed relation dog chase cat"),
        ({"objects": ["dog.1", "dog.2", "tree.1", "tree.2", "cat.1", "hat.1"]},
         "added object hat.1"),
    ],
)  # fmt: skip
def test_what_is_missed_or_added_is_a_fault(
    changed: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    assert fault in judged(reading(**changed), one(TRUTH, tmp_path)).faults


def test_the_other_way_round_is_the_same_where_the_truth_says_so(tmp_path: Path) -> None:
    relations = [("tree.1", "above", d) for d in ("dog.1", "dog.2")]
    said = reading(relations=[*relations, ("dog.1", "chases", "cat.1")])
    assert judged(said, one(TRUTH, tmp_path)).right
    wrong = reading(relations=[*((b, p, a) for a, p, b in relations), ("dog.1", "chases", "cat.1")])
    assert not judged(wrong, one(TRUTH, tmp_path)).right


def test_abstaining_is_right_unless_it_is_most_of_the_sentence(tmp_path: Path) -> None:
    truth = one(TRUTH, tmp_path)

    def unread(text: str) -> tuple[Passage, ...]:
        return (Passage(start=0, end=len(text), text=text, reason="not understood"),)

    said = judged(reading(texts=(), unread=unread("that says KEEP OFF")), truth)
    assert (said.right, said.abstained) == (True, ["missed text KEEP OFF"])
    most = "brown under chasing a cat in an oil painting without a person KEEP OFF in winter"
    bare = scene(["dog.1", "dog.2", "tree.1", "tree.2"], counts=reading().intent.counts,
                 unread=unread(most))  # fmt: skip
    said = judged(bare, truth)
    assert not said.faults
    assert not said.right


def test_objects_with_one_label_are_told_apart_by_their_facts(tmp_path: Path) -> None:
    text = """
[parti.p2]
half = "held"
objects = "cube1=cube; cube2=cube"
attributes = "cube1: red; cube2: blue"
relations = "cube1 / on / cube2"
"""
    colors = {"cube.1": {"color": "blue"}, "cube.2": {"color": "red"}}
    truth = one(text, tmp_path)
    assert judged(scene(["cube.1", "cube.2"], [("cube.2", "on", "cube.1")], colors), truth).right
    swapped = scene(["cube.1", "cube.2"], [("cube.1", "on", "cube.2")], colors)
    assert not judged(swapped, truth).right


def test_a_wish_is_no_part_of_a_name(tmp_path: Path) -> None:
    text = '[parti.p3]\nhalf = "held"\nobjects = "2 weight"\nglobals = "medium: photo"\n'
    counts = (Count(objects=("photo weight.1", "photo weight.2"), kind="exact", number=2),)
    said = judged(scene(["photo weight.1", "photo weight.2"], counts=counts), one(text, tmp_path))
    assert {"missed medium: photo", "added photo of photo weight.1"} <= {*said.faults}


def test_a_truth_that_names_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"parti\.p1: no object bird"):
        one('[parti.p1]\nhalf = "held"\nobjects = "dog"\nattributes = "bird: red"\n', tmp_path)


@pytest.mark.parametrize(
    "forms",
    [("checking", "checks", "checked", "check"), ("geese", "goose"), ("leaves", "leaf"),
     ("women", "woman"), ("fencing", "fence"), ("sitting", "sat", "sit"), ("goes", "go"),
     ("people", "person")],
)  # fmt: skip
def test_forms_of_a_word_have_one_base(forms: tuple[str, ...]) -> None:
    assert len({base(form) for form in forms}) == 1


def test_the_truth_has_half_of_its_prompts_held() -> None:
    halves = [truth.half for truth in load_truth()]
    assert halves.count("tuned") == halves.count("held") == 60


@beside
def test_every_item_of_the_truth_is_in_its_release() -> None:
    known = {sentence.key for sentence in load(DATA)}
    assert {f"{truth.source}.{truth.item}" for truth in load_truth()} <= known


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("a dog", set()), ("two dogs and 3 cats", {2, 3}), ("four pairs of hands", {2, 4, 8}),
     ("1,200 birds", {1200}), ("a pair of shoes", {2}), ("a 2-door car", {2})],
)  # fmt: skip
def test_numbers_are_read_in_words_digits_and_pairs(text: str, numbers: set[int]) -> None:
    assert numbers_of(text) == numbers


def test_a_number_that_the_sentence_does_not_say_is_invented() -> None:
    two = ("dog.1", "dog.2")
    opened = scene(two, counts=(Count(objects=two, kind="open"),))
    exact = scene(two, counts=(Count(objects=two, kind="exact", number=2),))
    assert invented_numbers("dogs", opened, "Dogs.") == set()
    assert invented_numbers("dogs", opened, "Two dogs.") == {2}
    assert invented_numbers("dogs", exact, "Dogs.") == {2}
    assert invented_numbers("two dogs", exact, "Two dogs.") == set()
    assert invented_numbers("dogs", scene(two), "Dogs.") == {2}
    assert invented_numbers("a dog and a dog", scene(two), "A dog and a dog.") == set()
    assert invented_numbers("a bowl of rice, a bowl of peas", opened, "Two bowls.") == set()
    assert invented_numbers("seven dogs", opened, "Two dogs run. Five more dogs sleep.") == set()
    assert invented_numbers("seven dogs", opened, "Two dogs run. Three dogs sleep.") == {2, 3}


def test_a_loss_is_silent_unless_it_is_told() -> None:
    sentence, prompt = "an oil painting of a red dog", "A dog."
    said = scene(["dog.1"])
    changes = compared(sentence, prompt)
    told = faults(sentence, said, Sent(prompt, "", changes))
    assert (told["words.lost_silently"], told["told"], told["style.kept"]) == (False, True, False)
    mute = faults(sentence, said, Sent(prompt, "", compared(prompt, prompt)))
    assert (mute["words.lost_silently"], mute["told"]) == (True, False)
    more = faults(prompt, said, Sent("A big dog.", "", compared(prompt, prompt)))
    assert more["words.invented_silently"]
    assert more["style.kept"] is None
    assert silent("two dogs", "2 dog") == []


SENTENCES = [
    Sentence("parti", "p1", "a watercolor of a dog at night, no people"),
    Sentence("tifa", "coco_1", "three men and a horse"),
    Sentence("dsg", "vrd_1", "Ein Hund und eine Katze auf dem Sofa"),
]


def test_refusals_are_a_share_of_all_and_the_rest_is_of_what_is_read() -> None:
    found = asyncio.run(measure(SENTENCES))
    assert found["refused"] == pytest.approx(1 / 3)
    assert found["dsg.refused"] == 1
    assert found["words.lost_silently"] == 0
    assert found["style.kept"] == found["composed.style.kept"] == 1


def test_exclusions_go_where_the_model_takes_them() -> None:
    said = read(SENTENCES[0].text)
    assert said is not None
    sdxl = asyncio.run(Sender("sdxl").send(said))
    assert "no people" not in sdxl.prompt
    assert sdxl.negative in ("person", "people")
    flux = asyncio.run(Sender("flux2-klein").send(said))
    assert flux.prompt == SENTENCES[0].text
    composed = asyncio.run(Sender("flux2-klein", composed=True).send(said))
    assert composed.prompt != SENTENCES[0].text


def test_wrong_readings_are_counted_with_their_doubts(tmp_path: Path) -> None:
    truth = one('[parti.p1]\nhalf = "held"\nobjects = "dog"\n', tmp_path)
    right = measure_truth([truth], {"parti.p1": "a dog"})
    assert right["parse.right"]["mean"] == right["held.parse.right"]["mean"] == 1
    assert right["floor.right"] == 1
    assert "doubts.recall" not in right
    wrong = measure_truth([truth], {"parti.p1": "a dog and a cat"})
    assert wrong["parse.right"]["mean"] == 0
    assert wrong["doubts.recall"] == wrong["doubts.share"]


def test_the_floor_reads_one_object() -> None:
    assert [item.name for item in (first_object("a red dog on a sofa") or scene([])).objects] == [
        "dog"
    ]
    assert first_object("of") is None


def test_a_verdict_holds_for_the_prompt_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "read.toml"
    path.write_text(
        f'parti.p1 = ["{mark("A dog.")}", ""]\nparti.p2 = ["{mark("A dogs.")}", "article"]\n'
    )
    prompts = {"parti.p1": "A dog.", "parti.p2": "A dogs.", "parti.p3": "A cat."}
    assert grammar(prompts, path) == {
        "prompts.ungrammatical": 0.5, "prompts.read": 2, "prompts.unread": 1
    }  # fmt: skip
    assert grammar({"parti.p1": "Another dog."}, path) == {"prompts.read": 0, "prompts.unread": 1}


@beside
def test_the_drawn_prompts_are_the_same_each_time() -> None:
    every = load(DATA)
    assert drawn(every, {"tifa": 5, "parti": 5}) == drawn(every, {"tifa": 5, "parti": 5})
    assert len(asyncio.run(composed_prompts(every))) > 90


@beside
def test_a_quick_run_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.intent.QUICK", 5)
        main(["--quick"])
    shown = capsys.readouterr().out
    for name in ("words.lost_silently", "composed.style.kept", "parse.right", "prompts.unread"):
        assert name in shown


def test_without_the_releases_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--quick", "--data", str(tmp_path)])
    assert "skipped: partiprompts, tifa, dsg" in capsys.readouterr().out
