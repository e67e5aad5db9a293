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
