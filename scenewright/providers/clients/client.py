"""Base of all providers' clients: attempts of a model, each unlike the one before.

A client turns a :class:`CompletionRequest` into its provider's wire format, makes one attempt and
returns a :class:`Completion`, or a picture for an :class:`ImageRequest`. :func:`make_client`
imports a provider's SDK when its first client is made. Limits, time, repetitions and usage are the
:class:`~scenewright.providers.caller.Caller`'s.
"""

from __future__ import annotations

import base64
import re
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Generic, TypeVar

import httpx2
from pydantic import SecretStr

from scenewright.core.error_text import hidden
from scenewright.core.validation import cut_short
from scenewright.prompts import load_prompt
from scenewright.providers import transport
from scenewright.providers.clients.base import (
    ClientSettings,
    Completion,
    CompletionRequest,
    MalformedReply,
    RawReply,
    RequestError,
    Terms,
    place_of,
)
from scenewright.providers.clients.negotiation import KnownServer, Negotiation
from scenewright.providers.clients.reading import (
    RawCompletion,
    StreamedResponse,
    completion_of,
    events_of,
    is_stream,
    of_other,
)
from scenewright.providers.retry import (
    Decision,
    Transient,
    TransportError,
    UnusableReply,
    unreachable,
)
from scenewright.providers.sdk_clients import PerLoop
from scenewright.providers.transport import http_client
from scenewright.providers.usage import Reply, Usage
from scenewright.providers.versions import reply_version

MAX_BYTES = 64 * 2**20
"""Largest file of a picture that is taken from a provider."""

ShowPartial = Callable[[int, bytes], Awaitable[None]]
"""Takes a partial image: its number, from 0, and its file, which may be broken."""


@dataclass(frozen=True, slots=True, repr=False)
class ImageRequest:
    """A picture as it is requested from a provider; all files are PNG."""

    prompt: str
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    ratio: str = ""
    """Name of the aspect ratio, where there are names."""
    resolution: str = ""
    """Name of the resolution, likewise."""
    pictures: tuple[bytes, ...] = ()
    """Pictures to change or to refer to, the one to change first."""
    mask: bytes | None = None
    """As large as the first picture: transparent where that may change."""
    parameters: Mapping[str, str | int | bool] = field(default_factory=dict)
    """Further parameters of the provider's, such as ``quality``."""
    partial_images: int = 0
    """Most pictures that are wanted of it while it is drawn."""


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """A picture that came."""

    data: bytes
    """Its file."""
    usage: Usage
    request_id: str = ""
    """The provider's id of the request."""


