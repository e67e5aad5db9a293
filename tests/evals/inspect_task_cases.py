"""The task and the solver of the inspect_ai bridge: the same pictures and scores as the runner's.

Run by ``test_inspect_bridge.py`` in an environment that has inspect_ai.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval_retry
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample

from scenewright.evals.datasets.base import DatasetSpec
from scenewright.evals.datasets.registry import open_dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.inspect_ai import draw, scene_bench, sgscore
from scenewright.evals.inspect_ai.context import DRAWING, OncePerLoop, item_of, samples_of
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.runner import run_eval
from tests.evals.inspect_models import (
    BOOK,
    BROKEN,
    HERE,
    JUDGE_C,
    drawings,
    fresh,
    of_runner,
    ran,
    samples,
    scripted_task,
)


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with fresh(tmp_path, monkeypatch):
        yield


@pytest.mark.parametrize("condition", ["triplets", "feedback"])
def test_pictures_verdicts_and_scores_are_those_of_an_evaluation(condition: str) -> None:
    log = ran(scripted_task(condition=condition), epochs=2)
    assert log.status == "success"
    theirs = of_runner("e", conditions=[condition], seeds=[0, 1])
    values = {
        (row["item"], row["seed"]): (row["image"], row["value"])
        for row in theirs.rows("scores")
        if row["part"] == ""
    }
    states = {
        (row["item"], row["seed"], row["fact"]): (row["state"], row["probability"])
        for row in theirs.rows("verdicts")
    }
    assert len(values) == 12
    seen = 0
    for sample in samples(log):
        found = (sample.scores or {})["sgscore"]
        data = found.metadata or {}
        assert (data["image"], found.value) == values[(sample.id, sample.epoch - 1)]
        for row in data["verdicts"]:
            key = (sample.id, sample.epoch - 1, row["fact"])
            assert (row["state"], row["probability"]) == states[key]
            seen += 1
    assert seen == len(states)
    mean = sum(value for _, value in values.values()) / 12
    assert log.results
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(mean)


def test_the_log_holds_the_picture_the_facts_and_how_it_was_drawn() -> None:
    log = ran(scripted_task(condition="feedback"))
    sample = samples(log)[0]
    item = item_of("", "", "", sample.metadata, "metadata")
    assert item.scene is not None
    assert sample.id == item.id
    facts = (sample.scores or {})["sgscore"].metadata["verdicts"]  # type: ignore[index]
    assert sample.target == [row["statement"] for row in facts]
    drawing = sample.store[DRAWING]
    assert drawing["arm"] == "miniature/feedback/0"
    assert [judge["id"] for judge in drawing["steering"]] == ["scripted:a", "scripted:b"]
    assert Path("evals/inspect/images", f"{drawing['image']}.png").is_file()
    said = (sample.scores or {})["sgscore"].explanation or ""
    assert said.startswith("sgscore ")
    assert all(statement in said for statement in sample.target)


def test_run_again_nothing_is_drawn_or_asked_twice() -> None:
    ran(scripted_task(condition="feedback"))
    before = [line for line in BOOK.lines if not line.startswith(("begin compose", "end compose"))]
    assert before
    ran(scripted_task(condition="feedback"))
    after = [line for line in BOOK.lines if not line.startswith(("begin compose", "end compose"))]
    assert after == before


def test_a_drawing_that_fails_is_unscored_with_the_reason_and_retried_alone() -> None:
    whole = list(open_dataset(DatasetSpec(name="miniature", options={"n": 6})))
    lost = next(item for item in whole if item.scene)
    assert lost.scene
    BROKEN.extend(o.name for o in lost.scene.objects)
    hit = {
        item.id for item in whole if item.scene and {o.name for o in item.scene.objects} & {*BROKEN}
    }
    log = ran(scripted_task())
    assert log.status == "error"
    failed = {sample.id for sample in samples(log) if sample.error}
    assert failed == hit != {item.id for item in whole}
    for sample in samples(log):
        found = (sample.scores or {})["sgscore"]
        assert math.isnan(found.as_float()) is (sample.id in failed)
        if sample.id in failed:
            assert found.reason == "no_response"
            assert "the device is gone" in (found.explanation or "")
    assert log.results
    assert log.results.scores[0].unscored_samples == len(failed)
    BROKEN.clear()
    before = drawings()
    (again,) = eval_retry(log, display="none", log_dir="logs")
    assert again.status == "success"
    assert drawings() - before == len(failed)
    assert all(not math.isnan((s.scores or {})["sgscore"].as_float()) for s in samples(again))


def test_the_solver_draws_samples_of_others() -> None:
    models = f"{HERE}:given"
    task = Task(
        dataset=[Sample("a ball on a table", id=1)],
        solver=draw(scene_from="input", models=models),
        scorer=sgscore(scene_from="input", models=models),
    )
    assert 0.0 <= (samples(ran(task))[0].scores or {})["sgscore"].as_float() <= 1.0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dataset": "nope"}, "there is no set 'nope'"),
        ({"options": {"m": 1}}, "has no option 'm'"),
        ({"backend": "nope"}, "nope"),
        ({"condition": "nope"}, r"\[condition.nope\]"),
        ({"condition": {"rounds": 0}}, "condition.own.rounds"),
        ({"metrics": "sharpness"}, "unknown metric 'sharpness'"),
        ({"metrics": f"{HERE}:of_sets"}, "a whole set"),
        ({"judges": "nobody"}, "'nobody' is not a judge"),
        ({"quorum": 2}, "name its judges"),
        ({"judges": JUDGE_C, "quorum": 2}, "quorum of 2"),
        ({"alpha": 2.0}, "alpha"),
        ({"models": "nothing"}, "is not module:function"),
        ({"models": f"{HERE}:nothing"}, "gives a str"),
        ({"models": f"{HERE}:nobody"}, "no function nobody"),
        ({"config": "nowhere.toml"}, "nowhere.toml cannot be read"),
        ({"panel": "nope"}, "unknown panel 'nope'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_drawn(options: Any, said: str) -> None:
    with pytest.raises(PrerequisiteError, match=said):
        scripted_task(**options)
    assert BOOK.lines == []


CONFIG = """
name = "trial"
backends = ["miniature"]
conditions = ["triplets", "mine"]
seeds = [3, 4]
alpha = 0.25
[dataset]
name = "miniature"
options = { n = 3, seed = 7 }
[condition.mine]
rounds = 2
[panels.one]
judges = ["local:miniature/judge-c"]
[panels.two]
judges = ["local:miniature/judge-b"]
"""


def test_a_configuration_of_an_evaluation_is_a_task(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG, encoding="utf-8")
    models = f"{HERE}:given"
    with pytest.raises(PrerequisiteError, match=r"several of condition.*triplets, mine"):
        scene_bench(config="c.toml", models=models)
    with pytest.raises(PrerequisiteError, match=r"several of panel.*one, two"):
        scene_bench(config="c.toml", condition="mine", models=models)
    log = ran(scene_bench(config="c.toml", condition="mine", panel="one", models=models))
    assert [(s.id, s.epoch) for s in samples(log)] == [
        (f"s7-0000{at}", epoch) for at in range(3) for epoch in (1, 2)
    ]
    arms = {s.store[DRAWING]["arm"] for s in samples(log)}
    assert arms == {"miniature/own/3", "miniature/own/4"}
    found = (samples(log)[0].scores or {})["sgscore"]
    parts = found.metadata["parts"]  # type: ignore[index]
    assert found.value == pytest.approx(0.25 * parts["objects"] + 0.75 * parts["relations"])


def test_models_are_made_once_in_a_loop_and_again_after_a_failure() -> None:
    made: list[int] = []

    async def make() -> int:
        made.append(len(made))
        await asyncio.sleep(0)
        if made[-1] == 0:
            raise EvalError("no memory")
        return made[-1]

    once = OncePerLoop(make)

    async def several() -> list[Any]:
        return await asyncio.gather(*(once.get() for _ in range(3)), return_exceptions=True)

    async def twice() -> list[Any]:
        return [*await several(), *await several()]

    found = asyncio.run(twice())
    assert [str(error) for error in found[:3]] == ["no memory"] * 3
    assert found[3:] == [1, 1, 1]
    assert asyncio.run(several()) == [2, 2, 2]
    with pytest.raises(EvalError, match="INSPECT_ASYNC_BACKEND"):
        once.get().send(None)


def test_items_are_the_same_when_they_come_back() -> None:
    asked = EvalConfig.model_validate({"name": "e", "dataset": {"name": "miniature"}})
    items = list(open_dataset(DatasetSpec(name="miniature", options={"n": 30})))
    for item, sample in zip(items, samples_of(items, asked), strict=True):
        read = Sample.model_validate_json(sample.model_dump_json())
        assert item_of("", "", "", read.metadata or {}, "metadata") == item
        assert read.input
        assert read.metadata
        assert read.metadata["level"] == item.level


def test_the_models_that_ship_score_as_in_an_evaluation() -> None:
    options = {"n": 2, "levels": ["simple"]}
    log = ran(scene_bench(dataset="miniature", options=options, condition="triplets"))
    asked = EvalConfig.model_validate(
        {
            "name": "e",
            "dataset": {"name": "miniature", "options": options},
            "conditions": ["triplets"],
        }
    )
    theirs = asyncio.run(run_eval(asked, "e"))
    values = {
        row["item"]: (row["image"], row["value"])
        for row in theirs.rows("scores")
        if row["part"] == ""
    }
    scores = {sample.id: (sample.scores or {})["sgscore"] for sample in samples(log)}
    assert {id: (s.metadata["image"], s.value) for id, s in scores.items()} == values  # type: ignore[index]
