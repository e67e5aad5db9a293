"""Keys that name paid requests, so that one that is sent twice is answered twice and billed once.

A process that is killed while a request is under way cannot know whether it was served, and sends
it again when it goes on. So a request of a run carries ``Idempotency-Key``: a provider or gateway
that honours it (draft-ietf-httpapi-idempotency-key-header) answers the repeated request with the
first one's reply. The others ignore it.

A key is made of the step that asks (:func:`identified`), of the request, and of a number that
tells equal requests of one step apart::

    with identified(f"{run}:{step}"):
        await judge.answer(image, facts)

Outside such a scope no key is sent: a study repeats its questions on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from email.message import Message
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

HEADER = "Idempotency-Key"


class _Scope:
    """A step of a run, and which numbers its requests have taken."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._taken: dict[str, set[int]] = {}

    def take(self, request: str) -> int:
        """The lowest number that no other call holds for ``request``."""
        taken = self._taken.setdefault(request, set())
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(number)
        return number

    def give_back(self, request: str, number: int) -> None:
        """``number`` was not answered: the next call that asks the same asks under it again."""
        self._taken[request].discard(number)


_SCOPE: ContextVar[_Scope | None] = ContextVar("scenewright_idempotency_scope", default=None)
_CALL: ContextVar[CallKeys | None] = ContextVar("scenewright_idempotency_call", default=None)


class CallKeys:
    """The keys of one call: the same for all its attempts, until one brings a whole reply.

    A reply that came whole and is of no use is what a repeated key would bring again; what is
    sent after it takes the next number.
    """

    def __init__(self) -> None:
        self._scope = _SCOPE.get()
        self._numbers: dict[str, int] = {}

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Requests of this task and of those that it starts inside belong to the call."""
        token = _CALL.set(self)
        try:
            yield
        finally:
            _CALL.reset(token)

    def number(self, request: str) -> int:
        """The number under which ``request`` is sent now."""
        if self._scope is None:
            return 0
        if request not in self._numbers:
            self._numbers[request] = self._scope.take(request)
        return self._numbers[request]

    def replied(self) -> None:
        """A whole reply came: its number is used up."""
        self._numbers.clear()

    def lost(self) -> None:
        """The call is over without a whole reply to what was sent last."""
        if self._scope is not None:
            for request, number in self._numbers.items():
                self._scope.give_back(request, number)
        self._numbers.clear()


@contextmanager
def identified(scope: str) -> Iterator[None]:
    """Requests of this task, and of those that it starts inside, carry keys of ``scope``.

    ``scope`` must be the same when a killed run repeats the step, and another one for every other
    step and run. May be nested: the innermost counts. An empty one sends no key.
    """
    token = _SCOPE.set(_Scope(scope) if scope else None)
    try:
        yield
    finally:
        _SCOPE.reset(token)


async def identify(request: httpx2.Request) -> None:
    """Give ``request`` its key, if it is a paid one of a scope: a request hook of httpx clients."""
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
    """SHA-256 (hex) of a request; the random boundary of a form does not count."""
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary()
    digest = hashlib.sha256(f"{method}\0{path}\0".encode())
    for part in body.split(f"--{boundary}".encode()) if boundary else (body,):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