def picture_of(text: str, usage: Usage) -> bytes:
    """Return the file in base64 ``text``.

    Reads a ``data:`` prefix, line breaks, the URL-safe alphabet and missing padding. Raises
    ``UnusableReply`` for anything else, saying what it is; it carries ``usage``.
    """
    data = re.sub(r"\s+|\\[rn]", "", text)
    if data[:5].casefold() == "data:":
        head, comma, data = data.partition(",")
        if not comma or not head.casefold().endswith(";base64"):
            told = f"the picture's data URL is not base64: {cut_short(head, 60)!r}"
            raise UnusableReply(told, usage)
    data = data.rstrip("=").replace("-", "+").replace("_", "/")
    if not data:
        raise UnusableReply("the picture is empty", usage)
    if (size := len(data) * 3 // 4) > MAX_BYTES:
        told = f"the picture has {size} bytes, which is more than {MAX_BYTES}"
        raise UnusableReply(told, usage, retry=False)
    if data.startswith(("http://", "https://")):
        raise UnusableReply("the picture is an address where base64 was expected", usage)
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except ValueError as error:
        told = f"the picture is not valid base64 ({error}): {cut_short(data, 40)!r}"
        raise UnusableReply(told, usage) from None


async def fetch_picture(url: str, base_url: str, usage: Usage) -> bytes:
    """Return the file at an address that a server at ``base_url`` gave; no key is sent there."""
    if url.startswith("data:"):
        return picture_of(url, usage)
    try:
        return await transport.fetch_picture(url, base_url, MAX_BYTES)
    except TransportError as error:
        again = isinstance(error.decision, Transient)
        raise UnusableReply(error.decision.reason, usage, retry=again) from None
    except (httpx2.HTTPError, OSError) as error:
        told = f"the picture could not be fetched: {unreachable(error)}"
        raise UnusableReply(told, usage) from None


C = TypeVar("C")
T = TypeVar("T")
_SHOWN = 200
_NO_CHAT = ClientSettings(
    structured="schema",
    strict=True,
    logprobs=False,
    sampling={},
    max_output_tokens=0,
    prompt_cache=False,
)


class ProviderClient(ABC, Generic[C]):
    """One model of a provider, or of a server that speaks its protocol.

    C is the type of the SDK's client, of which there is one per event loop.
    """

    provider: str
    """``openai``, ``gemini``, ``anthropic``, or a host of decision models."""
    default_url: str
    """Base URL of the provider's own API."""

    def __init__(self, model: str, *, api_key: str, base_url: str | None = None) -> None:
        """``base_url``: another server, in the form of :attr:`default_url`."""
        self.model = model
        self.base_url = base_url or self.default_url
        self._key = SecretStr(api_key)
        self._clients: PerLoop[C] = PerLoop(self._client, self._close)

    @property
    def place(self) -> str:
        """Host, port and path of the address."""
        return place_of(self.base_url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an error of an attempt, without secrets."""
        return of_other(error, self._key.get_secret_value(), self.base_url)

    @abstractmethod
    def _client(self) -> C:
        """Return a client for the running loop; its own retries are off."""

    @staticmethod
    async def _close(client: Any) -> None:
        """Close ``client``."""
        await client.close()


class ModelClient(ProviderClient[C]):
    """A client of a provider's chat models, decision models and image models."""

    def __init__(
        self,
        model: str,
        settings: ClientSettings | None = None,
        *,
        api_key: str,
        base_url: str | None = None,
    ) -> None:
        """``settings``: of a chat model; decision and image models have none."""
        super().__init__(model, api_key=api_key, base_url=base_url)
        self._settings = settings or _NO_CHAT
        server = KnownServer(self.place, api_key, model, self._settings.reasoning_effort)
        self._negotiation = Negotiation(self._settings, hidden(model, api_key), server)

    async def complete(self, request: CompletionRequest) -> Completion:
        """Make one attempt of a chat model.

        Raises ``RequestError`` for a request that cannot be sent, ``RequestChanged`` where the next
        attempt is sent in another form, ``UnusableReply`` for a reply that was paid for and holds
        nothing, ``MalformedReply`` for one outside the wire format, and what the SDK raises.
        """
        terms = self.terms()
        raw = RawCompletion(limit=self._settings.max_output_tokens)
        await self._receive(raw, request, terms)
        self._negotiation.served(reply_version(raw.model))
        found = completion_of(raw, request, logprobs=terms.logprobs)
        if found.stop != "refusal" and (found.text or found.tokens):
            self._negotiation.record_reply(terms, logprobs=bool(found.tokens))
        return found

    @abstractmethod
    async def _receive(self, raw: RawCompletion, request: CompletionRequest, terms: Terms) -> None:
        """Send ``request`` in the form of ``terms`` and collect the reply in ``raw``."""

    async def _collect(
        self,
        raw: RawCompletion,
        opened: AbstractAsyncContextManager[StreamedResponse],
        add: Callable[[RawCompletion, Mapping[str, Any]], bool],
        *,
        id_header: str,
    ) -> bool:
        """Collect the events of a reply by ``add``; return whether one of them was the end.

        Raises ``MalformedReply`` for a stream that breaks off.
        """
        ended = False
        async with opened as response:
            raw.request_id = response.headers.get(id_header) or ""
            raw.watching = raw.streamed = is_stream(response)
            async for event in events_of(response, self.base_url):
                ended = add(raw, event) or ended
        if raw.watching and not ended:
            raise MalformedReply("the stream ended before the reply was complete")
        return ended

    @abstractmethod
    def check(self, request: CompletionRequest) -> None:
        """Raise ``RequestError`` for a request that cannot be sent."""

    async def decide(self, body: Mapping[str, Any]) -> RawReply:
        """Make one attempt of a decision model: return the unread reply to ``body``."""
        raise RequestError(f"{self.provider} has no decision models")

    async def draw(self, request: ImageRequest, show: ShowPartial) -> Drawn:
        """Make one attempt of an image model; ``show`` gets partial images as they come."""
        raise RequestError(f"{self.provider} draws no pictures")

    def timed_out(self) -> None:
        """Note that the last attempt got no reply in time: what it probed is at fault."""
        self._negotiation.reject(self._negotiation.way)

    def terms(self) -> Terms:
        """Return the form of the next request, as negotiated."""
        return self._negotiation.terms()

    def _sdk_options(self) -> dict[str, Any]:
        """Return the arguments of an SDK's client."""
        return {
            "api_key": self._key.get_secret_value(),
            "base_url": self.base_url,
            "timeout": None,
            "max_retries": 0,
            "http_client": http_client(self.base_url),
        }


def attempts(
    client: ModelClient[Any],
    build: Callable[[], Awaitable[CompletionRequest]],
    read: Callable[[Completion], T],
) -> Callable[[], Awaitable[Reply[T]]]:
    """Return a function that makes one attempt, for :meth:`Caller.call`.

    ``read`` raises ``UnusableReply`` for a reply that holds nothing usable. A model that is asked
    the same again tends to fail the same way, so the next attempt says what was wrong; an attempt
    that got no reply in time is evidence against the way in which a tool was forced.
    """
    reminder = ""
    cancelled = False

    async def attempt() -> Reply[T]:
        nonlocal reminder, cancelled
        if cancelled:
            # The caller ended the last attempt and asks again: its time was up.
            client.timed_out()
            reminder = load_prompt("retry").render(problem="it took too long")
            cancelled = False
        request = replace(await build(), reminder=reminder)
        try:
            completion = await client.complete(request)
            value = read(completion)
        except UnusableReply as error:
            reminder = load_prompt("retry").render(problem=cut_short(error.reason, _SHOWN))
            raise
        except CancelledError:
            cancelled = True
            raise
        return Reply(value, completion.usage, completion.request_id)

    return attempt


_CLIENTS = {"openai": "OpenAIClient", "gemini": "GeminiClient", "anthropic": "AnthropicClient"}
"""Provider → class in the module of its name."""


def make_client(
    provider: str,
    model: str,
    settings: ClientSettings | None = None,
    *,
    api_key: str,
    base_url: str | None = None,
) -> ModelClient[Any]:
    """Return the client of ``provider``'s ``model``; ``settings``: of a chat model.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    """
    name = _CLIENTS.get(provider)
    if name is None or (provider == "anthropic" and settings is None):
        raise ValueError(f"no client of {provider} for {model}")
    module = import_module(f"scenewright.providers.clients.{provider}")
    client: type[ModelClient[Any]] = getattr(module, name)
    return client(model, settings, api_key=api_key, base_url=base_url)
