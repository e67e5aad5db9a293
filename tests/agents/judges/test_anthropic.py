"""Anthropic's wire format: what is sent, and what is made of the replies."""

from __future__ import annotations

import pytest
from starlette.responses import JSONResponse

from scenewright.agents.judges.sheet import sheet_schema
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import schema_for
from tests.agents.judges.conformance import picture
from tests.agents.judges.loopback import Loopback, replied

SCHEMA = schema_for("anthropic", sheet_schema())
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")


async def test_the_tool_is_forced_and_nothing_is_sampled(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller)
    await judge.answer(picture(), [DOG])
    (received,) = server.received
    body = received.body
    assert received.path == "/v1/messages"
    (tool,) = body["tools"]
    assert (tool["name"], tool["strict"]) == ("report_answers", True)
    assert tool["input_schema"] == SCHEMA
    assert body["tool_choice"] == {
        "type": "tool",
        "name": "report_answers",
        "disable_parallel_tool_use": True,
    }
    assert body["max_tokens"] == 4096
    assert not {"temperature", "top_p", "top_k", "seed"} & set(body)
    await judge.aclose()


async def test_a_schema_in_place_of_the_tool(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller, structured="schema")
    (answer,) = await judge.answer(picture(), [DOG])
    body = server.received[0].body
    assert "tools" not in body
    assert body["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}
    assert answer.state != "unscored"
    await judge.aclose()


async def test_other_servers_may_be_sent_a_temperature(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller, sampling={"temperature": 0.25})
    await judge.answer(picture(), [DOG])
    assert server.received[0].body["temperature"] == 0.25
    assert judge.caps.sampling == ("temperature",)
    await judge.aclose()


async def test_refusals_are_not_sent_again(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller)
    server.script.append(lambda r: replied(r, "I will not look at this.", stop="refusal"))
    details = {"type": "refusal", "category": "cyber", "explanation": "a policy"}
    server.script.append(lambda r: replied(r, None, stop="refusal", stop_details=details))
    reasons = [(await judge.answer(picture(), [DOG]))[0].reason for _ in range(2)]
    assert reasons[1].startswith("refused: a policy")
    assert reasons[0].startswith("refused: I will not look at this.")
    assert len(server.received) == 2
    await judge.aclose()


async def test_overload_is_tried_again(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.script.append(lambda _: JSONResponse(error, 529))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.state != "unscored"
    assert len(server.received) == 2
    await judge.aclose()


async def test_answers_before_the_cut_are_used(server: Loopback, caller: Caller) -> None:
    judge = server.judge("anthropic", caller)
    first = {"n": 1, "a": "yes", "p": 0.9}
    server.script.append(lambda r: replied(r, {"answers": [first, {"n": 2}]}, stop="max_tokens"))
    other = DOG.model_copy(update={"id": "o:cat", "question": "Is there a cat?"})
    answers = await judge.answer(picture(), [DOG, other])
    assert [len(r.questions) for r in server.received] == [2, 1]
    assert answers[0].probability == pytest.approx(0.9)
    assert answers[1].state != "unscored"
    await judge.aclose()
