"""OpenAI's wire format: what is sent byte for byte, and what is made of the replies."""

from __future__ import annotations

import json

import pytest
from starlette.responses import JSONResponse, Response

from scenewright.agents.judges.sheet import sheet_schema
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from tests.agents.judges.conformance import picture
from tests.agents.judges.loopback import Loopback, Received, answered, openai_tokens, replied

DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
SIDE = Fact(
    id="r:dog|on|ball",
    kind="relation",
    subject="dog",
    target="ball",
    predicate="on",
    statement="dog on ball",
    question="Where is the dog?",
    options=("left of", "on", "no visible relationship"),
    expected="on",
)
WITH_LOGPROBS = {"structured": "schema", "logprobs": True}


async def test_the_tool_is_forced_and_strict(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller)
    await judge.answer(picture(), [DOG])
    (received,) = server.received
    body = received.body
    assert received.path == "/v1/chat/completions"
    assert body["model"] == "some-model"
    (tool,) = body["tools"]
    assert tool["function"]["parameters"] == sheet_schema(questions=1)
    assert tool["function"]["strict"] is True
    assert body["tool_choice"] == {"type": "function", "function": {"name": "report_answers"}}
    assert (body["temperature"], body["seed"]) == (0.0, 0)
    # A server other than OpenAI's own gets the name that all of them know.
    assert body["max_tokens"] == 4096
    assert "max_completion_tokens" not in body
    assert "logprobs" not in body
    assert "response_format" not in body
    assert received.parts[0]["type"] == "image_url"
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    await judge.aclose()


@pytest.mark.parametrize("structured", ["tool", "schema"])
async def test_top_k_goes_beside_to_servers_that_take_it(
    server: Loopback, caller: Caller, structured: str
) -> None:
    sampling = {"temperature": 0.7, "top_p": 0.95, "top_k": 64}
    judge = server.judge("openai", caller, sampling=sampling, structured=structured)
    await judge.answer(picture(), [DOG])
    body = server.received[0].body
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.7, 0.95, 64)
    assert ("response_format" in body) is (structured == "schema")
    await judge.aclose()


async def test_a_schema_in_place_of_the_tool(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller, **WITH_LOGPROBS)
    await judge.answer(picture(), [DOG])
    body = server.received[0].body
    assert "tools" not in body
    wanted = {"name": "report_answers", "schema": sheet_schema(questions=1), "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": wanted}
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
    await judge.aclose()


async def test_probabilities_come_from_the_tokens(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller, **WITH_LOGPROBS)
    pieces = [
        ('{"answers":[{"n":1,"a', {}),
        ('":"yes', {'":"yes': 0.6, '":"no': 0.2, '":"maybe': 0.1, '":"': 0.1}),
        ('","p":0.5},{"n":2,"a":"', {}),
        ("A", {"A": 0.5, "B": 0.4, "a": 0.1}),
        ('","p":0.9}],"why":["1: \\"a\\":\\"no\\""]}', {}),
    ]
    text = "".join(piece for piece, _ in pieces)
    server.script.append(lambda r: replied(r, text, tokens=openai_tokens(pieces)))
    first, second = await judge.answer(picture(), [DOG, SIDE])
    assert (first.method, second.method) == ("logprob", "logprob")
    assert first.probability == pytest.approx(0.75)
    assert second.choice == "left of"
    assert second.probability == pytest.approx(0.4)
    assert first.distribution is None
    assert second.distribution is not None
    assert second.distribution["left of"] == pytest.approx(0.6)
    assert first.rationale == '"a":"no"'
    await judge.aclose()


async def test_without_its_tokens_a_reply_is_taken_at_its_word(
    server: Loopback, caller: Caller
) -> None:
    judge = server.judge("openai", caller, **WITH_LOGPROBS)
    text = '{"answers":[{"n":1,"a":"no","p":0.9}],"why":[]}'
    other = openai_tokens([("something else", {})])
    server.script.append(lambda r: replied(r, text, tokens=other))
    server.script.append(lambda r: replied(r, text))
    for _ in range(2):
        (answer,) = await judge.answer(picture(), [DOG])
        assert answer.method == "verbalized"
        assert answer.probability == pytest.approx(0.1)
        assert answer.note.startswith("token probabilities could not be used: ")
    await judge.aclose()


