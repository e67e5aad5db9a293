"""System One on every host: requests and replies as each documents them, worked out by hand."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx2
import pytest

from scenewright.agents.judges.decisions.judge import SystemOneDecisions, decision_judge
from scenewright.agents.judges.decisions.models import caps_of, host_of
from scenewright.agents.judges.decisions.questions import (
    MISSING,
    REFUSED,
    DecisionReading,
    Question,
)
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.config.accounts import DECISION_HOSTS
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import MalformedReply, RawReply
from scenewright.providers.clients.reading import StatusError, status_error
from scenewright.providers.clients.systemone import SystemOneClient
from scenewright.providers.model_facts import rows_of
from scenewright.providers.retry import PermanentError, RateLimited, Transient

HOSTS = tuple(rows_of("scenewright.agents.judges.decisions", "hosts.toml"))
PICTURE = PreparedImage(b"a file", "image/jpeg", 64, 48)
DATA = base64.b64encode(b"a file").decode()
URL = f"data:image/jpeg;base64,{DATA}"
NAME = "<img-7365d029>"
"""SHA-256 of the file begins with these digits."""
QUESTIONS = (
    Question("f1", "yes_no", "Is there a dog?", (("yes", ""), ("no", ""))),
    Question("f2", "choice", "Where is it?", (("on", ""), ("no visible relationship", ""))),
    Question("f3", "score", "Is it real?", (("0", "bad"), ("1", "fair"), ("2", "good"))),
)
ASKED = {
    "f1": {"type": "noul", "instructions": "Is there a dog?"},
    "f2": {
        "type": "choice",
        "instructions": "Where is it?",
        "criteria": {"on": None, "no visible relationship": None},
    },
    "f3": {"type": "score", "instructions": "Is it real?", "criteria": ["bad", "fair", "good"]},
}
ANSWERS: dict[str, Any] = {
    "f1": {"type": "noul", "noul": 0.875},
    "f2": {
        "type": "choice",
        "choice": "on",
        "confidence": 7.5,
        "probabilities": {"on": 0.75, "no visible relationship": 0.25},
    },
    "f3": {
        "type": "score",
        "score": 1.25,
        "confidence": -1,
        "legend": {"0": "bad", "1": "fair", "2": "good"},
        "probabilities": {"0": 0.25, "1": 0.25, "2": 0.5},
    },
}
SHARES = ((0.875, 0.125), (0.75, 0.25), (0.25, 0.25, 0.5))
ASSETS = {
    "state": NAME,
    "assets": {NAME: {"type": "image", "format": "jpg", "data_base64": DATA}},
}
PICTURED: dict[str, dict[str, Any]] = {
    "systemone": ASSETS,
    "transformers": ASSETS,
    "typesafe": ASSETS,
    "litellm": ASSETS,
    "vllm": {"state": "The image.", "images": [URL]},
    "cloudflare": {"state": "The image.", "images": [URL]},
    "sglang": {"state": "The image.", "images": [DATA]},
    "llamacpp": {"state": "The image.", "images": [DATA]},
    "ollama": {"state": "The image.", "images": [DATA]},
    "perplexity": {"state": [{"type": "image_url", "image_url": {"url": URL}}]},
    "openrouter": {"state": [{"type": "image_url", "image_url": {"url": URL}}]},
}
ADDRESSES = {
    "systemone": "http://here/v1/systemone",
    "transformers": "http://127.0.0.1:8000/v1/systemone",
    "vllm": "http://127.0.0.1:8000/v1/systemone",
    "sglang": "http://127.0.0.1:30000/v1/systemone",
    "llamacpp": "http://127.0.0.1:8080/v1/systemone",
    "ollama": "http://127.0.0.1:11434/v1/systemone",
    "typesafe": "https://api.typesafe.ai/v1/systemone",
    "perplexity": "https://api.perplexity.ai/v1/decisions",
    "openrouter": "https://openrouter.ai/api/alpha/decisions",
    "litellm": "http://127.0.0.1:4000/v1/systemone",
    "cloudflare": "https://api.cloudflare.com/client/v4/accounts/me/ai/run/@cf/cloudflare/m",
}


def wire(host: str, model: str = "m", **settings: Any) -> SystemOneDecisions:
    return SystemOneDecisions(model, host_of(host, settings))


def client(host: str) -> SystemOneClient:
    base = "http://here" if host == "systemone" else None
    judge = decision_judge(host, "m", Caller("test"), api_key="secret-key", base_url=base)
    assert isinstance(judge._client, SystemOneClient)
    return judge._client


def reply(host: str, answers: Any = None, **more: Any) -> RawReply:
    body: dict[str, Any] = {
        "model": "m-1.2",
        "answers": ANSWERS if answers is None else answers,
        "usage": {"input_tokens": 321, "output_tokens": 0},
        **more,
    }
    header = "cf-ray" if host == "cloudflare" else host_of(host).request_id
    if host == "cloudflare":
        body = {"result": body, "success": True, "errors": [], "messages": []}
    return RawReply(json.dumps(body), {header: "r-7"})


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "me")


def test_every_host_has_an_account_an_address_and_limits() -> None:
    assert set(HOSTS) == set(DECISION_HOSTS) == set(PICTURED) == set(ADDRESSES)
    for name in HOSTS:
        caps = caps_of(name, "m")
        assert caps.wire == name
        assert caps.questions_per_call >= 64
        assert not caps.turns, "no host documents how a yes/no question is turned round"


@pytest.mark.parametrize("host", HOSTS)
def test_the_request_is_the_host_s(host: str) -> None:
    built = wire(host).build(PICTURE, QUESTIONS)
    assert built == {"model": "m", **PICTURED[host], "questions": ASKED}
    # The picture goes before the questions, for caches of prefixes.
    assert list(built).index("state") < list(built).index("questions")
    assert list(built)[-1] == "questions"


@pytest.mark.parametrize("host", HOSTS)
def test_the_address_is_the_host_s(host: str) -> None:
    assert client(host)._url == ADDRESSES[host]


@pytest.mark.parametrize("host", HOSTS)
def test_the_reply_is_read(host: str) -> None:
    read = wire(host).read(reply(host), QUESTIONS)
    assert [one.shares for one in read.answers] == list(SHARES)
    assert (read.usage.tokens_in, read.usage.tokens_out) == (321, 0)
    assert (read.model, read.request_id) == ("m-1.2", "r-7")


@pytest.mark.parametrize("base", ["http://there", "http://there/", "http://there/v1"])
def test_an_address_may_end_as_those_of_chats_do(base: str) -> None:
    assert host_of("vllm").url(base, "m") == "http://there/v1/systemone"


def test_a_model_s_name_is_quoted_in_the_address() -> None:
    url = host_of("cloudflare").url("https://api.cloudflare.com", "clef?x=1 2")
    assert url.endswith("/@cf/cloudflare/clef%3Fx%3D1%202")


def test_an_address_that_lacks_something_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUDFLARE_ACCOUNT_ID")
    with pytest.raises(JudgeError, match="no account for Cloudflare: set CLOUDFLARE_ACCOUNT_ID"):
        client("cloudflare")


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("nowhere", {}, "no host 'nowhere' of decision models: use one of systemone, transformers"),
        ("vllm", {"pictures": "mail"}, "host vllm cannot be used so: pictures"),
        ("vllm", {"colour": 1}, "colour: Extra inputs"),
        ("vllm", {"path": "v1"}, "path"),
        ("vllm", {"path": "/{place}"}, "use {model} and {account} only"),
        ("vllm", {"path": "/{account}"}, "account_variable"),
    ],
)
def test_a_host_that_cannot_be_says_why(
    name: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(JudgeError) as error:
        host_of(name, settings)
    assert message in str(error.value)


def test_what_is_uncertain_is_a_setting() -> None:
    built = wire("llamacpp", pictures="assets").build(PICTURE, QUESTIONS)
    assert built == {"model": "m", **ASSETS, "questions": ASKED}
    there = host_of("systemone", {"reply": ["data", "out"], "input_tokens": ["used"]})
    assert (there.reply, there.input_tokens) == (("data", "out"), ("used",))


def test_a_question_turned_round_has_criteria() -> None:
    turned = Question("g1", "yes_no", "Is there a dog?", (("no", ""), ("yes", "")))
    built = wire("typesafe").build(PICTURE, [turned])
    assert built["questions"]["g1"]["criteria"] == {"true": "no", "false": "yes"}


def test_the_picture_s_name_stands_nowhere_else() -> None:
    text = f"Is {NAME} a dog, or x{NAME[:-1]}b>y?"
    asked = [Question("f1", "yes_no", text, (("yes", ""), ("no", "")))]
    built = wire("transformers").build(PICTURE, asked)
    (name,) = built["assets"]
    assert built["state"] == name
    assert name.startswith(NAME[:-1])
    assert name not in json.dumps(built["questions"])


def read_one(host: str, answers: Any, **more: Any) -> DecisionReading:
    return wire(host).read(reply(host, answers, **more), QUESTIONS)


def test_questions_left_out_or_refused_cost_the_others_nothing() -> None:
    some = {"f3": ANSWERS["f3"], "f2": {"type": "refusal"}}
    read = read_one("litellm", some)
    assert [one.reason for one in read.answers] == [MISSING, REFUSED, ""]
    assert read.answers[2].shares == SHARES[2]


def test_answers_in_another_order_are_the_same() -> None:
    shuffled = dict(reversed(ANSWERS.items()))
    assert [one.shares for one in read_one("vllm", shuffled).answers] == list(SHARES)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("yes", "answered 'yes'"),
        ({"type": "box", "box": {}}, "gave an answer of type 'box'"),
        ({"type": "noul", "noul": "high"}, "gave the probability 'high'"),
        ({"type": "noul"}, "gave the probability None"),
        ({"type": "noul", "confidence": 0.9}, "gave the probability None"),
        (ANSWERS["f2"], "answered a choice where a yes_no was asked"),
    ],
)
def test_what_is_no_answer_has_a_reason(answer: Any, reason: str) -> None:
    (first, second, _) = read_one("ollama", {**ANSWERS, "f1": answer}).answers
    assert first.shares is None
    assert first.reason.startswith(reason)
    assert second.shares == SHARES[1]


def test_names_given_twice_are_no_answer() -> None:
    body = json.dumps({"answers": ANSWERS})
    twice = body.replace('"f1":', '"f1": {"type": "noul", "noul": 0.1}, "f1":')
    answers = wire("vllm").read(RawReply(twice), QUESTIONS).answers
    assert answers[0].reason == "was answered 2 times"
    options = body.replace('"on": 0.75', '"on": 0.75, "on": 0.2')
    answers = wire("vllm").read(RawReply(options), QUESTIONS).answers
    assert "two probabilities to 'on'" in answers[1].reason


def test_a_model_that_does_not_answer_in_the_asked_form_is_no_judge() -> None:
    masses = {"f1": 1e-6, "f2": 0.98, "f3": 0.5}
    told = {name: {"label_mass": mass} for name, mass in masses.items()}
    answers = read_one("vllm", None, diagnostics=told).answers
    assert "only 1e-06 of the next token's probability lies on its labels" in answers[0].reason
    assert answers[0].final
    assert [one.shares for one in answers[1:]] == list(SHARES[1:])
    within = {name: {**ANSWERS[name], "x_label_mass": masses[name]} for name in ANSWERS}
    answers = read_one("sglang", within).answers
    assert [one.shares is None for one in answers] == [True, False, False]
    # Where no mass is told, none is asked for.
    assert read_one("transformers", within).answers[0].shares == SHARES[0]


@pytest.mark.parametrize(
    "text", ["", "<html>", "[]", "{}", '{"answers": []}', '{"answers": null}', '{"result": {}}']
)
@pytest.mark.parametrize("host", ["vllm", "cloudflare"])
def test_what_is_no_reply_is_malformed(host: str, text: str) -> None:
    with pytest.raises(MalformedReply):
        wire(host).read(RawReply(text), QUESTIONS)


LONG = "x" * 400
ERRORS = [
    (400, {"detail": "no labels"}, PermanentError, "HTTP 400", "no labels"),
    (
        422,
        {"detail": [{"loc": ["body", "questions"], "msg": "too many"}]},
        PermanentError,
        "HTTP 422",
        "body.questions: too many",
    ),
    (
        401,
        {"error": {"message": "bad key"}},
        PermanentError,
        "HTTP 401",
        "bad key (check the API key)",
    ),
    (404, {"error": "model 'm' not found"}, PermanentError, "HTTP 404", "model 'm' not found"),
    (413, "", PermanentError, "HTTP 413", "no reason was given (the request is too large"),
    (429, {"errors": [{"code": 3040, "message": "busy"}]}, RateLimited, "HTTP 429", "busy"),
    (500, "Internal Server Error", Transient, "HTTP 500", "Internal Server Error"),
    (503, f"<html>{LONG}</html>", Transient, "HTTP 503", "<html>"),
]


@pytest.mark.parametrize(("status", "body", "kind", "begins", "holds"), ERRORS)
def test_an_error_names_the_server_and_what_it_said(
    status: int, body: Any, kind: type[Any], begins: str, holds: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    error = status_error(httpx2.Response(400, text=text))
    message, codes = error.message, error.codes
    decision = client("vllm").classify(StatusError(status, message, {"retry-after": "3"}, codes))
    assert isinstance(decision, kind)
    place = "vLLM at http://127.0.0.1:8000/v1/systemone"
    assert decision.reason.startswith(f"{begins}: {place}: ")
    assert holds in decision.reason
    if not isinstance(decision, PermanentError):
        assert decision.retry_after == 3.0


def test_a_used_up_allocation_is_not_tried_again() -> None:
    used = {"success": False, "errors": [{"code": 3036, "message": "daily allocation used"}]}
    busy = {"success": False, "errors": [{"code": 3040, "message": "out of capacity"}]}
    form, asked = wire("cloudflare"), client("cloudflare")
    for body, kind in ((used, PermanentError), (busy, Transient)):
        with pytest.raises(StatusError) as error:
            form.read(RawReply(json.dumps(body)), QUESTIONS)
        decision = asked.classify(error.value)
        assert isinstance(decision, kind)
        assert "Cloudflare at https://api.cloudflare.com/" in decision.reason
    limited = StatusError(429, "daily allocation used", codes=(3036,))
    assert isinstance(asked.classify(limited), PermanentError)


def test_no_reason_tells_the_key() -> None:
    decision = client("openrouter").classify(StatusError(401, "wrong key secret-key"))
    assert "secret-key" not in decision.reason
