"""Places of things in evaluations: for backends that take boxes."""

from __future__ import annotations

from pathlib import Path

from scenewright.agents.composers.rules import GridComposer
from scenewright.config.settings import load_settings
from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import GenerationRequest
from scenewright.evals.runner.config import EvalConfig, arms_of
from scenewright.evals.runner.drawing import GenerationContext, ImageGenerator, draw
from tests.doubles import ScriptedBackend, ScriptedJudge
from tests.evals.eval_sets import scene_items


async def test_a_loop_begins_with_the_placed_picture_of_an_arm_without_one(
    tmp_path: Path,
) -> None:
    asked: list[GenerationRequest] = []

    def quality(request: GenerationRequest) -> int:
        asked.append(request)
        return 100

    judges = (ScriptedJudge("a"), ScriptedJudge("b"))
    generator = ImageGenerator(ScriptedBackend(quality, boxes=True), GridComposer(), judges)
    settings = load_settings()
    images = ImageStore(tmp_path / "images")
    generation = GenerationContext(tmp_path, images, settings, tmp_path)
    config = EvalConfig.model_validate(
        {
            "name": "placed",
            "dataset": {"name": "megasg"},
            "backends": ["miniature"],
            "conditions": ["composition", "feedback"],
        }
    )
    (item,) = scene_items(1)
    for arm in arms_of(config, settings):
        await draw(arm.name, item, arm, generator, generation)
    first = asked[0]
    assert item.scene is not None
    places = GridComposer().places(item.scene, first.seed)
    assert [box.region for box in first.boxes] == [places[one.id] for one in item.scene.objects]
    # The loop draws further pictures, and this one not again.
    assert len(asked) > 1
    assert [request.seed for request in asked].count(first.seed) == 1