@pytest.mark.parametrize("structured", ["tool", "schema"])
async def test_refusals_are_not_sent_again(
    server: Loopback, caller: Caller, structured: str
) -> None:
    judge = server.judge("openai", caller, structured=structured)
    server.script.append(lambda r: replied(r, None, refusal="I cannot look at this."))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.reason.startswith("refused: I cannot look at this.")
    server.script.append(lambda r: replied(r, None, stop="content_filter"))
    (answer,) = await judge.answer(picture(), [DOG])
    assert "content filter" in answer.reason
    assert len(server.received) == 2
    await judge.aclose()


async def test_a_schema_reply_cut_short_keeps_its_usage(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller, structured="schema")
    server.script.append(lambda r: replied(r, '{"answers":[{"num', stop="length"))
    (answer,) = await judge.answer(picture(), [DOG])
    assert "cut off after 101 tokens" in answer.reason
    assert caller.totals.usage.tokens_in == 1003
    await judge.aclose()


async def test_arguments_that_are_no_json_are_asked_for_again(
    server: Loopback, caller: Caller
) -> None:
    judge = server.judge("openai", caller)
    server.script.append(lambda r: replied(r, '{"answers":[{"n":1,'))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.state != "unscored"
    for _ in range(2):
        server.script.append(lambda r: replied(r, "not at all"))
    (answer,) = await judge.answer(picture(), [DOG])
    assert "no JSON: 'not at all'" in answer.reason
    assert len(server.received) == 4
    await judge.aclose()


@pytest.mark.parametrize("status", [402, 429])
async def test_an_account_without_credit_is_not_waited_for(
    server: Loopback, caller: Caller, status: int
) -> None:
    judge = server.judge("openai", caller)
    error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
    server.script.append(lambda _: JSONResponse({"error": error}, status))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.reason.count("(check the account's balance)") == 1
    assert len(server.received) == 1
    await judge.aclose()


def responded(received: Received, output: list[dict[str, object]], **more: object) -> Response:
    usage = {
        "input_tokens": 50,
        "output_tokens": 9,
        "total_tokens": 59,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "served-model"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    body = {**head, **rest, "status": "completed", "output": output, "usage": usage, **more}
    return JSONResponse(body)


async def test_models_that_take_responses_only(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller, api="responses", sampling={}, max_output_tokens=0)

    def script(received: Received) -> Response:
        call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "report_answers"}
        arguments = json.dumps(answered(received))
        return responded(received, [{**call, "arguments": arguments, "status": "completed"}])

    server.script.append(script)
    answers = await judge.answer(picture(), [DOG, SIDE])
    (received,) = server.received
    assert received.path == "/v1/responses"
    assert received.body["tools"][0]["parameters"] == sheet_schema(questions=2)
    assert received.body["tool_choice"] == {"type": "function", "name": "report_answers"}
    assert received.body["store"] is False
    assert all(a.state != "unscored" for a in answers), answers[0].reason
    assert [sum(a.tokens_in for a in answers), sum(a.tokens_cached for a in answers)] == [50, 4]
    assert {a.model for a in answers} == {"served-model"}
    refusal = {"type": "refusal", "refusal": "No."}
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    server.script.append(lambda r: responded(r, [{**said, "content": [refusal]}]))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.reason.startswith("refused: No.")
    await judge.aclose()


async def test_responses_by_a_schema(server: Loopback, caller: Caller) -> None:
    judge = server.judge("openai", caller, api="responses", structured="schema", sampling={})

    def script(received: Received) -> Response:
        text = {"type": "output_text", "text": json.dumps(answered(received)), "annotations": []}
        said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
        return responded(received, [{**said, "content": [text]}])

    server.script.append(script)
    (answer,) = await judge.answer(picture(), [DOG])
    form = server.received[0].body["text"]["format"]
    assert (form["type"], form["strict"]) == ("json_schema", True)
    assert form["schema"] == sheet_schema(questions=1)
    assert answer.state != "unscored", answer.reason
    await judge.aclose()
