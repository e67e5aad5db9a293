"""Failures in an evaluation by XTC-Bench: never a score, always a reason, and mended by a retry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.ports.composer import Wording
from scenewright.core.ports.vision import (
    Candidate,
    Detection,
    Extraction,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.studies.xtc.base import AnswerPair, Grade, Question
from scenewright.evals.studies.xtc.config import XtcConfig, XtcModelOverrides
from scenewright.evals.studies.xtc.grading import PanelGrader, SimilarityGrader
from scenewright.evals.studies.xtc.lookup import Unknown
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.evals.studies.xtc.report import XtcResults, write_report
from scenewright.evals.studies.xtc.running import run_xtc
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from tests.evals.eval_sets import ListedSet
from tests.evals.studies.xtc.unified_doubles import ScriptedUnified, World, items

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes={"color": "red", "size": "big"}),
        SceneObject(id="dog.2", name="dog", attributes={"color": "blue", "size": "small"}),
        SceneObject(id="ball.1", name="ball", attributes={"color": "green"}),
        SceneObject(id="tree.1", name="tree", attributes={"color": "brown"}),
    ),
    relations=(
        Relation(source="dog.1", predicate="holding", target="ball.1"),
        Relation(source="dog.2", predicate="left of", target="dog.1"),
        Relation(source="tree.1", predicate="behind", target="ball.1"),
    ),
)
KEYS = ("color", "size")
CONFIG = XtcConfig.model_validate(
    {
        "name": "trial",
        "dataset": {"name": "table"},
        "models": {"x": {"plugin": "some.module:function"}},
        "concurrency": 1,
    }
)


@dataclass
class Service:
    """What answers 503 for a part of its callers."""

    broken: str = ""
    world: World = field(default_factory=World)

    def call(self, *marks: str) -> None:
        if self.broken in marks:
            raise RuntimeError("HTTP 503")

    def scene(self, image: Image.Image) -> SceneGraph:
        return self.world.graphs[image.tobytes()]


@dataclass
class Parts:
    """All parts of an extractor, which read what was painted."""

    service: Service
    id: str = "parts"
    fingerprint: str = "parts-1"

    vocabulary = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        self.service.call("detector")
        found = self.service.scene(image).objects
        return tuple(
            Detection(one.name, (at * 2.0, 0.0, at * 2.0 + 2.0, 8.0))
            for at, one in enumerate(found)
        )

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute, ...]:
        self.service.call("reader", f"reader of {thing.id}")
        found = self.service.scene(image).object(thing.id).attributes
        return tuple(ReadAttribute(key, found[key]) for key in keys if key in found)

    async def score(self, image: Image.Image, things: Sequence[Thing]) -> tuple[PairScores, ...]:
        self.service.call("scorer")
        return tuple(
            PairScores(one.source, one.target, 0.1, {one.predicate: 0.9})
            for one in self.service.scene(image).relations
        )

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        self.service.call("verifier")
        return tuple(
            Verification(None, reason="HTTP 503", failed=True)
            if self.service.broken == f"verifier of {one.relation.predicate}"
            else Verification(True)
            for one in candidates
        )


class Grader(SimilarityGrader):
    """Fails for answers that the service is told to."""

    def __init__(self, service: Service) -> None:
        super().__init__(ExactSimilarity())
        self.service = service

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        found = await super().grade(pairs)
        return [
            Grade(score=None, reason="HTTP 503")
            if self.service.broken in ("grader", f"grader of {pair.expected}")
            else grade
            for pair, grade in zip(pairs, found, strict=True)
        ]


def damaged(scene: SceneGraph) -> SceneGraph:
    """``scene`` with the dogs' colours exchanged and a size wrong."""
    first, second, *rest = scene.objects
    objects = (
        first.model_copy(update={"attributes": {"color": "blue", "size": "big"}}),
        second.model_copy(update={"attributes": {"color": "red", "size": "tiny"}}),
        *rest,
    )
    return SceneGraph.model_validate(
        {
            "objects": [one.model_dump() for one in objects],
            "relations": [one.model_dump() for one in scene.relations],
        }
    )


@dataclass
class Evaluation:
    """A run in a folder, by a service that may be broken."""

    folder: Path
    service: Service = field(default_factory=Service)

    async def run(self, broken: str = "", retry: bool = False) -> XtcResults:
        self.folder.mkdir(exist_ok=True)
        self.service.broken = broken
        parts = Parts(self.service)
        extractor = TwoStageExtractor(
            parts, parts, parts, parts, keys=lambda label: KEYS, keys_id="both", merging=None
        )
        # As many questions a call as there are: one that fails costs all of them.
        model = ScriptedUnified("model", self.service.world, damage=damaged, before=self._before)
        grader = PanelGrader([Grader(self.service), _Named(ExactSimilarity())])
        writer = Writer(self.service)
        given = XtcModelOverrides([model], extractor, grader, ExactSimilarity(), writer)
        listed = ListedSet(items(self.folder, [SCENE]))
        place = self.folder / "out"
        return await run_xtc(CONFIG, place, given=given, dataset=listed, retry=retry)

    def _before(self, what: str, which: str) -> None:
        self.service.call(what)


