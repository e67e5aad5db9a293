"""The check of an account against servers as they are: what is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import Settings
from scenewright.mock_providers import MockSettings, serving
from scenewright.runs.account_check import (
    ModelCheck,
    NamedModel,
    brief,
    check_model,
    listed_models,
    model_kind,
    models_of,
    route_of,
)
from scenewright.runs.model_factory.local_models import SHARED
from tests.providers.raw_server import Behaviour, in_turn, raw_server, reply

INSTANT = NamedModel("chat", "instant")


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], **fields}


SHEET = '{"answers": [{"n": 1, "a": "yes", "p": 0.9}], "why": []}'


@pytest.fixture(autouse=True)
async def freed() -> AsyncIterator[None]:
    yield
    await SHARED.aclose()


def at(url: str, **account: Any) -> Settings:
    """Settings with one account ``lab`` at ``url``, which need no key."""
    fields = {"provider": "openai", "base_url": url, "key_variable": "", **account}
    return Settings(accounts={"lab": AccountSpec.model_validate(fields)})


async def checked(url: str, named: NamedModel = INSTANT, **account: Any) -> ModelCheck:
    return await check_model("lab", named, brief("lab", at(url, **account)))


async def at_mock(settings: MockSettings, named: NamedModel = INSTANT) -> ModelCheck:
    async with serving(settings) as mock:
        return await checked(f"{mock.url}/v1", named)


async def at_server(behave: Behaviour, **account: Any) -> ModelCheck:
    async with raw_server(behave) as server:
        return await checked(f"{server.url}{account.pop('path', '/v1')}", **account)


async def test_a_judge_answers_and_says_how_it_was_asked() -> None:
    found = await at_mock(MockSettings(latency=0))
    assert (found.state, found.problem, found.warnings) == ("ok", "", ())
    assert found.served == "instant"
    assert found.learnt == (
        "answers by a tool forced by its name", "without log-probabilities", "streamed"
    )  # fmt: skip
    assert found.usage.tokens_in > 0
    assert found.seconds is not None
    assert found.usd == 0


async def test_a_language_model_is_asked_in_words_alone() -> None:
    said = completion({"content": '{"word": "ready"}'})
    async with raw_server(reply(said)) as server:
        found = await checked(f"{server.url}/v1", NamedModel("chat", "m", judges=False))
        (request,) = server.received
    assert found.state == "ok"
    assert request.json["messages"] == [
        {"role": "user", "content": 'Answer with the word "ready".'}
    ]


async def test_a_decision_model_answers_one_question() -> None:
    found = await at_mock(MockSettings(latency=0), NamedModel("decision", "instant"))
    assert (found.state, found.learnt) == ("ok", ("probability by decision",))


async def test_a_model_that_draws_draws_once() -> None:
    found = await at_mock(MockSettings(latency=0), NamedModel("image", "instant-image"))
    assert found.state == "ok"
    assert found.usage.images == 1
    assert found.learnt[0].startswith("drew ")


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("sign-in-page", ("it asks to sign in",)),
        ("no-v1", ("/v1",)),
        ("credits-in-200", ("Insufficient credits", "add credit to the account")),
        ("context-length", ("4096", "start the server with a longer context")),
        ("too-many-pictures", ("--mmproj", 'pictures = false in [accounts.lab.models."instant"]')),
        ("no-such-model", ("does not exist", "name a model that the account has")),
        ("budget-exceeded", ("raise the limit that was set there",)),
        ("thoughts-alone", ("reasoning",)),
    ],
)  # fmt: skip
async def test_a_failure_has_a_remedy(shape: str, told: tuple[str, ...]) -> None:
    named = NamedModel("chat", "script:echo", judges=False)
    lab = {"models": {"script:echo": {"structured": "schema"}}}
    async with serving(MockSettings(shape=shape, latency=0, lenient=True)) as mock:
        if shape == "thoughts-alone":
            found = await checked(f"{mock.url}/v1", named, **lab)
        else:
            found = await checked(f"{mock.url}/v1")
    assert found.state == "failed"
    for words in told:
        assert words in f"{found.problem} {found.remedy}"


async def test_a_rate_limit_ends_soon_and_is_no_want_of_credit() -> None:
    found = await at_mock(MockSettings(shape="retry-after-a-day", latency=0, lenient=True))
    assert found.state == "failed"
    assert "requests_per_minute and concurrent in [accounts.lab]" in found.remedy


async def test_a_model_that_writes_on_is_told_from_one_that_answers() -> None:
    for text in ("The ball is on the table. ", "and again, " * 400):
        found = await at_server(reply(completion({"content": text})))
        assert "trained to follow instructions" in found.remedy, found.problem


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [
        ("LAB_KEY", "store another with `scenewright keys set lab` (a key in LAB_KEY goes before"),
        ("", "name its variable as key_variable in [accounts.lab]"),
    ],
)
async def test_a_refused_key_is_told_with_its_variable(
    variables: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-a-key-that-is-wrong")
    refused = reply({"error": {"message": "Incorrect API key: sk-a-key-that-is-wrong"}}, 401)
    found = await at_server(refused, key_variable=variables)
    assert found.problem.startswith("HTTP 401")
    assert remedy in found.remedy
    assert "that-is-wrong" not in found.problem


async def test_an_address_without_its_version_is_written_in_full() -> None:
    async with raw_server(reply({"detail": "Not Found"}, 404)) as server:
        found = await checked(server.url)
        assert found.remedy == f'write base_url = "{server.url}/v1" in [accounts.lab]'


async def test_a_redirect_and_a_closed_port_say_their_remedy_themselves() -> None:
    moved = await at_server(reply(b"", 307, Location="https://login.example/v1"))
    assert "redirects to https://login.example/v1" in moved.problem
    async with raw_server(reply()) as server:
        url = server.url
    gone = await checked(f"{url}/v1")
    assert "check that the server runs, and base_url" in gone.problem
    assert (moved.remedy, gone.remedy) == ("", "")


async def test_a_dead_proxy_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    settings = at("http://models.example/v1")
    assert "through the proxy of HTTP_PROXY (127.0.0.1:1)" in route_of("lab", settings)
    found = await check_model("lab", INSTANT, brief("lab", settings))
    assert "the proxy of HTTP_PROXY (127.0.0.1:1) refuses connections" in found.problem


async def test_thoughts_and_missing_usage_are_worth_a_change() -> None:
    message = {"content": f"<think>{'Is it a ball? ' * 20}</think>{SHEET}"}
    found = await at_server(reply(completion(message)))
    assert found.state == "ok"
    assert any("it thinks before it answers" in told for told in found.warnings)
    assert any("counts no tokens" in told for told in found.warnings)
    assert "sent whole, without a stream" in found.learnt
    usage = {"prompt_tokens": 90, "completion_tokens": 20}
    calm = await at_server(reply(completion({"content": SHEET}, usage=usage)))
    assert calm.warnings == ()


async def test_what_was_negotiated_is_told() -> None:
    words = "Unsupported value: 'none'. Supported values are: 'low', 'medium', and 'high'."
    refusal = {"error": {"message": words, "param": "reasoning_effort"}}
    behave = in_turn(reply(refusal, 400), reply(completion({"content": SHEET})))
    found = await at_server(behave, models={"instant": {"reasoning_effort": "none"}})
    assert found.state == "ok", found.problem
    assert "reasoning effort low" in found.learnt
    assert [words in reason for reason in found.retries] == [True]


async def test_an_unknown_price_and_an_end_are_worth_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 20}
    async with raw_server(reply(completion({"content": SHEET}, usage=usage))) as server:
        monkeypatch.setattr(AccountSpec, "self_hosted", property(lambda account: False))
        found = await checked(f"{server.url}/v1")
    assert found.usd is None
    assert ['"lab:instant"' in told for told in found.warnings] == [True]


def test_kinds_are_those_of_the_account_and_of_the_table() -> None:
    openai = AccountSpec(provider="openai", decisions={"mine": {}})
    assert model_kind("gpt-image-2.6-flare", openai) == "image"
    assert model_kind("gpt-6-luna", openai) == "chat"
    assert model_kind("mine", openai) == "decision"
    assert model_kind("flux", openai) == "chat"
    assert model_kind("flux", openai, draws=True) == "image"
    assert model_kind("jev-latest", AccountSpec(provider="typesafe")) == "decision"


def test_models_are_those_of_profiles_and_of_the_account() -> None:
    account = AccountSpec(
        provider="openai", base_url="http://127.0.0.1:1/v1", models={"b": {}}, decisions={"c": {}}
    )
    mine = {"extends": "miniature", "judges": ["lab:a", "lab:b"], "chat": "lab:a"}
    settings = Settings(accounts={"lab": account}, profiles={"mine": mine})
    found = models_of("lab", settings)
    assert [(one.kind, one.model) for one in found] == [
        ("chat", "a"), ("chat", "b"), ("decision", "c")
    ]  # fmt: skip
    assert all(one.judges for one in found)


async def test_the_servers_list_of_models_is_read() -> None:
    async with serving(MockSettings(latency=0)) as mock:
        assert "instant" in await listed_models("lab", at(f"{mock.url}/v1"))
        found = await checked(f"{mock.url}/v1", NamedModel("chat", "instnat"))
    assert found.remedy == "name a model that the account has: did you mean 'instant'?"
    async with raw_server(reply("<html>no</html>", kind="text/html")) as server:
        assert await listed_models("lab", at(server.url)) == []
