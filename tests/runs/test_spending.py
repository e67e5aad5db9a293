"""Spending limits: what cannot be kept is refused before anything is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.config.options import Budget
from scenewright.config.profiles import Profile, SettingsError
from scenewright.config.settings import Settings
from scenewright.runs.api import refine
from scenewright.runs.plan import plan_run
from scenewright.runs.spending import check_limit, unpriced_models


def account(url: str | None, **fields: object) -> AccountSpec:
    return AccountSpec.model_validate({"provider": "openai", "base_url": url, **fields})


@pytest.mark.parametrize(
    ("spec", "own"),
    [
        (account(None), False),
        (account("https://openrouter.ai/api/v1"), False),
        (account("https://models.example.com/v1", key_variable=""), True),
        (account("http://127.0.0.1:8000/v1"), True),
        (account("http://[::1]:8000/v1"), True),
        (account("http://192.168.1.7/v1"), True),
        (account("http://vllm:8000/v1"), True),
        (account("http://vllm.models.svc.cluster.local/v1"), True),
        (account("https://8.8.8.8/v1"), False),
        (AccountSpec(provider="ollama"), True),
        (AccountSpec(provider="typesafe"), False),
    ],
)
def test_calls_of_a_server_of_ones_own_cost_nothing(spec: AccountSpec, own: bool) -> None:
    assert spec.self_hosted is own


ROUTER = {"router": account("https://openrouter.ai/api/v1", key_variable="ROUTER_KEY")}
MIXED = {
    "name": "mixed",
    "backend": "openai:gpt-image-9",
    "judges": ["router:qwen/qwen-vl", "openai:gpt-6-luna"],
    "report_judges": ["decision:typesafe/jev-latest", "anthropic:claude-fable-5-2"],
}


def test_models_without_a_known_price_are_named_in_any_role(tmp_path: Path) -> None:
    settings = Settings(accounts=ROUTER)
    profile = Profile.model_validate(MIXED)
    assert unpriced_models(profile, settings) == [
        "router:qwen/qwen-vl", "anthropic:claude-fable-5-2", "openai:gpt-image-9"
    ]  # fmt: skip
    assert unpriced_models(profile, settings, {"backend", "judges"}) == [
        "anthropic:claude-fable-5-2"
    ]
    prices = tmp_path / "prices.toml"
    prices.write_text('["router:*"]\ninput = 1.0\noutput = 2.0\nas_of = 2026-11-01\n')
    own = settings.model_copy(update={"prices": prices})
    assert "router:qwen/qwen-vl" not in unpriced_models(profile, own)


async def test_a_run_with_a_limit_that_cannot_be_kept_is_not_begun(tmp_path: Path) -> None:
    settings = Settings(accounts=ROUTER)
    profile = Profile.model_validate(MIXED)
    with pytest.raises(SettingsError, match=r"qwen-vl.*limit of \$2 cannot be kept.*prices"):
        await refine(
            "red ball", profile, out=tmp_path / "run", budget=Budget(usd=2), settings=settings
        )
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_without_a_limit_or_by_a_word_in_the_settings_it_is_no_matter(tmp_path: Path) -> None:
    profile = Profile.model_validate(MIXED)
    settings = Settings(accounts=ROUTER)
    free = plan_run("red ball", profile, out=tmp_path, settings=settings)
    check_limit(free)
    with pytest.raises(SettingsError, match="allow_unpriced"):
        check_limit(free.with_limit(3.0))
    told = Settings(accounts=ROUTER, allow_unpriced=True)
    check_limit(plan_run("red ball", profile, out=tmp_path, settings=told).with_limit(3.0))
