"""What the mock refuses as the providers do: in their words, read by their own SDKs."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic import BadRequestError as AnthropicRefusal
from anthropic import NotFoundError as AnthropicMissing
from google import genai
from google.genai import errors, types
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from scenewright.mock_providers import MockProviders, MockSettings, serving
from scenewright.mock_providers.models import bare_name, image_model
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.refusals import Sides, check, table
from tests.mock_providers.asking import picture

TODAY = date(2026, 11, 28)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
HELLO = [{"role": "user", "content": "hello"}]
CLAUDE_TOOL = {"name": "look", "input_schema": {"type": "object"}}


@pytest.fixture
async def mock() -> AsyncIterator[MockProviders]:
    async with serving(MockSettings(today=TODAY)) as made:
        yield made


@pytest.fixture
async def openai(mock: MockProviders) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{mock.url}/v1", api_key="mine", max_retries=0) as client:
        yield client


@pytest.fixture
async def claude(mock: MockProviders) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=mock.url, api_key="mine", max_retries=0) as client:
        yield client


def refused(place: Any, model: str, **body: Any) -> Problem | None:
    try:
        check(place, model, body, TODAY)
    except Problem as problem:
        return problem
    return None


async def test_an_effort_that_is_refused_lists_those_that_are_not(openai: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError) as chat:
        await openai.chat.completions.create(
            model="gpt-6.1-sol", messages=HELLO, reasoning_effort="none"
        )
    assert (chat.value.code, chat.value.param) == ("unsupported_value", "reasoning_effort")
    assert chat.value.body["message"] == (
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model. "
        "Supported values are: 'low', 'medium', 'high', and 'xhigh'."
    )
    with pytest.raises(BadRequestError, match="'xhigh', and 'max'") as responses:
        await openai.responses.create(
            model="gpt-6.1-sol", input="hello", reasoning={"effort": "minimal"}
        )
    assert responses.value.param == "reasoning.effort"


@pytest.mark.parametrize(
    ("model", "effort", "taken"),
    [
        ("gpt-6.1-sol", "low", True),
        ("gpt-6.1-sol", "none", False),
        ("gpt-6-astra", "minimal", False),
        ("gpt-6.2-sol", "none", False),
        ("gpt-6.2-astra", "max", False),
        ("gpt-6-luna", "none", True),
        ("gpt-6-sol", "none", True),
        ("gpt-6.1-terra", "none", True),
        ("gpt-5.6-luna", "max", True),
        ("gpt-5.4", "none", True),
        ("gpt-5", "none", False),
        ("gpt-5-mini", "minimal", True),
        ("gpt-4o", "low", False),
        ("judge-a", "anything", True),
    ],
)
async def test_efforts(mock: MockProviders, model: str, effort: str, taken: bool) -> None:
    body = {"model": model, "reasoning_effort": effort}
    if taken:
        mock.check("chat", body)
    else:
        with pytest.raises(Problem):
            mock.check("chat", body)


SAMPLING = [
    ("temperature", 0.2),
    ("top_p", 0.9),
    ("logprobs", True),
    ("top_logprobs", 3),
]


@pytest.mark.parametrize(("field", "value"), SAMPLING)
def test_a_thinking_model_takes_no_sampling_parameters(field: str, value: object) -> None:
    for model in ("gpt-6-luna", "gpt-6.1-sol", "gpt-5.6-terra", "gpt-5", "o3"):
        problem = refused("chat", model, **{field: value})
        assert problem is not None
        assert problem.param == field
        assert (problem.code or "").startswith("unsupported_")
    for model in ("gpt-6-luna", "gpt-6.1-terra", "gpt-5.4"):
        assert refused("chat", model, **{field: value, "reasoning_effort": "none"}) is None
    for model in ("gpt-5.4-mini", "gpt-5.1", "gpt-4o"):
        assert refused("chat", model, **{field: value}) is None


async def test_tools_and_thoughts_do_not_go_together_in_chat(openai: AsyncOpenAI) -> None:
    for effort in ({}, {"reasoning_effort": "low"}):
        with pytest.raises(BadRequestError, match="use /v1/responses or set") as caught:
            await openai.chat.completions.create(
                model="gpt-5.6-luna", messages=HELLO, tools=[TOOL], **effort
            )
        assert caught.value.param == "reasoning_effort"
    assert refused("chat", "gpt-6-luna", tools=[TOOL], reasoning_effort="none") is None
    assert refused("chat", "gpt-5.4", tools=[TOOL]) is None
    assert refused("chat", "gpt-5.4", tools=[TOOL], reasoning_effort="low") is not None
    assert refused("chat", "gpt-6.1-sol", tools=[TOOL]) is not None
    assert refused("responses", "gpt-6.1-sol", tools=[TOOL], reasoning={"effort": "low"}) is None


def test_log_probabilities_of_responses_are_refused_while_thinking() -> None:
    wanted = ["message.output_text.logprobs"]
    assert refused("responses", "gpt-6-luna", include=wanted) is not None
    assert refused("responses", "gpt-6-luna", include=["reasoning.encrypted_content"]) is None
    assert refused("responses", "gpt-6-luna", include=wanted, reasoning={"effort": "none"}) is None


def test_max_tokens_has_another_name_for_newer_models() -> None:
    problem = refused("chat", "gpt-5.4-mini", max_tokens=100)
    assert problem is not None
    assert problem.message.endswith("Use 'max_completion_tokens' instead.")
    assert refused("chat", "gpt-5.4-mini", max_completion_tokens=100) is None
    assert refused("chat", "gpt-4o", max_tokens=100) is None


async def test_claude_takes_no_sampling_and_no_forced_tools(claude: AsyncAnthropic) -> None:
    for field, value in (("temperature", 0.0), ("top_p", 1.0), ("top_k", 5)):
        with pytest.raises(AnthropicRefusal, match=f"`{field}` is deprecated for this model"):
            await claude.messages.create(
                model="claude-haiku-5-5", max_tokens=20, messages=HELLO, extra_body={field: value}
            )
    with pytest.raises(AnthropicRefusal, match='type "tool" and "any" are not supported'):
        await claude.messages.create(
            model="claude-opus-5-5",
            max_tokens=20,
            messages=HELLO,
            tools=[CLAUDE_TOOL],
            tool_choice={"type": "tool", "name": "look"},
        )
    forced = {"type": "any"}
    assert refused("messages", "claude-sonnet-5-5", tool_choice=forced) is None
    thinking = {"type": "adaptive"}
    assert refused("messages", "claude-sonnet-5-5", tool_choice=forced, thinking=thinking)
    assert refused("messages", "claude-sonnet-5-5", temperature=1) is None
    assert refused("messages", "claude-sonnet-4-6", temperature=0.2, top_p=0.5) is None
    assert refused("messages", "claude-fable-5", thinking={"type": "disabled"}) is not None


async def test_gemini_gives_no_log_probabilities(mock: MockProviders) -> None:
    options = types.HttpOptions(base_url=mock.url)
    client = genai.Client(api_key="mine", http_options=options)
    config = types.GenerateContentConfig(response_logprobs=True, logprobs=3)
    with pytest.raises(errors.ClientError, match="Logprobs is not enabled") as caught:
        await client.aio.models.generate_content(
            model="gemini-3.8-flash", contents="hello", config=config
        )
    assert (caught.value.code, caught.value.status) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("model", "field", "value", "taken"),
    [
        ("gpt-image-2.6-flare", "complexity", "low", True),
        ("gpt-image-2.5-flare", "complexity", "low", False),
        ("gpt-image-2", "complexity", "low", False),
        ("gpt-image-2.5-sunburst", "markup", "png", True),
        ("gpt-image-2", "markup", "png", False),
        ("gpt-image-1.5", "input_fidelity", "high", True),
        ("gpt-image-1-mini", "input_fidelity", "high", False),
        ("gpt-image-1-mini", "input_fidelity", "low", True),
        ("gpt-image-2.6-flare", "input_fidelity", "low", False),
        ("gpt-image-2.6-flare", "response_format", "b64_json", False),
        ("gpt-image-2.5-flare", "quality", "max", True),
        ("gpt-image-2", "quality", "max", False),
        ("gpt-image-1.5", "size", "1024x1024", True),
        ("gpt-image-1.5", "size", "1024x1040", False),
        ("gpt-image-2", "size", "1024x640", True),
        ("gpt-image-2", "size", "512x512", False),
        ("gpt-image-2", "size", "1030x1030", False),
        ("gpt-image-2", "size", "3840x1024", False),
        ("gpt-image-2", "size", "auto", True),
        ("instant-image", "response_format", "b64_json", True),
    ],
)
def test_parameters_of_pictures(
    mock: MockProviders, model: str, field: str, value: str, taken: bool
) -> None:
    body = {"model": model, field: value}
    if taken:
        mock.check("edits", body)
    else:
        with pytest.raises(Problem):
            mock.check("edits", body)


async def test_a_refused_parameter_reaches_the_sdk_of_pictures(openai: AsyncOpenAI) -> None:
    with pytest.raises(BadRequestError, match="Unknown parameter: 'complexity'") as caught:
        await openai.images.edit(
            model="gpt-image-2",
            prompt="a ball",
            image=("a.png", io.BytesIO(picture()), "image/png"),
            complexity="low",
        )
    assert (caught.value.code, caught.value.param) == ("unknown_parameter", "complexity")
    drawn = await openai.images.generate(model="gpt-image-2", prompt="a ball", size="1024x1024")
    assert drawn.data


async def test_unknown_and_retired_models_are_missing_in_every_provider_s_words(
    mock: MockProviders, openai: AsyncOpenAI, claude: AsyncAnthropic
) -> None:
    with pytest.raises(NotFoundError, match="`gpt-9` does not exist or you do") as unknown:
        await openai.chat.completions.create(model="gpt-9", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(NotFoundError, match="`o4-mini` has been deprecated, learn more here"):
        await openai.chat.completions.create(model="o4-mini", messages=HELLO)
    with pytest.raises(NotFoundError, match="`gpt-image-1` has been deprecated"):
        await openai.images.generate(model="gpt-image-1", prompt="a ball")
    for model in ("claude-nobody", "claude-3-5-haiku-latest"):
        with pytest.raises(AnthropicMissing, match=f"model: {model}"):
            await claude.messages.create(model=model, max_tokens=20, messages=HELLO)
    client = genai.Client(api_key="mine", http_options=types.HttpOptions(base_url=mock.url))
    for model, words in (
        ("gemini-9-flash", "models/gemini-9-flash is not found for API version"),
        ("gemini-3.1-flash-image", "models/gemini-3.1-flash-image is no longer available"),
    ):
        with pytest.raises(errors.ClientError, match=words) as caught:
            await client.aio.models.generate_content(model=model, contents="hello")
        assert caught.value.code == 404


def test_a_provider_serves_its_own_models_alone() -> None:
    assert refused("messages", "gpt-6-luna") is not None
    assert refused("chat", "claude-opus-5-5") is not None
    # A router has all of them.
    assert refused("chat", "anthropic/claude-opus-5-5") is None
    assert refused("chat", "openai/gpt-9") is not None


def test_models_go_on_their_day() -> None:
    check("chat", "gpt-5", {}, date(2026, 12, 10))
    with pytest.raises(Problem, match="gpt-5"):
        check("chat", "gpt-5", {}, date(2026, 12, 11))


def test_a_lenient_mock_takes_what_looks_like_a_provider_s_model() -> None:
    lenient = MockProviders(MockSettings(lenient=True))
    lenient.check("chat", {"model": "gpt-9", "reasoning_effort": "none", "max_tokens": 3})
    named = MockProviders(MockSettings(models={"house-model": "judge-a"}))
    named.check("chat", {"model": "house-model"})
    assert bare_name(named.stand_in("house-model")) == "judge-a"


def test_every_served_model_has_a_stand_in() -> None:
    for row in table().serves:
        for name in row.names:
            assert image_model(name) or bare_name(name), name


def test_every_row_names_its_source_and_fits_a_model_that_is_served() -> None:
    found = table()
    names = {name for row in found.serves for name in row.names}
    for row in (*found.effort, *found.refusal):
        problem = [name for name in names if any(_like(name, one) for one in row.models)]
        assert problem, row
    assert all(row.source for row in (*found.serves, *found.retired, *found.effort, *found.refusal))


def _like(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)


def test_sizes() -> None:
    sides = Sides(multiple=16, longest=3840, ratio=3, least=655360, most=8294400)
    assert sides.fit("3840x2160")
    assert not sides.fit("3856x2160")
    assert not sides.fit("3840x2176")
    assert not sides.fit("large")
