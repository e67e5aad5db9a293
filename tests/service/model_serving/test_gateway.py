"""The HTTP side of served models: what is refused, with which words, and who is let in."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from scenewright.agents.judges.served import ServedJudge
from scenewright.config.accounts import SERVE_KEY_VARIABLE, AccountSpec
from scenewright.config.profiles import BackendSpec, SettingsError
from scenewright.config.settings import load_settings
from scenewright.core.facts import Fact
from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.model_serving import (
    AnswerReply,
    ModelCard,
    ModelServer,
    Problem,
    RefusedReply,
    encoded_image,
)
from scenewright.providers.retry import PermanentError, RateLimited, Transient
from scenewright.runs.model_factory.local_models import Registry
from scenewright.runs.model_factory.profiles import backend_of, caller_of, judge_of
from scenewright.service.model_serving.models import (
    LocalBackendEndpoint,
    LocalJudgeEndpoint,
    ModelEndpoint,
    StreamItem,
)
from tests.doubles import ScriptedBackend, ScriptedJudge
from tests.service.model_serving.hosting import hosting, swift

KEY = "key-of-the-gateway"
JUDGE, BACKEND, BUSY = "local:scripted", "diffusers:scripted", "local:busy"
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
PICTURE = Image.new("RGB", (16, 16), (200, 10, 10))


class Busy:
    """A judge whose replicas have their hands full twice before one is free."""

    def __init__(self, inner: LocalJudgeEndpoint, problems: list[Problem]) -> None:
        self.inner = inner
        self.problems = problems

    async def card(self) -> ModelCard:
        return (await self.inner.card()).model_copy(update={"id": BUSY})

    async def answer(
        self, image: bytes, facts: Sequence[Fact], fingerprint: str
    ) -> AnswerReply | Problem:
        if self.problems:
            return self.problems.pop()
        return await self.inner.answer(image, facts, fingerprint)

    def generate(
        self, request: GenerationRequest, images: Mapping[str, bytes], fingerprint: str
    ) -> AsyncIterator[StreamItem]:
        return self.inner.generate(request, images, fingerprint)


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return []


@pytest.fixture(scope="module")
def url(problems: list[Problem]) -> Iterator[str]:
    async def make() -> Mapping[str, ModelEndpoint]:
        judge = LocalJudgeEndpoint(ScriptedJudge("local:scripted"), JUDGE)
        backend = LocalBackendEndpoint(ScriptedBackend(lambda _: 200), BACKEND)
        return {JUDGE: judge, BACKEND: backend, BUSY: Busy(judge, problems)}

    with hosting(make, KEY, most_bytes=100_000) as address:
        yield address


def post(url: str, path: str, body: object, **headers: str) -> httpx2.Response:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {KEY}", **headers}
    return httpx2.post(f"{url}/models/{path}", content=sent, headers=headers, timeout=60)


def order(**changes: object) -> dict[str, object]:
    return {"image": encoded_image(PICTURE), "facts": [DOG.model_dump(mode="json")], **changes}


def test_every_model_tells_what_it_is(url: str) -> None:
    found = httpx2.get(f"{url}/models", headers={"authorization": f"Bearer {KEY}"}, timeout=60)
    cards = {card["id"]: card for card in found.json()["models"]}
    assert list(cards) == [JUDGE, BACKEND, BUSY]
    assert cards[JUDGE]["kind"] == "judge"
    assert cards[JUDGE]["caps"]["facts_per_call"] >= 1
    assert cards[BACKEND]["features"]["seeds"] is True


def test_health_needs_no_key_and_all_else_does(url: str) -> None:
    assert httpx2.get(f"{url}/healthz", timeout=60).json() == {"status": "ok"}
    for path in ("models", f"models/{JUDGE}"):
        refused = httpx2.get(f"{url}/{path}", timeout=60)
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
        assert "SCENEWRIGHT_SERVE_KEY" in refused.json()["detail"]
    assert post(url, f"{JUDGE}/answer", order(), authorization="Bearer other").status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (f"{JUDGE}/answer", b"{", 422, "JSON"),
        (f"{JUDGE}/answer", order(facts=[]), 422, "facts"),
        (f"{JUDGE}/answer", order(image="???"), 422, "not base64"),
        (f"{JUDGE}/answer", order(image=base64.b64encode(b"x").decode()), 422, "not an image"),
        (f"{JUDGE}/answer", order(more=1), 422, "more"),
        (f"{JUDGE}/answer", order(fingerprint="f" * 64), 412, "Start again"),
        (f"{JUDGE}/answer", b"x" * 100_001, 413, "larger than"),
        (f"{BACKEND}/answer", order(), 405, "is a backend"),
        ("local:none/answer", order(), 404, "there are local:scripted"),
        (f"{JUDGE}/generate", {"request": {"prompt": "a", "seed": 1}}, 405, "is a judge"),
        (f"{BACKEND}/generate", {"request": {"prompt": "a", "seed": -1}}, 422, "seed"),
    ],
)
def test_what_cannot_be_served_says_why(
    url: str, path: str, body: object, status: int, words: str
) -> None:
    refused = post(url, path, body)
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    told = refused.json()
    assert told["status"] == status
    assert words in told["detail"]


def test_a_picture_comes_as_json_too(url: str) -> None:
    found = post(url, f"{BACKEND}/generate", {"request": {"prompt": "a dog", "seed": 1}})
    assert found.status_code == 200
    assert base64.b64decode(found.json()["image"]).startswith(b"\x89PNG")


async def test_full_hands_are_waited_for_and_lost_replicas_asked_again(
    url: str, problems: list[Problem]
) -> None:
    caller = swift()
    judge = ServedJudge(ModelServer(BUSY, url, KEY), caller, account="cluster")
    problems += [
        Problem(title="No replica", status=503, detail="it ended", retry_after=0.0),
        Problem(title="Overloaded", status=429, detail="later", retry_after=0.0),
    ]
    (answer,) = await judge.answer(PICTURE, [DOG])
    assert answer.state != "unscored"
    assert (caller.totals.attempts, caller.totals.rate_limited) == (3, 1)
    await judge.aclose()
    await caller.aclose()


def test_what_errors_mean() -> None:
    server = ModelServer(JUDGE, "http://127.0.0.1:9", KEY)
    assert isinstance(server.classify(RefusedReply(429, "later", 3.0)), RateLimited)
    assert isinstance(server.classify(RefusedReply(503, "ended")), Transient)
    assert isinstance(server.classify(RefusedReply(412, "other weights")), PermanentError)
    # Of a proxy whose server starts, not of ours.
    assert isinstance(server.classify(RefusedReply(404, "no route", ours=False)), Transient)
    told = server.classify(ValueError(f"header {KEY}"))
    assert isinstance(told, PermanentError)
    assert KEY not in told.reason


def test_profiles_reach_them_through_an_account(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenewright.runs.model_factory.profiles.SHARED", Registry())
    monkeypatch.delenv(SERVE_KEY_VARIABLE, raising=False)
    account = {"provider": "serve", "base_url": url}
    settings = load_settings(accounts={"cluster": AccountSpec.model_validate(account)})
    with pytest.raises(JudgeError, match="asks for a key"):
        judge_of(f"cluster:{JUDGE}", settings)
    monkeypatch.setenv(SERVE_KEY_VARIABLE, KEY)
    judge = judge_of(f"cluster:{JUDGE}", settings)
    assert isinstance(judge, ServedJudge)
    assert judge_of(f"cluster:{JUDGE}", settings) is judge
    backend = backend_of(BackendSpec.model_validate(f"cluster:{BACKEND}"), settings)
    request = GenerationRequest(prompt="a dog", seed=1)

    async def use() -> None:
        (answer,) = await judge.answer(PICTURE, [DOG])
        assert (answer.judge_id, answer.usd) == (f"cluster:{JUDGE}", 0.0)
        drawn = await backend.generate(request, lambda _: PICTURE)
        assert drawn.image.size == backend.features.default_size
        await judge.aclose()
        await backend.aclose()

    asyncio.run(use())
    assert caller_of("cluster", settings).totals.answered == 2
    with pytest.raises(BackendError, match="is a judge: name it where a judge is wanted"):
        backend_of(BackendSpec.model_validate(f"cluster:{JUDGE}"), settings)
    spec = BackendSpec(kind="cluster", model=BACKEND, quality="low")
    with pytest.raises(SettingsError, match="takes no quality"):
        backend_of(spec, settings)


def test_an_account_of_served_models_needs_their_address(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the base_url"):
        AccountSpec(provider="serve")
