"""The mock server: accounts with limits, faults and latency, and what its models answer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request, Response

from scenewright.agents.judges.pictures import character_tokens
from scenewright.mock_providers.accounts import (
    Account,
    Replays,
    RequestLog,
    StoredReply,
    account_name,
)
from scenewright.mock_providers.bent_replies import (
    apply_content_fault,
    apply_reply_quirks,
    apply_request_quirks,
    as_json,
    written_characters,
)
from scenewright.mock_providers.faults import Chance, Fault, FaultPlan, Quirks, Swaps
from scenewright.mock_providers.models import (
    Seeds,
    Wanted,
    bare_name,
    is_own,
    is_script,
    judge,
    judge_pair,
)
from scenewright.mock_providers.pictures import Picture, Pictures
from scenewright.mock_providers.problems import Problem, ProblemKind
from scenewright.mock_providers.refusals import Place, check, check_form
from scenewright.mock_providers.request_input import (
    JSON,
    Events,
    EventStream,
    Finish,
    Prepare,
    Silence,
    Visit,
    abort,
    api_key,
    client_left,
    drops,
    encoded,
    json_object,
    json_response,
    read_body,
)
from scenewright.mock_providers.scripts import ANNOTATOR, DIRECTOR, POET
from scenewright.mock_providers.settings import LIMITS, MockSettings
from scenewright.mock_providers.sheets import is_of_pairs, plain_question, render_answer, sheet_of
from scenewright.mock_providers.tool_replies import is_annotating, is_seeing, line_of
from scenewright.mock_providers.wild import Wild
from scenewright.mock_providers.wire import (
    Format,
    ModelRequest,
    Reading,
    ScriptedReply,
    TokenCounts,
    Wire,
)
from scenewright.providers.sdk_clients import HEADER, request_digest

log = logging.getLogger(__name__)

_ERRORS: dict[Fault, tuple[ProblemKind, int, str]] = {
    Fault.SERVER_ERROR: (
        "server",
        500,
        "The server had an error while processing your request. Sorry about that!",
    ),
    Fault.UNAVAILABLE: ("overloaded", 503, "The model is overloaded. Please try again later."),
    Fault.OVERLOADED: ("overloaded", 529, "Overloaded"),
}
REPLAYED = {"idempotent-replayed": "true"}
"""Header of an answer that was given before."""
_ANSWERLESS = {*_ERRORS, Fault.RATE_LIMITED, Fault.TIMEOUT, Fault.DROP}
_RETRY_AFTER = 1.0
NO_ID = "0" * 24
"""The id of what no model answers."""
_READER = "judge-a"
"""Looks at pictures for a model that the director stands in for."""


class MockProviders:
    """The models behind the providers' formats. One event loop uses it."""

    def __init__(self, settings: MockSettings | None = None) -> None:
        """Serve with ``settings``; by default without limits, latency or faults."""
        self.settings = given = settings or MockSettings()
        self.faults = FaultPlan(given.faults)
        self.swaps = Swaps(given.swaps)
        """Models that are exchanged for others."""
        self.quirks = Quirks(given.quirks)
        self.url = ""
        """``http://HOST:PORT`` while it is served."""
        self.closing = asyncio.Event()
        """Set once the server stops: what hangs lets go."""
        self._accounts: dict[str, Account] = {}
        self.pictures = Pictures()
        """The images that were looked at."""
        self.seeds = Seeds(given.seed, same=given.same_pictures)
        """Of the pictures that are drawn."""
        self.replays = Replays()
        """The replies to requests with an ``Idempotency-Key``."""
        self.wild = Wild(given.like, given.shape, given.load_seconds)
        """The shapes of replies of compatible servers, where one is imitated."""
        self._log = None if given.request_log is None else RequestLog(given.request_log)
        self._number = 0

    def report(self) -> dict[str, Any]:
        """Return the counters of every account.

        See :meth:`~scenewright.mock_providers.accounts.Account.report`.
        """
        return {
            "requests": self._number,
            "limits": {name: getattr(self.settings, name) for name in LIMITS},
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
        if name not in self._accounts:
            self._accounts[name] = Account(name, self.settings)
        return self._accounts[name]

    async def answer(self, request: Request, wire: Wire, model: str = "") -> Response:
        """Answer a request of a provider's format; ``model``: where the address names it."""

        async def prepare(visit: Visit) -> Finish:
            body = json_object(visit.body)
            self.check(wire.place, body, model)
            asked = wire.read(body, model)
            asked, name = self.swaps.answering(asked, bare_name(self.stand_in(asked.model)))
            quirks = self.quirks.of(visit.account.name)
            asked = apply_request_quirks(asked, quirks)
            questions = sheet_of(asked.text)
            name, id = _answering(asked, name, bool(questions)), visit.chance.id
            text_tokens = character_tokens(asked.characters)
            pictures, spent = await self.measure(wire, asked, text_tokens)
            visit.charge(spent.tokens_in)
            looks, sheet = not is_script(name), bool(questions)
            if looks and not pictures:
                raise Problem.image(
                    "the request holds no image: the mock server's models look at one",
                    asked.image_param,
                )
            speaks = not looks or is_seeing(asked)
            pairs = is_of_pairs(questions)
            if pairs and looks and len(pictures) != 2:
                raise Problem.invalid(f"{len(pictures)} images to compare: send two")
            if not (speaks or sheet):
                questions = [plain_question(asked.text)]
            streams = wire.streams(body)

            async def finish(fault: Fault | None) -> tuple[Any, int]:
                if speaks:
                    line = await line_of(name, pictures, asked)
                    if asked.turns.as_text and line.calls:
                        line = ScriptedReply(as_json(line.calls[0][1]))
                    said = apply_content_fault(line, asked, fault)
                else:
                    judged = await (
                        judge_pair(name, pictures, questions)
                        if pairs
                        else judge(name, pictures[-1], questions)
                    )
                    said = render_answer(judged, sheet, asked, fault, visit.chance)
                said = apply_reply_quirks(said, asked, quirks)
                tokens_out = character_tokens(written_characters(said))
                content = wire.reply(asked, said, replace(spent, tokens_out=tokens_out), id)
                if streams:
                    events = wire.events(json.loads(encoded(content)), body)
                    broken = wire.error_event(Problem(*_ERRORS[Fault.SERVER_ERROR]), id)
                    content = Events(events, fault, broken, len(events) // 2)
                return content, tokens_out

            return finish

        return await self.serve(request, wire, prepare)

    async def serve(self, request: Request, wire: Format, prepare: Prepare) -> Response:
        """One request, whatever it is for: limits, faults, latency and the account's report.

        ``prepare`` reads and charges what was let in, and gives what makes the answer of it. A
        repeated request with an ``Idempotency-Key`` gets the first one's answer and pays nothing.
        """
        try:
            body = await read_body(request)
        except ConnectionError:
            return Silence()
        received = time.monotonic()
        self._number += 1
        chance = Chance(self.settings.seed, self._number)
        account = self.account(api_key(request))
        account.arrive(received)
        under_way = contextlib.ExitStack()
        under_way.callback(account.leave)
        outcome, met, claimed = "failed", None, False
        key = request.headers.get(HEADER, "")
        try:
            if (refusal := account.admit(received)) is not None:
                raise refusal
            visit = Visit(request, body, account, account.entry(), received, chance)
            if key:
                kept = await self.replays.claim(account.name, key, _digest(request, body))
                if kept is not None:
                    if client_left(request):
                        outcome = "abandoned"
                        return Silence()
                    outcome = "replayed"
                    self._note(visit, key, executed=False)
                    headers = wire.headers(kept.id, None, account.left()) | REPLAYED
                    media = EventStream.media_type if kept.streamed else JSON
                    return Response(kept.body, headers=headers, media_type=media)
                claimed = True
            finish = await prepare(visit)
            fault = self.faults.draw(account.name, chance)
            if fault in _ANSWERLESS:
                met = fault
                if fault is Fault.RATE_LIMITED:
                    raise Problem.rate_limited(_RETRY_AFTER)
                if fault is Fault.TIMEOUT:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.settings.longest_hang):
                            await request.receive()
                    return Silence(request)
                await self._wait(received, chance)
                if fault in _ERRORS:
                    raise Problem(*_ERRORS[fault])
                return Silence(request)
            content, tokens_out = await finish(fault)
            # The events of a stream share the latency.
            stream = content if isinstance(content, Events) else None
            if stream is None or fault is Fault.SLOW_DRIP:
                await self._wait(received, chance, tokens_out)
            account.charge_output(visit.entry, tokens_out)
            if isinstance(content, Problem):
                met = fault
                raise content
            parts = (encoded(content),) if stream is None else stream.encoded()
            content, first = b"".join(parts), True
            # Errors are not kept, whether they come with a status or in a stream.
            if claimed and (stream is None or stream.fault is not Fault.STREAM_ERROR):
                claimed = False
                kept = StoredReply(content, chance.id, stream is not None)
                first = self.replays.keep(account.name, key, kept)
            account.execute(first)
            self._note(visit, key, executed=True)
            if client_left(request):
                outcome = "abandoned"
                return Silence()
            outcome, met = "answered", fault
            headers = wire.headers(chance.id, None, account.left())
            if fault is Fault.SLOW_DRIP:
                parts, pause = drops(content, self.settings.drip_seconds)
                headers |= {"content-length": str(len(content))}
                headers |= {"content-type": JSON} if stream is None else {}
                stream = Events(())
            elif stream is None:
                return json_response(content, 200, headers)
            elif (rate := self.settings.tokens_per_second) is not None:
                await self._wait(received, chance)
                pause = 1 / rate
            else:
                pause = self._left(received, chance) / len(parts)
            streamed = under_way.pop_all()
            return EventStream(parts, headers, pause, stream, request, self.closing, streamed)
        except Problem as problem:
            outcome = "failed" if problem.status >= 500 else "rejected"
            outcome = "rate_limited" if problem.kind == "rate_limited" else outcome
            return self.problem(wire, problem, chance.id, account)
        except asyncio.CancelledError:
            outcome = "abandoned"
            abort(request)
            raise
        except Exception:
            log.exception("the mock server failed to answer")
            broken = Problem.server("the mock server itself failed; its log says why")
            return self.problem(wire, broken, chance.id, account)
        finally:
            if claimed:
                self.replays.release(account.name, key)
            under_way.close()
            account.finish(outcome, None if met is None else met.value)

    def _note(self, visit: Visit, key: str, *, executed: bool) -> None:
        if self._log is not None:
            asked = _digest(visit.request, visit.body)
            self._log.note(visit.account.name, key, asked, visit.received, executed=executed)

    def check(self, place: Place, body: Mapping[str, Any], model: str = "") -> None:
        """Raise ``Problem`` for what the provider of a request's model refuses."""
        check_form(place, body)
        name = model or body.get("model")
        settings = self.settings
        if not isinstance(name, str) or settings.lenient or name in settings.models:
            return
        if not is_own(name):
            check(place, name, body, settings.today or datetime.date.today())

    def stand_in(self, model: str) -> str:
        """Return the name by which the mock knows ``model``."""
        return self.settings.models.get(model, model)

    async def count(self, request: Request, wire: Wire, field: str, model: str = "") -> Response:
        """Return the input tokens of a request in a ``field``."""
        body = json_object(await read_body(request))
        self.check(wire.place, body, model)
        asked = wire.read(body, model)
        bare_name(self.stand_in(asked.model))
        _, spent = await self.measure(wire, asked, character_tokens(asked.characters))
        return json_response({field: spent.tokens_in}, 200, wire.headers(NO_ID))

    def problem(
        self, wire: Format, problem: Problem, id: str, account: Account | None = None
    ) -> Response:
        """Return an error in the provider's form."""
        headers = wire.headers(id, problem, () if account is None else account.left())
        return json_response(wire.problem(problem, id), problem.status, headers)

    async def measure(
        self,
        form: Format,
        asked: ModelRequest | Reading | Wanted,
        text_tokens: int,
        tokens_out: int = 0,
    ) -> tuple[list[Picture], TokenCounts]:
        """Return all pictures of a request, and its tokens."""
        pictures = [await self.pictures.look(data, asked.image_param) for data in asked.images]
        images = sum(form.image_tokens(picture.size, asked.low_detail) for picture in pictures)
        return pictures, TokenCounts(text_tokens + images, images, tokens_out)

    async def _wait(self, received: float, chance: Chance, tokens: int = 0) -> None:
        if (left := self._left(received, chance, tokens)) > 0:
            await asyncio.sleep(left)

    def _left(self, received: float, chance: Chance, tokens: int = 0) -> float:
        """Return the seconds of a request's latency that are left, with those of ``tokens``."""
        settings = self.settings
        latency = settings.latency + settings.jitter * (2.0 * chance.latency - 1.0)
        latency += tokens / (settings.tokens_per_second or float("inf"))
        return max(0.0, received + latency - time.monotonic())


def _digest(request: Request, body: bytes | None) -> str:
    kind = request.headers.get("content-type", "")
    return request_digest(request.method, request.url.path, kind, body or b"")


def _answering(asked: ModelRequest, name: str, sheet: bool) -> str:
    """Return the model that answers ``asked`` in place of ``name``.

    The same model may judge, direct and compose: of a judge's stand-in a script directs, and
    composes where there is nothing to look at; of the director's one composes without its tools,
    and a judge looks where a picture is to be read or judged.
    """
    if name == DIRECTOR and asked.images and (sheet or is_seeing(asked)):
        return _READER
    judges = not is_script(name)
    if {"generate_image", "accept"} <= {one["name"] for one in asked.turns.tools.functions}:
        # The director's tools, which no judge can use.
        return DIRECTOR if judges and not sheet else name
    if name == DIRECTOR or (judges and not (sheet or asked.images or is_own(asked.model))):
        name = POET
    return ANNOTATOR if not sheet and (judges or name == POET) and is_annotating(asked) else name
