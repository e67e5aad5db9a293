"""When models end: the table, what accounts it speaks of, and the providers' own lists."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scenewright.agents.judges.models import caps_of, listed_ends
from scenewright.cli.main import app
from scenewright.config.accounts import BUILT_IN_ACCOUNTS, AccountSpec
from scenewright.config.profiles import BUILT_IN, Profile, split_judge
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.model_facts import WARNING_DAYS, end_of, endings
from scenewright.providers.usage import PriceTable
from scenewright.tools.backends.image_models import image_caps_of

WRITTEN = date(2026, 11, 23)
API_PROFILES = [profile for profile in BUILT_IN.values() if profile.accounts]
LEAST_DAYS = 14
"""Days for which a built-in profile's models must be there yet."""
SPRING = date(2027, 4, 2)
SOON = date.today() + timedelta(days=9)


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings(ends={"judge-a": SPRING, "gpt-of-old": SOON})) as made:
        yield made


def test_the_longest_name_decides_and_unknown_models_have_no_end() -> None:
    assert end_of("openai", "gpt-4o-2024-08-06") == end_of("openai", "gpt-4o")
    lite = end_of("gemini", "gemini-2.5-flash-lite")
    assert lite is None, "its end is not announced, though it begins like one that ends"
    assert end_of("openai", "gpt-6-luna") is None


def test_a_model_is_warned_of_so_many_days_before_its_end_and_after_it() -> None:
    spec, accounts = "openai:gpt-4o", BUILT_IN_ACCOUNTS
    ends = date(2027, 1, 14)
    before = endings([spec], accounts, today=ends - timedelta(days=WARNING_DAYS + 1))
    assert before == []
    [last] = endings([spec, spec], accounts, today=ends - timedelta(days=1))
    assert last.text == (
        "openai:gpt-4o ends on 2027-01-14, in 1 day: name another, such as openai:gpt-6-luna"
    )
    [over] = endings([spec], accounts, today=ends)
    assert over.text.startswith("openai:gpt-4o ended on 2027-01-14")


def test_what_is_answered_by_another_model_afterwards_is_told() -> None:
    [found] = endings(["gemini:gemini-2.5-flash"], BUILT_IN_ACCOUNTS, today=WRITTEN)
    assert "then answered, and billed, as gemini-3.5-flash-lite" in found.text


def test_a_server_of_ones_own_serves_what_it_likes_under_a_name() -> None:
    own = AccountSpec(provider="openai", base_url="http://127.0.0.1:9/v1", key_variable="")
    assert endings(["vllm:gpt-4o"], {"vllm": own}, today=WRITTEN) == []


@pytest.mark.parametrize("profile", API_PROFILES, ids=lambda profile: profile.name)
def test_a_built_in_profile_names_priced_models_that_are_there_for_two_weeks_from_today(
    profile: Profile,
) -> None:
    """Fails by itself when an end comes near: name the successor in built_in_profiles.toml."""
    prices = PriceTable.load()
    specs = [*profile.judges, *profile.report_judges, *filter(None, (profile.chat,))]
    specs.append(f"{profile.backend.kind}:{profile.backend.model}")
    ending = endings(specs, BUILT_IN_ACCOUNTS)
    assert [one.text for one in ending if one.days <= LEAST_DAYS] == []
    for spec in specs:
        assert prices.price(*split_judge(spec)) is not None, spec


@pytest.mark.parametrize("profile", API_PROFILES, ids=lambda profile: profile.name)
def test_a_built_in_profile_asks_for_nothing_that_the_facts_refuse(profile: Profile) -> None:
    asked = [(False, judge) for judge in (*profile.judges, *profile.report_judges)]
    asked += [(True, profile.chat)] if profile.chat else []
    for chats, spec in asked:
        provider, model = split_judge(spec)
        # Raises for an effort that the row refuses, and for log-probabilities while it thinks.
        caps = caps_of(provider, model, chats=chats)
        if caps.efforts and "none" not in caps.efforts:
            assert (caps.api, caps.sampling, caps.logprobs) == ("responses", {}, False), spec
    drawn = image_caps_of(profile.backend.kind, profile.backend.model)
    assert profile.backend.quality in (None, *(drawn.qualities or ()))
    assert profile.backend.complexity in (None, *(drawn.complexities or ()))
    assert not {*profile.judges} & {*profile.report_judges}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_providers_own_list_goes_before_the_table(
    lab: ThreadedMockProviders, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "key-of-an-account")
    url = lab.openai_url if provider == "openai" else lab.url
    account = AccountSpec.model_validate(
        {"provider": provider, "base_url": url, "key_variable": "SOME_KEY"}
    )
    told, problem = listed_ends("mine", account, ["judge-a", "judge-b"])
    assert problem == ""
    assert {spec: end.ends for spec, end in told.items()} == {"mine:judge-a": SPRING}
    [found] = endings(["mine:judge-a"], {"mine": account}, today=date(2027, 3, 1), told=told)
    assert found.days == 32


def test_a_list_that_cannot_be_had_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "secret-key-of-an-account")
    gone = AccountSpec(provider="openai", base_url="http://127.0.0.1:9/v1", key_variable="SOME_KEY")
    told, problem = listed_ends("mine", gone, ["gpt-4o"])
    assert told == {}
    assert "mine was asked for its list of models and failed" in problem
    assert "secret-key" not in problem
    monkeypatch.delenv("SOME_KEY")
    assert "no API key for mine" in listed_ends("mine", gone, ["gpt-4o"])[1]


def test_doctor_tells_the_ends_of_a_profiles_models(
    lab: ThreadedMockProviders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_KEY", "key-of-an-account")
    (tmp_path / "scenewright.toml").write_text(
        f'[accounts.mine]\nprovider = "openai"\nbase_url = "{lab.openai_url}"\n'
        'key_variable = "SOME_KEY"\n'
        '[profiles.old]\nextends = "miniature"\n'
        'judges = ["mine:gpt-of-old", "gemini:gemini-2.5-pro"]\n'
        'report_judges = ["anthropic:claude-opus-5-5"]\n'
    )
    offline = CliRunner().invoke(app, ["doctor", "--profile", "old"])
    assert "gemini:gemini-2.5-pro end" in offline.output
    assert "gpt-of-old ends" not in offline.output
    online = CliRunner().invoke(app, ["doctor", "--profile", "old", "--online"])
    assert f"mine:gpt-of-old ends on {SOON}" in online.output
