"""All that decides a picture is in the key under which an evaluation keeps its drawing."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from scenewright.agents.composers.rules import TripletComposer
from scenewright.config.profiles import REALISM_FIELDS, BackendSpec, Profile
from scenewright.config.settings import Settings
from scenewright.core.formats import loads_scene
from scenewright.core.images import ImageStore
from scenewright.core.layout import Region
from scenewright.core.ports.backend import Box, Emphasis, GenerationRequest, Reference, Start
from scenewright.evals.datasets.base import Item
from scenewright.evals.runner.config import Arm, Condition
from scenewright.evals.runner.drawing import GenerationContext, ImageGenerator, draw_key
from tests.doubles import ScriptedBackend, ScriptedJudge

PROFILE = Profile(name="own", backend=BackendSpec(kind="diffusers", model="m"), judges=("local:j",))
ITEM = Item(id="one", scene=loads_scene("red dog"), prompt="a red dog")
UNSEEN = {"name", "about", "report_judges", *REALISM_FIELDS}
"""Fields of a profile that decide no picture of an evaluation."""

OTHERS = {"predicates": "miniature", "backend": BackendSpec(kind="diffusers", model="n")}
"""Values that are read, and not only written into the key."""


def arm(rounds: int = 1, seed: int = 0, **condition: Any) -> Arm:
    return Arm("own", "plain", seed, Condition(rounds=rounds, **condition), PROFILE)


@pytest.fixture
def context(tmp_path: Path) -> GenerationContext:
    return GenerationContext(tmp_path, ImageStore(tmp_path / "images"), Settings(), tmp_path)


def generator(version: str = "1") -> ImageGenerator:
    judges = (ScriptedJudge(version=version),)
    return ImageGenerator(ScriptedBackend(lambda request: 200), TripletComposer(), judges)


def key(context: GenerationContext, own: Arm, item: Item = ITEM, version: str = "1") -> str:
    with warnings.catch_warnings():
        # Values of another type stand for any other value.
        warnings.simplefilter("ignore")
        return draw_key(item, own, generator(version), context)


@pytest.mark.parametrize("rounds", [1, 2])
def test_item_seed_size_and_models_are_in_the_key(context: GenerationContext, rounds: int) -> None:
    own = arm(rounds)
    others = [
        key(context, own, ITEM.model_copy(update={"id": "two"})),
        key(context, own, ITEM.model_copy(update={"scene": loads_scene("blue dog")})),
        key(context, arm(rounds, seed=1)),
        key(context, own, version="2"),
        key(replace(context, size=(64, 64)), own),
        key(replace(context, size=(64, 32)), own),
    ]
    assert len({key(context, own), *others}) == 1 + len(others)


def test_its_own_text_is_in_the_key_where_it_is_drawn(context: GenerationContext) -> None:
    own = arm(text="prompt")
    assert key(context, own) != key(context, own, ITEM.model_copy(update={"prompt": "a dog"}))
    assert key(context, own) != key(context, arm())


@pytest.mark.parametrize("change", [{"rounds": 3}, {"patience": 5}, {"images": 9}])
def test_limits_of_a_loop_are_in_the_key(
    context: GenerationContext, change: dict[str, int]
) -> None:
    own = arm(2)
    changed = replace(own, spec=own.spec.model_copy(update=change))
    assert key(context, own) != key(context, changed)


@pytest.mark.parametrize("name", sorted(set(Profile.model_fields) - UNSEEN))
def test_every_field_of_a_profile_is_in_the_key_of_a_loop(
    context: GenerationContext, name: str
) -> None:
    own = arm(2)
    value = OTHERS.get(name, "another")
    changed = replace(own, profile=PROFILE.model_copy(update={name: value}))
    assert key(context, own) != key(context, changed)


@pytest.mark.parametrize("name", ["steps", "guidance", "negative_prompt"])
def test_settings_of_images_are_in_the_key_without_a_loop(
    context: GenerationContext, name: str
) -> None:
    own = arm()
    changed = replace(own, profile=PROFILE.model_copy(update={name: "7"}))
    assert key(context, own) != key(context, changed)


def test_arm_seed_and_file_are_in_the_key_of_a_picture_that_is_given(
    context: GenerationContext, tmp_path: Path
) -> None:
    for seed in (0, 1):
        (tmp_path / "given" / str(seed)).mkdir(parents=True)
        (tmp_path / "given" / str(seed) / "one.png").write_bytes(b"picture")

    def given(backend: str = "own", seed: int = 0) -> str:
        condition = Condition(source="given", folder="given")
        return draw_key(ITEM, Arm(backend, "plain", seed, condition, PROFILE), None, context)

    first = given()
    assert given() == first
    (tmp_path / "given" / "0" / "one.png").write_bytes(b"another picture")
    assert len({first, given(), given("other"), given(seed=1)}) == 4


CHANGED: dict[str, Any] = {
    "prompt": "a blue dog",
    "negative_prompt": "cats",
    "seed": 1,
    "width": 64,
    "height": 64,
    "steps": 3,
    "guidance": 2.0,
    "guided_share": 0.5,
    "references": (Reference(image="a" * 64, weight=0.5),),
    "start": Start(image="a" * 64, strength=0.5),
    "emphasis": (Emphasis(text="dog", weight=2.0),),
    "boxes": (Box(name="dog", phrase="red dog", region=Region(0.0, 0.0, 0.5, 0.5)),),
}
"""A value of each field of a request that is not its own."""


@pytest.mark.parametrize("name", sorted(GenerationRequest.model_fields))
def test_every_field_of_a_request_is_in_the_key_of_its_picture(name: str) -> None:
    own = GenerationRequest(prompt="a red dog", seed=0)
    assert own.key("a") != own.model_copy(update={name: CHANGED[name]}).key("a")
    assert own.key("a") != own.key("b")


def test_no_field_of_the_context_is_forgotten() -> None:
    known = {"size", "own"}
    """In the key: the second as the predicates of a loop's questions."""
    elsewhere = {"folder", "images", "settings", "root", "keep_runs", "nonce"}
    """They say where pictures are kept and which models draw; models are in their fingerprints."""
    found = {field.name for field in fields(GenerationContext) if field.name[0] != "_"}
    assert found == known | elsewhere
