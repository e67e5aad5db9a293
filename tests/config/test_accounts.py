"""Accounts: where they come from, where their key is, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from pydantic import ValidationError

from scenewright.config.accounts import NO_KEY, AccountSpec
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.retry import CallError, PermanentError
from scenewright.runs.model_factory.profiles import build_judge, get_caller

DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
LAB = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "key_variable": ""}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def settings(**accounts: dict[str, object]) -> Settings:
    return load_settings(accounts=accounts)


def test_the_three_providers_stand_ready() -> None:
    found = load_settings()
    assert [found.account(name).provider for name in ("openai", "gemini", "anthropic")] == [
        "openai",
        "gemini",
        "anthropic",
    ]


def test_a_key_is_found_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    account = load_settings().account("gemini")
    assert account.key() is None
    monkeypatch.setenv("GOOGLE_API_KEY", "second")
    assert account.key() == "second"
    monkeypatch.setenv("GEMINI_API_KEY", "first")
    assert account.key() == "first"


def test_the_providers_own_variable_names_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8765/v1")
    assert Settings().account("openai").base_url == "http://127.0.0.1:8765/v1"
    assert Settings().account("anthropic").base_url is None
    own = {"openai": AccountSpec(provider="openai", base_url="http://127.0.0.1:1/v1")}
    assert Settings(accounts=own).account("openai").base_url == "http://127.0.0.1:1/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "127.0.0.1:8765")
    with pytest.raises(SettingsError, match=r"OPENAI_BASE_URL is '127\.0\.0\.1:8765'.*http://"):
        Settings().account("openai")


def test_a_server_may_want_no_key() -> None:
    assert AccountSpec(**LAB).key() == NO_KEY
    with pytest.raises(ValidationError, match="needs the base_url"):
        AccountSpec(provider="openai", key_variable="")


def test_a_judge_without_a_key_names_the_variable() -> None:
    with pytest.raises(JudgeError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        build_judge("gemini:gemini-2.5-flash")


def test_an_unknown_account_lists_what_there_is() -> None:
    with pytest.raises(SettingsError, match=r"local, replay, olip, openai, gemini, anthropic, lab"):
        build_judge("oracle:delphi", settings=settings(lab=LAB))


@pytest.mark.parametrize("name", ["local", "replay", "My Lab", ""])
def test_an_account_cannot_have_every_name(name: str) -> None:
    with pytest.raises(SettingsError, match="cannot name an account"):
        settings(**{name: LAB})


def test_a_judge_of_an_account_of_ones_own() -> None:
    mine = settings(lab=LAB)
    judge = build_judge("lab:judge-a", settings=mine)
    assert judge.id == "lab:judge-a"
    assert not judge.caps.local
    assert build_judge("lab:judge-a", settings=mine) is judge


def test_judges_of_an_account_share_its_limits() -> None:
    mine = settings(lab=LAB | {"requests_per_minute": 77})
    assert get_caller("lab", mine) is get_caller("lab", mine)
    other = settings(lab=LAB | {"requests_per_minute": 78})
    assert get_caller("lab", mine) is not get_caller("lab", other)


def test_other_settings_make_another_caller() -> None:
    slow = load_settings(accounts={"lab": LAB}, judge_timeout=77.0)
    fast = load_settings(accounts={"lab": LAB}, judge_timeout=7.0)
    assert get_caller("lab", slow) is not get_caller("lab", fast)
    assert build_judge("lab:judge-a", settings=slow) is not build_judge(
        "lab:judge-a", settings=fast
    )


def test_what_a_model_can_do_may_be_told() -> None:
    told = settings(lab=LAB | {"models": {"judge-a": {"facts_per_call": 3}}})
    assert build_judge("lab:judge-a", settings=told).caps.facts_per_call == 3
    wrong = settings(lab=LAB | {"models": {"judge-a": {"wings": 2}}})
    with pytest.raises(JudgeError, match="wings"):
        build_judge("lab:judge-a", settings=wrong)


def test_a_profile_may_use_them_from_the_settings_file() -> None:
    Path("scenewright.toml").write_text(
        '[accounts.lab]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        'key_variable = ""\n[profiles.mine]\nextends = "miniature"\njudges = ["lab:judge-a"]\n'
    )
    assert find_profile("mine").judges == ("lab:judge-a",)


def test_the_provider_of_served_models_says_what_replaces_it() -> None:
    Path("scenewright.toml").write_text(
        '[accounts.cluster]\nprovider = "serve"\nbase_url = "http://127.0.0.1:8001"\n'
    )
    with pytest.raises(SettingsError, match=r"cluster\.provider: .*removed.*vLLM.*openai"):
        load_settings()


def test_a_profile_with_an_unknown_account_names_the_profile() -> None:
    with pytest.raises(SettingsError, match=r"profile 'mine': no kind of judge and no account 'x'"):
        find_profile(
            "mine", load_settings(profiles={"mine": {"extends": "miniature", "judges": ["x:y"]}})
        )


@pytest.mark.parametrize(
    ("spec", "priced"), [({"provider": "openai"}, "openai"), (LAB, "mine")], ids=["own", "server"]
)
async def test_a_model_of_another_server_has_no_price_of_the_provider(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, object], priced: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x" * 20)
    mine = settings(mine=spec)
    judge = build_judge("mine:gpt-4o", settings=mine)
    asked: list[str] = []

    async def call(*_: object, provider: str, **__: object) -> None:
        asked.append(provider)
        raise CallError(PermanentError("not here"), 1)

    monkeypatch.setattr(get_caller("mine", mine), "call", call)
    await judge.answer(Image.new("RGB", (8, 8)), [DOG])
    assert asked == [priced]
