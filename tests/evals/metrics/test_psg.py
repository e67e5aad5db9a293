"""The PSG-style score as a metric: parts, foreground, what is unscored, one look for several."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scenewright.core.ports.vision import (
    Detection,
    DetectionError,
    Extraction,
    ExtractionError,
    Unread,
)
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import ItemMetric, MetricError, Sample
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.metrics.psg import PsgMetric
from scenewright.evals.metrics.registry import metric_of
from scenewright.evals.store.extractions import Extractions, shared_extractions

SIZE = (100, 80)
PICTURE = Image.new("RGB", SIZE)


def scene(*names: str, color: str = "red", word: str = "near") -> SceneGraph:
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{n}.1", name=n, attributes=Attributes({"color": color})) for n in names
        ),
        relations=(Relation(source=f"{names[0]}.1", predicate=word, target=f"{names[1]}.1"),),
    )


ASKED = scene("dog", "ball", "tree")
FRONT = Detection("dog", (25.0, 20.0, 75.0, 60.0))
BEHIND = Detection("tree", (0.0, 0.0, 8.0, 8.0))


class Seeing:
    """An extractor that always sees the same."""

    id = "seeing"

    def __init__(self, found: Extraction | Exception, fingerprint: str = "a" * 64) -> None:
        self.found = found
        self.fingerprint = fingerprint
        self.looks = 0

    async def extract(self, image: Image.Image) -> Extraction:
        self.looks += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def aclose(self) -> None:
        pass


class Lit:
    """A model of salience: the right half is in front."""

    id = "lit"
    fingerprint = "b" * 64

    async def saliency(self, image: Image.Image) -> Any:
        found = np.zeros((image.height, image.width), np.float32)
        found[:, image.width // 2 :] = 1.0
        return found

    async def aclose(self) -> None:
        pass


def metric(found: Extraction | Exception, **options: Any) -> PsgMetric:
    return PsgMetric(Extractions(Seeing(found)), ExactSimilarity(), **options)


def sample(asked: SceneGraph | None = ASKED, picture: Image.Image = PICTURE) -> Sample:
    item = Item(id="one", prompt="a dog", scene=asked)
    return Sample(item=item, prompt="a dog", image="0" * 64, load=lambda: picture)


async def test_a_picture_of_the_whole_scene_scores_1() -> None:
    found = await metric(Extraction(ASKED, {"dog.1": FRONT, "tree.1": BEHIND})).score(sample())
    assert found.value == 1.0
    assert set(found.parts) == {
        *("nodes", "attributes", "edges", "recall", "precision", "highest", "background"),
        *(f"{k}_{m}" for k in ("nodes", "attributes", "edges") for m in ("recall", "precision")),
    }
    assert found.parts.pop("background") == 1.0
    assert set(found.parts.values()) == {1.0}


async def test_a_graph_with_an_unknown_part_is_unscored_with_its_reason() -> None:
    bare = ASKED.model_copy(
        update={"objects": tuple(SceneObject(id=o.id, name=o.name) for o in ASKED.objects)}
    )
    unread = tuple(Unread("attributes", "HTTP 503", (o.id,), ("color",)) for o in bare.objects)
    found = await metric(Extraction(bare, unread=unread)).score(sample())
    assert found.value is None
    assert found.parts == {"unread": 3.0}
    assert found.reason == (
        "part of the picture's graph is unknown: color of dog.1: HTTP 503, and 2 more"
    )
    # The same without a failure is wrong, and scored so.
    assert (await metric(Extraction(bare)).score(sample())).value == pytest.approx(
        2 * 4 / (7 + 4) * 1
    )


async def test_parts_tell_what_is_wrong() -> None:
    seen = Extraction(scene("dog", "ball", "tree", "car", color="blue"))
    found = await metric(seen).score(sample())
    assert found.parts["nodes_recall"] == 1.0
    assert found.parts["nodes_precision"] == 0.75
    assert found.parts["attributes"] == 0.0
    assert found.parts["edges"] == 1.0
    assert found.value == pytest.approx(2 * 4 / (7 + 9))


async def test_what_is_wrong_in_front_costs_more() -> None:
    things = {"dog.1": FRONT, "tree.1": BEHIND}

    async def without_color(name: str, **options: Any) -> float:
        objects = tuple(
            o.model_copy(update={"attributes": Attributes()}) if o.id == name else o
            for o in ASKED.objects
        )
        seen = SceneGraph(objects=objects, relations=ASKED.relations)
        found = await metric(Extraction(seen, things), **options).score(sample())
        assert found.value is not None
        return found.value

    assert await without_color("dog.1") < await without_color("tree.1") < 1.0
    # By the model the tree, on the left, is behind as well; alike for all where nobody tells.
    assert await without_color("dog.1", saliency=Lit()) < await without_color(
        "tree.1", saliency=Lit()
    )
    assert await without_color("dog.1", by_boxes=False) == await without_color(
        "tree.1", by_boxes=False
    )


async def test_a_model_of_salience_decides_where_there_is_one() -> None:
    """The rule puts the dog of the middle in front, this model what stands on the right."""
    left, right = Detection("dog", (20, 20, 49, 60)), Detection("ball", (90, 0, 100, 9))
    seen = Extraction(ASKED, {"dog.1": left, "ball.1": right})
    by_model = await metric(seen, saliency=Lit(), threshold=0.9).score(sample())
    by_rule = await metric(seen).score(sample())
    assert (by_model.parts["background"], by_rule.parts["background"]) == (1.0, 1.0)
    wrong = scene("dog", "cat", "tree")
    rule = await metric(seen, background_weight=0.1).score(sample(wrong))
    model = await metric(seen, background_weight=0.1, saliency=Lit()).score(sample(wrong))
    assert rule.value is not None
    assert model.value is not None
    assert model.value < rule.value


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ExtractionError("the model gave no JSON"), "the model gave no JSON"),
        (DetectionError("weights are broken"), "weights are broken"),
    ],
)
async def test_a_picture_that_cannot_be_read_is_unscored(failure: Exception, said: str) -> None:
    found = await metric(failure).score(sample())
    assert found.value is None
    assert found.reason == f"no graph of the picture: {said}"


async def test_without_a_scene_it_is_unscored() -> None:
    found = await metric(Extraction(ASKED)).score(sample(None))
    assert (found.value, found.reason) == (None, "the item has no scene to compare with")


async def test_an_empty_picture_scores_0() -> None:
    found = await metric(Extraction(SceneGraph())).score(sample())
    assert found.value == 0.0
    assert found.parts["precision"] is None


async def test_several_metrics_look_once() -> None:
    extractor = Seeing(Extraction(ASKED))
    shared = shared_extractions(extractor)
    plain = PsgMetric(shared, ExactSimilarity())
    heavy = PsgMetric(shared_extractions(Seeing(Extraction(ASKED))), ExactSimilarity(), least=0.5)
    await plain.score(sample())
    await heavy.score(sample())
    assert extractor.looks == 1


def test_versions_tell_what_changes_a_score() -> None:
    seen = Extraction(ASKED)
    ways: list[dict[str, Any]] = [
        {},
        {"least": 0.5},
        {"background_weight": 0.4},
        {"saliency": Lit()},
        {"by_boxes": False},
        {"threshold": 0.4},
        {"seconds": 1.0},
    ]
    versions = [metric(seen, **way).version for way in ways]
    assert len(set(versions)) == len(versions)
    assert isinstance(metric(seen), ItemMetric)
    # Fingerprints that begin alike are not one.
    names = ("two-stage@1#abcdefgh", "two-stage@1#abcdefgi")
    made = [PsgMetric(Extractions(Seeing(seen, n)), ExactSimilarity()).version for n in names]
    assert len({*made, *versions}) == len(versions) + 2


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_graphs")
    module.see = lambda settings: Seeing(Extraction(ASKED))  # type: ignore[attr-defined]
    module.alike = ExactSimilarity  # type: ignore[attr-defined]
    module.number = lambda *given: 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_graphs", module)


@pytest.mark.usefixtures("own")
async def test_your_own_extractor_and_similarity(tmp_path: Path) -> None:
    options = {
        "extractor": "own_graphs:see",
        "similarity": "own_graphs:alike",
        "folder": str(tmp_path),
    }
    found = metric_of("psg", options)
    assert isinstance(found, ItemMetric)
    assert (await found.score(sample())).value == 1.0
    assert len(list(tmp_path.rglob("journal.sqlite"))) == 1


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "psg needs an extractor"),
        ({"extractor": "nothing"}, "psg: 'nothing' is not an extractor"),
        ({"extractor": "own_graphs:number"}, "gives a int, which is not an extractor"),
        (
            {"extractor": "own_graphs:see", "similarity": "own_graphs:number"},
            "not a similarity of texts",
        ),
        ({"extractor": "own_graphs:see", "similarity": "near"}, "psg: no similarity of texts"),
        ({"extractor": "own_graphs:see", "least": 2}, "least is 2"),
        ({"extractor": "own_graphs:see", "background_weight": 0}, "background_weight is 0"),
        ({"extractor": "own_graphs:see", "threshold": "high"}, "threshold is 'high'"),
        ({"extractor": "own_graphs:see", "seconds": -1}, "seconds is -1"),
        ({"extractor": "own_graphs:see", "saliency": "birefnet"}, "is not on this machine"),
        ({"extractor": "own_graphs:see", "trust_remote_code": "yes"}, "trust_remote_code is 'yes'"),
    ],
)
def test_options_that_cannot_be_are_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(MetricError, match=said):
        metric_of("psg", options)
