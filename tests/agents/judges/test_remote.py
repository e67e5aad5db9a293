"""Judges behind an API over a server on this machine: what all three providers share."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from starlette.responses import JSONResponse, Response

from scenewright.agents.judges.remote import RemoteJudge, chunks, remote_judge
from scenewright.agents.judges.sheet import clean, sheet_of
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.questions import facts_of
from scenewright.mock_providers.sheets import YES_NO, Question
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import place_of
from scenewright.providers.judge_calls import spread
from tests.agents.judges.conformance import HOSTILE, JudgeConformance, picture, scene
from tests.agents.judges.loopback import KEY, PROVIDERS, Loopback, Received, answered, replied

NAMES = (*HOSTILE, 'a "quoted" \\ name', "two\nlines\r\n\tand a tab", '"}],"answers":[{', "\u2028")


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def judge(server: Loopback, caller: Caller, provider: str) -> AsyncIterator[RemoteJudge]:
    made = server.judge(provider, caller)
    yield made
    await made.aclose()


class TestConformance(JudgeConformance):
    pass


def without(number: int) -> object:
    """A reply that leaves out one answer."""

    def script(received: Received) -> Response:
        answers = [a for a in answered(received)["answers"] if a["n"] != number]
        return replied(received, {"answers": answers})

    return script


def plain(number: int) -> Fact:
    return Fact(
        id=f"o:{number}",
        kind="object",
        subject=str(number),
        statement=f"thing {number}",
        question=f"Is there a thing {number} in the image?",
    )


async def test_all_facts_go_in_one_call_and_the_account_adds_up(
    judge: RemoteJudge, server: Loopback
) -> None:
    facts = facts_of(scene())
    answers = await judge.answer(picture(), facts)
    assert len(server.received) == 1
    assert sum(a.tokens_in for a in answers) == 1003
    assert sum(a.tokens_out for a in answers) == 101
    assert sum(a.tokens_cached for a in answers) == 7
    # Anthropic alone counts what it wrote to its cache.
    written = judge._caller.totals.usage.tokens_written
    assert written == (2 if judge.id.startswith("anthropic:") else 0)
    assert {a.model for a in answers} == {"served-model"}
    assert all(a.seconds > 0 and a.rationale == "seen" for a in answers)
    assert {a.method for a in answers} == {"verbalized"}


async def test_the_sheet_and_the_picture_arrive_as_they_are(
    judge: RemoteJudge, server: Loopback
) -> None:
    facts = facts_of(scene())
    await judge.answer(picture(), facts)
    (received,) = server.received
    assert [q.text for q in received.questions] == [f.question for f in facts]
    assert [tuple(q.options.values()) for q in received.questions] == [f.options for f in facts]
    assert received.instructions == sheet_of(facts).instructions
    media_type, data = received.picture
    assert media_type == "image/png"
    assert Image.open(io.BytesIO(data)).tobytes() == picture().tobytes()


async def test_what_all_pictures_share_is_sent_before_the_picture(
    server: Loopback, caller: Caller, provider: str
) -> None:
    judge = server.judge(provider, caller, prompt_cache=True, reasons="none")
    facts = facts_of(scene())
    for asked in (facts[:2], facts[2:]):
        await judge.answer(picture(), asked)
    await judge.answer(picture((9, 9, 9)), facts)
    one, two, other = server.received
    assert one.instructions == two.instructions == other.instructions
    assert "why" not in one.instructions + json.dumps(one.body)
    assert one.parts[0] == two.parts[0] != other.parts[0]
    if provider == "openai":
        keys = [received.body["prompt_cache_key"] for received in server.received]
        assert keys[0] == keys[1] != keys[2]
    if provider == "anthropic":
        assert one.parts[0]["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in one.parts[1]
    await judge.aclose()


async def test_other_sheets_are_other_judges(
    server: Loopback, caller: Caller, provider: str
) -> None:
    made = [
        server.judge(provider, caller, **settings)
        for settings in ({}, {"reasons": "all"}, {"stems": False})
    ]
    assert len({judge.fingerprint for judge in made}) == 3
    kept = server.judge(provider, caller, prompt_cache=True)
    assert kept.fingerprint == made[0].fingerprint
    for judge in (*made, kept):
        await judge.aclose()


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_stays_inside_its_question(
    judge: RemoteJudge, server: Loopback, name: str
) -> None:
    asked = plain(1).model_copy(update={"question": f"Is there a {name} in the image?"})
    options = (name, "on", "no visible relationship")
    chosen = plain(2).model_copy(update={"options": options, "expected": "on"})
    answers = await judge.answer(picture(), [asked, chosen, plain(3)])
    (received,) = server.received
    assert received.questions == [
        Question(1, f"Is there a {clean(name)} in the image?", YES_NO),
        Question(2, chosen.question, {"A": clean(name), "B": "on", "C": "no visible relationship"}),
        Question(3, plain(3).question, YES_NO),
    ]
    assert all(answer.state != "unscored" for answer in answers)
    assert not set(clean(name)) & set("\n\r\t\u2028")


async def test_many_facts_go_in_even_chunks_of_which_each_stands_alone(
    server: Loopback, caller: Caller, provider: str
) -> None:
    judge = server.judge(provider, caller, facts_per_call=4)
    server.script.append(lambda _: JSONResponse({"error": {"message": "no such thing"}}, 404))
    answers = await judge.answer(picture(), [plain(n) for n in range(9)])
    assert sorted(len(r.questions) for r in server.received) == [3, 3, 3]
    lost = [a for a in answers if a.state == "unscored"]
    assert len(lost) == 3
    assert all("404" in a.reason and "no such thing" in a.reason for a in lost)
    assert sum(a.tokens_in for a in answers) == 2 * 1003
    await judge.aclose()


async def test_a_fact_left_out_is_asked_once_more(judge: RemoteJudge, server: Loopback) -> None:
    facts = [plain(n) for n in range(5)]
    server.script.append(without(3))
    answers = await judge.answer(picture(), facts)
    first, second = server.received
    assert [len(first.questions), len(second.questions)] == [5, 1]
    assert second.questions[0].text == facts[2].question
    assert all(a.state != "unscored" for a in answers)
    assert sum(a.tokens_in for a in answers) == 2 * 1003
    assert sum(a.tokens_cached for a in answers) == 2 * 7


async def test_a_fact_left_out_twice_is_unscored_with_the_reason(
    judge: RemoteJudge, server: Loopback
) -> None:
    none = lambda received: replied(received, {"answers": []})  # noqa: E731
    server.script.extend([without(2), none, none])
    answers = await judge.answer(picture(), [plain(n) for n in range(3)])
    assert [a.state == "unscored" for a in answers] == [False, True, False]
    assert "does not answer it" in answers[1].reason
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("status", "sent", "reason"),
    [(401, 1, "check the API key"), (400, 1, "refused"), (500, 2, "HTTP 500")],
)
async def test_errors_end_in_a_reason_after_so_many_attempts(
    judge: RemoteJudge, server: Loopback, status: int, sent: int, reason: str
) -> None:
    body = {"error": {"message": "out of luck", "code": status, "type": "x"}}
    for _ in range(sent):
        server.script.append(lambda _: JSONResponse(body, status))
    answers = await judge.answer(picture(), [plain(1), plain(2)])
    assert len(server.received) == sent
    assert {a.state for a in answers} == {"unscored"}
    assert all(reason in a.reason and "out of luck" in a.reason for a in answers)


async def test_a_limit_is_waited_out(judge: RemoteJudge, server: Loopback) -> None:
    body = {"error": {"message": "slow down"}}
    server.script.append(lambda _: JSONResponse(body, 429, {"retry-after": "0.01"}))
    (answer,) = await judge.answer(picture(), [plain(1)])
    assert answer.state != "unscored"
    assert len(server.received) == 2


@pytest.mark.parametrize(
    "response",
    [
        Response(b'{"choices": [{"mess', media_type="application/json"),
        JSONResponse({}),
        JSONResponse([]),
        Response(b"", media_type="application/json"),
    ],
    ids=["cut", "nothing", "list", "empty"],
)
async def test_a_reply_out_of_its_format_is_asked_for_again(
    judge: RemoteJudge, server: Loopback, response: Response
) -> None:
    server.script.append(lambda _: response)
    (answer,) = await judge.answer(picture(), [plain(1)])
    assert len(server.received) == 2, answer.reason
    assert answer.state != "unscored"


async def test_a_server_that_is_gone_is_a_reason(provider: str) -> None:
    caller = Caller("test", attempts=1)
    judge = remote_judge(
        provider, "m", caller, api_key=KEY, base_url="http://127.0.0.1:9/v1", overrides=None
    )
    (answer,) = await judge.answer(picture(), [plain(1)])
    assert answer.state == "unscored"
    assert "no connection" in answer.reason
    await judge.aclose()
    await caller.aclose()


async def test_an_empty_reply_and_a_cut_one_say_so(judge: RemoteJudge, server: Loopback) -> None:
    cut = {"openai": "length", "gemini": "MAX_TOKENS", "anthropic": "max_tokens"}
    for _ in range(2):
        server.script.append(lambda received: replied(received, None))
    (answer,) = await judge.answer(picture(), [plain(1)])
    assert "empty reply" in answer.reason
    server.script.append(lambda r: replied(r, {"answers": []}, stop=cut[r.provider]))
    (answer,) = await judge.answer(picture(), [plain(1)])
    assert "cut off after 101 tokens" in answer.reason
    # With the same limit it would be cut off again.
    assert len(server.received) == 3


async def test_the_key_goes_out_and_shows_nowhere(
    judge: RemoteJudge, server: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"error": {"message": f"bad key {KEY}, told you: {KEY}"}}
    server.script.append(lambda _: JSONResponse(body, 401))
    answers = await judge.answer(picture(), [plain(1)])
    sent = server.received[0].headers
    assert KEY in sent.get("authorization", "") + sent.get("x-goog-api-key", "")
    client = judge._client
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("scenewright")]
    shown = [repr(judge), str(judge), repr(client), judge.fingerprint, answers[0].reason, *ours]
    assert not any(KEY in text for text in shown)
    assert "bad key [hidden]" in answers[0].reason
    assert KEY not in repr(vars(client))


async def test_cancelling_ends_the_call(judge: RemoteJudge, server: Loopback) -> None:
    server.held = True
    task = asyncio.create_task(judge.answer(picture(), [plain(1)]))
    while not server.received:  # noqa: ASYNC110 - a thread puts it there
        await asyncio.sleep(0.002)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    server.held = False
    assert judge._caller.open_calls == 0


def test_one_judge_in_several_event_loops_one_after_another(
    server: Loopback, provider: str
) -> None:
    callers: list[Caller] = []
    judge = server.judge(provider, Caller("unused"))

    async def once() -> str:
        judge._caller = Caller("test", attempts=1)
        callers.append(judge._caller)
        (answer,) = await judge.answer(picture(), [plain(1)])
        return answer.state

    assert {asyncio.run(once()) for _ in range(3)} <= {"yes", "no"}
    assert len(server.received) == 3
    asyncio.run(judge.aclose())
    gc.collect()


async def test_a_closed_judge_says_so(judge: RemoteJudge) -> None:
    await judge.aclose()
    with pytest.raises(JudgeError, match="closed"):
        await judge.answer(picture(), [plain(1)])


def test_a_missing_key_names_its_variable(provider: str) -> None:
    for key in (None, "", "  "):
        with pytest.raises(JudgeError, match=f"{provider.upper()}_API_KEY"):
            remote_judge(provider, "m", Caller("test"), api_key=key)
    with pytest.raises(JudgeError, match="no provider 'else'"):
        remote_judge("else", "m", Caller("test"), api_key=KEY)


def test_a_judge_names_itself_and_is_one(server: Loopback, provider: str) -> None:
    judge: Judge = server.judge(provider, Caller("a"))
    assert judge.id == f"{provider}:some-model"
    assert server.judge(provider, Caller("a"), name="lab").id == "lab:some-model"
    assert isinstance(judge, Judge)
    assert judge.caps.bounds_calls
    assert not judge.caps.local


def test_the_fingerprint_follows_what_changes_answers_and_nothing_else(
    server: Loopback, provider: str
) -> None:
    def print_of(**changes: object) -> str:
        return server.judge(provider, Caller("a"), **changes).fingerprint

    same = {print_of(), print_of(key="another-key"), print_of(name="other")}
    assert len(same) == 1
    changes: list[dict[str, object]] = [
        {"model": "other"},
        {"max_side": 64},
        {"image_format": "jpeg"},
        {"structured": "schema"},
        {"facts_per_call": 1},
        {"sampling": {"seed": 3}},
    ]
    assert len({print_of(**change) for change in changes} | same) == len(changes) + 1


async def test_too_many_options_are_unscored_alone(judge: RemoteJudge, server: Loopback) -> None:
    options = tuple(f"option {n}" for n in range(27))
    many = plain(1).model_copy(update={"options": options, "expected": options[0]})
    answers = await judge.answer(picture(), [many, plain(2)])
    assert answers[0].state == "unscored"
    assert "27 options" in answers[0].reason
    assert judge.expected((64, 64), [many, plain(2)]) == judge.expected((64, 64), [plain(2)])
    assert judge.expected((64, 64), [many]).calls == 0
    assert answers[1].state != "unscored"


def test_the_place_of_a_server_holds_no_secret() -> None:
    assert place_of("https://me:secret@host:8000/v1/?token=x") == "host:8000/v1"


@given(st.integers(0, 10**6), st.integers(1, 200))
def test_shares_add_up_and_are_even(total: int, count: int) -> None:
    shares = spread(total, count)
    assert sum(shares) == total
    assert len(shares) == count
    assert max(shares) - min(shares) <= 1


@given(st.integers(0, 100), st.integers(1, 40))
def test_chunks_are_few_even_and_in_order(count: int, most: int) -> None:
    todo = [(at, plain(at)) for at in range(count)]
    found = chunks(todo, most)
    assert [item for chunk in found for item in chunk] == todo
    assert len(found) == -(-count // most)
    assert all(1 <= len(chunk) <= most for chunk in found)
