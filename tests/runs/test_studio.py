"""The graph that LangGraph Studio loads: JSON in, a run, JSON out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from scenewright.core.formats import FormatError
from scenewright.core.intent import Intent
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.graphs.errors import RunError
from scenewright.graphs.events import Composed, Event
from scenewright.runs import studio
from scenewright.runs.api import refine
from scenewright.runs.plan import plan_again
from scenewright.runs.result import RunResult, load_run
from scenewright.runs.studio import build_studio
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = SceneGraph(objects=(SceneObject(id="dog.1", name="dog"),))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What the door ``refine`` was called with; it gives a run without an image."""
    made: list[tuple[Any, ...]] = []

    async def refine(
        scene: SceneGraph, profile: str | None, *, on_event: Any, **options: Any
    ) -> Any:
        made.append((scene, profile, options["options"].model_dump(exclude_unset=True)))
        event: Event = Composed(key="r0", at=1.0, round=0, purpose="candidate", prompt="a dog")
        on_event(event)
        return RunResult(
            run_id="one",
            folder=tmp_path,
            scene=SCENE,
            facts=(),
            rounds=(),
            best_round=None,
            stop_reason="cancelled",
            totals={},
        )

    monkeypatch.setattr("scenewright.runs.studio.refine", refine)
    return made


async def test_what_is_entered_reaches_the_run(calls: list[tuple[Any, ...]]) -> None:
    graph = build_studio().compile()
    await graph.ainvoke({"scene": "dog", "profile": "sd15", "rounds": 2, "seed": 7})
    await graph.ainvoke({"scene": "dog"})
    await graph.ainvoke({"scene": "dog", "self_report": True})
    said = SCENE.said_as(Intent(sentence="dog"))
    assert calls == [
        (said, "sd15", {"rounds": 2, "seed": 7}),
        (said, None, {}),
        (said, None, {"self_report": True}),
    ]


@pytest.mark.parametrize("end", [".txt", ".json", ""])
async def test_no_file_is_opened(
    calls: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    file = tmp_path / f"secret{end}"
    file.write_text("password on table\n")
    monkeypatch.chdir(tmp_path)
    for name in (str(file), file.name):
        said = ""
        try:
            await build_studio().compile().ainvoke({"scene": name})
        except FormatError as error:
            said = str(error)
        assert "password" not in said
    read = [item.name for scene, *_ in calls for item in scene.objects]
    assert "password" not in " ".join(read)


async def test_the_output_is_plain_data(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    output = await build_studio().compile().ainvoke({"scene": "dog"})
    assert output == {
        "unread": [],
        "doubts": [],
        "warning": "",
        "image": None,
        "folder": str(tmp_path),
        "stop_reason": "cancelled",
        "best_round": None,
        "loop_score": None,
        "report_score": None,
        "reporting": "none",
        "missing": "",
    }


async def test_unread_words_are_told_before_anything_is_drawn(
    calls: list[tuple[Any, ...]],
) -> None:
    graph = build_studio().compile()
    sentence = "A dog, zorply. Ein Hund mit Ball."
    states = []
    async for state in graph.astream({"scene": sentence}, stream_mode="updates"):
        states.append((next(iter(state)), len(calls), state))
    assert [(name, drawn) for name, drawn, _ in states] == [("read", 0), ("refine", 1)]
    told = states[0][2]["read"]
    assert [sentence[one["start"] : one["end"]] for one in told["unread"]] == [
        "zorply",
        "Ein Hund mit Ball",
    ]
    assert [one["reason"] for one in told["unread"]] == ["not understood", "not English"]
    assert told["warning"].startswith("not checked: 'zorply'")
    assert calls[0][0].sentence == sentence
    assert (await graph.ainvoke({"scene": sentence}))["unread"] == told["unread"]


async def test_events_are_streamed_as_they_happen(calls: list[tuple[Any, ...]]) -> None:
    graph = build_studio().compile()
    parts = [part async for part in graph.astream({"scene": "dog"}, stream_mode="custom")]
    assert [part["type"] for part in parts] == ["composed"]


async def test_a_wrong_scene_is_told_before_a_model_is_touched() -> None:
    with pytest.raises(RunError, match="rounds"):
        await build_studio().compile().ainvoke({"scene": "dog", "rounds": 0})


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Any], Any]:
    """Has the graph draw with scripted models; takes an input or a resumption, gives the state."""
    models: dict[str, Any] = {
        "backend": ScriptedBackend(lambda request: 120),
        "judges": [ScriptedJudge("a", level=lambda fact: 250 if "hat" in fact.id else 10)],
        "report_judges": [],
        "composer": ScriptedComposer(),
    }
    monkeypatch.setattr(studio, "refine", partial(refine, out=tmp_path / "run", **models))
    monkeypatch.setattr(studio, "plan_again", partial(plan_again, **models))
    graph = build_studio().compile(checkpointer=InMemorySaver())

    async def step(given: Any) -> Any:
        return await graph.ainvoke(given, {"configurable": {"thread_id": "one"}})

    return step


