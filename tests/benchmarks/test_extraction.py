"""The benchmark of extraction: what counts as right, by the truth of paintings."""

from __future__ import annotations

import random

import pytest

from benchmarks.extraction import Count, TrueBoxes, aligned, counted, figures_of, true_box
from scenewright.core.ports.vision import Detection, Extraction
from scenewright.core.scene import Relation, SceneGraph
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import HIDING
from scenewright.tools.vision.detection.boxes import iou


def paintings(n: int = 20) -> list[Painting]:
    rng = random.Random("test of the benchmark of extraction")
    return [sample_painting(rng) for _ in range(n)]


def perfect(painting: Painting) -> Extraction:
    """What a reader without fault says, in another order and by other ids."""
    objects = painting.scene.objects[::-1]
    ids = {item.id: f"thing.{at}" for at, item in enumerate(objects)}
    relations = painting.scene.relations
    stated = [(r.source, r.predicate, r.target) for r in relations if r.predicate != "near"]
    drawn = [contact for contact in sorted(painting.truth.contacts) if contact[1] != HIDING]
    scene = SceneGraph(
        objects=tuple(item.model_copy(update={"id": ids[item.id]}) for item in objects),
        relations=tuple(
            Relation(source=ids[source], predicate=predicate, target=ids[target])
            for source, predicate, target in dict.fromkeys((*stated, *drawn))
        ),
    )
    boxes = {ids[item.id]: Detection(item.name, true_box(painting, item.id)) for item in objects}
    return Extraction(scene, boxes)


def test_the_truth_is_right_in_every_kind() -> None:
    for painting in paintings():
        for kind, count in counted(perfect(painting), painting).items():
            assert count.right == count.said, kind
            if kind != "clear_relations":
                assert count.found == count.true, kind


def test_what_is_wrong_is_counted_as_wrong() -> None:
    painting = next(p for p in paintings() if len(p.scene.objects) >= 4 and p.scene.relations)
    full = perfect(painting)
    first, *others = full.scene.objects
    other = "red" if first.attributes["color"] != "red" else "blue"
    painted = first.model_copy(update={"attributes": {"color": other}})
    counts = counted(Extraction(SceneGraph(objects=(painted, *others))), painting)
    n = len(full.scene.objects)
    assert counts["objects"] == Count(n, n, n, n)
    assert counts["attributes"].right < counts["attributes"].said == n
    assert counts["relations"].said == counts["relations"].found == 0
    assert counts["relations"].true > 0
    assert "placed_objects" not in counts
    fewer = counted(Extraction(SceneGraph(objects=tuple(others))), painting)
    assert (fewer["objects"].said, fewer["objects"].found) == (n - 1, n - 1)


def test_a_turned_relation_is_wrong_and_its_converse_is_found() -> None:
    turned = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
    for painting in paintings():
        full = perfect(painting)
        loose = [r for r in full.scene.relations if r.predicate in turned]
        twins = len({(o.name, o.attributes["color"]) for o in full.scene.objects})
        for relation in loose:
            ends = {"source": relation.target, "target": relation.source}
            converse = Relation(predicate=turned[relation.predicate], **ends)
            scene = SceneGraph(objects=full.scene.objects, relations=(converse,))
            found = counted(Extraction(scene, full.things), painting)["relations"]
            assert found.right == 1
            # Of things alike another pair may be meant.
            assert found.found >= 1 or twins < len(full.scene.objects)
        if loose and twins == len(full.scene.objects):
            wrong = loose[0].model_copy(update={"predicate": turned[loose[0].predicate]})
            scene = SceneGraph(objects=full.scene.objects, relations=(wrong,))
            assert counted(Extraction(scene), painting)["relations"].right == 0


def test_twins_are_paired_by_their_relations() -> None:
    for painting in paintings(60):
        full = perfect(painting)
        match = aligned(full.scene, painting)
        assert len(set(match.values())) == len(match) == len(painting.scene.objects)
        for item in full.scene.objects:
            assert painting.scene.object(match[item.id]).name == item.name


def test_boxes_are_within_the_picture_and_overlaps_are_shares() -> None:
    assert iou((0, 0, 10, 10), (0, 0, 10, 10)) == 1.0
    assert iou((0, 0, 10, 10), (10, 0, 20, 10)) == 0.0
    assert iou((0, 0, 10, 10), (5, 0, 15, 10)) == pytest.approx(1 / 3)
    for painting in paintings(5):
        for item in painting.scene.objects:
            left, top, right, bottom = true_box(painting, item.id)
            assert 0 <= left < right <= 128
            assert 0 <= top < bottom <= 128


async def test_true_boxes_are_the_painted_things() -> None:
    painting = paintings(1)[0]
    found = await TrueBoxes(painting).detect(painting.image)
    assert [one.name for one in found] == [item.name for item in painting.scene.objects]


def test_figures_are_of_all_facts_together() -> None:
    rows = [{"objects": Count(1, 2, 1, 1)}, {"objects": Count(2, 2, 2, 5)}]
    figures = figures_of("mine", rows, resamples=200)
    assert figures["precision.objects.mine"]["mean"] == 3 / 4
    assert figures["recall.objects.mine"]["mean"] == 3 / 6
    for value in figures.values():
        assert value["low"] <= value["mean"] <= value["high"]
    with pytest.raises(ValueError, match="nothing was measured"):
        figures_of("mine", [])
