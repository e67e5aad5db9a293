"""The weights that ship with the package: they load by the ordinary classes and do their work."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenewright.config.settings import find_profile
from scenewright.core.facts import Fact
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import KINDS
from scenewright.runs.api import refine
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.runs.model_factory.profiles import build_judge, build_run_models

PROFILE = find_profile("miniature")
LIMIT_BYTES = 80 * 2**20


def test_they_are_safetensors_and_small() -> None:
    files = [path for path in MINIATURE_WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LIMIT_BYTES
    assert not [p for p in files if p.suffix not in {".safetensors", ".json", ".jinja", ".txt"}]


def test_the_profile_names_the_worlds_own_colours() -> None:
    assert PROFILE.composer_defaults == {k: {"color": v.color} for k, v in KINDS.items()}


def test_loop_and_report_judges_are_different_models() -> None:
    weights = {
        spec: (
            MINIATURE_WEIGHTS / "judges" / spec.rpartition("/")[2] / "model.safetensors"
        ).read_bytes()
        for spec in (*PROFILE.judges, *PROFILE.report_judges)
    }
    assert len(weights) >= 3
    assert len(set(weights.values())) == len(weights)


@pytest.mark.parametrize("spec", [*PROFILE.judges, *PROFILE.report_judges])
async def test_judges_tell_what_is_there_from_what_is_not(spec: str) -> None:
    judge = build_judge(spec)
    rng = random.Random("held-out judges")
    right: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(25):
        painting = sample_painting(rng)
        absent = rng.choice(sorted(set(KINDS) - {o.name for o in painting.scene.objects}))
        asked = SceneGraph(
            objects=(*painting.scene.objects, SceneObject(id="absent", name=absent)),
        )
        facts: Sequence[Fact] = [f for f in facts_of(asked) if f.kind == "object"]
        for fact, answer in zip(facts, await judge.answer(painting.image, facts), strict=True):
            truth = painting.truth.holds(fact, asked)
            right[truth].append((answer.state == "yes") == truth)
    for truth, found in right.items():
        assert sum(found) / len(found) > 0.8, truth


@pytest.mark.slow
async def test_the_generator_draws_what_is_asked_more_often_than_chance(tmp_path: Path) -> None:
    run_models = await build_run_models(PROFILE)
    kinds = list(KINDS)[:6]
    found = 0
    for seed, kind in enumerate(kinds):
        scene = SceneGraph(objects=(SceneObject(id=kind, name=kind),))
        result = await refine(
            scene,
            out=tmp_path / kind,
            rounds=1,
            seed=seed,
            backend=run_models.backend,
            judges=run_models.loop_judges,
            report_judges=run_models.report_judges,
        )
        assert result.report_card is not None
        found += result.report_card.satisfied
    assert found >= len(kinds) / 2


async def test_a_whole_run_on_the_shipped_models(tmp_path: Path) -> None:
    scene = "red ball on purple table; black dog left of table"
    result = await refine(scene, out=tmp_path / "run", rounds=2, seed=3)
    assert result.report_card is not None
    assert (tmp_path / "run" / "result.json").is_file()
    states = {verdict.state for verdict in result.report_card.verdicts}
    assert "unscored" not in states
    again = await refine(scene, out=tmp_path / "other", rounds=2, seed=3)
    assert [r.image for r in again.rounds] == [r.image for r in result.rounds]


async def test_the_editor_repairs_by_an_order_and_two_pictures(tmp_path: Path) -> None:
    profile = find_profile("miniature-edit").model_copy(update={"steps": 2})
    # A ball cannot be above and below the table: whatever is drawn, something is missing.
    scene = "red ball above table; red ball below table; yellow hat left of table"
    result = await refine(scene, profile, out=tmp_path / "run", rounds=2, seed=1)
    first, second = result.rounds
    assert second.strategy == "compose-edit"
    assert "Keep everything else" in second.prompt
    assert ("image 2" in second.prompt) == (second.reference_image is not None)
    assert second.image != first.image