async def test_a_person_is_asked_and_goes_on_with_an_edit(
    scripted: Callable[[Any], Any], tmp_path: Path
) -> None:
    asked = await scripted({"scene": "dog", "rounds": 2, "review": True})
    (question,) = asked["__interrupt__"]
    assert question.value["stop_reason"] == "satisfied"
    assert question.value["missing"] == ""
    assert Path(question.value["image"]).is_file()

    again = await scripted(Command(resume={"missing": "hat on dog", "rounds": 2}))
    (question,) = again["__interrupt__"]
    assert "hat" in question.value["missing"]
    assert {item.name for item in load_run(tmp_path / "run").scene.objects} == {"dog", "hat"}
    rounds = len(load_run(tmp_path / "run").rounds)

    done = await scripted(Command(resume=False))
    assert "__interrupt__" not in done
    assert "hat" in done["missing"]
    assert len(load_run(tmp_path / "run").rounds) == rounds


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"base": 7}, "7"),
        ({"rounds": 0}, "rounds"),
        ({"missing": "]["}, "read"),
        ({"sceen": "dog"}, "sceen"),
    ],
)
async def test_an_edit_that_cannot_be_done_is_asked_for_again(
    scripted: Callable[[Any], Any], tmp_path: Path, edit: dict[str, Any], problem: str
) -> None:
    await scripted({"scene": "dog", "rounds": 2, "review": True})
    before = load_run(tmp_path / "run")
    again = await scripted(Command(resume=edit))
    (question,) = again["__interrupt__"]
    assert problem in question.value["problem"]
    assert load_run(tmp_path / "run") == before


async def test_without_a_review_nobody_is_asked(scripted: Callable[[Any], Any]) -> None:
    assert "__interrupt__" not in await scripted({"scene": "dog", "rounds": 2})


async def test_a_self_report_is_labelled_and_stays_one_after_an_edit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models: dict[str, Any] = {
        "backend": ScriptedBackend(lambda request: 120),
        "judges": [ScriptedJudge("a", level=lambda fact: 10)],
        "composer": ScriptedComposer(),
    }
    monkeypatch.setattr(studio, "refine", partial(refine, out=tmp_path / "run", **models))
    monkeypatch.setattr(studio, "plan_again", partial(plan_again, **models))
    graph = build_studio().compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    given = {"scene": "dog", "rounds": 1, "self_report": True, "review": True}
    asked: Any = await graph.ainvoke(given, thread)
    assert asked["__interrupt__"][0].value["reporting"] == "self"
    again: Any = await graph.ainvoke(Command(resume={"missing": "hat on dog"}), thread)
    shown = again["__interrupt__"][0].value
    assert shown["reporting"] == "self"
    assert shown["report_score"] == shown["loop_score"] is not None
