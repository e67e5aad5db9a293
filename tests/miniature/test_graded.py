"""Graded paintings: the grades are those of the damage that was done."""

from __future__ import annotations

import random

from scenewright.miniature.damage import GRADES, DamageRequest, damage, graded, sample_graded
from scenewright.miniature.sampler import sample_painting


def test_a_grade_says_how_far_the_damage_went() -> None:
    whole = sample_painting(random.Random(4), 3)
    first, second, third = (item.id for item in whole.scene.objects)
    requests = [
        DamageRequest(first, "shape", 3),
        DamageRequest(first, "texture", 0),
        DamageRequest(second, "texture", 4),
        DamageRequest(third, "shape", 5),
    ]
    found = {item.id: item for item in graded(damage(whole, requests, 1)).objects}
    assert (found[first].shape, found[first].texture) == (2, 5)
    assert (found[second].shape, found[second].texture) == (5, 1)
    assert (found[third].shape, found[third].texture) == (1, 5)


def test_the_same_chance_gives_the_same_painting_and_all_grades_come() -> None:
    first, again = sample_graded(random.Random(9)), sample_graded(random.Random(9))
    assert first.image.tobytes() == again.image.tobytes()
    assert first.objects == again.objects
    rng = random.Random(1)
    many = [item for _ in range(30) for item in sample_graded(rng).objects]
    assert {item.shape for item in many} == {item.texture for item in many} == set(GRADES)
    for item in many:
        left, top, right, bottom = item.box
        assert 0 <= left < right <= 128
        assert 0 <= top < bottom <= 128
