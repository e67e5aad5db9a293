"""Object-centric realism as a metric: the mean of the largest objects, and what is unscored."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.ports.vision import Detection, DetectionError, ObjectRealism, RealismError
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import ItemMetric, MetricError, MetricScore, Sample
from scenewright.evals.metrics.ocr import CachedScorer, OcrMetric, make
from scenewright.evals.metrics.registry import metric_of
from tests.doubles import painted
from tests.tools.vision.realism.scripted import ScriptedDetector, ScriptedScorer

SIZE = (100, 100)
SCENE = SceneGraph(objects=(SceneObject(id="d", name="dog"), SceneObject(id="e", name="dog")))


def thing(side: float, score: float = 0.9, stuff: bool = False) -> Detection:
    """A square of ``side`` pixels."""
    return Detection("dog", (0, 0, side, side), score, stuff=stuff)


def sample(scene: SceneGraph | None = None) -> Sample:
    item = Item(id="a", prompt="dogs", scene=scene)
    return Sample(item, "dogs", "hash", lambda: painted(SIZE))


def by_side(item: Detection) -> ObjectRealism:
    """Sides 10, 20, …, 60 are shapes 1, 1.5, …, 3.5 and textures one higher."""
    shape = 1 + (item.box[2] - 10) / 20
    return ObjectRealism(shape, shape + 1, 5.0)


async def scored(found: tuple[Detection, ...], rule: Any = by_side, **options: Any) -> MetricScore:
    metric = OcrMetric(ScriptedScorer(rule), ScriptedDetector(found), **options)
    assert isinstance(metric, ItemMetric)
    return await metric.score(sample())


async def test_the_five_largest_objects_speak_for_the_picture() -> None:
    found = tuple(thing(side) for side in (10, 20, 30, 40, 50, 60))
    score = await scored(found)
    # The shapes of 20 to 60: 1.5, 2, 2.5, 3, 3.5; textures one higher.
    assert score.parts == {
        "shape": pytest.approx(2.5),
        "texture": pytest.approx(3.5),
        "joint": 5.0,
        "objects": 6.0,
        "lost": 0.0,
        "detected": 6.0,
    }
    assert score.value == pytest.approx(3.0)
    assert (await scored(found, most=1)).value == pytest.approx(4.0)


async def test_small_unsure_and_endless_things_do_not_count() -> None:
    score = await scored((thing(9), thing(60, score=0.4), thing(90, stuff=True), thing(50)))
    assert score.value == pytest.approx(3.5)
    assert (score.parts["objects"], score.parts["detected"]) == (1.0, 4.0)


async def test_an_object_without_a_score_takes_no_others_place() -> None:
    def rule(item: Detection) -> ObjectRealism:
        return ObjectRealism(None, None, reason="refused") if item.box[2] == 60 else by_side(item)

    found = tuple(thing(side) for side in (10, 20, 30, 40, 50, 60))
    score = await scored(found, rule)
    # Of the five largest those of 20 to 50: shapes 1.5, 2, 2.5, 3.
    assert score.value == pytest.approx(2.25 + 0.5)
    assert (score.parts["objects"], score.parts["lost"]) == (5.0, 1.0)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((), "no object was detected"),
        ((thing(5), thing(4)), "none of 2 detections counts: they are below 1 %"),
    ],
)
async def test_where_nothing_counts_it_is_unscored(found: tuple[Detection, ...], said: str) -> None:
    score = await scored(found)
    assert score.value is None
    assert said in score.reason


async def test_failures_are_unscored_with_their_reason() -> None:
    score = await scored((thing(50),), lambda item: ObjectRealism(None, 4.0, reason="refused"))
    assert (score.value, score.reason) == (None, "refused")
    assert score.parts["texture"] == 4.0
    scorer, detector = ScriptedScorer(), ScriptedDetector((thing(50),))
    scorer.failing = RealismError("no memory")
    assert (await OcrMetric(scorer, detector).score(sample())).reason == "no memory"
    detector.failing = DetectionError("no labels")
    assert (await OcrMetric(scorer, detector).score(sample())).reason == "no labels"


async def test_a_retry_asks_for_the_objects_that_failed_alone(tmp_path: Path) -> None:
    found = tuple(thing(side) for side in (20, 40, 60))

    def away(item: Detection) -> ObjectRealism:
        return ObjectRealism(None, None, reason="503") if item.box[2] == 40 else by_side(item)

    scorer = ScriptedScorer(away)

    def metric() -> OcrMetric:
        # As another process makes it: nothing is shared but the folder.
        return OcrMetric(CachedScorer(scorer, tmp_path), ScriptedDetector(found))

    hurt = await metric().score(sample())
    assert (hurt.unscored, "503" in hurt.reason) == (1, True)
    scorer.rule = by_side
    mended = await metric().score(sample())
    # The largest first: all, then the one without a score.
    assert [[item.box[2] for item in asked] for asked in scorer.asked] == [[60, 40, 20], [40]]
    assert mended == await scored(found)
    assert await metric().score(sample()) == mended
    assert len(scorer.asked) == 2


async def test_what_the_objects_took_is_told() -> None:
    def paid(item: Detection) -> ObjectRealism:
        return ObjectRealism(3.0, 4.0, tokens_in=100, tokens_out=10, usd=0.5)

    score = await scored((thing(50), thing(60)), paid)
    assert (score.tokens_in, score.tokens_out, score.usd) == (200, 20, 1.0)


async def test_labels_may_be_those_of_the_scene() -> None:
    detector = ScriptedDetector((thing(50),))
    metric = OcrMetric(ScriptedScorer(), detector, of_scene=True)
    assert metric.needs == {"image", "scene"}
    assert (await metric.score(sample(SCENE))).value == 3.5
    assert "no scene" in (await metric.score(sample())).reason
    await OcrMetric(ScriptedScorer(), detector, labels=("cat",)).score(sample(SCENE))
    await OcrMetric(ScriptedScorer(), detector).score(sample(SCENE))
    assert detector.looks == [("dog",), ("cat",), ()]


def test_versions_tell_what_changes_a_score() -> None:
    scorer, detector = ScriptedScorer(), ScriptedDetector()
    versions = {
        OcrMetric(scorer, detector).version,
        OcrMetric(ScriptedScorer(fingerprint="b"), detector).version,
        OcrMetric(scorer, ScriptedDetector(fingerprint="b")).version,
        OcrMetric(scorer, detector, most=3).version,
        OcrMetric(scorer, detector, labels=("dog",)).version,
        OcrMetric(scorer, detector, of_scene=True).version,
    }
    assert len(versions) == 6
    assert OcrMetric(scorer, detector).version in versions


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "ocr needs a scorer: name both in its options"),
        ({"scorer": "olip:miniature/olip-b"}, "ocr needs a detector"),
        ({"scorer": 3, "detector": "miniature"}, "scorer is 3: use text"),
        ({"scorer": "yolo:x y", "detector": "miniature"}, "ocr: 'yolo:x y' scores no objects"),
        ({"scorer": "olip:no/where", "detector": "miniature"}, "ocr: no/where"),
        ({"scorer": "own_realism:number", "detector": "miniature"}, "is not a scorer of realism"),
        ({"scorer": "own_realism:scorer", "detector": "yolo:x"}, "ocr: 'yolo:x' is not a detector"),
        ({"scorer": "own_realism:scorer", "detector": "miniature", "most": 0}, "most is 0"),
        ({"scorer": "own_realism:scorer", "detector": "miniature", "labels": 1}, "labels is 1"),
    ],
)
def test_options_that_cannot_be_are_told(
    options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _own(monkeypatch)
    with pytest.raises(MetricError, match=said):
        metric_of("ocr", options)


def test_a_scorer_of_ones_own_is_a_module_and_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    _own(monkeypatch)
    metric = make(None, "own_realism:scorer", "miniature", labels="dog, scene")
    assert metric.version.endswith(":most=5:labels=dog,scene")
    assert make(None, "own_realism:scorer", "miniature", labels="scene").needs == {
        "image",
        "scene",
    }


def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_realism")
    module.scorer = lambda settings: ScriptedScorer()  # type: ignore[attr-defined]
    module.number = lambda settings: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_realism", module)
