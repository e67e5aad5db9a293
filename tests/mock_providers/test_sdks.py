"""The providers' own SDKs understand the mock server: answers, listings, errors."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from scenewright.mock_providers import MODELS, Fault, ThreadedMockProviders
from scenewright.mock_providers.models import IMAGE_MODELS, instant
from scenewright.mock_providers.pictures import Pictures
from scenewright.mock_providers.sheets import sheet_of
from tests.mock_providers.asking import SCHEMA, TOOL, TWO, body, picture, sheet

CHOICE = sheet(
    "Is there a dog in the image?",
    ("How is the dog related to the ball?", {"A": "left of", "B": "on", "C": "none"}),
)


def openai_client(lab: ThreadedMockProviders, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=lab.openai_url, api_key=key, max_retries=0)


def anthropic_client(lab: ThreadedMockProviders, key: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=lab.url, api_key=key, max_retries=0)


def gemini_client(lab: ThreadedMockProviders, key: str) -> genai.Client:
    options = types.HttpOptions(base_url=lab.url, retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(vertexai=False, api_key=key, http_options=options)


def gemini_request(text: str = TWO) -> list[Any]:
    image = types.Part.from_bytes(data=picture(), mime_type="image/png")
    return [types.Content(role="user", parts=[image, types.Part.from_text(text=text)])]


async def expected(text: str) -> dict[str, Any]:
    """What ``instant`` answers, from its published formula."""
    digest = (await Pictures().look(picture())).digest
    judged = [instant(digest, question) for question in sheet_of(text)]
    answers = [
        {"n": one.question.number, "a": one.answer, "p": round(one.probability, 4)}
        for one in judged
    ]
    return {"answers": answers, "why": []}


async def test_chat_completions(lab: ThreadedMockProviders, key: str) -> None:
    async with openai_client(lab, key) as client:
        found = await client.chat.completions.with_raw_response.create(**body("chat", CHOICE))
        done = found.parse()
        assert found.headers["x-request-id"].startswith("req_")
        choice = done.choices[0]
        assert choice.message.tool_calls
        call = choice.message.tool_calls[0]
        assert call.type == "function"
        assert call.function.name == TOOL
        assert json.loads(call.function.arguments) == await expected(CHOICE)
        assert choice.message.content is None
        assert done.usage
        assert done.usage.prompt_tokens_details
        assert done.usage.prompt_tokens_details.cached_tokens == 0
        assert done.usage.prompt_tokens > 255
        assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
        text = await client.chat.completions.create(**body("chat", CHOICE, form="json"))
        assert json.loads(text.choices[0].message.content or "") == await expected(CHOICE)
        assert (text.choices[0].finish_reason, text.choices[0].logprobs) == ("stop", None)


async def test_a_tool_that_is_not_forced_ends_as_the_models_choice(
    lab: ThreadedMockProviders, key: str
) -> None:
    request = {**body("chat"), "tool_choice": "required"}
    async with openai_client(lab, key) as client:
        done = await client.chat.completions.create(**request)
        assert done.choices[0].finish_reason == "tool_calls"


async def test_responses(lab: ThreadedMockProviders, key: str) -> None:
    async with openai_client(lab, key) as client:
        done = await client.responses.create(**body("responses", CHOICE))
        call = done.output[0]
        assert call.type == "function_call"
        assert json.loads(call.arguments) == await expected(CHOICE)
        assert done.status == "completed"
        assert done.usage
        assert done.usage.input_tokens_details.cached_tokens == 0
        text = await client.responses.create(**body("responses", CHOICE, form="json", logprobs=5))
        assert json.loads(text.output_text) == await expected(CHOICE)
        message = text.output[0]
        assert message.type == "message"
        part = message.content[0]
        assert part.type == "output_text"
        assert part.logprobs
        assert "".join(token.token for token in part.logprobs) == text.output_text


async def test_messages(lab: ThreadedMockProviders, key: str) -> None:
    async with anthropic_client(lab, key) as client:
        done = await client.messages.create(**body("messages", CHOICE))
        assert done._request_id
        assert done._request_id.startswith("req_")
        call = done.content[0]
        assert call.type == "tool_use"
        assert (call.name, done.stop_reason) == (TOOL, "tool_use")
        assert call.input == await expected(CHOICE)
        text = await client.messages.create(**body("messages", CHOICE, form="json"))
        block = text.content[0]
        assert block.type == "text"
        assert json.loads(block.text) == await expected(CHOICE)
        counted = body("messages", CHOICE)
        del counted["max_tokens"]
        count = await client.messages.count_tokens(**counted)
        assert count.input_tokens == done.usage.input_tokens


async def test_gemini(lab: ThreadedMockProviders, key: str) -> None:
    client = gemini_client(lab, key)
    function = types.FunctionDeclaration(
        name=TOOL, description="answers", parameters_json_schema=SCHEMA
    )
    forced = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[TOOL]
    )
    done = await client.aio.models.generate_content(
        model="instant",
        contents=gemini_request(CHOICE),
        config=types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[function])],
            tool_config=types.ToolConfig(function_calling_config=forced),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        ),
    )
    assert done.function_calls
    assert done.function_calls[0].args == await expected(CHOICE)
    assert done.usage_metadata
    details = {d.modality: d.token_count for d in done.usage_metadata.prompt_tokens_details or []}
    assert details[types.MediaModality.IMAGE] == 258
    assert done.candidates
    assert done.candidates[0].finish_reason is types.FinishReason.STOP
    schema = types.GenerateContentConfig(
        response_mime_type="application/json",
        response_json_schema=SCHEMA,
        response_logprobs=True,
        logprobs=5,
    )
    text = await client.aio.models.generate_content(
        model="miniature/instant", contents=gemini_request(CHOICE), config=schema
    )
    assert json.loads(text.text or "") == await expected(CHOICE)
    assert text.candidates
    logprobs = text.candidates[0].logprobs_result
    assert logprobs
    assert "".join(token.token or "" for token in logprobs.chosen_candidates or []) == text.text
    assert logprobs.top_candidates
    assert len(logprobs.top_candidates) == len(logprobs.chosen_candidates or [])
    count = await client.aio.models.count_tokens(model="instant", contents=gemini_request())
    assert count.total_tokens
    assert count.total_tokens > 258
    await client.aio.aclose()


async def test_logprobs_of_chat_tell_the_judges_probabilities(
    lab: ThreadedMockProviders, key: str
) -> None:
    async with openai_client(lab, key) as client:
        done = await client.chat.completions.create(
            **body("chat", CHOICE, form="json", logprobs=20)
        )
        choice = done.choices[0]
        assert choice.logprobs
        tokens = choice.logprobs.content or []
        assert "".join(token.token for token in tokens) == choice.message.content
        assert all(bytes(token.bytes or []).decode() == token.token for token in tokens)
        open_ended = [token for token in tokens if len(token.top_logprobs) > 1]
        digest = (await Pictures().look(picture())).digest
        for token, question in zip(open_ended, sheet_of(CHOICE), strict=True):
            judged = instant(digest, question)
            told = {top.token: math.exp(top.logprob) for top in token.top_logprobs}
            assert told == pytest.approx(dict(judged.chances))
            assert token.token == judged.answer
        plain = await client.chat.completions.create(
            **body("chat", "Is there a dog in the image?", form="text", logprobs=2)
        )
        assert plain.choices[0].message.content in ("yes", "no")
        assert plain.choices[0].logprobs
        (word,) = plain.choices[0].logprobs.content or []
        assert sum(math.exp(top.logprob) for top in word.top_logprobs) == pytest.approx(1)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_langchain(lab: ThreadedMockProviders, key: str, api: str) -> None:
    http = openai.DefaultAsyncHttpxClient()
    model = ChatOpenAI(
        model="instant",
        base_url=lab.openai_url,
        api_key=key,  # type: ignore[arg-type]
        max_retries=0,
        # LangChain would share one among all event loops.
        http_async_client=http,
        use_responses_api=api == "responses",
    )
    tool = {"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}
    data = base64.b64encode(picture()).decode()
    image = {"type": "image", "base64": data, "mime_type": "image/png"}
    message = HumanMessage(content=[image, {"type": "text", "text": CHOICE}])
    done = await model.bind_tools([tool], tool_choice=TOOL, strict=True).ainvoke([message])
    assert done.tool_calls[0]["args"] == await expected(CHOICE)
    assert done.usage_metadata
    assert done.usage_metadata["input_tokens"] > 255
    await http.aclose()


async def test_listings(lab: ThreadedMockProviders, key: str) -> None:
    async with openai_client(lab, key) as one:
        assert [model.id async for model in one.models.list()] == [*MODELS, *IMAGE_MODELS]
        assert (await one.models.retrieve("judge-a")).id == "judge-a"
    async with anthropic_client(lab, key) as two:
        assert [model.id async for model in two.models.list()] == list(MODELS)
        assert (await two.models.retrieve("judge-a")).display_name == MODELS["judge-a"]
    three = gemini_client(lab, key)
    pager = await three.aio.models.list(config={"query_base": True})
    names = [f"models/{name}" for name in (*MODELS, *IMAGE_MODELS)]
    assert [model.name async for model in pager] == names
    await three.aio.aclose()


async def test_errors_are_the_sdks_own_classes(lab: ThreadedMockProviders, key: str) -> None:
    async with openai_client(lab, key) as one:
        with pytest.raises(openai.NotFoundError) as missing:
            await one.chat.completions.create(**body("chat", model="gpt-nobody"))
        assert missing.value.code == "model_not_found"
        assert missing.value.request_id
        with pytest.raises(openai.BadRequestError) as bad:
            await one.responses.create(**body("responses", image="bm90aGluZw=="))
        assert bad.value.code == "invalid_image_format"
        assert bad.value.param == "input[0].content[0].image_url"
        lab.schedule(Fault.RATE_LIMITED, 1, key)
        with pytest.raises(openai.RateLimitError) as limited:
            await one.chat.completions.create(**body("chat"))
        assert limited.value.response.headers["retry-after"] == "1"
        assert limited.value.code == "rate_limit_exceeded"
    async with anthropic_client(lab, key) as two:
        with pytest.raises(anthropic.NotFoundError) as missing_too:
            await two.messages.create(**body("messages", model="claude-nobody"))
        assert missing_too.value.type == "not_found_error"
        assert missing_too.value.request_id
        lab.schedule(Fault.OVERLOADED, 1, key)
        with pytest.raises(anthropic.APIStatusError) as overloaded:
            await two.messages.create(**body("messages"))
        assert overloaded.value.status_code == 529
        assert overloaded.value.type == "overloaded_error"
        asked = body("messages", model="claude-opus-5-5")
        with pytest.raises(anthropic.BadRequestError, match="temperature"):
            await two.messages.create(**asked, extra_body={"temperature": 0})
        lab.schedule(Fault.DROP, 1, key)
        with pytest.raises(anthropic.APIConnectionError):
            await two.messages.create(**body("messages"))
    three = gemini_client(lab, key)
    with pytest.raises(errors.ClientError) as missing_three:
        await three.aio.models.generate_content(model="nobody", contents=gemini_request())
    assert (missing_three.value.code, missing_three.value.status) == (404, "NOT_FOUND")
    lab.schedule(Fault.UNAVAILABLE, 1, key)
    with pytest.raises(errors.ServerError) as unavailable:
        await three.aio.models.generate_content(model="instant", contents=gemini_request())
    assert unavailable.value.status == "UNAVAILABLE"
    await three.aio.aclose()


async def test_refusals_are_what_the_sdks_call_so(lab: ThreadedMockProviders, key: str) -> None:
    lab.schedule(Fault.REFUSAL, 3, key)
    async with openai_client(lab, key) as one:
        assert (await one.chat.completions.create(**body("chat"))).choices[0].message.refusal
    async with anthropic_client(lab, key) as two:
        done = await two.messages.create(**body("messages"))
        assert done.stop_details
        assert done.stop_details.type == done.stop_reason == "refusal"
    three = gemini_client(lab, key)
    blocked = await three.aio.models.generate_content(model="instant", contents=gemini_request())
    assert blocked.prompt_feedback
    assert blocked.prompt_feedback.block_reason is types.BlockedReason.PROHIBITED_CONTENT
    assert not blocked.candidates
    await three.aio.aclose()
