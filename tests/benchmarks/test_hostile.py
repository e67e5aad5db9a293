"""Scenes of the benchmark of hostile clients: each is one that the service takes."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.hostile import Probes, scenes
from scenewright.config.settings import Settings, find_profile
from scenewright.core.scene import SceneGraph
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.requests import check_prompt

KINDS = 6


def test_every_scene_is_taken_and_no_two_are_alike() -> None:
    found = list(itertools.islice(scenes(0), 2 * KINDS))
    assert [name for name, _ in found[:KINDS]] == [name for name, _ in found[KINDS:]]
    read = [SceneGraph.model_validate(scene) for _, scene in found]
    assert len(set(read)) == len(read)
    assert max(len(scene.objects) for scene in read) == 512
    assert max(len(scene.relations) for scene in read) == 4096
    again = [scene for _, scene in itertools.islice(scenes(0), 2 * KINDS)]
    assert again == [scene for _, scene in found]
    assert next(scenes(1)) != next(scenes(0))


def test_figures_are_in_milliseconds() -> None:
    seen = Probes({"healthz": [0.001] * 99 + [1.0]}, runs=3)
    told = seen.figures()
    assert told["p50_ms.healthz"] == 1.0
    assert told["p99_ms.healthz"] == float(np.percentile([1.0] * 99 + [1000.0], 99))
    assert (told["max_ms.healthz"], told["n.healthz"], told["runs"]) == (1000.0, 100, 3)


def test_some_of_the_largest_scenes_can_be_drawn() -> None:
    """The others are refused as runs, so that no page of theirs would be asked for."""
    settings = Settings()
    profile = find_profile("miniature", settings)
    drawn = set()
    for name, scene in itertools.islice(scenes(0), 2 * KINDS):
        try:
            check_prompt(SceneGraph.model_validate(scene), 0, profile, settings, {})
        except Unprocessable:
            continue
        drawn.add(name)
    assert drawn == {"many lines", "full prompt"}
