"""The lab as an ASGI application: limits, faults, latency, and the providers' routes."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

from fastapi import Request, Response

from scenewright.agents.judges.tokens import character_tokens, text_tokens
from scenewright.lab.accounts import Account, Refusal, account_name
from scenewright.lab.faults import Chance, Fault, FaultPlan
from scenewright.lab.models import bare_name, judge
from scenewright.lab.pictures import MAX_BYTES, Pictures
from scenewright.lab.problems import Problem
from scenewright.lab.replies import Drip, Silence, json_response
from scenewright.lab.saying import say
from scenewright.lab.settings import LabSettings
from scenewright.lab.sheets import plain_question, sheet_of
from scenewright.lab.wire import Asked, Limits, Spent, Wire

log = logging.getLogger(__name__)

MAX_BODY = 2 * MAX_BYTES
"""Largest body of a request, bytes."""
_ERRORS = {
    Fault.SERVER_ERROR: (
        "server",
        500,
        "The server had an error while processing your request. Sorry about that!",
    ),
    Fault.UNAVAILABLE: (
        "overloaded",
        503,
        "The model is overloaded. Please try again later.",
    ),
    Fault.OVERLOADED: ("overloaded", 529, "Overloaded"),
}
_SILENT = (Fault.TIMEOUT, Fault.DROP)
_RETRY_AFTER = 1.0


class Lab:
    """The models behind the providers' formats. One event loop uses it."""

    def __init__(self, settings: LabSettings | None = None) -> None:
        """``settings``: how it behaves; by default without limits, latency or faults."""
        from scenewright.lab.routes import application

        self.settings = settings or LabSettings()
        self.faults = FaultPlan(self.settings.faults)
        self.url = ""
        """``http://HOST:PORT`` while it is served."""
        self.closing = asyncio.Event()
        """Set once the server stops: what hangs lets go."""
        self._accounts: dict[str, Account] = {}
        self._pictures = Pictures()
        self._number = 0
        self.app = application(self)

    def report(self) -> dict[str, Any]:
        """What every account did: see :meth:`~scenewright.lab.accounts.Account.report`."""
        return {
            "requests": self._number,
            "limits": {
                "requests_per_minute": self.settings.requests_per_minute,
                "tokens_per_minute": self.settings.tokens_per_minute,
                "concurrent": self.settings.concurrent,
            },
            "accounts": {name: account.report() for name, account in self._accounts.items()},
        }

    def reset(self) -> None:
        """Forget what was counted. Limits go on as they are, requests under way still finish."""
        for name, account in list(self._accounts.items()):
            account.reset()
            if account.idle:
                del self._accounts[name]

    def account(self, key: str) -> Account:
        """The account of an API key."""
        name = account_name(key)
        found = self._accounts.get(name)
        if found is None:
            found = self._accounts[name] = Account(
                name,
                self.settings.requests_per_minute,
                self.settings.tokens_per_minute,
                self.settings.concurrent,
                self.settings.window,
            )
        return found

    async def answer(self, request: Request, wire: Wire, model: str = "") -> Response:
        """One request of a provider's format; ``model``: where the address names it."""
        try:
            body = await read_body(request)
        except ConnectionError:
            return Silence(None)
        received = time.monotonic()
        self._number += 1
        chance = Chance(self.settings.seed, self._number)
        account = self.account(api_key(request))
        account.arrive(received)
        outcome, met = "failed", None
        try:
            refusal = account.admit(received)
            if refusal is not None:
                raise _rate_limited(refusal)
            entry = account.entry()
            asked, name = self._read(wire, body, model)
            picture, spent_in = await self._charge(account, entry, wire, asked, received)
            questions = sheet_of(asked.text)
            sheet = bool(questions)
            if not questions:
                questions = [plain_question(asked.text)]
            fault = self.faults.draw(account.name, chance)
            if fault in _SILENT:
                met = fault
                return await self._silent(request, fault, received, chance)
            if fault in _ERRORS:
                met = fault
                kind, status, message = _ERRORS[fault]
                await self._wait(received, chance)
                raise Problem(kind, status, message)  # type: ignore[arg-type]
            if fault is Fault.RATE_LIMITED:
                met = fault
                raise Problem("rate_limited", 429, "rate limited", retry_after=_RETRY_AFTER)
            judged = await judge(name, picture, questions, asked.alternatives is not None)
            said = say(judged, sheet, asked, fault, chance)
            spent = Spent(spent_in[0], spent_in[1], text_tokens(said.text))
            await self._wait(received, chance)
            account.charge_output(entry, spent.tokens_out)
            if _gone(request):
                outcome = "abandoned"
                return Silence(None)
            outcome, met = "answered", fault
            content = wire.reply(asked, said, spent, chance.id)
            headers = wire.headers(chance.id, None, limits_of(account))
            if fault is Fault.SLOW_DRIP:
                return Drip(content, headers, self.settings.drip_seconds, self.closing)
            return json_response(content, 200, headers)
        except Problem as problem:
            outcome = _outcome(problem)
            return self.problem(wire, problem, chance.id, account)
        except asyncio.CancelledError:
            outcome = "abandoned"
            _abort(request)
            raise
        except Exception:
            log.exception("the lab failed to answer")
            broken = Problem("server", 500, "the lab itself failed; its log says why")
            return self.problem(wire, broken, chance.id, account)
        finally:
            account.finish(outcome, None if met is None else met.value)

    async def count(self, request: Request, wire: Wire, model: str = "") -> tuple[Asked, int]:
        """Input tokens of a request, for the routes that count; raises ``Problem``."""
        try:
            body = await read_body(request)
        except ConnectionError:
            raise Problem.invalid("the request was broken off") from None
        asked, _ = self._read(wire, body, model)
        return asked, (await self._measure(wire, asked))[1]

    def problem(
        self, wire: Wire, problem: Problem, id: str, account: Account | None = None
    ) -> Response:
        """An error in the provider's form."""
        limits = limits_of(account) if account is not None else Limits(None, None, None, None)
        headers = wire.headers(id, problem, limits)
        return json_response(wire.problem(problem, id), problem.status, headers)

    def _read(self, wire: Wire, body: bytes | None, model: str) -> tuple[Asked, str]:
        if body is None:
            raise Problem("too_large", 413, f"the request is larger than {MAX_BODY >> 20} MiB")
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise Problem.invalid("the body of the request is not a JSON object")
        asked = wire.read(parsed, model)
        return asked, bare_name(asked.model)

    async def _measure(self, wire: Wire, asked: Asked) -> tuple[list[Any], int, int]:
        """All pictures, the input tokens, and those of them that are the images'."""
        pictures = [await self._pictures.look(data, asked.image_param) for data in asked.images]
        images = sum(wire.image_tokens(picture.size, asked.low_detail) for picture in pictures)
        return pictures, character_tokens(asked.characters) + images, images

    async def _charge(
        self, account: Account, entry: list[float], wire: Wire, asked: Asked, received: float
    ) -> tuple[Any, tuple[int, int]]:
        pictures, tokens, image_tokens = await self._measure(wire, asked)
        refusal = account.charge(entry, tokens, received)
        if refusal is not None:
            raise _rate_limited(refusal)
        if not pictures:
            raise Problem.image(
                "the request holds no image: the lab's models look at one", asked.image_param
            )
        return pictures[-1], (tokens, image_tokens)

    async def _wait(self, received: float, chance: Chance) -> None:
        settings = self.settings
        latency = settings.latency + settings.jitter * (2.0 * chance.latency - 1.0)
        left = received + latency - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)

    async def _silent(
        self, request: Request, fault: Fault, received: float, chance: Chance
    ) -> Response:
        if fault is Fault.TIMEOUT:
            waits = [
                asyncio.ensure_future(request.receive()),
                asyncio.ensure_future(self.closing.wait()),
            ]
            try:
                await asyncio.wait(
                    waits,
                    timeout=self.settings.longest_hang,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                for wait in waits:
                    wait.cancel()
        else:
            await self._wait(received, chance)
        return Silence(_transport(request))


def api_key(request: Request) -> str:
    """The API key of a request, wherever a provider's SDK puts it; empty if there is none."""
    headers = request.headers
    given = headers.get("x-api-key") or headers.get("x-goog-api-key")
    if not given:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else ""
    return given or request.query_params.get("key", "")


async def read_body(request: Request) -> bytes | None:
    """The body; none if it is larger than ``MAX_BODY``. ``ConnectionError`` if it breaks off."""
    parts: list[bytes] = []
    length = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client has left")
        part = message.get("body", b"")
        length += len(part)
        # What is too large is read to its end, so that the sender gets to see the answer.
        if length <= MAX_BODY:
            parts.append(part)
        elif length > 8 * MAX_BODY:
            return None
        if not message.get("more_body"):
            return b"".join(parts) if length <= MAX_BODY else None


def limits_of(account: Account) -> Limits:
    """What is left to an account."""
    requests, tokens = account.remaining()
    return Limits(account.requests, requests, account.tokens, tokens)


def _rate_limited(refusal: Refusal) -> Problem:
    return Problem(
        "rate_limited",
        429,
        "rate limited",
        limit=refusal.limit,
        allowed=refusal.allowed,
        retry_after=refusal.retry_after,
    )


def _outcome(problem: Problem) -> str:
    if problem.kind == "rate_limited":
        return "rate_limited"
    return "failed" if problem.status >= 500 else "rejected"


def _transport(request: Request) -> asyncio.Transport | None:
    found: asyncio.Transport | None = request.scope.get("state", {}).get("transport")
    return found


def _gone(request: Request) -> bool:
    transport = _transport(request)
    return transport is not None and transport.is_closing()


def _abort(request: Request) -> None:
    transport = _transport(request)
    if transport is not None:
        transport.abort()
