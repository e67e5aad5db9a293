"""Clients of provider SDKs: one per event loop, and idempotency keys of paid requests.

A killed process cannot know whether its last request was served, and repeats it when it resumes. So
paid requests carry ``Idempotency-Key``: a provider or gateway that supports it
(draft-ietf-httpapi-idempotency-key-header) answers the repeated request with the first reply;
others ignore it. A key is made of the nonce of what pays (:func:`paying`), of the step that asks
(:func:`identified`), of the request, and of a number that separates equal requests of one step::

    with paying(folder.nonce()), identified(step):
        await judge.answer(image, facts)

The nonce is random, made once, and kept beside what it pays for: what is asked in another folder is
paid for there, and is never the answer that this one got. Where nothing pays, each call has a
random key, which its attempts share.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from email.message import Message
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scenewright.providers.usage import within

if TYPE_CHECKING:
    import httpx2

    from scenewright.core.sqlite_file import SqliteFile

T = TypeVar("T")
CLOSING_SECONDS = 5.0
"""Seconds to wait for a loop in another thread when its client is closed."""


class PerLoop(Generic[T]):
    """Client of each event loop, made at first use; thread-safe."""

    def __init__(
        self, make: Callable[[], T], close: Callable[[T], Coroutine[Any, Any, None]]
    ) -> None:
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
                closing = asyncio.run_coroutine_threadsafe(self._close(client), loop)
                # A loop that stops meanwhile never finishes this.
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.wrap_future(closing), CLOSING_SECONDS)


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
        self._scope = _SCOPE.get() or _Scope(secrets.token_hex(16))
        self._numbers: dict[str, int] = {}

    def sending(self) -> AbstractContextManager[None]:
        """Assign requests of this task and its subtasks to the call."""
        return within(_CALL, self)

    def key(self, request: str) -> str:
        """Return the key under which the request with digest ``request`` is sent now."""
        if request not in self._numbers:
            self._numbers[request] = self._scope.take(request)
        parts = (self._scope.name, str(self._numbers[request]), request)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def replied(self) -> None:
        """Record a complete reply: its number is used up."""
        self._numbers.clear()

    def lost(self) -> None:
        """End the call; a number without a complete reply is released."""
        for request, number in self._numbers.items():
            self._scope.give_back(request, number)
        self._numbers.clear()


def paying(nonce: str, step: str = "") -> AbstractContextManager[None]:
    """Let the run, evaluation or study with ``nonce`` pay for requests of this task and subtasks.

    ``step`` is that of :func:`identified`. It takes the place of what paid outside of it. An empty
    nonce pays for nothing.
    """
    name = f"{nonce}:{step}" if step else nonce
    return within(_SCOPE, _Scope(name) if nonce else None)


@contextmanager
def paid_by(store: SqliteFile) -> Iterator[None]:
    """Let the ``store`` of all that is asked pay for it, as :func:`paying`.

    Cut off, the same requests have the same keys. After the end they have others: what is still
    missing then had no usable reply, and is to be asked anew.
    """
    with paying(store.nonce()):
        yield
    store.rename()


def identified(step: str) -> AbstractContextManager[None]:
    """Give requests of this task and its subtasks keys of a ``step`` of what pays for them.

    It must be the same when a killed process repeats the step, and another one for every other step
    and for every new try of a failed one. A step inside of another is a part of that. Has no effect
    where nothing pays.
    """
    around = _SCOPE.get()
    return within(_SCOPE, None if around is None else _Scope(f"{around.name}:{step}"))


async def identify(request: httpx2.Request) -> None:
    """Add the key to a paid ``request``; a request hook of httpx clients."""
    call = _CALL.get()
    # What is fetched costs nothing, and may lie on a server that is not the provider's.
    if request.method != "POST" or (call is None and _SCOPE.get() is None):
        return
    body = await request.aread()
    kind = request.headers.get("content-type", "")
    asked = request_digest(request.method, request.url.path, kind, body)
    request.headers[HEADER] = (call or CallKeys()).key(asked)


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
