"""The scorers of the inspect_ai bridge: on logs of ours and of others, and where nothing is known.

Run by ``test_inspect_bridge.py`` in an environment that has inspect_ai.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ContentImage, ContentText, ModelOutput
from inspect_ai.solver import Generate, TaskState, solver

from scenewright.core.formats import load_scene
from scenewright.core.images import png_bytes
from scenewright.evals.inspect_ai import picture_metric, sgscore
from tests.doubles import painted
from tests.evals.inspect_models import HERE, ServedJudge, fresh, ran, samples, scripted_task


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with fresh(tmp_path, monkeypatch):
        yield


def test_a_judge_that_says_nothing_leaves_the_score_open() -> None:
    log = ran(scripted_task(models=f"{HERE}:mute"))
    assert log.status == "success"
    for sample in samples(log):
        found = (sample.scores or {})["sgscore"]
        assert math.isnan(found.as_float())
        assert found.reason == "grader_failed"
        assert "the provider is away" in (found.explanation or "")
    assert log.results
    assert log.results.scores[0].unscored_samples == 6
    assert math.isnan(log.results.scores[0].metrics["mean"].value)


def test_facts_that_are_open_are_told_beside_the_score() -> None:
    log = ran(scripted_task(models=f"{HERE}:silent"))
    scores = [(sample.scores or {})["sgscore"] for sample in samples(log)]
    partly = [s for s in scores if "unscored" in (s.explanation or "").splitlines()[2]]
    assert partly
    for found in partly:
        data = found.metadata or {}
        states = [row["state"] for row in data["verdicts"] if row["kind"] == "relation"]
        assert "unscored" in states
        # What nobody answered counts neither way: only void relations are misses here.
        assert data["parts"]["relations"] == (0.0 if "void" in states else None)
        if data["parts"]["relations"] is None:
            # Where nobody could judge a relation, half of the sum is unknown.
            assert math.isnan(found.as_float())
        else:
            assert found.as_float() >= data["parts"]["objects"] / 2


def test_parts_and_metrics_of_ones_own() -> None:
    log = ran(scripted_task(metrics=["sgscore", f"{HERE}:redness"]))
    for sample in samples(log):
        scores = sample.scores or {}
        assert scores["picture_metric"].as_float() >= 60
        assert scores["picture_metric"].metadata["panel"] is None  # type: ignore[index]
    models = f"{HERE}:given"
    asked = [
        sgscore(part="objects", models=models),
        picture_metric(f"{HERE}:redness", part="half"),
        picture_metric(f"{HERE}:redness", part="none"),
        picture_metric(f"{HERE}:redness", part="third"),
    ]
    for sample in samples(score(log, asked, action="overwrite", display="none")):
        objects, half, none, third = (sample.scores or {}).values()
        assert objects.value == objects.metadata["parts"]["objects"]  # type: ignore[index]
        assert half.value == half.metadata["parts"]["half"]  # type: ignore[index]
        assert math.isnan(none.as_float())
        assert "no part 'third': it has half, none" in (third.explanation or "")


def test_judges_that_steered_cannot_report() -> None:
    judge_a = "local:miniature/judge-a"
    with pytest.raises(PrerequisiteError, match="which steers a loop"):
        scripted_task(condition="feedback", judges=judge_a)
    log = ran(scripted_task(condition="feedback"))
    models = f"{HERE}:given"
    both = [
        sgscore(judges=judge_a, models=models),
        sgscore(judges=judge_a, models=models, allow_loop_judges=True),
    ]
    for sample in samples(score(log, both, action="overwrite", display="none")):
        refused, allowed = (sample.scores or {}).values()
        assert math.isnan(refused.as_float())
        assert "steered the loop" in (refused.explanation or "")
        assert 0.0 <= allowed.as_float() <= 1.0
        # The label of a self-report.
        assert (allowed.metadata or {})["self_report"] == ["scripted:a"]


def test_a_judge_of_the_directors_model_cannot_report() -> None:
    log = ran(scripted_task(condition="feedback"))
    # The log says that the judge's model directed, through another account.
    director = {"id": "work:chat", "fingerprint": "", "model": ServedJudge.identity.name}
    for sample in samples(log):
        told = sample.store["scenewright_drawing"]
        told["steering"] = [*told["steering"], director]
    models = f"{HERE}:served"
    asked = [sgscore(models=models), sgscore(models=models, allow_loop_judges=True)]
    for sample in samples(score(log, asked, action="overwrite", display="none")):
        refused, allowed = (sample.scores or {}).values()
        assert math.isnan(refused.as_float())
        assert "as its director" in (refused.explanation or "")
        assert (allowed.metadata or {})["self_report"] == ["scripted:c"]


def test_a_log_that_names_files_is_scored_by_pictures_that_moved_with_their_folder() -> None:
    log = ran(scripted_task(embed=False))
    message = samples(log)[0].output.message
    assert isinstance(message.content, list)
    assert isinstance(message.content[0], ContentImage)
    assert Path(message.content[0].image).is_file()
    models = f"{HERE}:given"
    before = samples(score(log, sgscore(models=models), action="append", display="none"))
    Path("evals/inspect").rename("moved")
    asked = [sgscore(models=models, folder="moved"), sgscore(models=models)]
    after = samples(score(log, asked, action="overwrite", display="none"))
    for old, new in zip(before, after, strict=True):
        first, second = (old.scores or {}).values()
        third, lost = (new.scores or {}).values()
        assert first.value == second.value == third.value
        assert lost.reason == "scoring_failed"
        assert "moved away" in (lost.explanation or "")


def picture(red: int) -> str:
    data = png_bytes(painted((16, 16), (red, 0, 0)))
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


@solver
def paints(named: str, tool: bool = False) -> Any:
    """Another's solver, whose output is a picture, with words before it."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        content = [ContentText(text="here it is"), ContentImage(image=named)]
        state.messages.append(ChatMessageAssistant(content=content))
        if tool:
            state.output = ModelOutput.from_content("mockllm/model", "I drew it.")
        else:
            state.output = ModelOutput.from_message(state.messages[-1])
        return state

    return solve


