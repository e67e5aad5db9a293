"""Damage is graded, stays where it belongs, and its labels are exact."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import minimum_filter
from typer.testing import CliRunner

from scenewright.core.formats import load_scene
from scenewright.miniature.cli import app
from scenewright.miniature.damage import (
    LEVELS,
    MANNERS,
    REACH,
    DamagedPainting,
    DamageError,
    DamageRequest,
    broken,
    damage,
    force_for,
    masks_of,
    parse_damage,
    spoilt,
)
from scenewright.miniature.damage import SHAPE_TARGETS as SHAPE_TARGETS
from scenewright.miniature.damage import TEXTURE_TARGETS as TEXTURE_TARGETS
from scenewright.miniature.painter import Box, Painting, layers_of, paint, silhouettes
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.sprites import backdrop, draw_parts, parts, sprite
from scenewright.miniature.world import COLORS, KINDS, SIZE, STYLES

WAYS = [(kind, manner) for kind, manners in MANNERS.items() for manner in manners]


def painted(text: str, seed: int = 0, style: str = "flat") -> Painting:
    return paint(load_scene(text, format="triplets"), seed, "snow", style)


def pixels(painting: Painting) -> np.ndarray:
    return np.asarray(painting.image).astype(np.int64)


def around(box: Box, reach: int) -> np.ndarray:
    """The box grown by ``reach`` on every side."""
    found = np.zeros((SIZE, SIZE), bool)
    rows = slice(max(box.top - reach, 0), box.top + box.height + reach)
    found[rows, max(box.left - reach, 0) : box.left + box.width + reach] = True
    return found


def iou(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / (a | b).sum())


def samples(n: int) -> list[tuple[Painting, str]]:
    """Paintings with one of their objects, of every kind, colour and style."""
    found: list[tuple[Painting, str]] = []
    for seed in range(n):
        kind, color = sorted(KINDS)[seed % len(KINDS)], sorted(COLORS)[seed % 5]
        found.append((painted(f"{color} {kind}", seed, sorted(STYLES)[seed % 2]), f"{kind}.1"))
    return found


@pytest.mark.parametrize("style", STYLES)
def test_level_0_touches_nothing(style: str) -> None:
    painting = painted("dog left of cat", style=style)
    found = damage(painting, [DamageRequest("dog.1", kind, 0) for kind in MANNERS])
    assert found.image.tobytes() == painting.image.tobytes()
    assert found.truth == painting.truth
    for label in found.damages:
        assert label.box is None
        assert not label.mask.any()
    for key, mask in masks_of(painting).items():
        assert (found.masks[key] == mask).all()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", MANNERS)
def test_a_seed_gives_the_same_bytes_and_another_seed_others(kind: str, style: str) -> None:
    painting = painted("red house", style=style)
    one, two, other = (
        damage(painting, [DamageRequest("house.1", kind, 3)], seed).image.tobytes()
        for seed in (1, 1, 2)
    )
    assert one == two != other


def test_the_seed_picks_every_manner() -> None:
    painting = painted("red house")
    for kind, manners in MANNERS.items():
        request = DamageRequest("house.1", kind, 0)
        seen = {damage(painting, [request], seed).damages[0].manner for seed in range(60)}
        assert seen == set(manners)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    style=st.sampled_from(sorted(STYLES)),
    way=st.sampled_from(WAYS),
    level=st.sampled_from(LEVELS),
)
def test_damage_stays_with_its_object(
    seed: int, style: str, way: tuple[str, str], level: int
) -> None:
    painting = sample_painting(random.Random(seed), style=style)
    chosen = painting.scene.objects[seed % len(painting.scene.objects)].id
    kind, manner = way
    found = damage(painting, [DamageRequest(chosen, kind, level, manner)], seed)
    (label,) = found.damages
    changed = (pixels(painting) != pixels(found)).any(-1)
    assert (label.object_id, label.kind, label.level, label.manner) == (chosen, kind, level, manner)
    assert (label.mask == changed).all()
    if label.box is None:
        assert not changed.any()
    else:
        tight = around(label.box, 0)
        assert not changed[~tight].any()
        assert changed.any(0).sum() <= label.box.width
        assert changed[label.box.top].any()
        assert changed[:, label.box.left + label.box.width - 1].any()
    before = masks_of(painting)
    if kind == "texture":
        # Soft edges of what stands in front let it through.
        own = [layer for layer in layers_of(painting.truth) if layer.object_id == chosen]
        assert not changed[~silhouettes(own)[chosen]].any()
        assert found.masks.keys() == before.keys()
        assert all((found.masks[key] == mask).all() for key, mask in before.items())
    else:
        near = around(painting.truth.boxes[chosen], REACH)
        assert not changed[~near].any()
        for key in (before.keys() | found.masks.keys()) - {chosen}:
            nothing = np.zeros_like(changed)
            moved = before.get(key, nothing) != found.masks.get(key, nothing)
            assert not moved[~near].any()
    assert found.truth == painting.truth


def test_masks_cover_what_was_drawn_and_share_no_pixel() -> None:
    rng = random.Random(3)
    for style in [*STYLES] * 10:
        painting = sample_painting(rng, style=style)
        truth, masks = painting.truth, masks_of(painting)
        total = np.sum(list(masks.values()), 0)
        assert total.max() == 1
        drawn = (pixels(painting) != np.asarray(backdrop(truth.setting, truth.ground, style))).any(
            -1
        )
        assert drawn[total == 1].mean() > 0.99
        # Only the soft edges of things are drawn and belong to none.
        assert (drawn & (total == 0)).sum() < 0.25 * drawn.sum()
        for key, mask in masks.items():
            assert not mask[~around(truth.boxes[key], 0)].any()


def test_masks_know_what_stands_in_front() -> None:
    painting = painted("person wearing hat")
    masks = masks_of(painting)
    hat, person = (painting.truth.boxes[key] for key in ("hat.1", "person.1"))
    both = around(hat, 0) & around(person, 0)
    assert masks["hat.1"][both].any()
    alone = masks_of(painted("person"))["person.1"].sum()
    assert masks["person.1"].sum() < alone
    assert masks["hat.1"].sum() == masks_of(painted("hat"))["hat.1"].sum()


def test_what_stands_in_front_is_not_damaged() -> None:
    painting = painted("dog inside house")
    front = next(layer for layer in layers_of(painting.truth) if layer.object_id == "dog.1")
    solid = Image.new("L", (SIZE, SIZE))
    solid.paste(front.image.getchannel("A"), (front.left, front.top))
    dog = np.asarray(solid) == 255
    assert dog.sum() > 40
    for kind in MANNERS:
        found = damage(painting, [DamageRequest("house.1", kind, 5)], 4)
        assert (pixels(found)[dog] == pixels(painting)[dog]).all()
        assert (pixels(found) != pixels(painting)).any()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "manner"), WAYS)
def test_damage_rises_with_the_level(kind: str, manner: str) -> None:
    rises, means, kept = [], [], []
    for seed, (painting, key) in enumerate(samples(12)):
        before = masks_of(painting)[key]
        found = [damage(painting, [DamageRequest(key, kind, n, manner)], seed) for n in LEVELS]
        differences = [np.abs(pixels(f) - pixels(painting)).sum() / 3 / before.sum() for f in found]
        means.append(differences)
        rises += [b > a for a, b in pairwise(differences)]
        kept.append([iou(before, masks_of(f)[key]) for f in found])
    average = np.mean(means, 0)
    assert all(b > 1.2 * a and b - a > 2 for a, b in pairwise(average))
    assert np.mean(rises) > 0.96
    same = np.mean(kept, 0)
    if kind == "texture":
        assert (same == 1).all()
    else:
        assert same[0] == 1
        assert all(a - b > 0.03 for a, b in pairwise(same))
        assert 0.45 < same[-1] < 0.75


def test_a_level_means_the_same_in_every_manner() -> None:
    for kind, manners in MANNERS.items():
        by_manner = []
        for manner in manners:
            found = [
                np.abs(
                    pixels(damage(p, [DamageRequest(key, kind, 3, manner)], seed)) - pixels(p)
                ).mean()
                for seed, (p, key) in enumerate(samples(12))
            ]
            by_manner.append(np.mean(found))
        assert max(by_manner) < 1.25 * min(by_manner)


@pytest.mark.parametrize("manner", MANNERS["texture"])
def test_texture_levels_are_differences_inside_the_outline(manner: str) -> None:
    for kind, color, style in zip(KINDS, [*COLORS] * 2, [*STYLES] * 6, strict=True):
        drawing = np.asarray(sprite(kind, color, 1.0, style))
        inside = minimum_filter(drawing[..., 3], 3, mode="constant") >= 250
        for level in LEVELS:
            found = spoilt(drawing, manner, level, np.random.default_rng(level))
            assert (found[~inside] == drawing[~inside]).all()
            assert (found[..., 3] == drawing[..., 3]).all()
            changed = np.abs(found.astype(int) - drawing)[inside][:, :3].mean()
            assert changed == pytest.approx(TEXTURE_TARGETS[level], abs=1)


@pytest.mark.parametrize("manner", MANNERS["shape"])
def test_shape_levels_are_changed_shares_of_the_drawing(manner: str) -> None:
    found = []
    for number, kind in enumerate(KINDS):
        whole = np.asarray(draw_parts(parts(kind, "red"), kind, reach=6), np.int64)
        shares = []
        for level in LEVELS:
            pieces = broken(kind, "red", manner, level, str(number))
            drawing = np.asarray(draw_parts(pieces, kind, reach=6), np.int64)
            # Fainter changes come from outlines, which the levels do not count.
            shares.append((np.abs(drawing - whole).max(-1) > 96).sum() / (whole[..., 3] > 0).sum())
        found.append(shares)
    share = np.mean(found, 0)
    assert share[0] == 0
    assert all(b > a + 0.03 for a, b in pairwise(share))
    assert share == pytest.approx(SHAPE_TARGETS, abs=0.07)


def test_broken_shapes_keep_their_colours() -> None:
    for seed, (painting, key) in enumerate(samples(12)):
        broken = damage(painting, [DamageRequest(key, "shape", 4)], seed)
        palette = pixels(painting)[masks_of(painting)[key]]
        found = pixels(broken)[masks_of(broken)[key]]
        nearest = np.abs(found[:, None] - palette[None]).max(-1).min(1)
        assert (nearest < 40).mean() > 0.9


def test_spoilt_textures_keep_the_mean_colour_near() -> None:
    for seed, (painting, key) in enumerate(samples(12)):
        mask = masks_of(painting)[key]
        spoilt = damage(painting, [DamageRequest(key, "texture", 3)], seed)
        assert np.abs(pixels(spoilt)[mask].mean(0) - pixels(painting)[mask].mean(0)).max() < 20


def test_one_object_can_have_both_and_others_theirs() -> None:
    painting = painted("red ball left of table; dog above table", 2)
    requests = [
        DamageRequest("dog.1", "texture", 4),
        DamageRequest("ball.1", "texture", 2),
        DamageRequest("ball.1", "shape", 3),
    ]
    found = damage(painting, requests, 5)
    order = [item.id for item in painting.scene.objects if item.id != "table.1"]
    expected = [("ball.1", "shape"), ("ball.1", "texture"), ("dog.1", "texture")]
    assert [(d.object_id, d.kind) for d in found.damages] == sorted(
        expected, key=lambda pair: (order.index(pair[0]), pair[1])
    )
    assert found.image.tobytes() == damage(painting, requests[::-1], 5).image.tobytes()
    alone = {r: damage(painting, [r], 5) for r in requests}
    for label in found.damages:
        request = DamageRequest(label.object_id, label.kind, label.level)
        if request != requests[1]:
            assert (alone[request].damages[0].mask == label.mask).all()
    union = np.any([label.mask for label in found.damages], 0)
    assert (union | (pixels(found) == pixels(painting)).all(-1)).all()
    both = damage(painting, requests[1:], 5)
    assert (masks_of(both)["ball.1"] == masks_of(alone[requests[2]])["ball.1"]).all()
    assert both.image.tobytes() != alone[requests[2]].image.tobytes()


@pytest.mark.parametrize("targets", [SHAPE_TARGETS, TEXTURE_TARGETS])
def test_levels_ask_for_more_and_more(targets: tuple[float, ...]) -> None:
    assert len(targets) == len(LEVELS)
    assert targets[0] == 0
    assert all(b > a for a, b in pairwise(targets))


@given(
    steps=st.lists(st.floats(-1, 3), min_size=4, max_size=12),
    targets=st.lists(st.floats(0.01, 8), min_size=2, max_size=6),
)
def test_a_greater_target_never_takes_a_smaller_force(
    steps: list[float], targets: list[float]
) -> None:
    heights = np.concatenate([[0], np.cumsum(steps)])

    def measure(force: float) -> float:
        return float(heights[min(int(force / 2 * len(heights)), len(heights) - 1)])

    forces = [force_for(target, measure, 2.0) for target in sorted(targets)]
    assert forces == sorted(forces)
    assert force_for(0.5, lambda force: force**2, 2.0) == pytest.approx(0.5**0.5, abs=0.01)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([DamageRequest("cat.1", "shape", 1)], r"cannot damage 'cat.1': the painting has dog.1"),
        ([DamageRequest("dog.1", "smell", 1)], "unknown kind of damage 'smell': use one of shape"),
        ([DamageRequest("dog.1", "shape", 6)], "level of dog.1 is 6: use 0 to 5"),
        ([DamageRequest("dog.1", "shape", 1, "noise")], "unknown manner 'noise' of shape"),
        ([DamageRequest("dog.1", "shape", 1)] * 2, "asked twice: keep one"),
    ],
)
def test_what_cannot_be_damaged(requests: list[DamageRequest], message: str) -> None:
    with pytest.raises(DamageError, match=message):
        damage(painted("dog"), requests)


def test_a_damaged_painting_is_a_painting_but_is_not_damaged_again() -> None:
    found = damage(painted("dog"), [DamageRequest("dog.1", "shape", 2)])
    assert isinstance(found, DamagedPainting)
    assert found.truth.matching("dog", {}) == ["dog.1"]
    with pytest.raises(DamageError, match="ask for all its damages at once"):
        damage(found, [DamageRequest("dog.1", "texture", 2)])


def test_damage_is_read_from_text() -> None:
    assert parse_damage("dog.1:shape:3") == DamageRequest("dog.1", "shape", 3)
    assert parse_damage("my:dog : texture : 0") == DamageRequest("my:dog", "texture", 0)
    for text in ("dog.1", "dog.1:shape", "dog.1:shape:much", "dog.1:shape:-1"):
        with pytest.raises(DamageError, match=r"OBJECT:KIND:LEVEL with a level of 0 to 5"):
            parse_damage(text)


def test_the_command_paints_in_a_style_and_damages(tmp_path: Path) -> None:
    out = tmp_path / "picture.png"

    def call(*options: str) -> np.ndarray:
        done = CliRunner().invoke(app, ["paint", "red dog on table", str(out), *options])
        assert done.exit_code == 0, done.output
        with Image.open(out) as image:
            return np.asarray(image.convert("RGB"))

    whole = call("--style", "pencil", "--seed", "4")
    scene = load_scene("red dog on table")
    painting = paint(scene, 4, style="pencil")
    assert (whole == np.asarray(painting.image)).all()
    spoilt = call(
        *("--style", "pencil", "--seed", "4"),
        *("--damage", "dog.1:shape:3", "--damage", "table.1:texture:2"),
    )
    wanted = [DamageRequest("dog.1", "shape", 3), DamageRequest("table.1", "texture", 2)]
    assert (spoilt == np.asarray(damage(painting, wanted, 4).image)).all()
    assert (spoilt != whole).any()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--style", "oil", "unknown style 'oil'"),
        ("--damage", "dog.1:shape", "is not OBJECT:KIND:LEVEL"),
        ("--damage", "cat.1:shape:1", "cannot damage 'cat.1'"),
    ],
)
def test_the_command_says_what_it_cannot_paint(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    out = tmp_path / "picture.png"
    done = CliRunner().invoke(app, ["paint", "dog", str(out), option, value])
    assert done.exit_code == 2
    assert message in done.output
    assert not out.exists()
