"""XTC-Bench on two small graphs, every figure worked out by hand from the paper's formulas.

Reference: dog.1 (red, big) holds ball.1 (green), dog.2 (blue) is left of dog.1. Drawn: a (dark red)
holds c (green), b (blue, big) is left of a. Cosines of texts are those of :data:`COSINES`.

Attributes (Sec. 3.2.6: mean over the union of keys, a key on one side only is 0)::

    A(dog.1, a) = (0.8 + 0) / 2 = 0.4       A(dog.1, b) = (0.5 + 1) / 2 = 0.75
    A(dog.2, a) = 0.4                       A(dog.2, b) = (1 + 0) / 2 = 0.5
    A(dog.1, c) = (0.3 + 0) / 2 = 0.15      A(ball.1, a) = 0.2      A(ball.1, c) = 1

Edges (Eq. 3: 0.4 text + 0.6 mean of both ends), e1 = dog.1 holding ball.1,
e2 = dog.2 left of dog.1, f1 = a holding c, f2 = b left of a::

    S(e1, f1) = 0.4 · 1   + 0.6 · (0.4 + 1) / 2    = 0.82
    S(e1, f2) = 0.4 · 0.3 + 0.6 · (0.75 + 0.2) / 2 = 0.405
    S(e2, f1) = 0.4 · 0.3 + 0.6 · (0.4 + 0.15) / 2 = 0.285
    S(e2, f2) = 0.4 · 1   + 0.6 · (0.5 + 0.4) / 2  = 0.67

Objects (Eq. 2: 0.7 attributes + 0.3 edges, these the mean over the assigned edges)::

    S(dog.1, a) = 0.7 · 0.4  + 0.3 · (0.82 + 0.67) / 2 = 0.5035
    S(dog.1, b) = 0.7 · 0.75 + 0.3 · 0.67              = 0.726
    S(dog.2, a) = 0.7 · 0.4  + 0.3 · 0.67              = 0.481
    S(dog.2, b) = 0.7 · 0.5  + 0.3 · 0.67              = 0.551
    S(ball.1, c) = 0.7 · 1   + 0.3 · 0.82              = 0.946

dog.1 → b and dog.2 → a have 1.207, the other way 1.0545: as printed, the attributes decide. With
our rule of direction (and the larger number of edges below) it is the other way round::

    S(dog.1, b) = 0.525 + 0.3 · 0.405 / 2 = 0.58575
    S(dog.2, a) = 0.28  + 0.3 · 0.285 / 2 = 0.32275    together 0.9085 < 1.0545
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.studies.xtc.base import AnswerPair, Grade
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModelOverrides
from scenewright.evals.studies.xtc.report import XtcResults
from scenewright.evals.studies.xtc.running import run_xtc
from tests.evals.eval_sets import ListedSet
from tests.evals.studies.xtc.unified_doubles import KnowingExtractor, ScriptedUnified, World, items

REFERENCE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes={"color": "red", "size": "big"}),
        SceneObject(id="dog.2", name="dog", attributes={"color": "blue"}),
        SceneObject(id="ball.1", name="ball", attributes={"color": "green"}),
    ),
    relations=(
        Relation(source="dog.1", predicate="holding", target="ball.1"),
        Relation(source="dog.2", predicate="left of", target="dog.1"),
    ),
)
DRAWN = SceneGraph(
    objects=(
        SceneObject(id="a", name="dog", attributes={"color": "dark red"}),
        SceneObject(id="b", name="dog", attributes={"color": "blue", "size": "big"}),
        SceneObject(id="c", name="ball", attributes={"color": "green"}),
    ),
    relations=(
        Relation(source="a", predicate="holding", target="c"),
        Relation(source="b", predicate="left of", target="a"),
    ),
)
COSINES = {
    frozenset(pair): value
    for pair, value in {
        ("red", "dark red"): 0.8,
        ("red", "blue"): 0.5,
        ("blue", "dark red"): 0.4,
        ("red", "green"): 0.3,
        ("green", "dark red"): 0.2,
        ("dog holding ball", "dog left of dog"): 0.3,
    }.items()
}


GRADES = {("red", "dark red"): 4, ("red", "blue"): 0, ("left of", "right of"): 0}
"""What answers that are not equal are graded."""


class Cosines:
    """The cosines that the figures are worked out with."""

    id = "by hand"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.array(
            [1.0 if a == b else COSINES.get(frozenset((a, b)), 0.0) for a, b in pairs], float
        )


class Scores:
    """Grades by a table; an answer ``says 3`` gets a 3."""

    id = "by hand"
    fingerprint = "by hand"

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        return [Grade(score=self._score(one)) for one in pairs]

    def _score(self, pair: AnswerPair) -> int:
        if pair.given.startswith("says "):
            return int(pair.given.removeprefix("says "))
        return 5 if pair.given == pair.expected else GRADES[pair.expected, pair.given]


SAID = {
    "attribute:dog.1:color": 5,
    "attribute:dog.1:size": 3,
    "attribute:ball.1:color": 5,
    "retrieval:dog.1": 5,
    "retrieval:dog.2": 5,
    "retrieval:ball.1": 2,
    "relation:dog.1|ball.1": 2,
    "relation:dog.2|dog.1": 1,
}
"""What the model's own answers are graded; dog.2's color cannot be asked, nothing else names it."""


async def evaluated(folder: Path, **options: Any) -> XtcResults:
    world = World()
    model = ScriptedUnified(
        "model", world, damage=lambda scene: DRAWN, say=lambda q: f"says {SAID[q.id]}"
    )
    config = XtcConfig.model_validate(
        {
            "name": "by-hand",
            "dataset": {"name": "table"},
            "models": {"x": {"plugin": "some.module:function"}},
            **options,
        }
    )
    given = XtcModelOverrides([model], KnowingExtractor(world), Scores(), Cosines())
    listed = ListedSet(items(folder, [REFERENCE]))
    return await run_xtc(config, folder / "out", given=given, dataset=listed)


def drawn_answers(results: XtcResults) -> dict[str, tuple[str, float]]:
    return {row["question"]: (row["drawn"], row["u"]) for row in results.rows()}


def test_objects_are_matched_as_printed() -> None:
    match = match_graphs(REFERENCE, DRAWN, Cosines())
    assert match.mapping == {"dog.1": "b", "dog.2": "a", "ball.1": "c"}
    assert [node.similarity for node in match.nodes] == pytest.approx([0.726, 0.481, 0.946])


def test_ours_is_an_option_by_name() -> None:
    match = match_graphs(REFERENCE, DRAWN, Cosines(), edges="directed")
    assert match.mapping == {"dog.1": "a", "dog.2": "b", "ball.1": "c"}
    assert [node.similarity for node in match.nodes] == pytest.approx([0.5035, 0.551, 0.946])


async def test_answers_and_scores_of_the_printed_matching(tmp_path: Path) -> None:
    results = await evaluated(tmp_path)
    # The big blue dog is taken for dog.1: its color is wrong, it holds nothing, and b is left of a:
    # nothing says how the dog that stands for dog.2 is to the one that stands for dog.1.
    assert drawn_answers(results) == {
        "attribute:dog.1:color": ("blue", 0.0),
        "attribute:dog.1:size": ("big", 1.0),
        "attribute:ball.1:color": ("green", 1.0),
        "retrieval:dog.1": ("dog", 1.0),
        "retrieval:dog.2": ("dog", 1.0),
        "retrieval:ball.1": ("ball", 1.0),
        "relation:dog.1|ball.1": ("", 0.0),
        "relation:dog.2|dog.1": ("", 0.0),
    }
    whole = results.scores()["model"].overall
    # Eq. 4 over attributes and relations: (0 + 1 + 1 + 0 + 0) / 5.
    assert whole.generation.value == pytest.approx(0.4)
    # Eq. 5 over all questions: (1 + 0.6 + 1 + 1 + 1 + 0.4 + 0.4 + 0.2) / 8.
    assert whole.understanding.value == pytest.approx(0.7)
    # Eq. 6: 1 - |v - u| is 0, 0.6, 1, 0.6 and 0.8.
    assert whole.ccta.value == pytest.approx(0.6)
    # Eq. 7: these times (v + u) / 2, which is 0.5, 0.8, 1, 0.2 and 0.1: 1.68 / 5.
    assert whole.aw_ccta.value == pytest.approx(0.336)
    # At 0.6: (0, 1) is understood and not drawn, (1, 0.6) and (1, 1) are right on both sides, and
    # (0, 0.4) and (0, 0.2) wrong on both.
    assert whole.quadrants == {
        "aligned-correct": 2,
        "aligned-hallucination": 2,
        "generation-deficit": 1,
        "understanding-deficit": 0,
    }
    assert results.manifest["config"]["matching"] == "published"


async def test_our_matching_gives_other_scores_in_the_same_folder(tmp_path: Path) -> None:
    first = await evaluated(tmp_path)
    plan = first.manifest["plan"]
    results = await evaluated(tmp_path, matching="directed")
    # dog.1 is a: dark red (4 of 5), without a size; both relations are there.
    drawn = drawn_answers(results)
    assert drawn["attribute:dog.1:color"] == ("dark red", 0.8)
    assert drawn["attribute:dog.1:size"] == ("", 0.0)
    assert drawn["relation:dog.2|dog.1"] == ("left of", 1.0)
    # (0.8 + 0 + 1 + 1 + 1) / 5
    assert results.scores()["model"].overall.generation.value == pytest.approx(0.76)
    assert results.manifest["plan"] != plan
