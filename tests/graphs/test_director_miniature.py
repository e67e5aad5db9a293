"""The director on the models that come with the package: every tool, for real."""

from __future__ import annotations

import json
from pathlib import Path

from scenewright.config.profiles import BUILT_IN
from scenewright.graphs.events import Generated, Planned, ToolCalled
from scenewright.runs.model_factory.profiles import build_run_models
from tests.graphs.directing import direct, end, of, played


async def test_every_tool_works_on_the_miniature(tmp_path: Path) -> None:
    profile = BUILT_IN["miniature"]
    run_models = await build_run_models(profile)
    question = {"question": "Is there a ball?", "box": [0.0, 0.0, 1.0, 1.0]}
    events = await direct(
        tmp_path / "run",
        played(
            ("generate_image", {}),
            ("look", question),
            ("inpaint", {"box": [0.0, 0.5, 0.5, 1.0], "strength": 0.5}),
            ("refine_with_reference", {"weight_missing": 0.6}),
            ("verify_facts", {"image": "r0"}),
            ("accept", {}),
        ),
        scene="red ball on green table; two blue dogs",
        backend=run_models.backend,
        composer=run_models.composer,
        judges=run_models.loop_judges[:1],
        report=run_models.report_judges[:1],
        steps=3,
        protocol=profile.protocol,
    )
    finished = end(events)
    assert finished.reason == "accepted"
    assert finished.report_card is not None
    done = {event.tool: event for event in of(events, ToolCalled)}
    assert done["generate_image"].ok
    assert done["inpaint"].ok
    told = json.loads(done["look"].outcome)
    assert told["answer"] in ("yes", "no")
    drawn = of(events, Generated, purpose="candidate")
    assert len({event.image for event in drawn}) == len(drawn)
    assert all(plan.strategy == "director" for plan in of(events, Planned))


async def test_a_look_is_answered_in_one_way_or_not_at_all(tmp_path: Path) -> None:
    """The same question in other words has the same answer; what was never learnt has none."""
    run_models = await build_run_models(BUILT_IN["miniature"])
    questions = (
        "Is there a ball in the image?", "Is there a ball?", "Does the image show a ball?",
        "Is there no ball?", "Does the ball look at the table?",
    )  # fmt: skip
    events = await direct(
        tmp_path / "run",
        played(
            ("generate_image", {}),
            *(("look", {"question": question}) for question in questions),
            ("accept", {}),
        ),
        scene="red ball on green table",
        backend=run_models.backend,
        composer=run_models.composer,
        judges=run_models.loop_judges[:1],
        report=run_models.report_judges[:1],
        steps=3,
    )
    told = [json.loads(event.outcome) for event in of(events, ToolCalled) if event.tool == "look"]
    assert [one["question"] for one in told] == list(questions)
    known, other = told[:3], told[3:]
    assert {one["answer"] for one in known} <= {"yes", "no"}
    assert len({(one["answer"], one["probability"]["yes"]) for one in known}) == 1
    assert [one["answer"] for one in other] == [None, None]
    assert all(one["reason"].startswith("cannot say") for one in other)
