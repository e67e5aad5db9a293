"""Gemini's wire format: what is sent, and what is made of the replies."""

from __future__ import annotations

import math

import pytest
from starlette.responses import JSONResponse

from scenewright.agents.judges.sheet import sheet_schema
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import schema_for
from tests.agents.judges.conformance import picture
from tests.agents.judges.loopback import Loopback, replied

SCHEMA = schema_for("gemini", sheet_schema())
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")


async def test_the_function_is_forced(server: Loopback, caller: Caller) -> None:
    judge = server.judge("gemini", caller)
    await judge.answer(picture(), [DOG])
    (received,) = server.received
    assert received.path == "/v1beta/models/some-model:streamGenerateContent"
    ((function,),) = [tool["functionDeclarations"] for tool in received.body["tools"]]
    assert function["name"] == "report_answers"
    assert function["parameters_json_schema"] == SCHEMA
    forced = received.body["toolConfig"]["functionCallingConfig"]
    assert forced == {"mode": "ANY", "allowedFunctionNames": ["report_answers"]}
    config = received.body["generationConfig"]
    assert config == {"temperature": 0.0, "seed": 0, "maxOutputTokens": 4096}
    await judge.aclose()


PAPER = {"temperature": 0.7, "top_p": 0.95, "top_k": 64}
"""How Scene-Bench samples its judge (Algorithm 1)."""


async def test_the_papers_sampling_is_sent(server: Loopback, caller: Caller) -> None:
    judge = server.judge("gemini", caller, sampling=PAPER)
    await judge.answer(picture(), [DOG])
    config = server.received[0].body["generationConfig"]
    assert (config["temperature"], config["topP"], config["topK"]) == (0.7, 0.95, 64)
    assert "seed" not in config
    assert judge.fingerprint != server.judge("gemini", caller).fingerprint
    await judge.aclose()


async def test_probabilities_come_from_the_tokens(server: Loopback, caller: Caller) -> None:
    judge = server.judge("gemini", caller, structured="schema", logprobs=True)

    def chance(token: str, value: float) -> dict[str, object]:
        return {"token": token, "logProbability": math.log(value)}

    pieces = ['{"answers": [{"n": 1, "a": "', "n", 'o", "p": 0.5}]}']
    tops = [[chance(pieces[0], 1.0)], [chance("n", 0.6), chance("y", 0.3), chance("x", 0.1)], []]
    result = {
        "chosenCandidates": [chance(piece, 0.6) for piece in pieces],
        "topCandidates": [{"candidates": top} for top in tops],
    }
    server.script.append(lambda r: replied(r, "".join(pieces), logprobsResult=result))
    (answer,) = await judge.answer(picture(), [DOG])
    config = server.received[0].body["generationConfig"]
    assert (config["responseLogprobs"], config["logprobs"]) == (True, 20)
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == SCHEMA
    assert (answer.state, answer.method) == ("no", "logprob")
    assert answer.probability == pytest.approx(1 / 3)
    await judge.aclose()


async def test_refusals_are_not_sent_again(server: Loopback, caller: Caller) -> None:
    judge = server.judge("gemini", caller)
    server.script.append(lambda r: replied(r, None, stop="SAFETY"))
    server.script.append(
        lambda _: JSONResponse({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    )
    reasons = [(await judge.answer(picture(), [DOG]))[0].reason for _ in range(2)]
    assert reasons[0].startswith("refused: Declined by Gemini: SAFETY")
    assert reasons[1].startswith("refused: Declined by Gemini: PROHIBITED_CONTENT")
    assert len(server.received) == 2
    await judge.aclose()


async def test_a_malformed_function_call_is_asked_for_again(
    server: Loopback, caller: Caller
) -> None:
    judge = server.judge("gemini", caller)
    server.script.append(lambda r: replied(r, None, stop="MALFORMED_FUNCTION_CALL"))
    (answer,) = await judge.answer(picture(), [DOG])
    assert answer.state != "unscored"
    assert answer.tokens_in == 2 * 1003
    await judge.aclose()
