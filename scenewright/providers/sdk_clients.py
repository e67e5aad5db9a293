"""Clients of provider SDKs: one per event loop, and idempotency keys of paid requests.

A killed process cannot know whether its last request was served, and repeats it when it resumes. So
requests of a run carry ``Idempotency-Key``: a provider or gateway that supports it
(draft-ietf-httpapi-idempotency-key-header) answers the repeated request with the first reply;
others ignore it. A key is made of the step that asks (:func:`identified`), of the request, and of a
number that separates equal requests of one step::

    with identified(f"{run}:{step}"):
        await judge.answer(image, facts)

Outside such a scope no key is sent: a study repeats its questions on purpose.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from email.message import Message
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import SecretStr

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
CLOSING_SECONDS = 5.0
"""Seconds to wait for a loop in another thread when its client is closed."""


class PerLoop(Generic[T]):
    """Client of each event loop, made at first use; thread-safe."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        """``make`` is called inside the running loop; ``close`` in the loop of its client."""
        self._make = make
        self._close = close
        self._lock = threading.Lock()
        self._clients: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """Return the running loop's client."""
        loop = asyncio.get_running_loop()
        with self._lock:
            for other in [known for known in self._clients if known.is_closed()]:
                # Its connections went with it: nothing is left that could be closed.
                del self._clients[other]
            client = self._clients.get(loop)
            if client is None:
                client = self._clients[loop] = self._make()
            return client

    async def aclose(self) -> None:
        """Close the running loop's client, and those of loops that run in other threads."""
        with self._lock:
            clients, self._clients = self._clients, {}
        here = asyncio.get_running_loop()
        for loop, client in clients.items():
            if loop is here:
                await self._close(client)
            elif loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(self._closed(client), loop)
                # A loop that stops meanwhile never finishes this.
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.wrap_future(closing), CLOSING_SECONDS)

    async def _closed(self, client: T) -> None:
        await self._close(client)


HEADER = "Idempotency-Key"


class _Scope:
    """A step of a run, and the numbers taken by its requests."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._taken: dict[str, set[int]] = {}

    def take(self, request: str) -> int:
        """Return the lowest number that no other call holds for ``request``."""
        taken = self._taken.setdefault(request, set())
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(number)
        return number

    def give_back(self, request: str, number: int) -> None:
        """Release ``number``, which was not answered: the next equal request takes it again."""
        self._taken[request].discard(number)


_SCOPE: ContextVar[_Scope | None] = ContextVar("scenewright_idempotency_scope", default=None)
_CALL: ContextVar[CallKeys | None] = ContextVar("scenewright_idempotency_call", default=None)


class CallKeys:
    """Idempotency keys of one call: the same for all attempts until a complete reply.

    A complete but unusable reply would come again for the same key, so requests after it take the
    next number.
    """

    def __init__(self) -> None:
        self._scope = _SCOPE.get()
        self._numbers: dict[str, int] = {}

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Assign requests of this task and its subtasks to the call."""
        token = _CALL.set(self)
        try:
            yield
        finally:
            _CALL.reset(token)

    def number(self, request: str) -> int:
        """Return the number under which ``request`` is sent now."""
        if self._scope is None:
            return 0
        if request not in self._numbers:
            self._numbers[request] = self._scope.take(request)
        return self._numbers[request]

    def replied(self) -> None:
        """Record a complete reply: its number is used up."""
        self._numbers.clear()

    def lost(self) -> None:
        """End the call; a number without a complete reply is released."""
        if self._scope is not None:
            for request, number in self._numbers.items():
                self._scope.give_back(request, number)
        self._numbers.clear()


@contextmanager
def identified(scope: str) -> Iterator[None]:
    """Give requests of this task and its subtasks keys of ``scope``.

    ``scope`` must be the same when a killed run repeats the step, and another one for every other
    step and run. May be nested: the innermost counts. An empty one sends no key.
    """
    token = _SCOPE.set(_Scope(scope) if scope else None)
    try:
        yield
    finally:
        _SCOPE.reset(token)


async def identify(request: httpx2.Request) -> None:
    """Add the key to a paid ``request`` of a scope; a request hook of httpx clients."""
    scope = _SCOPE.get()
    # What is fetched costs nothing, and may lie on a server that is not the provider's.
    if scope is None or request.method != "POST":
        return
    body = await request.aread()
    kind = request.headers.get("content-type", "")
    asked = request_digest(request.method, request.url.path, kind, body)
    call = _CALL.get()
    number = 0 if call is None else call.number(asked)
    key = hashlib.sha256("\0".join((scope.name, str(number), asked)).encode())
    request.headers[HEADER] = key.hexdigest()


def request_digest(method: str, path: str, content_type: str, body: bytes) -> str:
    """Return the SHA-256 (hex) of a request, ignoring the random boundary of a form."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    digest = hashlib.sha256(f"{method}\0{path}\0".encode())
    for part in body.split(f"--{boundary}".encode()) if boundary else (body,):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


CapsT = TypeVar("CapsT")
C = TypeVar("C")


def http_settings() -> dict[str, Any]:
    """Return the settings of every SDK's HTTP client.

    No timeout, which is the caller's matter, and a transport that adds keys to paid requests.
    """
    return {"timeout": None, "event_hooks": {"request": [identify]}}


class SdkWire(ABC, Generic[CapsT, C]):
    """A provider's model, reached through its SDK.

    C is the client's type, CapsT that of the model's abilities.
    """

    provider: str
    """``openai``, ``gemini`` or ``anthropic``."""
    default_url: str
    """Base URL of the provider's own API."""

    def __init__(
        self, model: str, caps: CapsT, *, api_key: str, base_url: str | None = None
    ) -> None:
        """``base_url``: another server, in the form of :attr:`default_url`."""
        self.model = model
        self.base_url = base_url or self.default_url
        self._caps = caps
        self._key = SecretStr(api_key)
        self._clients: PerLoop[C] = PerLoop(self._client, self._close)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    @abstractmethod
    def _client(self) -> C:
        """Return a client for the running loop; its own retries are off."""

    @staticmethod
    @abstractmethod
    async def _close(client: C) -> None:
        """Close ``client``."""
