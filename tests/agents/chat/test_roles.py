"""Limits of output tokens by role: defaults, settings and profiles, and what is told of a cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image
from pydantic import ValidationError

from scenewright.agents.chat.model import AccountChat, account_chat, message_from
from scenewright.agents.composers.language import Table6Composer
from scenewright.agents.judges.remote import RemoteJudge
from scenewright.agents.parsers.language import LanguageParser
from scenewright.config.profiles import DEFAULTS, OF_THE_MODEL, Role, output_limit
from scenewright.config.settings import Settings, find_profile, settings_with
from scenewright.core.formats import load_scene
from scenewright.core.ports.composer import ComposerError
from scenewright.core.questions import facts_of
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import Completion
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from scenewright.runs.model_factory.local_models import SHARED
from scenewright.runs.model_factory.profiles import build_chat, build_judge

SCENE = load_scene("red ball on table", format="triplets")


@pytest.fixture
async def account(
    lab: ThreadedMockProviders, key: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, Any]]:
    """An account at a server whose models never come to an end."""
    monkeypatch.setenv("ROLES_KEY", key)
    lab.order_quirk("endless", key)
    yield {"provider": "openai", "base_url": lab.openai_url, "key_variable": "ROLES_KEY"}
    await SHARED.aclose()


def limit_of(role: Role | None, settings: Settings, spec: str) -> int:
    made = build_chat(spec, settings, role=role)
    assert isinstance(made, AccountChat)
    found: int = made._identifying_params["max_output_tokens"]
    return found


@pytest.mark.parametrize(
    ("role", "of_model", "told", "tokens", "set_by"),
    [
        (None, 4096, {}, 4096, OF_THE_MODEL),
        ("composer", 4096, {}, 1024, "output_tokens.composer .*1024 by default"),
        ("composer", 1000, {}, 1000, OF_THE_MODEL),
        ("composer", 0, {}, 0, OF_THE_MODEL),
        ("composer", 16_384, {"thinks": True}, 16_384, OF_THE_MODEL),
        ("composer", 8192, {"declared": True}, 8192, OF_THE_MODEL),
        ("composer", 8192, {"declared": True, "given": {"composer": 50}}, 50, "composer.*now 50"),
        ("composer", 0, {"thinks": True, "given": {"composer": 50}}, 50, "composer.*now 50"),
        ("composer", 4096, {"given": {"parser": 50}}, 1024, "output_tokens.composer"),
    ],
)
def test_the_limit_of_a_role(
    role: Role | None, of_model: int, told: dict[str, Any], tokens: int, set_by: str
) -> None:
    limit = output_limit(role, of_model, **{"declared": False, "thinks": False, **told})
    assert limit.tokens == tokens
    with pytest.raises(ValueError, match=set_by):
        raise ValueError(limit.set_by)


async def test_a_profile_goes_before_the_settings_and_these_before_the_defaults(
    account: dict[str, Any],
) -> None:
    plain = Settings(accounts={"mine": account})
    assert limit_of("director", plain, "mine:script:echo") == DEFAULTS["director"]
    assert limit_of(None, plain, "mine:script:echo") == 4096
    settings = Settings(accounts={"mine": account}, output_tokens={"director": 99, "parser": 98})
    assert limit_of("director", settings, "mine:script:echo") == 99
    mine = {"extends": "miniature", "output_tokens": {"director": 77}}
    own = settings.model_copy(update={"profiles": {"own": mine}})
    known = settings_with(find_profile("own", own), own)
    assert known is not None
    assert limit_of("director", known, "mine:script:echo") == 77
    assert limit_of("parser", known, "mine:script:echo") == 98
    large = {**account, "models": {"script:echo": {"max_output_tokens": 9000}}}
    declared = Settings(accounts={"mine": large})
    assert limit_of("director", declared, "mine:script:echo") == 9000


def test_models_that_think_are_bounded_by_nobody_unasked(caller: Caller) -> None:
    for provider, model in (("anthropic", "claude-sonnet-5"), ("gemini", "gemini-3-pro")):
        free, bound = (
            account_chat(
                provider, model, caller, api_key="k", role="composer", output_tokens=given
            )._identifying_params["max_output_tokens"]
            for given in ({}, {"composer": 500})
        )
        assert (free, bound) == (16_384 if provider == "anthropic" else 0, 500)


async def test_endless_output_is_stopped_where_it_repeats_itself(account: dict[str, Any]) -> None:
    chat = build_chat("mine:script:echo", Settings(accounts={"mine": account}), role="composer")
    with pytest.raises(ComposerError, match=r"the model repeats itself \(.*so glad you"):
        await Table6Composer(chat).word(SCENE, 0)


async def test_endless_output_names_the_limit_that_cut_it(account: dict[str, Any]) -> None:
    # So short that nothing repeats itself before.
    settings = Settings(accounts={"mine": account}, output_tokens={"composer": 100})
    chat = build_chat("mine:script:echo", settings, role="composer")
    with pytest.raises(
        ComposerError, match=r"cut off after 100 tokens.*output_tokens\.composer.*now 100"
    ):
        await Table6Composer(chat).word(SCENE, 0)
    short = Settings(accounts={"mine": account}, output_tokens={"parser": 64})
    chat = build_chat("mine:script:echo", short, role="parser")
    with pytest.raises(Exception, match=r"64 tokens.*output_tokens\.parser.*now 64"):
        await LanguageParser(chat).parse("a dog")


def test_a_call_of_a_tool_that_was_cut_off_names_it_too() -> None:
    cut = Completion("", "length", Usage(9, 64))
    with pytest.raises(UnusableReply, match=r"cut off after 64 tokens.*\(output_tokens\.director"):
        message_from(cut, "openai", "output_tokens.director")


async def test_judges_are_bounded_by_their_role(account: dict[str, Any]) -> None:
    settings = Settings(accounts={"mine": account}, output_tokens={"judge": 40})
    judge = build_judge("mine:instant", settings)
    assert isinstance(judge, RemoteJudge)
    (answer, *_) = await judge.answer(Image.new("RGB", (32, 32)), facts_of(SCENE))
    assert answer.state == "unscored"
    assert "cut off after 40 tokens" in answer.reason
    assert "output_tokens.judge in the profile or in scenewright.toml" in answer.reason


def test_an_unknown_role_is_told() -> None:
    for wrong in ({"painter": 5}, {"judge": 0}):
        with pytest.raises(ValidationError, match="output_tokens"):
            Settings.model_validate({"output_tokens": wrong})
