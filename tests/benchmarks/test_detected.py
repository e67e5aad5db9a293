"""Facts read off outlines, and the gains of one round of feedback."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks._detected import colour_of, is_readable, recalls, truth_of
from benchmarks.paper_feedback import CONFIG, FIRST, WITHOUT, changed, figures_of
from scenewright.core.ports.vision import Detection
from scenewright.core.questions import facts_of
from scenewright.evals.runner.config import load_config
from scenewright.evals.studies.readings import Readings
from scenewright.miniature.painter import layers_of, silhouettes
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import COLORS, KINDS


def outlines(painting: Painting) -> list[Detection]:
    """Return what a detector that is never wrong finds."""
    masks = silhouettes(layers_of(painting.truth))
    found = []
    for item in painting.scene.objects:
        box = painting.truth.boxes[item.id]
        sides = (box.left, box.top, box.left + box.width, box.top + box.height)
        found.append(Detection(item.name, sides, 1.0, masks[item.id]))
    return found


def test_colours_of_free_things_are_read_right() -> None:
    seen = set()
    for seed in range(60):
        painting = sample_painting(random.Random(seed), 6, p_contact=0.0)
        for item, found in zip(painting.scene.objects, outlines(painting), strict=True):
            assert colour_of(painting.image, found) == item.attributes["color"], found.name
            seen.add((item.name, item.attributes["color"]))
    assert len(seen) > 0.9 * len(KINDS) * len(COLORS)


def test_with_true_outlines_all_that_can_be_read_of_free_things_holds() -> None:
    for seed in range(20):
        painting = sample_painting(random.Random(seed), 5, 6, p_contact=0.0)
        facts = facts_of(painting.scene)
        found = recalls(truth_of(painting.image, outlines(painting)), painting.scene, facts)
        assert all(recall.no == 0 for recall in found.values())
        assert sum(recall.yes for recall in found.values()) == len(facts)


def test_what_is_not_there_is_not_found_and_contacts_are_left_out() -> None:
    painting = sample_painting(random.Random(5), 5, p_contact=1.0)
    facts = facts_of(painting.scene)
    assert any(not is_readable(fact) for fact in facts)
    found = recalls(truth_of(painting.image, ()), painting.scene, facts)
    assert {recall.yes for recall in found.values()} == {0}
    assert sum(recall.no for recall in found.values()) == sum(map(is_readable, facts))


def readings(gain: float) -> Readings:
    """Return readings in which every loop adds ``gain`` to a first picture of 0.5."""
    config = changed(load_config(CONFIG), 4, None)
    blank = np.full((4, 1), 0.5)
    found = Readings(items=list("abcd"), seeds=[0], columns={"level": ["hard", "very_hard"] * 2})
    for name in config.conditions:
        found.images[name] = np.array([[1.0], [3.0], [3.0], [1.0]])
        for part in ("", "objects", "relations", "attributes"):
            for panel in ("report", "same"):
                last = blank + (gain if config.condition_of(name).rounds > 1 else 0.0)
                if name == "without_reference":
                    last = blank
                found.values["sgscore", part, name, panel, "last"] = last
                found.values["sgscore", part, name, panel, "kept"] = blank
    return found


def test_the_papers_gain_is_with_the_reference_less_without_it() -> None:
    conditions = changed(load_config(CONFIG), 4, None).conditions
    figures = figures_of(readings(0.1), conditions)
    assert figures["gain.paper_feedback"]["mean"] == pytest.approx(10.0)
    assert figures["gain.paper_feedback.same_noise"]["mean"] == pytest.approx(0.0)
    assert figures["very_hard.gain.published"]["mean"] == pytest.approx(10.0)
    assert figures["gain.kept.published"]["mean"] == pytest.approx(0.0)
    assert figures["gain.same_judge.published"]["mean"] == pytest.approx(10.0)
    assert figures["repaired.published"] == 0.5
    assert figures["gain.from_triplets"]["mean"] == pytest.approx(10.0)
    assert figures[f"hard.sgscore.{FIRST}"]["mean"] == pytest.approx(50.0)


def test_the_configuration_changes_one_thing_at_a_time() -> None:
    config = load_config(CONFIG)
    published = config.condition_of("published").profile
    # Without a reference image there is no prompt of it, and weights are one thing.
    parts = {"weight_best": "weights", "weight_missing": "weights"}
    for name in config.conditions[2:]:
        own = config.condition_of(name).profile
        differs = {key for key in published | own if published.get(key) != own.get(key)}
        if own["weight_missing"] == 0.0:
            differs.discard("reference_prompt")
        changes = {parts.get(key, key) for key in differs}
        assert len(changes) == (2 if name == "same_noise_without" else 1), name
    for ours, theirs in WITHOUT.values():
        assert config.condition_of(theirs).profile["weight_missing"] == 0.0
        assert ours in config.conditions
