"""The graph that LangGraph Studio loads: JSON in, a run, JSON out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scenewright.graphs.events import Composed, Event
from scenewright.records import RunResult
from scenewright.runs import RunError
from scenewright.scene import SceneGraph, SceneObject
from scenewright.studio import build_studio

SCENE = SceneGraph(objects=(SceneObject(id="dog.1", name="dog"),))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What the door ``refine`` was called with; it gives a run without an image."""
    made: list[tuple[Any, ...]] = []

    async def refine(scene: str, profile: str | None, *, on_event: Any, **options: Any) -> Any:
        made.append((scene, profile, options))
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

    monkeypatch.setattr("scenewright.studio.refine", refine)
    return made


async def test_what_is_entered_reaches_the_run(calls: list[tuple[Any, ...]]) -> None:
    graph = build_studio().compile()
    await graph.ainvoke({"scene": "dog", "profile": "sd15", "rounds": 2, "seed": 7})
    await graph.ainvoke({"scene": "dog"})
    assert calls == [("dog", "sd15", {"rounds": 2, "seed": 7}), ("dog", None, {})]


async def test_the_output_is_plain_data(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    output = await build_studio().compile().ainvoke({"scene": "dog"})
    assert output == {
        "image": None,
        "folder": str(tmp_path),
        "stop_reason": "cancelled",
        "best_round": None,
        "loop_score": None,
        "report_score": None,
    }


async def test_events_are_streamed_as_they_happen(calls: list[tuple[Any, ...]]) -> None:
    graph = build_studio().compile()
    parts = [part async for part in graph.astream({"scene": "dog"}, stream_mode="custom")]
    assert [part["type"] for part in parts] == ["composed"]


async def test_a_wrong_scene_is_told_before_a_model_is_touched() -> None:
    with pytest.raises(RunError, match="rounds"):
        await build_studio().compile().ainvoke({"scene": "dog", "rounds": 0})
