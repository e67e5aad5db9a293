"""Wrong options on the relations of public scene graphs."""

from __future__ import annotations

import warnings

import pytest

from benchmarks._harness import BenchmarkError
from benchmarks.questions import (
    DATA,
    asked_of,
    choices,
    may_hold,
    mirrored,
    repeated,
    sampled,
    typed,
)
from scenewright.core.formats import load_scene, load_scenes
from scenewright.core.formats.base import FormatWarning
from scenewright.core.predicate_statistics import load_predicates
from scenewright.evals.datasets.dsg import load as load_dsg
from scenewright.evals.reporting.blind import SceneQuestions

LEAST_MIRRORED = 0.9


@pytest.fixture(scope="module")
def asked() -> list[SceneQuestions]:
    """The relation questions of DSG-1k and SG2Im by the house protocol."""
    if not (DATA / "dsg").is_dir():
        pytest.skip("the DSG release is not beside the repository")
    scenes = [item.scene for item in load_dsg(DATA / "dsg") if item.scene is not None]
    for path in sorted((DATA / "sg2im").glob("*.json")):
        with warnings.catch_warnings():
            # Relations of things to themselves are left out, which a warning tells.
            warnings.simplefilter("ignore", FormatWarning)
            scenes += load_scenes(path)
    return asked_of([scene for scene in scenes if scene.relations], load_predicates("general"))


def test_an_option_that_may_be_true_as_well_is_counted() -> None:
    scene = load_scene("man | wear | hat")
    (one,) = asked_of([scene], load_predicates("general"))
    (fact,) = one.facts
    changed = fact.model_copy(update={"options": (fact.expected, "dressed in", "holding", "none")})
    assert may_hold(changed, scene) == ["dressed in", "none"]


def test_no_open_question_has_an_option_that_may_be_true_as_well(
    asked: list[SceneQuestions],
) -> None:
    open_ = choices(asked, guessable=False)
    assert sum(len(one.facts) for one in open_) > 100
    assert not [fact for one in open_ for fact in one.facts if may_hold(fact, one.scene)]


def test_no_two_facts_share_a_question(asked: list[SceneQuestions]) -> None:
    assert repeated(asked) == 0


def test_directions_stand_against_their_mirror(asked: list[SceneQuestions]) -> None:
    found = mirrored(choices(asked))
    assert len(found) > 100
    assert sum(found) >= LEAST_MIRRORED * len(found)


def test_answers_to_other_questions_are_refused(asked: list[SceneQuestions]) -> None:
    with pytest.raises(BenchmarkError, match="answers other questions"):
        typed(sampled([asked]))
