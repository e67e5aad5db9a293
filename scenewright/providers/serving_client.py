"""A client of ``scenewright models serve``: which models are there, and their answers."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeVar
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, SecretStr, ValidationError

from scenewright.config.accounts import NO_KEY
from scenewright.providers.decisions import Decision, PermanentError, Transient
from scenewright.providers.http_status import classify_http, unreachable
from scenewright.providers.loops import PerLoop
from scenewright.providers.scrubbing import scrubbed
from scenewright.providers.sdk_wire import http_settings
from scenewright.providers.serving_wire import LINES, PROTOCOL, ModelCard, Problem

M = TypeVar("M", bound=BaseModel)

CARD_SECONDS = 60.0
"""How long a server may take to say what it serves: a replica may have to start first."""
_LONGEST_REASON = 500


class ServingError(RuntimeError):
    """A server of models that cannot be used; says why and what to do."""


class Refused(RuntimeError):
    """A reply with an HTTP error, or a stream that ended with a problem."""

    def __init__(
        self, status: int, detail: str, wait: float | None = None, *, ours: bool = True
    ) -> None:
        """``wait``: seconds that the server asks to wait; None if it does not. ``ours``: whether
        it is a problem as served models tell it."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.wait = wait
        self.ours = ours


class Garbled(RuntimeError):
    """A reply that is none of this protocol, or that was cut off."""


class ModelServer:
    """One model of a server, as a client for any number of event loops."""

    def __init__(self, model: str, base_url: str, api_key: str = NO_KEY) -> None:
        """``model``: its id there. ``api_key``: what the server asks for, if it does."""
        self.model = model
        self.base_url = base_url.rstrip("/")
        self._key = SecretStr(api_key)
        self._clients: PerLoop[httpx2.AsyncClient] = PerLoop(self._client, self._close)

    def card(self, kind: Literal["judge", "backend"]) -> ModelCard:
        """What the model is; blocks for one short request.

        Raises ``ServingError`` if nobody answers, the model is not there, or is of another kind.
        """
        try:
            with httpx2.Client(headers=self._headers(), timeout=CARD_SECONDS) as client:
                found = client.get(self._url())
        except (httpx2.HTTPError, OSError) as error:
            raise ServingError(
                f"no server of models answers at {self.base_url} "
                f"({self._hidden(f'{type(error).__name__}: {error}')}): start one with "
                f"`scenewright models serve {self.model}`, or mend base_url of the account"
            ) from None
        if found.status_code != 200:
            refused = refusal(found.status_code, found.content)
            told = refused.detail if refused.ours else f"HTTP {refused.status}: {refused.detail}"
            raise ServingError(f"{self.base_url} does not serve it: {self._hidden(told)}")
        try:
            raw = json.loads(found.content)
            spoken = raw.get("protocol") if isinstance(raw, dict) else None
            if isinstance(spoken, int) and spoken != PROTOCOL:
                raise ServingError(
                    f"{self.base_url} speaks version {spoken} of the protocol, this is version "
                    f"{PROTOCOL}: install the same scenewright on both sides"
                )
            card = ModelCard.model_validate_json(found.content)
        except ValueError:
            raise ServingError(
                f"{self.base_url} is no server of models: base_url is the address that "
                "`scenewright models serve` prints"
            ) from None
        if card.kind != kind:
            raise ServingError(
                f"{self.model} at {self.base_url} is a {card.kind}: name it where a {card.kind} "
                "is wanted"
            )
        return card

    async def ask(self, verb: str, order: BaseModel, kind: type[M]) -> M:
        """The reply to ``order``. Raises ``Refused``, ``Garbled`` and what the HTTP client does."""
        found = await self._clients.get().post(
            self._url(verb),
            content=order.model_dump_json(),
            headers={"content-type": "application/json"},
        )
        if found.status_code != 200:
            raise refusal(found.status_code, found.content, found.headers.get("retry-after"))
        return _read(kind, found.content)

    @asynccontextmanager
    async def lines(self, verb: str, order: BaseModel) -> AsyncIterator[AsyncIterator[str]]:
        """The lines of the reply to ``order``, as they come; raises as :meth:`ask`."""
        async with self._clients.get().stream(
            "POST",
            self._url(verb),
            content=order.model_dump_json(),
            headers={"content-type": "application/json", "accept": LINES},
        ) as found:
            if found.status_code != 200:
                body = await found.aread()
                raise refusal(found.status_code, body, found.headers.get("retry-after"))
            yield found.aiter_lines()

    def classify(self, error: Exception) -> Decision:
        """What an error of an attempt means; its reason holds no secret."""
        match error:
            case Refused():
                if not error.ours:
                    # A proxy on the way, or a server that has no application up just now.
                    return Transient(self._hidden(f"HTTP {error.status}: {error.detail}"))
                headers = {} if error.wait is None else {"retry-after": str(error.wait)}
                found = classify_http(error.status, headers, self._hidden(error.detail))
                # The server says what to do; our hints are of providers.
                return (
                    PermanentError(self._hidden(error.detail))
                    if isinstance(found, PermanentError)
                    else found
                )
            case Garbled():
                return Transient(self._hidden(str(error)))
            case OSError() | httpx2.HTTPError():
                text = f"no connection to {self.base_url}: {unreachable(error)}"
                return Transient(self._hidden(text))
            case _:
                return PermanentError(self._hidden(f"{type(error).__name__}: {error}".rstrip(": ")))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _url(self, verb: str = "") -> str:
        name = quote(self.model, safe=":/")
        return f"{self.base_url}/models/{name}{f'/{verb}' if verb else ''}"

    def _headers(self) -> dict[str, str]:
        key = self._key.get_secret_value()
        return {} if key == NO_KEY else {"authorization": f"Bearer {key}"}

    def _hidden(self, text: str) -> str:
        key = self._key.get_secret_value()
        if key != NO_KEY and len(key) >= 6:
            text = text.replace(key, "[hidden]")
        return scrubbed(text)[:_LONGEST_REASON]

    def _client(self) -> httpx2.AsyncClient:
        # How many at once is the account's matter.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        return httpx2.AsyncClient(headers=self._headers(), limits=limits, **http_settings())

    @staticmethod
    async def _close(client: httpx2.AsyncClient) -> None:
        await client.aclose()


def refusal(status: int, body: bytes, wait: str | None = None) -> Refused:
    """The error for a reply with ``status``: its problem, or what stands there instead."""
    try:
        detail, ours = Problem.model_validate_json(body).detail, True
    except ValueError:
        detail, ours = body[:200].decode("utf-8", "replace").strip(), False
    return Refused(status, detail or "no reason was given", _seconds(wait), ours=ours)


def line_of(kinds: Callable[[object], type[M]], text: str) -> M:
    """A line of a stream; ``kinds`` tells which message a JSON object is. Raises ``Garbled``."""
    try:
        raw = json.loads(text)
    except ValueError:
        raise Garbled(f"a line of the reply is no JSON: {text[:80]!r}") from None
    return _read(kinds(raw), text.encode())


def _read(kind: type[M], data: bytes) -> M:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Garbled(f"the reply is out of its form ({place}: {first['msg']})") from None


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None
