"""Hosts of System One as accounts: names, keys, prices, and what the commands tell of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from scenewright.agents.judges.decisions.judge import DecisionJudge, SystemOneDecisions
from scenewright.agents.judges.decisions.local import LocalDecisionJudge
from scenewright.agents.judges.models import caps_of
from scenewright.cli.doctor import check
from scenewright.cli.main import app
from scenewright.config.accounts import (
    DECISION_ACCOUNTS,
    DECISION_HOSTS,
    NO_KEY,
    OWN_HOSTS,
    AccountSpec,
)
from scenewright.config.profiles import SettingsError
from scenewright.config.settings import Settings, find_profile, load_settings
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.clients.systemone import SystemOneClient
from scenewright.providers.hub.needs import needs_of_spec
from scenewright.providers.usage import PriceTable, Usage
from scenewright.runs.known_words import words_of_judge
from scenewright.runs.model_factory.profiles import build_judge

HOSTED = sorted(set(DECISION_HOSTS) - set(OWN_HOSTS))


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variables in DECISION_HOSTS.values():
        for name in variables:
            monkeypatch.delenv(name, raising=False)
    return tmp_path


def account(**fields: Any) -> AccountSpec:
    return AccountSpec.model_validate(fields)


@pytest.mark.parametrize("name", HOSTED)
def test_a_provider_asks_for_its_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (variable,) = DECISION_HOSTS[name]
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "me")
    with pytest.raises(JudgeError, match=f"{name}:m needs a key: set {variable}"):
        build_judge(f"decision:{name}/m", Settings())
    monkeypatch.setenv(variable, "sk-0123456789")
    judge = build_judge(f"decision:{name}/m", Settings())
    assert isinstance(judge, DecisionJudge)
    assert judge.id == f"decision:{name}/m"
    assert judge.caps.probability == "decision"


@pytest.mark.parametrize("name", sorted(set(OWN_HOSTS) - {"systemone"}))
def test_a_server_of_one_s_own_needs_no_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        build_judge(f"decision:{name}/some/model", Settings()).id == f"decision:{name}/some/model"
    )
    for variable in OWN_HOSTS[name]:
        assert DECISION_ACCOUNTS[name].key() == NO_KEY
        monkeypatch.setenv(variable, "sk-0123456789")
        assert DECISION_ACCOUNTS[name].key() == "sk-0123456789"


def test_a_server_that_serves_both_is_one_account() -> None:
    both = account(
        provider="openai", base_url="http://127.0.0.1:1/v1", key_variable="", host="vllm",
        decisions={"m": {"max_side": 512}}, host_settings={"encoding": "base64"},
    )  # fmt: skip
    judge = build_judge("decision:box/m", Settings(accounts={"box": both}))
    assert isinstance(judge, DecisionJudge)
    assert judge.caps.max_side == 512
    client, form = judge._client, judge._form
    assert isinstance(client, SystemOneClient)
    assert client._url == "http://127.0.0.1:1/v1/systemone"
    assert isinstance(form, SystemOneDecisions)
    assert (form.host.encoding, form.host.pictures) == ("base64", "images")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"provider": "systemone"}, "needs its base_url"),
        ({"provider": "vllm", "host": "there"}, "host 'there': use one of systemone"),
        ({"provider": "openai", "host_settings": {"path": "/x"}}, "does not speak System One"),
        ({"provider": "jev"}, "provider"),
    ],
)
def test_an_account_that_cannot_be_says_why(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        account(**fields)
    assert message in str(error.value)


def test_a_setting_of_a_host_that_cannot_be_says_why() -> None:
    wrong = account(provider="vllm", host_settings={"pictures": "mail"})
    with pytest.raises(JudgeError, match="host vllm cannot be used so: pictures"):
        build_judge("decision:mine/m", Settings(accounts={"mine": wrong}))


def test_a_host_chats_with_nobody() -> None:
    with pytest.raises(JudgeError, match=r"name one decision:vllm/m, or give its chat models"):
        caps_of("vllm", "m")
    with pytest.raises(JudgeError, match="decision models here"):
        build_judge("vllm:m", Settings())


def test_a_model_here_is_one_by_its_name_too() -> None:
    judge = build_judge("decision:local/miniature/judge-a")
    assert isinstance(judge, LocalDecisionJudge)
    assert judge is build_judge("decision:local/miniature/judge-a")
    assert judge is not build_judge("local:miniature/judge-a")
    words = words_of_judge("decision:local/miniature/judge-a")
    assert words is not None
    assert words == judge.caps.vocabulary
    (need,) = needs_of_spec("decision:local/Qwen/Qwen3-VL-2B-Instruct")
    assert need.repository == "Qwen/Qwen3-VL-2B-Instruct"
    assert needs_of_spec("decision:openrouter/openai/gpt-6-luna-decisions") == ()
    with pytest.raises(JudgeError, match="no model folder"):
        build_judge("decision:local/./nowhere")


@pytest.mark.parametrize(
    ("judge", "usd"),
    [
        ("typesafe/jev-latest", 0.042),
        ("typesafe/jev-1.14.0", 0.042),
        ("perplexity/pplx-decider-v1.2", 0.02),
        ("perplexity/pplx-decider-flash-v1.2", 0.01),
        ("cloudflare/clef", 0.24),
        ("cloudflare/clef-flash", 0.09),
    ],
)
def test_prices_of_a_million_tokens(judge: str, usd: float) -> None:
    assert PriceTable.load().usd("decision", judge, Usage(1_000_000, 500)) == pytest.approx(usd)


def test_the_commands_tell_of_them(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "sk-0123456789")
    listed = CliRunner().invoke(app, ["judges", "list", "--json"])
    assert listed.exit_code == 0, listed.output
    rows = {row["judge"]: row for row in json.loads(listed.stdout)["judges"]}
    assert rows["decision:typesafe/MODEL"]["note"] == "ready"
    assert rows["decision:perplexity/MODEL"]["note"] == "set PERPLEXITY_API_KEY"
    assert "vLLM at http://127.0.0.1:8000" in rows["decision:vllm/MODEL"]["about"]
    assert "typesafe:MODEL" not in rows
    assert {f"decision:{name}/MODEL" for name in ("local", "openai", "gemini")} <= set(rows)
    (place / "scenewright.toml").write_text(
        '[profiles.deciding]\nextends = "miniature"\n'
        'judges = ["decision:local/miniature/judge-a", "decision:typesafe/jev-latest"]\n'
        'report_judges = ["decision:perplexity/pplx-decider-v1.2"]\n',
        encoding="utf-8",
    )
    report = check(find_profile("deciding"), load_settings())
    keys = {name: found["key"] for name, found in report["accounts"].items()}
    assert keys == {"typesafe": True, "perplexity": False}
    problems = {part["part"]: part["problem"] for part in report["parts"] if not part["ok"]}
    assert problems == {
        "judge decision:perplexity/pplx-decider-v1.2": "no key: set PERPLEXITY_API_KEY"
    }


def test_one_model_does_not_judge_itself() -> None:
    profile = '[profiles.p]\nextends = "miniature"\njudges = ["decision:local/miniature/judge-a"]\n'
    Path("scenewright.toml").write_text(
        f'{profile}report_judges = ["local:miniature/judge-a"]\n', encoding="utf-8"
    )
    with pytest.raises(SettingsError, match="judge-a"):
        find_profile("p")
