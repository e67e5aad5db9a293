"""GenEval as a metric: detectors vote clause by clause; what cannot be told is unscored."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from scenewright.config.settings import Settings
from scenewright.core.ports.vision import Detection, DetectionError
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets import prompt_sets as geneval_set
from scenewright.evals.metrics.base import ItemMetric, MetricError, MetricScore
from scenewright.evals.metrics.encoders import EncodedTexts
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.studies.peers.geneval import (
    ClipColors,
    DetectorJudge,
    GenEval,
    alone,
)
from scenewright.evals.studies.peers.geneval_rules import clause_facts, demands_of
from scenewright.miniature.sampler import sample_painting
from tests.doubles import painted
from tests.evals.studies.peers.saying import bench, sample
from tests.tools.vision.realism.scripted import ScriptedDetector

RELEASE = Path(__file__).parents[5] / "shared" / "data" / "geneval"
SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
    ),
    relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
)
DOG = Detection("dog", (5, 20, 25, 40), 0.9)
BALL = Detection("ball", (40, 20, 60, 40), 0.8)


class Palette:
    """Says the same colour of everything, or fails."""

    fingerprint = "palette-1"
    palette = None

    def __init__(self, color: str | None = "red", failing: bool = False) -> None:
        self.color, self.failing = color, failing

    async def read(self, image: Image.Image, things: Any, every: Any) -> list[str | None]:
        if self.failing:
            raise RuntimeError("no light")
        return [self.color] * len(things)


def judge(*found: Detection, name: str = "d", colors: Any = None) -> DetectorJudge:
    detector = ScriptedDetector(found, id=f"scripted:{name}", fingerprint=f"{name}-{len(found)}")
    return DetectorJudge(detector, colors=colors or Palette())


async def scored(*judges: DetectorJudge, **options: Any) -> MetricScore:
    metric = GenEval(bench(*judges), **options)
    assert isinstance(metric, ItemMetric)
    return await metric.score(sample(scene=SCENE))


async def test_a_picture_is_right_or_wrong_as_a_whole() -> None:
    right = await scored(judge(DOG, BALL))
    assert right.value == 1.0
    assert right.parts["judge:scripted:d"] == 1.0
    assert (right.parts["counts"], right.parts["colors"], right.parts["positions"]) == (1, 1, 1)
    wrong = await scored(judge(DOG))
    assert wrong.value == 0.0
    assert (wrong.parts["counts"], wrong.parts["positions"]) == (0.5, 0.0)
    spare = Detection("ball", (40, 45, 60, 60), 0.95)
    assert (await scored(judge(DOG, BALL, spare))).value == 1.0
    assert (await scored(judge(DOG, BALL, spare), exact=True)).value == 0.0


async def test_detectors_vote_clause_by_clause() -> None:
    judges = [judge(DOG, BALL, name="a"), judge(DOG, BALL, name="b"), judge(DOG, name="c")]
    score = await scored(*judges)
    assert score.value == 1.0
    assert [score.parts[f"judge:scripted:{n}"] for n in "abc"] == [1.0, 1.0, 0.0]
    # Of two that differ, neither confirms.
    assert (await scored(judges[0], judges[2])).value == 0.0


async def test_the_reason_of_a_no_is_kept_with_the_answer() -> None:
    facts = clause_facts(demands_of(sample(scene=SCENE).item))
    image = painted((64, 64))
    answers = await judge(DOG, BALL, colors=Palette("blue")).answer(image, facts)
    told = {fact.key: answer.rationale for fact, answer in zip(facts, answers, strict=True)}
    assert told["color:0"] == "expected red dog>=1, found blue"
    assert told["position:0:0"] == "no dog to be left of"
    assert told["count:0"] == ""


@pytest.mark.parametrize("colors", [Palette(failing=True), None])
async def test_colours_that_nobody_can_tell_are_unscored(colors: Palette | None) -> None:
    def looks(*found: Detection) -> DetectorJudge:
        return DetectorJudge(ScriptedDetector(found, id="scripted:d"), colors=colors)

    score = await scored(looks(DOG, BALL))
    assert score.value is None
    assert ("no light" if colors else "clip:OWNER/NAME") in score.reason
    # Colour and the position that hangs on it.
    assert score.parts["unscored"] == 2.0
    # A missing ball is wrong whatever the colour.
    assert (await scored(looks(DOG))).value == 0.0


async def test_a_detector_that_fails_is_unscored() -> None:
    broken = ScriptedDetector(failing=DetectionError("no weights"))
    score = await scored(DetectorJudge(broken, colors=Palette()))
    assert score.value is None
    assert "no weights" in score.reason


async def test_the_miniature_tells_a_painting_from_another_ones_demands(tmp_path: Path) -> None:
    options = {
        "detectors": "miniature",
        "colors": "judge-alone:local:miniature/judge-a",
        "palette": ["red", "yellow", "green", "blue", "purple", "black"],
        "folder": str(tmp_path),
    }
    metric: Any = metric_of("geneval", options)
    paintings = [sample_painting(random.Random(seed)) for seed in range(6)]
    own = other = 0.0
    for at, painting in enumerate(paintings):
        for of, item in ((at, "own"), ((at + 1) % len(paintings), "other")):
            about = sample(scene=paintings[of].scene, id=f"{at}-{item}")
            shown = painting.image
            score = await metric.score(
                type(about)(about.item, about.prompt, f"{at:064d}", lambda shown=shown: shown)
            )
            assert score.value is not None, score.reason
            own += score.value * (item == "own")
            other += score.value * (item == "other")
    assert own >= 4
    assert other == 0


class Axes3:
    """Texts and pictures as amounts of red, green and blue."""

    id = fingerprint = "axes"

    async def images(self, images: Any) -> Any:
        rows = np.array([np.asarray(i, float).reshape(-1, 3).mean(0) for i in images])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    async def texts(self, texts: Any) -> EncodedTexts:
        rows = np.array([[float(c in t) for c in ("red", "green", "blue")] for t in texts])
        return EncodedTexts((rows + 0.01).astype(np.float32), (0,) * len(texts))


async def test_an_encoder_names_the_colour_of_the_thing_alone() -> None:
    image = painted((64, 64), (0, 0, 255))
    ImageDraw.Draw(image).rectangle((10, 10, 29, 29), fill=(0, 255, 0))
    mask = np.zeros((64, 64), bool)
    mask[10:20, 10:30] = True
    things = [Detection("dog", (10, 10, 30, 30)), Detection("dog", (10, 10, 30, 30), mask=mask)]
    reader = ClipColors(Axes3(), ("red", "green", "blue"))
    assert await reader.read(image, things, things) == ["green", "green"]
    shown = alone(image, things[1])
    assert shown.size == (20, 20)
    # What the mask leaves out is grey.
    assert (shown.getpixel((0, 0)), shown.getpixel((0, 19))) == ((0, 255, 0), (153, 153, 153))


def test_wrong_options_are_told(tmp_path: Path) -> None:
    good = {"detectors": "miniature", "colors": "clip:miniature", "folder": str(tmp_path)}
    for wrong, said in (
        ({"detectors": None}, "geneval needs a detector"),
        ({"detectors": []}, "detectors is"),
        ({"detectors": "nobody"}, "is not a detector"),
        ({"colors": "pixels"}, "use clip:MODEL"),
        ({"palette": ["red"]}, "two colours or more"),
        ({"threshold": 2}, "threshold is 2"),
        ({"most": 0}, "most is 0"),
        ({"exact": 1}, "exact is 1"),
    ):
        with pytest.raises(MetricError, match=said):
            metric_of("geneval", {**good, **wrong})
    with pytest.raises(MetricError, match="geneval: no model folder 'nowhere'"):
        metric_of("geneval", good | {"colors": "judge:local:nowhere"}, Settings())


@pytest.mark.skipif(not RELEASE.is_dir(), reason="the release of GenEval is not on this machine")
def test_every_item_of_the_release_has_its_demands() -> None:
    kinds = {"position": 0, "color": 0, "exclude": 0}
    for item in geneval_set.load_geneval(RELEASE):
        demands = demands_of(item)
        assert item.scene is not None
        assert sum(d.count for d in demands.include) == len(item.scene.objects)
        for fact in clause_facts(demands):
            kind = str(fact.key).split(":")[0]
            if kind in kinds:
                kinds[kind] += 1
    # 94 of one colour, 100 of two.
    assert kinds == {"position": 100, "color": 294, "exclude": 80}
