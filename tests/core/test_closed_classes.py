"""Detectors with their own classes: what they have no class for is unscored, never absent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import Image

from scenewright.config.settings import load_settings
from scenewright.core.closed_vocabulary import ClosedVocabulary, read_vocabulary, write_vocabulary
from scenewright.core.facts import Answer
from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection, Extraction, vocabulary_of
from scenewright.core.questions import realism_facts_of
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.metrics.ocr import OcrMetric
from scenewright.evals.metrics.psg import PsgMetric
from scenewright.evals.runner.estimating import estimate
from scenewright.evals.runner.judging import score_rows
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.studies.peers.geneval import DetectorJudge
from scenewright.evals.studies.peers.geneval_rules import clause_facts, demands_of_scene
from scenewright.miniature.world import JUDGE_VOCABULARY, KINDS, VOCABULARY
from scenewright.runs.model_factory.extractors import extractor_of
from scenewright.runs.model_factory.local_models import SEGMENTER, detector_of
from scenewright.tools.vision.detection.caching import CachedDetector
from scenewright.tools.vision.detection.labels import unknown_labels
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from scenewright.tools.vision.realism.olip_judge import OlipJudge
from tests.doubles import ScriptedJudge, painted
from tests.evals.eval_sets import ListedSet, config, scripted
from tests.tools.vision.detection.tiny import save_tiny
from tests.tools.vision.realism.scripted import ScriptedDetector, ScriptedScorer

PICTURE = painted((100, 100), (0, 0, 0))
DOG = Detection("dog", (10, 10, 60, 60), 0.9)
FEW = ClosedVocabulary(classes=("dog", "ball"))


def detector(*found: Detection) -> ScriptedDetector:
    return ScriptedDetector(found or (DOG,), vocabulary=FEW)


def sample(text: str) -> Sample:
    item = Item(id="one", prompt=text, scene=load_scene(text))
    return Sample(item=item, prompt=text, image="0" * 64, load=lambda: PICTURE)


@pytest.mark.skipif(not (SEGMENTER / "config.json").is_file(), reason="no segmenter here")
def test_the_miniatures_segmenter_finds_its_twelve_kinds() -> None:
    found = detector_of("miniature")
    assert found.vocabulary is not None
    assert set(found.vocabulary.classes or ()) == set(KINDS)
    assert list(unknown_labels(found, ["dog", "astronaut"])) == ["astronaut"]
    assert CachedDetector(found).vocabulary == found.vocabulary


@pytest.mark.parametrize("kind", ["mask2former", "segformer", "yolos", "owlv2"])
def test_models_of_transformers_name_their_labels_unless_they_take_any(
    kind: str, tmp_path: Path
) -> None:
    found = detector_of(f"transformers:{save_tiny(kind, tmp_path)}")
    if kind == "owlv2":
        assert found.vocabulary is None
    else:
        assert found.vocabulary is not None
        assert found.vocabulary.classes


async def test_realism_of_an_unknown_class_is_unscored_with_that_reason() -> None:
    judge = OlipJudge(ScriptedScorer(), detector())
    assert judge.caps.vocabulary == FEW
    facts = realism_facts_of(load_scene("dog; astronaut"))
    answers: list[Answer] = await judge.answer(PICTURE, facts)
    states = {answer.fact_id: answer for answer in answers}
    assert states["real:dog.1:shape"].state in ("yes", "no")
    assert "the class 'astronaut' is outside" in states["real:astronaut.1:shape"].reason


async def test_geneval_leaves_unknown_classes_and_colours_unscored() -> None:
    @dataclass
    class Two:
        fingerprint: str = "two"
        palette: tuple[str, ...] = ("red", "blue")

        async def read(self, image: object, things: object, every: object) -> list[str | None]:
            return ["red"]

    judge = DetectorJudge(detector(), colors=Two())
    scene = load_scene("red dog left of astronaut; pink ball")
    facts = clause_facts(demands_of_scene(scene))
    answers = {a.fact_id: a for a in await judge.answer(PICTURE, facts)}
    assert answers["geneval:count:0"].state == "yes"
    assert answers["geneval:color:0"].state == "yes"
    for unknown in ("geneval:count:1", "geneval:position:0:0"):
        assert answers[unknown].state == "unscored"
        assert "'astronaut'" in answers[unknown].reason
    assert answers["geneval:color:2"].state == "unscored"
    assert "pink" in answers["geneval:color:2"].reason
    # A ball it would find: there is none.
    assert answers["geneval:count:2"].state == "no"


async def test_ocr_tells_labels_that_its_detector_has_no_class_for() -> None:
    metric = OcrMetric(ScriptedScorer(), detector(), of_scene=True)
    some = await metric.score(sample("dog; astronaut"))
    assert some.value is not None
    assert some.parts["unknown"] == 1.0
    none = await metric.score(sample("astronaut"))
    assert none.value is None
    assert "the class 'astronaut' is outside" in none.reason
    assert "unknown" not in (await metric.score(sample("dog"))).parts


async def test_a_graph_that_cannot_hold_the_scene_is_no_score() -> None:
    class Reader:
        fingerprint = "reader"
        values: ClassVar[dict[str, tuple[str, ...]]] = {"color": ("red", "blue")}

    extractor = TwoStageExtractor(detector(), reader=Reader())  # type: ignore[arg-type]
    words = vocabulary_of(extractor)
    assert words == ClosedVocabulary(FEW.classes, Reader.values, predicates=())
    metric = PsgMetric(Extractions(_Seeing(words)), ExactSimilarity())
    assert (await metric.score(sample("dog"))).value == 1.0
    for text, word in (
        ("astronaut", "astronaut"),
        ("pink dog", "pink"),
        ("dog left of ball", "the predicate 'left of' is outside its vocabulary (it knows none)"),
    ):
        found = await metric.score(sample(text))
        assert found.value is None
        assert word in found.reason


def test_the_miniatures_extractors_name_their_words() -> None:
    for name in ("miniature", "miniature-one-stage"):
        words = vocabulary_of(extractor_of(name, load_settings()))
        assert words is not None
        assert set(words.classes or ()) == set(KINDS)
        assert words.attributes is not None
        assert "red" in (words.attributes["color"] or ())
        assert not words.unknown_in(load_scene("<dog, left of, cat>; <hat, worn by, person>"), True)
        # Beside a direction, near says little, and the extractor never says it.
        (near,) = words.unknown_in(load_scene("dog near cat"), True)
        assert str(near) == "the predicate 'near'"


def test_a_closed_list_of_none_is_not_any(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, ClosedVocabulary(attributes={}, predicates=()))
    found = read_vocabulary(tmp_path)
    assert found == ClosedVocabulary(attributes={}, predicates=())
    assert [one.part for one in found.unknown_in(load_scene("red dog on ball"), True)] == [
        "attribute",
        "predicate",
    ]


async def test_psg_leaves_a_scene_with_a_predicate_that_no_graph_holds_unscored() -> None:
    words = ClosedVocabulary(predicates=("left of",))
    metric = PsgMetric(Extractions(_Seeing(words)), ExactSimilarity())
    # The distance takes a relation and its converse for one.
    assert (await metric.score(sample("dog right of ball"))).value is not None
    found = await metric.score(sample("dog chasing ball"))
    assert found.value is None
    assert "the predicate 'chasing' is outside its vocabulary (it knows left of)" in found.reason


async def test_psg_scores_the_parts_that_need_no_unknown_word() -> None:
    """A predicate without a word costs the edges and the whole; nodes and attributes are known."""
    words = ClosedVocabulary(attributes={"color": ("red",)}, predicates=("left of",))
    seeing = _Seeing(words)
    metric = PsgMetric(Extractions(seeing), ExactSimilarity())
    found = await metric.score(sample("red dog chasing ball"))
    assert found.value is None
    assert found.parts["nodes"] == pytest.approx(2 / 3)
    assert (found.parts["nodes_recall"], found.parts["attributes"]) == (0.5, 0.0)
    assert found.parts["edges"] is None
    assert "recall" not in found.parts
    value = await metric.score(sample("pink dog left of ball"))
    assert (value.value, value.parts["attributes"]) == (None, None)
    assert value.parts["edges"] == 0.0
    # Rows of an evaluation: the part that is lacking has the reason.
    rows = {row["part"]: row for row in score_rows(found, "psg", "1", {})["scores"]}
    assert "'chasing'" in rows["edges"]["reason"]
    assert rows["nodes"]["reason"] == ""
    assert rows[""]["value"] is None
    closed = _Seeing(ClosedVocabulary(classes=("dog",)))
    assert not (await PsgMetric(Extractions(closed), ExactSimilarity()).score(sample("cat"))).parts


@dataclass
class _Seeing:
    """Sees a dog in every picture."""

    vocabulary: ClosedVocabulary | None
    id: str = "seeing"
    fingerprint: str = "seeing-1"

    async def extract(self, image: Image.Image) -> Extraction:
        return Extraction(load_scene("dog"))

    async def aclose(self) -> None:
        return


async def test_an_evaluations_plan_counts_what_nobody_knows(tmp_path: Path) -> None:
    given = scripted(vocabulary=VOCABULARY)
    judges = {spec: ScriptedJudge(spec[-1], vocabulary=JUDGE_VOCABULARY) for spec in given.judges}
    given = type(given)(given.backends, given.composers, judges, given.metrics)
    items = [
        Item(id=f"i{at}", scene=load_scene(text))
        for at, text in enumerate(("pink dog left of table", "red dog", "astronaut riding horse"))
    ]
    asked = config(conditions=["composition"])
    found = await estimate(asked, tmp_path, given=given, dataset=ListedSet(items))
    panel = next(gap for gap in found.outside if gap.does == "answer")
    drawn = next(gap for gap in found.outside if gap.does == "draw")
    # Pink, and the three facts of the astronaut, of nine.
    assert (panel.facts, panel.of) == (4, 9)
    assert drawn.facts == 4
    assert panel.words[0] == "the class 'astronaut'"
    assert "stay unscored" in panel.text
    known = await estimate(asked, tmp_path / "b", given=given, dataset=ListedSet(items[1:2]))
    assert known.outside == ()
