"""The exact score that both protocols are measured against."""

from __future__ import annotations

import random

import pytest

from benchmarks.protocols import JUDGES, cases, exact, figures_of, near
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.miniature.sampler import sample_painting


def test_the_painted_scene_holds_and_less_of_it_does_with_each_change() -> None:
    painting = sample_painting(random.Random("protocols"), 4, 4)
    scene, truth = painting.scene, painting.truth
    assert scene.relations
    assert exact(scene, truth) == 1.0
    one_more = SceneObject(id="more", name=scene.objects[0].name)
    asked = SceneGraph(objects=(*scene.objects, one_more), relations=scene.relations)
    there = len(truth.matching(one_more.name, {})) / (len(truth.matching(one_more.name, {})) + 1)
    assert there < 1.0
    lost = exact(asked, truth)
    assert lost == pytest.approx(0.5 * len(scene.objects) / (len(scene.objects) + 1) + 0.5)
    first = scene.relations[0]
    turned = Relation(source=first.target, predicate=first.predicate, target=first.source)
    relations = (turned, *scene.relations[1:])
    wrong = exact(SceneGraph(objects=scene.objects, relations=relations), truth)
    assert wrong == pytest.approx(1.0 - 0.5 / len(scene.relations))


def test_instances_stand_for_those_of_which_most_holds() -> None:
    """The second of two asked things of a kind is the one that is painted."""
    painting = sample_painting(random.Random("protocols"), 3, 3)
    scene, truth = painting.scene, painting.truth
    related = {scene.relations[0].source}
    other = SceneObject(
        id="other",
        name=scene.object(next(iter(related))).name,
        attributes=Attributes({"color": "no colour"}),
    )
    asked = SceneGraph(objects=(other, *scene.objects), relations=scene.relations)
    same = len(truth.matching(other.name, {}))
    n = len(scene.objects)
    assert same >= 1
    assert exact(asked, truth) == pytest.approx(0.5 * n / (n + 1) + 0.5)


def test_cases_are_the_same_every_time_and_differ_from_what_is_painted() -> None:
    first, again = list(cases(6)), list(cases(6))
    assert [case.asked for case in first] == [case.asked for case in again]
    assert all(case.asked.relations for case in first)
    assert len({case.truth for case in first}) > 2
    assert near(random.Random(0), sample_painting(random.Random(0), 1, 0).truth) is None


def test_figures_pair_the_errors_of_both_protocols() -> None:
    asked = list(cases(4))
    found: dict[str, list[float]] = {}
    for name in (*JUDGES, "panel"):
        found[f"strict.{name}"] = [case.truth - 0.2 for case in asked]
        found[f"house.{name}"] = [case.truth + 0.1 for case in asked]
        found[f"unvoided.{name}"] = [case.truth for case in asked]
    found |= {"questions.strict": [4.0] * 4, "questions.house": [3.0] * 4}
    figures = figures_of(asked, found)
    assert figures["error.strict.a"]["mean"] == pytest.approx(0.2)
    assert figures["bias.house.a"]["mean"] == pytest.approx(0.1)
    assert figures["gain.a"]["low"] == pytest.approx(0.1)
    assert figures["house_nearer"] == "7 of 7"
    assert figures["error.perfect"]["mean"] == pytest.approx(1.0 - figures["truth.mean"])