class Writer(SentenceComposer):
    """Words the prompts, unless it is told to fail."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self.service = service

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        self.service.call("composer")
        return await super().compose(scene, seed, within)

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        self.service.call("composer")
        return await super().word(scene, seed, within)


class _Named(SimilarityGrader):
    """The second of a panel, which must have a name of its own."""

    @property
    def id(self) -> str:
        return "second@1"


PARTS = (
    *("detector", "reader", "reader of dog.1", "reader of tree.1", "scorer", "verifier"),
    *("verifier of holding", "grader", "grader of red", "composer", "draw", "answer"),
)


@pytest.mark.parametrize("broken", PARTS)
async def test_what_fails_is_unscored_and_a_retry_gives_the_scores_of_a_healthy_run(
    tmp_path: Path, broken: str
) -> None:
    healthy = await Evaluation(tmp_path / "healthy").run()
    right = {row["question"]: row for row in healthy.rows()}
    whole = healthy.scores()["model"].overall
    assert (whole.unscored_generation, whole.unscored_understanding) == (0, 0)

    trial = Evaluation(tmp_path / "trial")
    hurt = await trial.run(broken)
    lost = 0
    for row in hurt.rows():
        for side in ("u", "v"):
            # Nothing is scored otherwise than it would have been.
            assert row[side] in (None, right[row["question"]][side]), row["question"]
            lost += row[side] is None
        assert (row["u"] is None or row["v"] is None) == ("503" in row["reason"])
    assert lost > 0
    scores = hurt.scores()["model"]
    told = scores.overall.unscored_generation + scores.overall.unscored_understanding
    assert told == lost
    assert sum(scores.reasons.values()) > 0
    assert all("503" in reason for reason in scores.reasons)

    # Without a retry all stays as it is; with one it is as if nothing had failed.
    assert (await trial.run()).rows() == hurt.rows()
    mended = await trial.run(retry=True)
    assert mended.rows() == healthy.rows()
    pictures = [{**row, "image": ""} for row in mended.rows("pictures")]
    assert pictures == [{**row, "image": ""} for row in healthy.rows("pictures")]


async def test_without_a_prompt_the_photo_is_asked_about_and_the_page_says_why(
    tmp_path: Path,
) -> None:
    results = await Evaluation(tmp_path / "trial").run("composer")
    assert all(row["u"] is None and row["v"] is not None for row in results.rows())
    assert not results.manifest["left_out"]
    (item,) = results.rows("items")
    assert (item["prompt"], item["author"]) == ("", "")
    assert item["problem"] == "RuntimeError: HTTP 503"
    page = write_report(results, paper=False).read_text(encoding="utf-8")
    assert "their authors: nobody (1); RuntimeError: HTTP 503 (1)" in page
    assert "the prompt failed: RuntimeError: HTTP 503" in page


async def test_a_reader_that_fails_on_one_thing_leaves_the_others_scored(tmp_path: Path) -> None:
    results = await Evaluation(tmp_path / "trial").run("reader of tree.1")
    open_ = {row["question"] for row in results.rows() if row["u"] is None}
    # Only one tree is asked for and seen: nothing but its own colour hangs on it.
    assert open_ == {"attribute:tree.1:color"}
    (row,) = results.rows("pictures")
    assert row["state"] == "unscored"
    assert row["unread"] == '["color, size of tree.1: RuntimeError: HTTP 503"]'


async def test_where_the_match_hangs_on_it_the_whole_class_is_open(tmp_path: Path) -> None:
    results = await Evaluation(tmp_path / "trial").run("reader of dog.1")
    open_ = {row["question"] for row in results.rows() if row["u"] is None}
    # Which of the two dogs is which could change; whatever they are, they are dogs.
    assert open_ == {
        *(f"attribute:dog.{at}:{key}" for at in (1, 2) for key in KEYS),
        "relation:dog.1|ball.1",
        "relation:dog.2|dog.1",
    }


def seen_by(*unread: Unread, scene: SceneGraph = SCENE) -> Unknown:
    match = match_graphs(SCENE, scene, ExactSimilarity())
    return Unknown(match, SCENE, Extraction(scene, unread=unread), True)


def open_questions(unknown: Unknown) -> set[str]:
    asked: tuple[Question, ...] = questions_of(SCENE).questions
    return {question.id for question in asked if unknown.reason(question)}


@pytest.mark.parametrize(
    ("unread", "expected"),
    [
        (Unread("attributes", "x", ("ball.1",), ("Colour",)), {"attribute:ball.1:color"}),
        (Unread("attributes", "x", ("ball.1",), ("upper color",)), set()),
        (Unread("relations", "x", ("ball.1", "tree.1"), ("in front of",)),
         {"relation:tree.1|ball.1"}),
        (Unread("objects", "x", (), ("Tree",)),
         {"attribute:tree.1:color", "retrieval:tree.1", "relation:tree.1|ball.1"}),
    ],
)  # fmt: skip
def test_what_hangs_on_a_part(unread: Unread, expected: set[str]) -> None:
    found = open_questions(seen_by(unread))
    # An edge of a dog is at the ball: its attributes count for the dogs too.
    dogs = {question for question in found if "dog" in question}
    assert found - dogs == expected
    assert bool(dogs) == (unread.part == "attributes")


def test_all_is_open_where_no_object_is_known() -> None:
    asked: tuple[Question, ...] = questions_of(SCENE).questions
    assert open_questions(seen_by(Unread("objects", "x"))) == {one.id for one in asked}
    assert open_questions(seen_by()) == set()


def test_what_is_surely_missing_is_no_failure() -> None:
    bare = SceneGraph(objects=SCENE.objects[:2], relations=())
    unknown = seen_by(Unread("relations", "x"), scene=bare)
    found = open_questions(unknown)
    # Neither ball nor tree is in the picture, whatever the relations are.
    assert not any("ball" in question or "tree" in question for question in found - {
        "relation:dog.1|ball.1"
    })  # fmt: skip
    assert "relation:dog.2|dog.1" in found
