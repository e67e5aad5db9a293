"""A person edits a run: what goes on, what is asked, what is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenewright.config.options import Budget
from scenewright.config.profiles import BUILT_IN
from scenewright.core.facts import missing_graph
from scenewright.core.formats import load_scene
from scenewright.graphs import checkpoints
from scenewright.graphs.errors import EditError, RunError
from scenewright.graphs.eventlog import EventLog
from scenewright.graphs.events import (
    Answered,
    Composed,
    Edit,
    Edited,
    Finished,
    Generated,
    Judged,
    Missing,
    Paused,
    Planned,
)
from scenewright.runs.api import stream_refine
from scenewright.runs.result import load_run
from tests.graphs.editing import BALL, DOG, GRAPH, LEFT, ON, RED, TABLE, Person, part, states

BETTER = "red ball on table; dog left of table; hat on dog"


async def test_a_finished_run_goes_on_from_the_picture_as_the_person_sees_it(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "run", 130, 90, 210)
    first = await person()
    assert (first.stop_reason, first.best_round) == ("rounds", 0)
    drawn, asked = len(person.calls("generate")), len(person.calls("answer"))

    edit = Edit(key="one", verdicts={RED: "yes", f"o:{DOG}": "no"}, rounds=1, note="no dog")
    result = await person(edit)
    corrected = result.rounds[2]
    assert corrected.image == first.rounds[0].image
    assert (corrected.base, corrected.note) == (0, "no dog")
    assert states(corrected.loop_card) == {
        f"o:{BALL}": "yes",
        f"o:{TABLE}": "yes",
        f"o:{DOG}": "no",
        RED: "yes",
        ON: "no",
        LEFT: "void",
    }
    assert len(person.calls("generate")) == drawn + 1
    # Of the corrected picture only "on" is asked, which both loop judges are asked for the first
    # time or have answered before; nothing is paid for it twice.
    again = [c for c in person.calls("answer") if person.calls("answer").count(c) > 1]
    assert again == []
    assert asked < len(person.calls("answer"))
    assert [record.round for record in result.rounds] == [0, 1, 2, 3]
    assert (result.best_round, result.stop_reason) == (3, "rounds")
    assert [event.key for event in person.of(Finished)] == ["finished", "finished:1"]
    assert isinstance(person.told[-1], Finished)
    assert load_run(person.folder) == result


async def test_the_corrected_picture_is_the_one_to_beat(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 210, 90, 100)
    await person()
    worse = Edit(key="one", base=1, rounds=1)
    result = await person(worse)
    # Round 0 was better than both and is compared no more.
    assert result.rounds[2].image == result.rounds[1].image
    assert result.best_round == 2
    await person(Edit(key="two", base=0, rounds=1))
    assert load_run(person.folder).best_round == 4


async def test_at_least_one_picture_is_drawn_after_an_edit(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 255)
    first = await person()
    assert (first.stop_reason, len(first.rounds)) == ("satisfied", 1)
    result = await person(Edit(key="more"), strategy="resample")
    assert [record.base for record in result.rounds] == [None, None]
    assert (result.stop_reason, len(person.calls("generate"))) == ("satisfied", 2)
    (planned,) = person.of(Planned)
    assert "nothing is known to be missing" in planned.why


@pytest.mark.parametrize("strategy", ["feedback", "router", "resample", "inpaint"])
async def test_every_strategy_goes_on_from_a_perfect_picture(tmp_path: Path, strategy: str) -> None:
    person = Person(tmp_path / "run", 255, strategy=strategy)
    await person()
    result = await person(Edit(key="more", verdicts={RED: "yes"}, rounds=1))
    assert [record.base for record in result.rounds] == [None, 0, None]


async def test_rounds_count_from_the_edit_and_the_budget_holds_for_the_whole_run(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path / "run", 90)
    budget = {"budget": Budget(images=4)}
    await person(**budget)
    two = await person(Edit(key="one", rounds=1), **budget)
    assert (two.stop_reason, two.totals["images"]) == ("rounds", 3)
    three = await person(Edit(key="two", base=0, rounds=5), **budget)
    assert (three.stop_reason, three.totals["images"]) == ("budget", 4)
    four = await person(Edit(key="three", rounds=1), **budget)
    assert (four.stop_reason, len(four.rounds)) == ("budget", len(three.rounds))


async def test_a_fact_is_added_to_the_scene(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 210, 90, 255)
    first = await person()
    result = await person(Edit(key="hat", scene=load_scene(BETTER), rounds=1))
    assert [fact.statement for fact in result.facts if "hat" in fact.statement] == [
        "hat",
        "hat on dog",
    ]
    assert first.facts[0] in result.facts
    composed = [event for event in person.of(Composed) if event.purpose == "candidate"]
    assert [event.key for event in composed] == ["r0:candidate:composed", "r2:candidate:composed"]
    assert result.rounds[3].prompt == composed[1].prompt != result.rounds[0].prompt
    # Cards of earlier rounds stay as they were.
    assert result.rounds[:2] == first.rounds
    assert len(states(result.rounds[2].loop_card)) == len(result.facts)
    reports = [event.round for event in person.of(Judged) if event.role == "report"]
    assert sorted(reports) == [0, 1, 2, 3]
    assert result.report_card is not None
    assert result.gain() is not None
    assert result.first_round == 2


async def test_a_missing_graph_says_what_differs(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 130, 90, 210)
    first = await person()
    own = first.rounds[0].missing
    assert own is not None
    # The panel misses what is red, on and left of; the person does not miss "left of", sees no
    # table, and wants a hat.
    hat = load_scene("blue hat").objects[0]
    seen = own.model_copy(
        update={
            "relations": tuple(r for r in own.relations if r.predicate != "left of"),
            "objects": (*own.objects, hat),
        }
    )
    result = await person(Edit(key="seen", missing=seen, rounds=1))
    said = states(result.rounds[2].loop_card)
    assert (said[LEFT], said[RED], said[ON]) == ("yes", "no", "no")
    assert said[f"o:{hat.id}"] == "no"
    assert said[f"a:{hat.id}:color"] == "void"
    assert hat in result.scene.objects
    unchanged = await person(Edit(key="same", missing=result.rounds[3].missing, base=3, rounds=1))
    assert unchanged.rounds[4].base is None, "an edit that changes nothing begins no round"


async def test_a_person_pauses_a_run_and_it_goes_on(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90, 130, 210)
    paused = await person(rounds=3, pause=lambda: True)
    assert paused.paused
    assert paused.stop_reason is None
    assert isinstance(person.told[-1], Paused)
    assert not (person.folder / "result.json").exists()
    assert len(person.calls("generate")) == 1
    twice = await person(rounds=3, pause=lambda: True)
    assert [event.key for event in person.of(Paused)] == ["paused:0", "paused:1"]
    assert (twice.paused, len(twice.rounds)) == (True, 2)
    done = await person(rounds=3)
    assert (done.paused, done.stop_reason, len(done.rounds)) == (False, "rounds", 3)
    assert not person.of(Edited)
    undisturbed = await Person(tmp_path / "other", 90, 130, 210)(rounds=3)
    assert done.rounds[2].image == undisturbed.rounds[2].image
    assert done.best_round == undisturbed.best_round


async def test_a_paused_run_is_edited(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90, 210)
    asked = iter([True])
    await person(rounds=3, pause=lambda: next(asked, False))
    edit = Edit(key="one", verdicts={f"o:{DOG}": "yes"}, rounds=1)
    result = await person(edit, rounds=3, pause=lambda: next(asked, False))
    assert [record.base for record in result.rounds] == [None, 0, None]
    assert result.rounds[1].corrected == {f"o:{DOG}": "yes"}
    assert result.stop_reason == "rounds"
    # Before the pause no report judge had looked; now they have, at the pictures of this scene.
    assert all(record.report_card is not None for record in result.rounds)


async def test_an_empty_edit_of_a_paused_run_only_sets_the_rounds(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    await person(rounds=9, pause=lambda: True)
    result = await person(Edit(key="one", rounds=1, note="one more"), rounds=9)
    assert len(result.rounds) == 2
    (event,) = person.of(Edited)
    assert (event.corrects, event.note, event.round) == (False, "one more", 0)


async def test_a_pause_after_an_edit_is_kept(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    await person()
    result = await person(Edit(key="one", base=1, rounds=2), pause=lambda: True)
    assert (result.paused, len(result.rounds)) == (True, 3)
    again = await person(Edit(key="one", base=1, rounds=2))
    assert (again.paused, len(again.rounds), len(person.of(Edited))) == (False, 5, 1)


async def test_the_same_key_again_is_the_same_edit(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    await person()
    edit = Edit(key="one", base=1, rounds=1)
    first = await person(edit)
    calls = len(person.book.lines)
    events = len(person.events)
    assert await person(edit) == first
    assert await person() == first
    assert (len(person.book.lines), len(person.events)) == (calls, events)


async def test_a_second_correction_keeps_the_first_words_about_the_picture(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    await person(rounds=1)
    await person(Edit(key="one", verdicts={f"o:{DOG}": "yes"}, rounds=1), rounds=1)
    result = await person(Edit(key="two", base=1, verdicts={LEFT: "yes"}, rounds=1), rounds=1)
    assert result.rounds[3].corrected == {f"o:{TABLE}": "yes", f"o:{DOG}": "yes", LEFT: "yes"}
    taken_back = Edit(key="three", base=3, verdicts={f"o:{DOG}": "no"}, rounds=1)
    result = await person(taken_back, rounds=1)
    assert result.rounds[5].corrected == {f"o:{TABLE}": "yes", f"o:{DOG}": "no"}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown round": ({"base": 7}, "go on from one of 0, 1"),
    "unknown fact": ({"verdicts": {"o:dgo.1": "yes"}}, f"'o:{DOG}'"),
    "empty scene": ({"scene": {"objects": []}}, "no objects"),
    "child without parent": ({"verdicts": {RED: "yes", f"o:{BALL}": "no"}}, "yes to both"),
    "another name": (
        {"missing": {"objects": [{"id": DOG, "name": "cat"}]}},
        "give the scene anew",
    ),
    "another colour": (
        {"missing": {"objects": [{"id": BALL, "name": "ball", "attributes": {"color": "blue"}}]}},
        "give the scene anew",
    ),
    "a question nobody can answer": (
        {
            "scene": {
                "objects": [{"id": "a", "name": "a"}, {"id": "b", "name": "b"}],
                "relations": [
                    {"source": "a", "predicate": "no visible relationship", "target": "b"}
                ],
            }
        },
        "remove it",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_edit_changes_nothing(tmp_path: Path, name: str) -> None:
    person = Person(tmp_path / "run", 90)
    await person()
    before = {path: path.read_bytes() for path in person.folder.rglob("*") if path.is_file()}
    changes, remedy = WRONG[name]
    with pytest.raises(EditError, match=remedy) as caught:
        await person(Edit.model_validate({"key": "wrong", **changes}))
    assert isinstance(caught.value, RunError)
    after = {path: path.read_bytes() for path in person.folder.rglob("*") if path.is_file()}
    assert {p.name for p in before if before[p] != after.get(p)} <= {"run.lock"}
    assert set(before) == set(after)


async def test_a_run_at_work_or_not_there_takes_no_edit(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    with pytest.raises(EditError, match="holds no run yet"):
        await person(Edit(key="one"))
    stream = stream_refine(
        "red ball",
        out=tmp_path / "cut",
        backend=person.backend,
        judges=person.judges,
        report_judges=[],
        composer=person.composer,
    )
    async for event in stream:
        if isinstance(event, Generated):
            break
    await stream.aclose()
    with pytest.raises(EditError, match="was cut off at work"):
        async for _ in stream_refine(
            "red ball",
            out=tmp_path / "cut",
            backend=person.backend,
            judges=person.judges,
            report_judges=[],
            composer=person.composer,
            edit=Edit(key="one"),
        ):
            pass


@pytest.mark.parametrize("options", [{"edit": Edit(key="one")}, {"pause": lambda: False}])
async def test_a_director_takes_neither_edits_nor_pauses(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    person = Person(tmp_path / "run", 90, strategy="director")
    with pytest.raises(RunError, match="director"):
        await person(chat=SimpleNamespace(model_name="none"), **options)


async def test_decided_facts_are_not_asked(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 90)
    await person(rounds=1)
    said = {f"o:{DOG}": "yes", f"o:{BALL}": "no"}
    await person(Edit(key="one", verdicts=said, rounds=1), rounds=1)  # type: ignore[arg-type]
    asked = {
        answer.fact_id
        for event in person.of(Answered)
        if event.round == 1 and event.role == "loop"
        for answer in event.answers
    }
    assert asked == {f"o:{TABLE}", LEFT}
    (own,) = [event.graph for event in person.of(Missing) if event.round == 1]
    assert BALL in own


@pytest.mark.parametrize("changes", [{"asking": "together"}, {"aggregation": "dawid_skene"}])
async def test_a_person_decides_whatever_the_way_of_asking(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    profile = BUILT_IN["miniature"].model_copy(update=changes)
    person = Person(tmp_path / "run", 90)
    await person(rounds=1, profile=profile)
    said = {f"o:{DOG}": "no", RED: "yes"}
    result = await person(
        Edit(key="one", verdicts=said, rounds=1),  # type: ignore[arg-type]
        rounds=1,
        profile=profile,
    )
    card = states(result.rounds[1].loop_card)
    assert (card[f"o:{DOG}"], card[LEFT], card[RED], card[f"o:{BALL}"]) == (
        "no",
        "void",
        "yes",
        "yes",
    )


async def test_an_edit_survives_the_loss_of_all_checkpoints(tmp_path: Path) -> None:
    """The loop comes to its place again through the log alone."""
    person = Person(tmp_path / "run", 90, 130, 100)
    asked = iter([True])
    await person(rounds=3, pause=lambda: next(asked, False))
    await person(rounds=3)
    await person(Edit(key="one", base=0, rounds=1), rounds=3)
    await person(Edit(key="two", scene=load_scene(BETTER), rounds=1), rounds=3)
    calls, events = len(person.book.lines), [event.key for event in person.events]
    for file in person.folder.glob("checkpoints.sqlite*"):
        file.unlink()
    result = await person(Edit(key="three", base=0, rounds=1), rounds=3)
    kept = [event.key for event in person.events if event.key in events]
    assert kept == events
    assert [record.base for record in result.rounds] == [
        None,
        None,
        None,
        0,
        None,
        3,
        None,
        0,
        None,
    ]
    drawn = [line for line in person.book.lines[calls:] if line.startswith("begin generate")]
    assert len(drawn) == 1


async def test_a_run_that_ended_under_another_graph_is_edited_through_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path / "run", 90, 130)
    with monkeypatch.context() as older:
        older.setattr(checkpoints, "GRAPH", checkpoints.GRAPH - 1)
        await person()
    before = person.events
    assert (await person()).stop_reason == "rounds"
    drawn = len(person.calls("generate"))
    result = await person(Edit(key="one", rounds=1))
    assert person.events[: len(before)] == before
    # The edit's round draws its candidate, and nothing is drawn twice.
    assert len(result.rounds) == 3
    calls = person.calls("generate")
    assert len(calls) == len(set(calls)) == drawn + 1


def test_logs_of_today_are_read_as_they_were(tmp_path: Path) -> None:
    line = (
        '{"key":"finished","at":1.0,"type":"finished","reason":"rounds","best_round":0,'
        '"image":"x","loop_card":{"verdicts":[],"objects":{},"attributes":{},"relations":{}},'
        '"report_card":null,"totals":{}}\n'
    )
    (tmp_path / "events.jsonl").write_text(line)
    log = EventLog(tmp_path / "events.jsonl")
    assert log.record.finished
    assert not log.record.paused
    assert log.record.edits == []
    log.close()


EDITS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "base": st.integers(0, 6),
            "verdicts": st.dictionaries(
                st.sampled_from([f"o:{BALL}", f"o:{TABLE}", f"o:{DOG}", RED, ON, LEFT]),
                st.sampled_from(["yes", "no"]),
                max_size=3,
            ),
            "missing": st.sampled_from(
                [part(BALL), part(DOG, TABLE, relations=[1]), part(BALL, TABLE, DOG)]
            ),
            "scene": st.sampled_from([GRAPH, load_scene(BETTER), load_scene("dog; table")]),
        },
    ),
    min_size=1,
    max_size=3,
)


@settings(
    max_examples=settings().max_examples // 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=EDITS, wanted=st.lists(st.sampled_from([60, 130, 210, 255]), min_size=3, max_size=3))
async def test_an_edit_never_loses_a_candidate(
    tmp_path_factory: pytest.TempPathFactory, edits: list[dict[str, Any]], wanted: list[int]
) -> None:
    person = Person(tmp_path_factory.mktemp("edits") / "run", *wanted)
    before = await person(rounds=1)
    for at, changes in enumerate(edits):
        stored = person.events
        try:
            after = await person(Edit(key=f"{at}", rounds=1, **changes), rounds=1)
        except EditError:
            assert person.events == stored
            continue
        # Every candidate, card and answer of before is there, under the same round and ids.
        assert after.rounds[: len(before.rounds)] == before.rounds
        assert person.events[: len(stored)] == stored
        assert [record.round for record in after.rounds] == list(range(len(after.rounds)))
        assert all(after.image_path(record.image).is_file() for record in after.rounds)
        edit = person.of(Edited)[-1]
        newest = next(r for r in after.rounds if r.round == edit.round)
        kept = {fact.id: fact for fact in after.facts}
        assert tuple(kept.values()) == edit.facts
        if edit.corrects:
            assert newest.image == before.rounds[edit.base].image
            said = states(newest.loop_card)
            assert {name: said[name] for name in edit.verdicts} == edit.verdicts
            assert newest.loop_card is not None
            gap = missing_graph(after.scene, after.facts, newest.loop_card.verdicts)
            assert (newest.missing or None) == (gap or None)
            assert after.best_round is not None
            assert after.best_round >= edit.round
        before = after
