"""The painted pools of the augmentation benchmark: what is wrong with each picture is known."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from benchmarks._augmentation import (
    ASKED,
    PARTS,
    PHOTO,
    Candidate,
    Scored,
    agreement,
    candidates,
    drawings,
    exact,
    exact_drawings,
    painted,
    predicates_of,
    queries_of,
    query_schemas,
    ranked,
    scene_of,
    scored,
    species_of,
    species_schemas,
)
from benchmarks._harness import figure as spread
from benchmarks.augmentation import compared
from scenewright.evals.studies.real.augmentation import Comparison, over_seeds
from tests.doubles import ScriptedJudge

SPECIES = species_of(6, "test")


def test_species_differ_in_two_colours_and_come_again() -> None:
    for one, other in combinations(SPECIES, 2):
        assert sum(one.colors[part] != other.colors[part] for part in PARTS) >= 2
    assert species_of(6, "test") == SPECIES
    assert species_of(6, "other") != SPECIES
    with pytest.raises(ValueError, match="ask for fewer"):
        species_of(1000, "test")


def test_real_pictures_show_their_species_and_no_two_are_equal() -> None:
    pictures = exact(SPECIES[:2], 4, "a")
    assert [one.label for one in pictures] == ["species 01"] * 4 + ["species 02"] * 4
    assert len({one.image.tobytes() for one in pictures}) == 8
    painting = painted(scene_of(SPECIES[0].colors), random.Random(1))
    found = {item.name: item.attributes["color"] for item in painting.scene.objects}
    assert found == SPECIES[0].colors
    assert painting.truth.style == PHOTO


def test_candidates_are_as_wrong_as_they_say() -> None:
    pool = candidates(SPECIES[:2], 8, "a")
    assert len({one.name for one in pool}) == 16
    assert [len(PARTS) - one.right for one in pool] == [0, 1, 2, 3] * 4
    for one in pool:
        assert one.right <= one.present <= len(PARTS)
        assert one.share <= one.s_att <= 1.0
    again = candidates(SPECIES[:2], 8, "a")
    assert all(np.array_equal(a.image, b.image) for a, b in zip(pool, again, strict=True))


def test_drawings_are_annotated_as_asked_whatever_they_show() -> None:
    queries = queries_of(2, "test")
    pool = drawings(queries, 6, "a")
    scenes = {query.name: query.scene for query in queries}
    for one in pool:
        things = len(scenes[one.label].objects) - one.missing
        assert len(one.learned.boxes) == things
        assert one.holding <= len(one.learned.triplets) <= ASKED
        assert len(one.learned.triplets) == ASKED or one.missing
        assert one.s_rel == (0.0 if one.missing else one.holding / ASKED)
    assert min(one.holding for one in pool) < ASKED
    real = exact_drawings(queries, 2, "a")
    assert all(one.holding == ASKED and not one.missing for one in real)
    asked = {p for one in pool for _, p, _ in one.learned.triplets}
    assert asked <= set(predicates_of(queries))


def test_every_query_can_be_asked_for() -> None:
    queries = queries_of(3, "test")
    schemas = query_schemas(queries)
    for query in queries:
        relations = schemas[query.name].relations
        assert relations is not None
        assert len(relations.relations) == ASKED
        assert len(relations.entities) == len(query.scene.objects)
    asked = species_schemas(SPECIES)["species 01"].attributes
    assert asked is not None
    assert {a.part: a.description for a in asked.attributes} == SPECIES[0].colors


class Grey:
    """Finds every picture half a photo."""

    async def score(self, images: list[object]) -> list[float]:
        return [0.5] * len(images)


@pytest.mark.parametrize(("level", "base"), [(0, 1.0), (256, 0.0)])
async def test_scores_are_the_panels(tmp_path: Path, level: int, base: float) -> None:
    judge = ScriptedJudge(level=lambda fact: level - 1)
    pool = candidates(SPECIES[:1], 2, "a")
    # The scripted judge sees the red of a picture's first pixel.
    bright = [replace(one, image=one.image.point(lambda value: max(value, 100))) for one in pool]
    rows = await scored(
        bright, species_schemas(SPECIES), Grey(), [judge], tmp_path / "answers.sqlite"
    )
    assert [row.hard for row in rows] == [base] * 2
    for row in rows:
        assert row.base is not None
        # The judge is not quite sure, and its probabilities weigh.
        assert base / 2 <= row.base <= base
        assert (row.style, row.combined) == (0.5, row.base / 2)
    assert [row.score for row in ranked(rows)] == [row.combined for row in rows]
    assert [row.score for row in ranked(rows, style=False)] == [row.base for row in rows]


def test_agreement_leaves_out_what_has_no_score() -> None:
    rows = [Scored(str(at), "a", at / 10, 1.0) for at in range(8)]
    rows.append(Scored("lost", "a", None, 1.0))
    found = agreement(rows, {row.name: float(at) ** 2 for at, row in enumerate(rows)})
    assert found.spearman.value == pytest.approx(1.0)
    assert found.spearman.n == 8
    assert rows[-1].combined is None


def test_figures_name_sets_and_differences() -> None:
    sets = {"high": [0.9, 0.8], "random": [0.8, 0.7], "low": [0.5, 0.5], "none": [0.7, 0.6]}
    found = compared("f1", Comparison("F1", sets))  # type: ignore[arg-type]
    assert found["f1.high"]["mean"] == pytest.approx(0.85)
    assert found["f1.high_less_none"]["mean"] == pytest.approx(0.2)
    assert found["f1.low_less_none"]["high"] > found["f1.low_less_none"]["low"]
    assert spread(over_seeds([0.25])) == 0.25


def test_a_candidate_without_faults_is_whole() -> None:
    image = exact(SPECIES[:1], 1, "a")[0].image
    one = Candidate("a", "species 01", image, len(PARTS), len(PARTS), PHOTO, 0)
    assert (one.share, one.s_att) == (1.0, 1.0)
