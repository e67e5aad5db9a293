"""REAL as a metric: schemas from scenes and files, gaps, and wrong options by name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import ItemMetric, MetricError, MetricScore, Sample
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.studies.real.real_scorer import RealMetric, RealScorer
from scenewright.evals.studies.real.schema import AttributeSchema, SchemaAttribute, classes_of
from scenewright.providers import AnswerStore
from tests.doubles import ScriptedJudge, painted

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball", attributes=Attributes({"color": "blue"})),
    ),
    relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
)
BIRDS = classes_of(
    [AttributeSchema(name="owl", attributes=(SchemaAttribute(part="bill", description="hooked"),))]
)


def judge(*no: str) -> ScriptedJudge:
    return ScriptedJudge(level=lambda fact: 255 if any(n in fact.question for n in no) else -1)


def scored(metric: RealMetric, **item: object) -> MetricScore:
    image = painted((8, 8))
    about = Item.model_validate({"id": "x", **item})
    sample = Sample(item=about, prompt="", image="f" * 64, load=lambda: image)
    return asyncio.run(metric.score(sample))


def made(asked: ScriptedJudge, weighting: str = "hard", **more: object) -> RealMetric:
    scorer = RealScorer([asked], AnswerStore(None), weighting=weighting)  # type: ignore[arg-type]
    return RealMetric(scorer, **more)  # type: ignore[arg-type]


def test_a_scene_is_its_own_schema() -> None:
    found = scored(made(judge("Is the ball blue")), scene=SCENE)
    assert found.value == 0.5
    assert (found.parts["visible"], found.parts["matched"], found.parts["attributes"]) == (2, 1, 2)
    weighted = scored(made(judge("Is the ball blue"), "probability"), scene=SCENE)
    assert weighted.parts["s_att_hard"] == 0.5
    assert weighted.value not in (None, 0.5)
    # V and M of two entities and one relation, all of them yes.
    assert (found.parts["s_rel"], found.parts["s_rel_raw"]) == (1.0, 5.0)
    related = scored(made(judge("dog left of"), score="relations"), scene=SCENE)
    assert related.value == pytest.approx(4 / 5)


def test_schemas_by_class() -> None:
    metric = made(judge(), schemas=BIRDS)
    assert metric.needs == {"image"}
    assert isinstance(metric, ItemMetric)
    assert scored(metric, prompt="an owl", meta={"label": "owl"}).value == 1.0
    assert scored(metric, prompt="an owl", category="owl").value == 1.0
    lost = scored(metric, prompt="a cat", meta={"label": "cat"})
    assert lost.value is None
    assert "cat" in lost.reason


def test_nothing_to_ask_is_unscored() -> None:
    bare = SceneGraph(objects=(SceneObject(id="dog.1", name="dog"),))
    assert "no attributes" in scored(made(judge()), scene=bare).reason
    assert "no scene" in scored(made(judge()), prompt="a dog").reason


def test_the_version_tells_what_decides_a_score() -> None:
    versions = {
        made(judge()).version,
        made(judge(), score="relations").version,
        made(judge(), schemas=BIRDS).version,
        made(ScriptedJudge(version="2")).version,
        made(judge(), "probability").version,
    }
    assert len(versions) == 5


def test_by_name_with_options(tmp_path: Path) -> None:
    options = {"judges": "local:miniature/judge-a", "wording": "plain", "folder": str(tmp_path)}
    metric = metric_of("real", options)
    assert metric.name == "real"
    for wrong, said in (
        ({"wording": "terse"}, "wording"),
        ({"weighting": "soft"}, "weighting"),
        ({"score": "all"}, "score"),
        ({"judges": []}, "judges"),
        ({"profile": "miniature"}, "not both"),
        ({"schema": str(tmp_path / "none.json")}, "none.json"),
    ):
        with pytest.raises(MetricError, match=said):
            metric_of("real", options | wrong)
