"""The painter's pictures hold exactly what their truth says."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

import numpy as np
import pytest

from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.layout import PlacementError
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.miniature.painter import PaintError, Painting, paint
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.sprites import backdrop, draw_parts, parts, sprite
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, SETTINGS, SIZE, STYLES, can_hold

LEAST_KINDS, LEAST_COLORS, LEAST_SETTINGS = 12, 6, 4
# The trained models know these pictures. Pillow's drawing can change with its version.
FLAT_BYTES = "bb2c8cfe6bbec962878b7a9ce3fb821eb8af01a760499ebd836ceb476da0c1a8"


def paint_text(
    text: str, seed: int = 0, setting: str | None = None, style: str = "flat"
) -> Painting:
    return paint(load_scene(text, format="triplets"), seed, setting, style)


def test_the_world_is_as_large_as_promised() -> None:
    assert len(KINDS) >= LEAST_KINDS
    assert len(COLORS) >= LEAST_COLORS
    assert len(SETTINGS) >= LEAST_SETTINGS


@pytest.mark.parametrize("style", STYLES)
def test_same_seed_same_bytes(style: str) -> None:
    text = "red ball on table; dog left of table"
    one, two = (paint_text(text, 5, style=style) for _ in range(2))
    other = paint_text(text, 6, style=style)
    assert one.image.tobytes() == two.image.tobytes() != other.image.tobytes()
    assert one.image.size == (SIZE, SIZE)


def test_flat_pictures_stay_as_they_were() -> None:
    digest = hashlib.sha256()
    for seed in range(40):
        digest.update(sample_painting(random.Random(seed), 1 + seed % 6).image.tobytes())
    text = "person wearing hat; person riding car; cat under table; ball inside house"
    for setting in ("meadow", "beach", "snow", "room"):
        digest.update(paint_text(text, 3, setting).image.tobytes())
    assert digest.hexdigest() == FLAT_BYTES


def test_a_style_changes_the_picture_and_nothing_else() -> None:
    for seed in range(6):
        flat, pencil = (sample_painting(random.Random(seed), style=style) for style in STYLES)
        assert flat.image.tobytes() != pencil.image.tobytes()
        assert pencil.truth == replace(flat.truth, style="pencil")
        scene = flat.scene.model_copy(update={"relations": ()})
        flat, pencil = (paint(scene, seed, style=style) for style in STYLES)
        assert flat.truth.style == "flat"
        assert pencil.truth == replace(flat.truth, style="pencil")


def _chroma(drawing: np.ndarray) -> np.ndarray:
    """How the mean colour of a drawing leaves grey."""
    mean = drawing[drawing[..., 3] == 255][:, :3].mean(0)
    return np.asarray(mean - mean.mean())


@pytest.mark.parametrize("kind", KINDS)
def test_pencil_colours_can_be_recognised(kind: str) -> None:
    def drawings(style: str, hand: int = 0) -> dict[str, np.ndarray]:
        return {
            c: _chroma(np.asarray(sprite(kind, c, 1.0, style, hand), np.float64)) for c in COLORS
        }

    flat = drawings("flat")
    # Skin, wood and glass have their own colours: what differs between colours counts.
    middle = np.mean(list(flat.values()), 0)
    for hand in range(4):
        pencil = drawings("pencil", hand)
        pale = np.mean(list(pencil.values()), 0)
        for color, found in pencil.items():
            scores = {
                name: float((found - pale) @ (want - middle) / np.linalg.norm(want - middle))
                for name, want in flat.items()
            }
            assert max(scores, key=scores.__getitem__) == color


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_of_a_drawing_are_the_drawing(kind: str) -> None:
    whole = np.asarray(sprite(kind, "red"), np.int64)
    again = np.asarray(draw_parts(parts(kind, "red"), kind), np.int64)
    wide = np.asarray(draw_parts(parts(kind, "red"), kind, reach=5), np.int64)
    assert np.abs(whole - again).mean() < 2.5
    a, b = whole[..., 3] >= 128, again[..., 3] >= 128
    assert (a & b).sum() / (a | b).sum() > 0.97
    assert np.abs(wide[5:-5, 5:-5] - again).mean() < 0.05
    wide[5:-5, 5:-5] = 0
    assert wide[..., 3].max() < 64


@pytest.mark.parametrize("predicate", PREDICATES)
def test_every_predicate_can_be_painted_and_holds(predicate: str) -> None:
    subject, host = next(
        (s, h) for s in KINDS for h in KINDS if s != h and can_hold(s, predicate, h)
    )
    scene = SceneGraph(
        objects=(SceneObject(id="a", name=subject), SceneObject(id="b", name=host)),
        relations=(Relation(source="a", predicate=predicate, target="b"),),
    )
    for seed in range(8):
        painting = paint(scene, seed)
        assert predicate in painting.truth.relations_between("a", "b")
        assert all(painting.truth.holds(fact, scene) for fact in facts_of(scene))


def test_what_is_asked_holds_and_what_is_not_there_does_not() -> None:
    rng = random.Random(4)
    painted = 0
    while painted < 60:
        scene = sample_painting(rng).scene
        try:
            painting = paint(scene, painted)
        except (PlacementError, PaintError):
            continue
        painted += 1
        assert all(painting.truth.holds(fact, scene) for fact in facts_of(scene))
        for kind in set(KINDS) - {item.name for item in scene.objects}:
            absent = SceneGraph(objects=(SceneObject(id="x", name=kind),))
            assert not painting.truth.holds(facts_of(absent)[0], absent)


def test_the_truth_of_another_scene() -> None:
    truth = paint_text("red ball left of blue table; another red ball above dog").truth

    def holds(text: str) -> list[bool]:
        asked = load_scene(text, format="triplets")
        return [truth.holds(fact, asked) for fact in facts_of(asked)]

    assert holds("two red balls") == [True, True, True, True]
    assert holds("three balls") == [True, True, False]
    assert holds("green ball") == [True, False]
    assert holds("blue table left of red ball")[-1] is False
    assert holds("cat") == [False]


def test_a_direction_excludes_its_opposite_alone() -> None:
    rng = random.Random(9)
    for _ in range(100):
        truth = sample_painting(rng).truth
        for a in truth.boxes:
            for b in truth.boxes:
                if a != b:
                    found = truth.relations_between(a, b)
                    assert not {"left of", "right of"} <= found
                    assert not {"above", "below"} <= found
                    if {(a, b), (b, a)} & {(s, t) for s, _, t in truth.contacts}:
                        assert not found & {"left of", "right of", "above", "below", "near"}


@pytest.mark.parametrize("style", STYLES)
def test_boxes_lie_inside_and_cover_what_was_drawn(style: str) -> None:
    rng = random.Random(2)
    for _ in range(25):
        painting = sample_painting(rng, n_objects=1, style=style)
        (box,) = painting.truth.boxes.values()
        assert box.left >= 0
        assert box.top >= 0
        assert box.left + box.width <= SIZE
        assert box.top + box.height <= SIZE
        pixels = np.asarray(painting.image).astype(int)
        truth = painting.truth
        empty = np.asarray(backdrop(truth.setting, truth.ground, style)).astype(int)
        ground = np.abs(pixels - empty).max(-1)
        inside = ground[box.top : box.top + box.height, box.left : box.left + box.width]
        assert inside.max() > 60
        assert ground.sum() == inside.sum()


def test_sprites_differ_by_kind_colour_and_style() -> None:
    every = [(kind, color, style) for kind in KINDS for color in COLORS for style in STYLES]
    assert len({sprite(k, c, 1.0, style).tobytes() for k, c, style in every}) == len(every)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zebra", r"cannot draw 'zebra': the kinds are person, dog"),
        ("golden ball", "the only attribute is color, one of red"),
        ("dog | admiring | cat", "the predicates are left of"),
        ("house riding cat", "cannot draw 'house riding cat'"),
    ],
)
def test_what_the_world_does_not_know(text: str, message: str) -> None:
    with pytest.raises(PaintError, match=message):
        paint_text(text)


def test_a_graph_that_cannot_be_laid_out_says_why() -> None:
    with pytest.raises(PlacementError, match="cannot hold together"):
        paint_text("dog left of cat; cat left of dog")


def test_unknown_setting_and_style_and_empty_scene() -> None:
    with pytest.raises(PaintError, match="meadow, beach, snow, room"):
        paint_text("dog", setting="moon")
    with pytest.raises(PaintError, match="unknown style 'oil': use one of flat, pencil"):
        paint_text("dog", style="oil")
    with pytest.raises(PaintError, match="flat, pencil"):
        sample_painting(random.Random(0), style="oil")
    with pytest.raises(PaintError, match="empty"):
        paint(SceneGraph())


def test_sample_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="1 to 9"):
        sample_painting(random.Random(0), n_objects=10)
    assert len(sample_painting(random.Random(0), n_objects=9).scene.objects) == 9


def test_a_fact_of_relation_finds_the_pair_by_attributes() -> None:
    painting = paint_text("red ball left of table; blue ball right of table")
    asked = load_scene("blue ball left of table", format="triplets")
    fact: Fact = facts_of(asked)[-1]
    assert not painting.truth.holds(fact, asked)
