"""What image models can do, as data: sizes that are served, rows that override others."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.config.profiles import BackendSpec
from scenewright.core.ports.backend import BackendError
from scenewright.providers.usage import PriceTable, Usage
from scenewright.tools.backends.image_models import image_caps_of

SIDES = st.integers(8, 4096)


@pytest.mark.parametrize(
    ("model", "asked", "served"),
    [
        ("openai:gpt-image-1.5", (512, 512), (1024, 1024)),
        ("openai:gpt-image-1.5", (1600, 900), (1536, 1024)),
        ("openai:gpt-image-2.5-flare", (128, 128), (816, 816)),
        ("openai:gpt-image-2", (1536, 864), (1536, 864)),
        ("openai:some-model", (640, 360), (640, 360)),
        ("gemini:gemini-2.5-flash-image", (1920, 1080), (1344, 768)),
        ("gemini:gemini-3-pro-image-preview", (1920, 1080), (2688, 1536)),
        ("gemini:gemini-3-pro-image-preview", (4096, 4096), (4096, 4096)),
        ("gemini:gemini-nano-banana-2.1", (2000, 500), (2048, 512)),
    ],
)
def test_the_nearest_size_is_asked_for(
    model: str, asked: tuple[int, int], served: tuple[int, int]
) -> None:
    found = image_caps_of(*model.split(":")).served(asked)
    assert (found.width, found.height) == served


def test_gemini_is_asked_by_names() -> None:
    found = image_caps_of("gemini", "gemini-3-pro-image").served((1600, 900))
    assert (found.ratio, found.resolution) == ("16:9", "2K")
    found = image_caps_of("gemini", "gemini-2.5-flash-image").served((100, 100))
    assert (found.ratio, found.resolution) == ("1:1", "")


@given(SIDES, SIDES)
def test_every_size_gets_one_that_the_model_serves(width: int, height: int) -> None:
    caps = image_caps_of("openai", "gpt-image-2")
    found = caps.served((width, height))
    assert found.width % 16 == found.height % 16 == 0
    assert caps.least_pixels <= found.width * found.height <= caps.most_pixels
    assert max(found.width, found.height) <= caps.most_side
    shape = math.log(found.width / found.height)
    assert abs(shape) <= math.log(3.0) + 0.05
    wanted = max(-math.log(3.0), min(math.log(3.0), math.log(width / height)))
    assert abs(shape - wanted) < 0.05


def test_what_is_not_named_gets_careful_values_that_overrides_change() -> None:
    careful = image_caps_of("openai", "some-model").features(None)
    assert (careful.references, careful.edit, careful.instructions) == (0, False, False)
    told = image_caps_of("openai", "some-model", {"pictures": 4, "masks": True}).features((64, 64))
    assert (told.references, told.reference_maths, told.edit) == (3, "pictures", True)
    assert told.default_size == (64, 64)
    assert {told.seeds, told.strengths, told.negative_prompt} == {False}


def test_snapshots_and_families_are_rows() -> None:
    assert image_caps_of("gemini", "gemini-nano-banana-2.1").pictures == 14
    assert image_caps_of("openai", "gpt-image-2.5-flare").markup
    assert not image_caps_of("openai", "gpt-image-2").markup
    for model in ("gpt-image-1.5", "gpt-image-2.5-sunburst-2026-09-08", "chatgpt-image-latest"):
        assert image_caps_of("openai", model).pictures == 16
    flare = image_caps_of("openai", "gpt-image-2.5-flare")
    assert flare.qualities is not None
    assert "max" in flare.qualities
    assert image_caps_of("openai", "gpt-image-1.5").edit_parameters == {"input_fidelity": "high"}


def test_values_that_contradict_each_other_are_told() -> None:
    with pytest.raises(BackendError, match="least_pixels"):
        image_caps_of("openai", "x", {"least_pixels": 100, "most_pixels": 64})


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("openai:gpt-image-2", 8000),
        ("openai:some-model", None),
        ("gemini:gemini-2.5-flash-image", 32768),
    ],
)
def test_the_longest_prompt_is_told_in_tokens(model: str, tokens: int | None) -> None:
    assert image_caps_of(*model.split(":")).features(None).prompt_tokens == tokens


@pytest.mark.parametrize(
    ("model", "qualities", "complexities", "partial_images"),
    [
        ("openai:gpt-image-2.6-flare", 6, ("low", "medium", "high"), 3),
        ("openai:gpt-image-2.6-sunburst", 6, ("low", "medium", "high"), 3),
        ("openai:gpt-image-1.5", 4, (), 3),
        ("gemini:gemini-3.1-flash-lite-image", 0, (), 0),
        ("gemini:gemini-3-pro-image", 0, (), 0),
    ],
)
def test_words_and_partial_images_of_todays_models(
    model: str, qualities: int, complexities: tuple[str, ...], partial_images: int
) -> None:
    found = image_caps_of(*model.split(":"))
    assert found.qualities is not None
    assert len(found.qualities) == qualities
    assert (found.complexities, found.partial_images) == (complexities, partial_images)


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("openai:gpt-image-2.6-flare", 5 + 8 + 30),
        ("openai:gpt-image-2.6-sunburst", 5 + 8 + 30),
        ("gemini:gemini-3.1-flash-lite-image", 0.25 + 0.25 + 30),
        ("gemini:gemini-nano-banana-2.1", 1.5 + 1.5 + 30),
        ("gemini:gemini-3-pro-image", 2 + 2 + 120),
    ],
)
def test_prices_of_todays_models(model: str, usd: float) -> None:
    million = 10**6
    usage = Usage(2 * million, million, 0, 1, million, million)
    assert PriceTable.load().usd(*model.split(":"), usage) == pytest.approx(usd)


def test_a_backend_tells_what_is_not_for_it() -> None:
    with pytest.raises(ValueError, match="complexity: only for image APIs"):
        BackendSpec(model="miniature", complexity="low")
    # What says nothing is no part of a manifest that was written before.
    assert not {"complexity", "partial_images"} & BackendSpec(model="miniature").model_dump().keys()


def test_a_profile_may_say_what_a_model_takes_over_what_its_account_says() -> None:
    spec = BackendSpec(
        kind="mine",
        model="new",
        max_references=13,
        limits={"instructions": True, "sizes": [[64, 64]]},
    )
    limits = spec.limits_over({"pictures": 2, "masks": True})
    features = image_caps_of("openai", "new", limits).features(None)
    assert (features.references, features.instructions) == (13, True)
    assert image_caps_of("openai", "new", limits).served((512, 512)).width == 64
    assert BackendSpec(model="miniature").limits_over({"pictures": 2}) == {"pictures": 2}
    with pytest.raises(ValueError, match="limits: only for image APIs"):
        BackendSpec(model="miniature", limits={"pictures": 3})
