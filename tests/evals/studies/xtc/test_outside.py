"""Extractors of few words: what they never put in a graph is unscored, and told beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.ports.vision import Extraction
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.studies.xtc.base import AnswerPair, Grade
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModelOverrides, XtcModels
from scenewright.evals.studies.xtc.grading import SimilarityGrader
from scenewright.evals.studies.xtc.lookup import outside_of
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.report import XtcResults
from scenewright.evals.studies.xtc.running import plan_of, run_xtc
from tests.evals.eval_sets import ListedSet
from tests.evals.studies.xtc.unified_doubles import KnowingExtractor, ScriptedUnified, World, items

WORDS = ClosedVocabulary(
    classes=("dog", "ball"),
    attributes={"color": ("red", "blue")},
    predicates=("left of", "wearing"),
)
CONFIG = XtcConfig.model_validate(
    {
        "name": "trial",
        "dataset": {"name": "table"},
        "models": {"x": {"plugin": "some.module:function"}},
        "concurrency": 1,
        "converses": True,
    }
)


def scene(*objects: tuple[str, dict[str, str]], relations: Sequence[str] = ()) -> SceneGraph:
    """Objects of these classes and attributes; ``relations`` as ``0 left of 1``."""
    made: list[SceneObject] = []
    for name, attributes in objects:
        number = 1 + sum(one.name == name for one in made)
        made.append(SceneObject(id=f"{name}.{number}", name=name, attributes=attributes))
    joined = [text.split(" ", 1)[:1] + text.split(" ", 1)[1].rsplit(" ", 1) for text in relations]
    return SceneGraph(
        objects=tuple(made),
        relations=tuple(
            Relation(source=made[int(a)].id, predicate=said, target=made[int(b)].id)
            for a, said, b in joined
        ),
    )


PART = scene(
    ("dog", {"color": "red"}),
    ("ball", {"color": "pink"}),
    ("astronaut", {"color": "blue"}),
    relations=("0 left of 1", "1 right of 0", "0 chasing 1", "0 left of 2"),
)
NOTHING = scene(("astronaut", {"color": "red"}), ("horse", {}), relations=("0 riding 1",))


@dataclass
class FewWords(KnowingExtractor):
    """Sees what was painted, of few words."""

    vocabulary: ClosedVocabulary = WORDS

    async def extract(self, image: Image.Image) -> Extraction:
        found = await super().extract(image)
        kept = [one for one in found.scene.objects if self.vocabulary.knows_class(one.name)]
        return replace(found, scene=SceneGraph(objects=tuple(kept)))


class Counting(SimilarityGrader):
    """Notes what it grades."""

    def __init__(self) -> None:
        super().__init__(ExactSimilarity())
        self.graded: list[str] = []

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        self.graded += [pair.expected for pair in pairs]
        return await super().grade(pairs)


def outside(of: SceneGraph, words: ClosedVocabulary = WORDS, converses: bool = True) -> set[str]:
    extractor = FewWords(World(), vocabulary=words)
    return set(outside_of(questions_of(of).questions, of, extractor, converses))


def test_questions_that_no_graph_of_the_extractor_could_answer() -> None:
    assert outside(PART) == {
        "attribute:ball.1:color",
        "attribute:astronaut.1:color",
        "retrieval:astronaut.1",
        # Of several predicates of a pair one is unknown: it might be the one that is there.
        "relation:dog.1|ball.1",
        "relation:dog.1|astronaut.1",
    }
    # Seen from the other end a relation answers too, unless that is switched off.
    assert "relation:ball.1|dog.1" in outside(PART, converses=False)
    assert outside(PART, ClosedVocabulary()) == set()


def test_two_of_a_class_that_only_an_unknown_value_tells_apart() -> None:
    pair = scene(
        ("dog", {"color": "pink"}), ("dog", {"color": "red"}), ("ball", {}),
        relations=("1 left of 2",),
    )  # fmt: skip
    assert outside(pair) == {"relation:dog.2|ball.1"}
    # Colours tell these apart, but where the colour itself is asked for.
    sized = scene(
        ("dog", {"color": "blue", "size": "big"}), ("dog", {"color": "red", "size": "small"}),
        ("ball", {}), relations=("1 left of 2",),
    )  # fmt: skip
    assert outside(sized) == {
        f"attribute:dog.{at}:{key}" for at in (1, 2) for key in ("size", "color")
    }


async def run(
    folder: Path, scenes: Sequence[SceneGraph], retry: bool = False
) -> tuple[XtcResults, ScriptedUnified, Counting]:
    world, grader = World(), Counting()
    model = ScriptedUnified("model", world)
    given = XtcModelOverrides([model], FewWords(world), grader, ExactSimilarity())
    listed = ListedSet(items(folder, scenes))
    found = await run_xtc(CONFIG, folder / "out", given=given, dataset=listed, retry=retry)
    return found, model, grader


async def test_what_the_extractor_has_no_words_for_is_unscored_and_not_missing(
    tmp_path: Path,
) -> None:
    results, _, grader = await run(tmp_path, [PART])
    rows = {row["question"]: row for row in results.rows()}
    open_ = {name for name, row in rows.items() if row["u"] is None}
    assert open_ == outside(PART)
    assert rows["attribute:ball.1:color"]["reason"] == (
        "knowing: the color 'pink' is outside its vocabulary (it knows red, blue)"
    )
    assert "it knows dog, ball" in rows["retrieval:astronaut.1"]["reason"]
    # What it knows and does not see is missing: a zero, and no failure.
    assert rows["relation:ball.1|dog.1"]["u"] == 0.0
    assert rows["attribute:dog.1:color"]["u"] == 1.0
    # The model answers about the photo all the same.
    assert all(row["v"] == 1.0 for row in rows.values())
    assert results.scores()["model"].overall.unscored_generation == len(open_)
    # Of each open question the model's own answer is graded, and not the picture's.
    assert grader.graded.count("pink") == 1


@pytest.mark.parametrize("retry", [False, True])
async def test_a_picture_that_nothing_could_be_read_of_is_not_drawn(
    tmp_path: Path, retry: bool
) -> None:
    results, model, _ = await run(tmp_path, [NOTHING], retry)
    assert [what for what, _ in model.book if what == "draw"] == []
    assert {row["u"] for row in results.rows()} == {None}
    (row,) = results.rows("pictures")
    assert (row["state"], row["image"], row["nodes"]) == ("unscored", "", None)
    assert "the class 'astronaut'" in row["reason"]


async def test_the_plan_tells_them_and_counts_the_pictures_that_are_drawn(tmp_path: Path) -> None:
    world = World()
    xtc_models = XtcModels(
        (ScriptedUnified("model", world),), FewWords(world), Counting(), ExactSimilarity(),
        composer=None,  # type: ignore[arg-type]
    )  # fmt: skip
    found = await plan_of(CONFIG, xtc_models, items(tmp_path, [PART, NOTHING]))
    assert found.pictures == 1
    lost = len(outside(PART)) + len(outside(NOTHING))
    assert sum(found.outside.values()) == lost
    assert found.outside["knowing: the color 'pink' is outside its vocabulary (it knows red, blue)"]
    (grading,) = [line for line in found.costs.lines if line.what == "grades"]
    assert grading.times == 2 * found.questions - lost
