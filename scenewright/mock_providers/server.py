"""The mock server: accounts with limits, faults and latency, and what its models answer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from fastapi import Request, Response

from scenewright.agents.judges.pictures import character_tokens, text_tokens
from scenewright.mock_providers.accounts import Account, Kept, Replays, RequestLog, account_name
from scenewright.mock_providers.answer_rendering import render_answer
from scenewright.mock_providers.box_relations import describe, is_describing
from scenewright.mock_providers.faults import Chance, Fault, FaultPlan, Swaps
from scenewright.mock_providers.generator import Seeds
from scenewright.mock_providers.models import bare_name, is_script, judge, judge_pair
from scenewright.mock_providers.pictures import Picture, Pictures
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.quirks import (
    Quirk,
    Quirks,
    apply_reply_quirks,
    apply_request_quirks,
)
from scenewright.mock_providers.request_input import (
    Drip,
    Events,
    EventStream,
    Finish,
    Prepare,
    Silence,
    Visit,
    abort,
    api_key,
    client_left,
    encoded,
    json_object,
    json_response,
    rate_limited,
    read_body,
    transport_of,
)
from scenewright.mock_providers.scripts import (
    ANNOTATOR,
    DIRECTOR,
    POET,
    apply_content_fault,
    is_annotating,
    is_directing,
    script_reply,
    written,
    written_characters,
)
from scenewright.mock_providers.settings import MockSettings
from scenewright.mock_providers.sheets import is_of_pairs, plain_question, sheet_of
from scenewright.mock_providers.vision_tools import is_seeing, see
from scenewright.mock_providers.wire import Format, Limits, ModelRequest, Spent, Wire
from scenewright.providers.sdk_clients import HEADER, request_digest

log = logging.getLogger(__name__)

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
REPLAYED = {"idempotent-replayed": "true"}
"""Header of an answer that was given before."""
_SILENT = (Fault.TIMEOUT, Fault.DROP)
_RETRY_AFTER = 1.0


class MockProviders:
    """The models behind the providers' formats. One event loop uses it."""

    def __init__(self, settings: MockSettings | None = None) -> None:
        """Serve with ``settings``; by default without limits, latency or faults."""
        self.settings = settings or MockSettings()
        self.faults = FaultPlan(self.settings.faults)
        self.swaps = Swaps(self.settings.swaps)
        self.quirks = Quirks(self.settings.quirks)
        """Models that are exchanged for others."""
        self.url = ""
        """``http://HOST:PORT`` while it is served."""
        self.closing = asyncio.Event()
        """Set once the server stops: what hangs lets go."""
        self._accounts: dict[str, Account] = {}
        self.pictures = Pictures()
        """The images that were looked at."""
        self.seeds = Seeds(self.settings.seed, same=self.settings.same_pictures)
        """Of the pictures that are drawn."""
        self.replays = Replays()
        """The replies to requests with an ``Idempotency-Key``."""
        path = self.settings.request_log
        self._log = None if path is None else RequestLog(path)
        self._number = 0

    def report(self) -> dict[str, Any]:
        """Return the counters of every account.

        See :meth:`~scenewright.mock_providers.accounts.Account.report`.
        """
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
        """Return the account of an API key."""
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

        async def prepare(visit: Visit) -> Finish:
            asked, name = self.swaps.answering(*self._read(wire, visit.body, model))
            quirks = self.quirks.of(visit.account.name)
            asked = apply_request_quirks(asked, quirks)
            questions = sheet_of(asked.text)
            if not questions and not is_script(name) and is_directing(asked):
                # The same model may judge and direct: of a judge's stand-in a script directs.
                name = DIRECTOR
            if name == DIRECTOR and not is_directing(asked):
                # The same model may direct and compose: it has no tools to direct with here.
                name = POET
            if not questions and (not is_script(name) or name == POET) and is_annotating(asked):
                name = ANNOTATOR
            if is_script(name):
                return await self._talk(visit, wire, asked, name, quirks)
            pictures, spent_in = await self._charge(visit, wire, asked)
            picture = pictures[-1]
            pairs = is_of_pairs(questions)
            if pairs and len(pictures) != 2:
                raise Problem.invalid(f"{len(pictures)} images to compare: send two")
            if is_describing(asked) or is_seeing(asked):
                turns = asked.turns

                async def looked(fault: Fault | None) -> tuple[Any, int]:
                    if is_seeing(asked):
                        line = await see(name, pictures, turns, asked)
                    else:
                        line = await describe(name, picture, turns, asked)
                    line = written(line) if turns.as_text else line
                    said = apply_reply_quirks(
                        apply_content_fault(line, asked, fault), asked, quirks
                    )
                    spent = Spent(
                        spent_in[0], spent_in[1], character_tokens(written_characters(said))
                    )
                    return wire.reply(asked, said, spent, visit.chance.id), spent.tokens_out

                return looked
            sheet = bool(questions)
            if not questions:
                questions = [plain_question(asked.text)]

            async def finish(fault: Fault | None) -> tuple[Any, int]:
                if pairs:
                    judged = await judge_pair(name, pictures, questions)
                else:
                    judged = await judge(name, picture, questions, asked.alternatives is not None)
                said = apply_reply_quirks(
                    render_answer(judged, sheet, asked, fault, visit.chance), asked, quirks
                )
                spent = Spent(spent_in[0], spent_in[1], text_tokens(said.text))
                return wire.reply(asked, said, spent, visit.chance.id), spent.tokens_out

            return finish

        return await self.serve(request, wire, prepare)

    async def _talk(
        self, visit: Visit, wire: Wire, asked: ModelRequest, name: str, quirks: frozenset[Quirk]
    ) -> Finish:
        """Like a judge's answer, but of a script to a conversation, with or without images."""
        turns = asked.turns
        _, tokens, image_tokens = await self._measure(wire, asked)
        visit.charge(tokens)

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            said = apply_reply_quirks(await script_reply(name, turns, asked, fault), asked, quirks)
            spent = Spent(tokens, image_tokens, character_tokens(written_characters(said)))
            return wire.reply(asked, said, spent, visit.chance.id), spent.tokens_out

        return finish

    async def serve(self, request: Request, wire: Format, prepare: Prepare) -> Response:
        """One request, whatever it is for: limits, faults, latency and the account's report.

        ``prepare`` reads and charges what was let in, and gives what makes the answer of it. A
        repeated request with an ``Idempotency-Key`` gets the first one's answer and pays nothing.
        """
        try:
            body = await read_body(request)
        except ConnectionError:
            return Silence(None)
        received = time.monotonic()
        self._number += 1
        chance = Chance(self.settings.seed, self._number)
        account = self.account(api_key(request))
        account.arrive(received)
        outcome, met, claimed = "failed", None, False
        key = request.headers.get(HEADER, "")
        try:
            refusal = account.admit(received)
            if refusal is not None:
                raise rate_limited(refusal)
            visit = Visit(request, body, account, account.entry(), received, chance)
            if key:
                kept = await self.replays.claim(account.name, key, _digest(request, body))
                if kept is not None:
                    if client_left(request):
                        outcome = "abandoned"
                        return Silence(None)
                    outcome = "replayed"
                    self._note(visit, key, executed=False)
                    headers = wire.headers(kept.id, None, limits_of(account)) | REPLAYED
                    if kept.streamed:
                        return EventStream((kept.body,), headers)
                    return json_response(kept.body, 200, headers)
                claimed = True
            finish = await prepare(visit)
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
            content, tokens_out = await finish(fault)
            # The events of a stream share the latency.
            stream = content if isinstance(content, Events) else None
            if stream is None:
                await self._wait(received, chance)
            account.charge_output(visit.entry, tokens_out)
            parts: tuple[bytes, ...] = ()
            if not isinstance(content, Problem):
                parts = (encoded(content),) if stream is None else stream.encoded()
                content, first = b"".join(parts), True
                # Errors are not kept, whether they come with a status or in a stream.
                if claimed and (stream is None or stream.fault is not Fault.STREAM_ERROR):
                    claimed = False
                    kept = Kept(content, chance.id, stream is not None)
                    first = self.replays.keep(account.name, key, kept)
                account.execute(first)
                self._note(visit, key, executed=True)
            if client_left(request):
                outcome = "abandoned"
                return Silence(None)
            outcome, met = "answered", fault
            if isinstance(content, Problem):
                raise content
            headers = wire.headers(chance.id, None, limits_of(account))
            if stream is not None:
                pause = self._left(received, chance) / len(parts)
                connection = transport_of(request)
                return EventStream(parts, headers, pause, stream.fault, connection, self.closing)
            if fault is Fault.SLOW_DRIP:
                return Drip(content, headers, self.settings.drip_seconds, self.closing)
            return json_response(content, 200, headers)
        except Problem as problem:
            outcome = _outcome(problem)
            return self.problem(wire, problem, chance.id, account)
        except asyncio.CancelledError:
            outcome = "abandoned"
            abort(request)
            raise
        except Exception:
            log.exception("the mock server failed to answer")
            broken = Problem("server", 500, "the mock server itself failed; its log says why")
            return self.problem(wire, broken, chance.id, account)
        finally:
            if claimed:
                self.replays.release(account.name, key)
            account.finish(outcome, None if met is None else met.value)

    def _note(self, visit: Visit, key: str, *, executed: bool) -> None:
        if self._log is not None:
            asked = _digest(visit.request, visit.body)
            self._log.note(visit.account.name, key, asked, visit.received, executed=executed)

    async def count(
        self, request: Request, wire: Wire, model: str = ""
    ) -> tuple[ModelRequest, int]:
        """Input tokens of a request, for the routes that count; raises ``Problem``."""
        try:
            body = await read_body(request)
        except ConnectionError:
            raise Problem.invalid("the request was broken off") from None
        asked, _ = self._read(wire, body, model)
        return asked, (await self._measure(wire, asked))[1]

    def problem(
        self, wire: Format, problem: Problem, id: str, account: Account | None = None
    ) -> Response:
        """Return an error in the provider's form."""
        limits = limits_of(account) if account is not None else Limits(None, None, None, None)
        headers = wire.headers(id, problem, limits)
        return json_response(wire.problem(problem, id), problem.status, headers)

    def _read(self, wire: Wire, body: bytes | None, model: str) -> tuple[ModelRequest, str]:
        asked = wire.read(json_object(body), model)
        return asked, bare_name(asked.model)

    async def _measure(self, wire: Wire, asked: ModelRequest) -> tuple[list[Picture], int, int]:
        """All pictures, the input tokens, and those of them that are the images'."""
        pictures = [await self.pictures.look(data, asked.image_param) for data in asked.images]
        images = sum(wire.image_tokens(picture.size, asked.low_detail) for picture in pictures)
        return pictures, character_tokens(asked.characters) + images, images

    async def _charge(
        self, visit: Visit, wire: Wire, asked: ModelRequest
    ) -> tuple[list[Picture], tuple[int, int]]:
        pictures, tokens, image_tokens = await self._measure(wire, asked)
        visit.charge(tokens)
        if not pictures:
            raise Problem.image(
                "the request holds no image: the mock server's models look at one",
                asked.image_param,
            )
        return pictures, (tokens, image_tokens)

    async def _wait(self, received: float, chance: Chance) -> None:
        if (left := self._left(received, chance)) > 0:
            await asyncio.sleep(left)

    def _left(self, received: float, chance: Chance) -> float:
        """Return the seconds of a request's latency that are left."""
        settings = self.settings
        latency = settings.latency + settings.jitter * (2.0 * chance.latency - 1.0)
        return max(0.0, received + latency - time.monotonic())

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
        return Silence(transport_of(request))


def limits_of(account: Account) -> Limits:
    """Return what is left of an account's limits."""
    requests, tokens = account.remaining()
    return Limits(account.requests, requests, account.tokens, tokens)


def _outcome(problem: Problem) -> str:
    if problem.kind == "rate_limited":
        return "rate_limited"
    return "failed" if problem.status >= 500 else "rejected"


def _digest(request: Request, body: bytes | None) -> str:
    kind = request.headers.get("content-type", "")
    return request_digest(request.method, request.url.path, kind, body or b"")
