"""Scorers by name, with examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.settings import Settings
from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.studies.olip.comparing import expanded, scorers_with, takes_examples
from scenewright.tools.vision.realism.calibrated import CalibratedScorer
from scenewright.tools.vision.realism.vlm import STRATEGIES, VlmScorer
from tests.tools.vision.realism.rated import BOX, example

JUDGE = "judge:local:miniature/judge-a"


def lab(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("LAB_KEY", "key")
    account = {"provider": "openai", "base_url": "http://127.0.0.1:9", "key_variable": "LAB_KEY"}
    return Settings.model_validate({"accounts": {"lab": account}})


def training(folder: Path) -> list[RatedObject]:
    example(folder, "a", 1, 2)
    return [RatedObject(id="a", image="a.png", category="dog", box=BOX, shape=1, texture=2)]


def test_one_name_stands_for_all_strategies_and_none_is_scored_twice() -> None:
    found = expanded(["strategies:lab:judge-a", JUDGE, JUDGE, "vlm:lab:judge-a:few-shot-img-s5"])
    assert found == [*(f"vlm:lab:judge-a:{name}" for name in STRATEGIES), JUDGE]


def test_who_takes_examples() -> None:
    assert takes_examples(["strategies:lab:m"])
    assert takes_examples([JUDGE, f"few-shot:{JUDGE}"])
    assert not takes_examples([JUDGE, "vlm:lab:m:zero-shot-img-s5"])


async def test_scorers_get_their_strategy_and_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = ["strategies:lab:judge-a", f"few-shot:{JUDGE}"]
    made = scorers_with(specs, tmp_path, training(tmp_path), lab(monkeypatch))
    assert [one.id for one in made[:-1]] == [f"vlm:lab:judge-a:{name}" for name in STRATEGIES]
    for one in made[:-1]:
        assert isinstance(one, VlmScorer)
        assert (one.examples is not None) == one.strategy.few_shot
    assert isinstance(made[-1], CalibratedScorer)
    assert len({one.fingerprint for one in made}) == 9


def test_a_strategy_is_a_language_models(tmp_path: Path) -> None:
    with pytest.raises(RealismError):
        scorers_with([f"{JUDGE}:few-shot-img-s5"], tmp_path, training(tmp_path))
    with pytest.raises(RealismError, match="at least one"):
        scorers_with([f"few-shot:{JUDGE}"], tmp_path, [])