@solver
def speaks() -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.output = ModelOutput.from_content("mockllm/model", "A cat is sitting there.")
        return state

    return solve


SCENE = "ball on table; dog left of table"


@pytest.mark.parametrize("tool", [False, True])
def test_pictures_of_any_log_are_scored(tool: bool) -> None:
    graph = load_scene(SCENE).model_dump(mode="json")
    asked = {
        "target": Sample("a table", target=SCENE, id="t"),
        "input": Sample("a ball on a table", id="i"),
        "metadata": Sample("a table", id="m", metadata={"scene": graph if tool else SCENE}),
    }
    for where, sample in asked.items():
        task = Task(dataset=[sample], solver=paints(picture(200), tool=tool))
        log = ran(task)
        scorer = sgscore(scene_from=where, models=f"{HERE}:given")
        (found,) = samples(score(log, scorer, display="none"))
        value = (found.scores or {})["sgscore"]
        kinds = [row["kind"] for row in value.metadata["verdicts"]]  # type: ignore[index]
        assert kinds.count("object") == (2 if where == "input" else 3)
        assert 0.0 <= value.as_float() <= 1.0


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("https://pictures.example/1.png", "is an address"),
        ("nowhere.png", "nor a file"),
        ("data:image/png;base64,@@@@", "damaged"),
        ("data:image/svg+xml,<svg/>", "not base64"),
        ("data:image/png;base64,aGVsbG8=", "not an image"),
    ],
)
def test_a_picture_that_cannot_be_read_is_unscored_with_the_remedy(named: str, said: str) -> None:
    sample = Sample("a table", target=SCENE)
    scorer = sgscore(scene_from="target", models=f"{HERE}:given")
    log = ran(Task(dataset=[sample], solver=paints(named), scorer=scorer))
    assert log.status == "success"
    found = (samples(log)[0].scores or {})["sgscore"]
    assert math.isnan(found.as_float())
    assert found.reason == "scoring_failed"
    assert said in (found.explanation or "")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("target", "no scene in its target"),
        ("input", "no scene in its input"),
        ("metadata", "no panel judged the picture"),
    ],
)
def test_a_sample_without_a_scene_is_unscored(where: Any, said: str) -> None:
    scorer = sgscore(scene_from=where, models=f"{HERE}:given")
    log = ran(Task(dataset=[Sample("?!")], solver=paints(picture(9)), scorer=scorer))
    found = (samples(log)[0].scores or {})["sgscore"]
    assert found.reason == "scoring_failed"
    assert said in (found.explanation or "")


def test_an_answer_in_words_holds_no_picture() -> None:
    scorer = sgscore(models=f"{HERE}:given")
    log = ran(Task(dataset=[Sample("a cat")], solver=speaks(), scorer=scorer))
    found = (samples(log)[0].scores or {})["sgscore"]
    assert found.reason == "no_response"
    assert found.explanation == "no picture: the output holds no picture"
