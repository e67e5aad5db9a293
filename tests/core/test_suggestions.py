"""Suggestions for mistyped keys and values."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from scenewright.config.profiles import Profile
from scenewright.config.settings import Settings
from scenewright.core.suggestions import did_you_mean, suggestion
from scenewright.evals.runner.config import EvalConfig

MINE = {"name": "mine", "backend": "diffusers:miniature", "judges": ["local:miniature/judge-a"]}


@pytest.mark.parametrize(
    ("model", "data", "meant"),
    [
        (Settings, {"porfile": "sdxl"}, "profile"),
        (Settings, {"accounts": {"mine": {"provider": "openai", "base_ulr": "x"}}}, "base_url"),
        (Profile, {**MINE, "jugdes": []}, "judges"),
        (Profile, {**MINE, "aggregation": "dawid-skene"}, "dawid_skene"),
        (Profile, {**MINE, "backend": {"model": "m", "quantisation": None}}, "quantization"),
        (EvalConfig, {"nam": "x"}, "name"),
        (Profile, {**MINE, "zzz": 1}, None),
        (Profile, {**MINE, "alpha": 7}, None),
    ],
)
def test_the_nearest_key_or_choice_is_suggested(
    model: type[BaseModel], data: dict[str, Any], meant: str | None
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(data)
    error = refused.value
    # Other errors of the same data, such as what is missing, are told one at a time.
    if error.errors()[0]["type"] == "missing":
        unknown = [one for one in error.errors() if one["type"] == "extra_forbidden"]
        error = ValidationError.from_exception_data(
            error.title, [{"type": "extra_forbidden", "loc": unknown[0]["loc"], "input": None}]
        )
    assert suggestion(error, model) == (f"; did you mean {meant!r}?" if meant else "")


def test_what_is_near_to_nothing_or_known_gets_no_suggestion() -> None:
    assert did_you_mean("sdxl", ["flux", "gemini"]) == ""
    assert did_you_mean("flux", ["flux", "flux2"]) == ""
