"""Every wire sends its paid requests with the keys of a run's step, and random ones outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.core.images import hash_of_image
from scenewright.core.ports.backend import BackendError, GenerationRequest, Start
from scenewright.mock_providers import Fault, MockSettings, serving
from scenewright.mock_providers.serving import application
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.providers.sdk_clients import HEADER, paying
from scenewright.tools.backends.remote import remote_backend

KEY = "key-of-the-wires"
Ask = Callable[[], Awaitable[object]]
PICTURE = Image.new("RGB", (64, 64), (200, 40, 40))
FACT = Fact(
    id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?"
)  # fmt: skip


@dataclass
class Seen:
    """Passes requests on to an ASGI application and keeps their keys."""

    app: Any
    keys: list[str | None] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
            self.keys.append(headers.get(HEADER.lower()))
        await self.app(scope, receive, send)


@dataclass
class Rig:
    """A model behind a wire, asked the same each time."""

    ask: Ask
    order: Callable[[Fault], None]
    report: Callable[[], dict[str, Any]]
    seen: Seen

    async def keys(self, scope: str, *faults: Fault) -> list[str | None]:
        """The keys of the requests of one question in ``scope`` that meets ``faults``."""
        for fault in faults:
            self.order(fault)
        before = len(self.seen.keys)
        with paying(scope):
            await self.ask()
        return self.seen.keys[before:]


def judge(provider: str, url: str, caller: Caller, **overrides: object) -> tuple[Ask, Any]:
    made = remote_judge(provider, "instant", caller, api_key=KEY, base_url=url, overrides=overrides)
    return (lambda: made.answer(PICTURE, [FACT])), made


def chat(provider: str, url: str, caller: Caller, **overrides: object) -> tuple[Ask, Any]:
    made = account_chat(
        provider, "script:echo", caller, api_key=KEY, base_url=url, overrides=overrides
    )
    return (lambda: made.ainvoke([HumanMessage("dog")])), made


def image(provider: str, url: str, caller: Caller, **options: Any) -> tuple[Ask, Any]:
    edit = options.pop("edit", False)
    made = remote_backend(
        provider,
        "instant-image",
        caller,
        api_key=KEY,
        base_url=url,
        size=(1024, 1024),
        overrides={"pictures": 1},
    )
    start = Start(image=hash_of_image(PICTURE), strength=1.0) if edit else None
    request = GenerationRequest(prompt="a dog", seed=1, start=start)
    return (lambda: made.generate(request, lambda _: PICTURE)), made


WIRES: dict[str, tuple[Callable[..., tuple[Ask, Any]], str, dict[str, Any]]] = {
    "judge openai": (judge, "openai", {}),
    "judge responses": (judge, "openai", {"api": "responses", "sampling": {}}),
    "judge anthropic": (judge, "anthropic", {}),
    "judge gemini": (judge, "gemini", {}),
    "chat openai": (chat, "openai", {}),
    "chat responses": (chat, "openai", {"api": "responses", "sampling": {}}),
    "chat anthropic": (chat, "anthropic", {}),
    "chat gemini": (chat, "gemini", {}),
    "images openai": (image, "openai", {}),
    "images openai edit": (image, "openai", {"edit": True}),
    "images gemini": (image, "gemini", {}),
}


@asynccontextmanager
async def rig(wire: str) -> AsyncIterator[Rig]:
    make, provider, options = WIRES[wire]
    caller = Caller("test", attempts=4, priced=False, backoff=Backoff(initial=0.01))
    keys: list[str | None] = []
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # `scenewright.mock_providers.serving` as an attribute is the function.
        module = import_module("scenewright.mock_providers.serving")
        patch.setattr(module, "application", lambda lab: Seen(application(lab), keys))
        lab = await stack.enter_async_context(serving(MockSettings()))
        url = f"{lab.url}/v1" if provider == "openai" else lab.url
        ask, model = make(provider, url, caller, **options)
        try:
            yield Rig(
                ask,
                lambda fault: lab.faults.schedule(fault, 1),
                lambda: lab.report()["accounts"][KEY],
                Seen(None, keys),
            )
        finally:
            await model.aclose()
            await caller.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_key_is_that_of_the_step_the_request_and_its_number(wire: str) -> None:
    async with rig(wire) as rigged:
        await rigged.ask()
        await rigged.ask()
        assert len({*rigged.seen.keys, None}) == 3
        assert rigged.report()["replayed"] == 0

        first, again = await rigged.keys("run:a", Fault.UNAVAILABLE)
        assert first == again is not None
        assert (await rigged.keys("run:b"))[0] not in (None, first)
        assert rigged.report()["replayed"] == 0

        # A repeated step: its answer is there already.
        executed = rigged.report()["executed"]
        assert await rigged.keys("run:a") == [first]
        report = rigged.report()
        assert (report["executed"], report["replayed"]) == (executed, 1)
        assert report["executed_twice"] == 0

        # A whole reply of no use, another one, and the same again after a kill.
        told = await rigged.keys("run:c", Fault.EMPTY)
        assert len(set(told)) == len(told) == 2
        executed = rigged.report()["executed"]
        assert await rigged.keys("run:c") == told
        report = rigged.report()
        assert (report["executed"], report["replayed"]) == (executed, 3)


@pytest.mark.parametrize("wire", ["judge openai", "chat gemini", "images openai"])
async def test_a_dropped_connection_is_tried_again_under_the_same_key(wire: str) -> None:
    async with rig(wire) as rigged:
        told = await rigged.keys("run:a", Fault.DROP)
        assert len(told) == 2
        assert len(set(told)) == 1
        assert rigged.report()["executed"] == 1


async def test_a_body_that_is_no_json_is_not_asked_for_again_under_its_key() -> None:
    async with rig("images openai") as rigged:
        told = await rigged.keys("run:a", Fault.INVALID_JSON)
        assert len(set(told)) == len(told) == 2
        with suppress(BackendError):
            assert await rigged.keys("run:a") == told
        assert rigged.report()["executed"] == 2
