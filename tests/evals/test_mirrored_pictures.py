"""A mirrored picture scores lower than the right one, by every score, in every wording of ours.

The painter draws "dog on the left of car" and, for the same prompt, "car on the left of dog". Judge
and extractor know the truth of what is painted, so that only the scores themselves are tried.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.ports.vision import Extraction
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import entailed, entails, excludes, first_known, opposite
from scenewright.evals.datasets.base import Item
from scenewright.evals.datasets.psg_prompts.templates import DATA, DrawSpec, draw
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.graph_matching.text_similarity import (
    ExactSimilarity,
    LexicalSimilarity,
    TextSimilarity,
)
from scenewright.evals.metrics.psg import PsgMetric
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.studies.xtc.base import Question, Reply
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModelOverrides
from scenewright.evals.studies.xtc.grading import SimilarityGrader
from scenewright.evals.studies.xtc.running import run_xtc
from scenewright.miniature.painter import Painting, paint
from scenewright.miniature.world import DIRECTIONS
from scenewright.runs.scoring import score
from tests.evals.eval_sets import ListedSet

WORDS = tuple(dict.fromkeys([*DATA["spatial"]["contrastive"], *DIRECTIONS]))
"""Every wording in which our prompts ask for left, right, top or bottom."""
KINDS = (("dog", "car"), ("boat", "house"))


class Fond:
    """Finds all texts alike, as sentence embeddings find opposites."""

    id = "fond@1"

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.maximum(LexicalSimilarity().similarities(pairs), 0.9)


def related(source: str, word: str, target: str) -> SceneGraph:
    """Two things, always listed in the same order."""
    first, second = sorted((source, target))
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{kind}.1", name=kind, attributes={"color": color})
            for kind, color in ((first, "red"), (second, "blue"))
        ),
        relations=(Relation(source=f"{source}.1", predicate=word, target=f"{target}.1"),),
    )


def painted(source: str, word: str, target: str) -> Painting:
    """A painting in which ``source`` is where ``word`` says."""
    drawn = first_known(word, DIRECTIONS)
    assert drawn is not None
    paintings = (paint(related(source, drawn, target), seed) for seed in itertools.count())
    ends = (f"{source}.1", f"{target}.1")
    # What stands diagonally is in two directions of the other.
    return next(p for p in paintings if p.truth.relations_between(*ends) & {*DIRECTIONS} == {drawn})


@dataclass
class Eyes:
    """Judge, extractor and unified model that see what is painted, each pair of things once."""

    paintings: dict[bytes, Painting] = field(default_factory=dict)
    id: str = "test:eyes"
    fingerprint: str = "eyes-1"

    def show(self, painting: Painting) -> Image.Image:
        self.paintings[painting.image.tobytes()] = painting
        return painting.image

    def between(self, image: Image.Image, source: str, target: str) -> frozenset[str]:
        truth = self.paintings[image.convert("RGB").tobytes()].truth
        return truth.relations_between(source, target)

    # As a judge.

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability="logprob", max_side=128, local=True)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        return [self._answer(image, fact) for fact in facts]

    def _answer(self, image: Image.Image, fact: Fact) -> Answer:
        choice = fact.expected
        if fact.kind == "relation":
            seen = self.between(image, fact.subject, str(fact.target))
            seen = seen - {"near"}
            right = [
                o for o in fact.options if any(entails(o, one) or entails(one, o) for one in seen)
            ]
            # Of several the one that claims least: "on" and not "riding".
            choice = min(right, key=lambda option: len(entailed(option)), default=NO_RELATION)
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if choice == fact.expected else "no",
            choice=choice,
            probability=0.95 if choice == fact.expected else 0.05,
            method="logprob",
        )

    async def aclose(self) -> None:
        return


@dataclass
class Extractor:
    """Names each pair once, from the thing that is listed first."""

    eyes: Eyes
    words: tuple[str, ...] = (*DIRECTIONS, "near")
    id: str = "eyes"
    fingerprint: str = "eyes-1"

    async def extract(self, image: Image.Image) -> Extraction:
        truth = self.eyes.paintings[image.convert("RGB").tobytes()].truth
        first, second = truth.scene.objects
        relations = tuple(
            Relation(source=first.id, predicate=word, target=second.id)
            for word in sorted(truth.relations_between(first.id, second.id) & {*self.words})
        )
        return Extraction(SceneGraph(objects=truth.scene.objects, relations=relations))

    async def aclose(self) -> None:
        return


@dataclass
class Drawer:
    """A unified model that draws one picture and understands everything."""

    picture: Image.Image
    id: str

    @property
    def fingerprint(self) -> str:
        return f"drawer-{self.id}"

    async def draw(self, scene: SceneGraph, prompt: str, seed: int) -> Image.Image:
        return self.picture

    async def answer(self, image: Image.Image, questions: Sequence[Question]) -> list[Reply]:
        return [Reply(text=question.answer) for question in questions]

    async def aclose(self) -> None:
        return


cases = pytest.mark.parametrize(
    ("word", "kinds"), [(word, kinds) for word in WORDS for kinds in KINDS]
)


def both(word: str, kinds: tuple[str, str]) -> tuple[Eyes, SceneGraph, list[Image.Image]]:
    """The scene that is asked for, the right picture and the mirrored one."""
    eyes = Eyes()
    one, other = kinds
    pictures = [eyes.show(painted(*ends)) for ends in ((one, word, other), (other, word, one))]
    return eyes, related(one, word, other), pictures


def test_all_our_words_for_left_right_top_and_bottom_are_tried() -> None:
    found = {
        one.scene.relations[0].predicate
        for names in ("paper", "miniature")
        for one in draw(DrawSpec(names=names, templates=("position",)), 120)
        if one.pair
    }
    assert found == {*WORDS}
    for word in WORDS:
        turned = opposite(word)
        assert turned is not None
        assert excludes(word, turned)


@cases
async def test_sgscore(word: str, kinds: tuple[str, str]) -> None:
    eyes, scene, pictures = both(word, kinds)
    right, mirrored = [
        (await score(image, scene, "miniature", judges=[eyes], report_judges=[])).loop
        for image in pictures
    ]
    assert right.sgscore == 1.0
    assert mirrored.sgscore is not None
    assert mirrored.sgscore < right.sgscore


@cases
@pytest.mark.parametrize("similarity", [ExactSimilarity(), LexicalSimilarity(), Fond()])
async def test_psg(word: str, kinds: tuple[str, str], similarity: TextSimilarity) -> None:
    eyes, scene, pictures = both(word, kinds)
    # Whether the two are near is the painter's chance: here it would be one relation too many.
    extractions = Extractions(Extractor(eyes, DIRECTIONS))
    metric = PsgMetric(extractions, similarity, by_boxes=False)
    item = Item(id="one", scene=scene)
    right, mirrored = [
        await metric.score(Sample(item, "", str(at) * 16, lambda image=image: image))  # type: ignore[misc]
        for at, image in enumerate(pictures)
    ]
    assert right.value is not None
    assert mirrored.value is not None
    assert mirrored.value < right.value
    if not isinstance(similarity, Fond):
        # To that one a dog and a car are so alike that each is taken for the other.
        assert mirrored.parts["edges"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("matching", ["published", "directed"])
@pytest.mark.parametrize("similarity", [LexicalSimilarity(), Fond()])
async def test_xtc(tmp_path: Path, word: str, matching: str, similarity: TextSimilarity) -> None:
    eyes, scene, pictures = both(word, KINDS[0])
    photo = tmp_path / "photo.png"
    await asyncio.to_thread(pictures[0].save, photo)
    config: dict[str, Any] = {
        "name": "mirrored",
        "dataset": {"name": "table"},
        "models": {"x": {"plugin": "some.module:function"}},
        "matching": matching,
        # The extractor names a pair in the direction that it likes.
        "converses": True,
    }
    models = [Drawer(image, name) for image, name in zip(pictures, ("right", "no"), strict=True)]
    given = XtcModelOverrides(models, Extractor(eyes), SimilarityGrader(similarity), similarity)
    listed = ListedSet([Item(id="one", scene=scene, image=str(photo))])
    results = await run_xtc(
        XtcConfig.model_validate(config), tmp_path / "out", given=given, dataset=listed
    )
    right, mirrored = (results.scores()[model.id] for model in models)
    # All objects are there in both, and the printed matching tells them apart in neither.
    assert right.nodes.value == mirrored.nodes.value == 1.0
    assert right.kinds["relation"].generation.value in (0.8, 1.0)
    assert mirrored.kinds["relation"].generation.value == 0.0
    for one, other in (
        (right.overall.generation, mirrored.overall.generation),
        (right.overall.ccta, mirrored.overall.ccta),
        (right.overall.aw_ccta, mirrored.overall.aw_ccta),
    ):
        assert one.value is not None
        assert other.value is not None
        assert other.value < one.value
