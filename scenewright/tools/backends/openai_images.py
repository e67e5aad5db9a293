"""OpenAI's images, and every server that speaks their protocol, through the openai library."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import openai
from openai.types import ImagesResponse

from scenewright.agents.judges.openai import OpenAIApi
from scenewright.core.error_text import hidden
from scenewright.providers.retry import Decision, PermanentError, Transient, UnusableReply
from scenewright.providers.sdk_clients import http_settings
from scenewright.providers.usage import Usage
from scenewright.tools.backends.image_models import ImageCaps
from scenewright.tools.backends.image_wire import (
    MAX_BYTES,
    Drawn,
    ImageWire,
    Order,
    ShowPartial,
    too_large,
)

_REFUSED = frozenset({"moderation_blocked", "content_policy_violation", "content_filter"})
_WRONG = frozenset({"invalid_request_error", "image_generation_user_error"})

Clients = tuple[openai.AsyncOpenAI, openai.DefaultAsyncHttpxClient]


class OpenAIImages(OpenAIApi[ImageCaps, Clients], ImageWire[Clients]):
    """``images/generations``, and ``images/edits`` for orders with pictures."""

    async def draw(self, order: Order, show: ShowPartial) -> Drawn:
        """See :class:`~.image_wire.ImageWire`."""
        images = self._clients.get()[0].images
        size = f"{order.size.width}x{order.size.height}"
        # Servers differ in what else they take: it is data and goes beside the named parameters.
        more: dict[str, Any] = dict(self._caps.parameters)
        if order.quality is not None:
            more["quality"] = order.quality
        if order.complexity is not None:
            more["complexity"] = order.complexity
        if order.partial_images:
            more |= {"stream": True, "partial_images": order.partial_images}
        response: object
        if order.pictures:
            files = [
                (f"picture-{at}.png", data, "image/png")
                for at, data in enumerate(order.pictures, start=1)
            ]
            more |= self._caps.edit_parameters
            if order.mask is not None:
                more["mask"] = ("mask.png", order.mask, "image/png")
            response = await images.edit(
                model=self.model, prompt=order.prompt, image=files, size=size, **more
            )
        else:
            response = await images.generate(
                model=self.model, prompt=order.prompt, size=size, **more
            )
        if isinstance(response, openai.AsyncStream):
            async with response:
                return await self._streamed(response, show)
        return await self._read(response)

    def classify(self, error: Exception) -> Decision:
        """As for the judges; what is against the provider's rules is refused for good.

        An error inside a stream has no status: all but a wrong request may pass.
        """
        body = error.body if isinstance(error, openai.APIError) else None
        found = body if isinstance(body, Mapping) else {}
        key = self._key.get_secret_value()
        if found.get("code") in _REFUSED:
            told = f"refused: {found.get('message')} (say it in other words)"
            return PermanentError(hidden(told, key))
        if type(error) is not openai.APIError:
            return super().classify(error)
        told = hidden(f"the stream ended with an error: {error.message}", key)
        if "insufficient_quota" in (found.get("code"), found.get("type")):
            return PermanentError(f"{told} (check the account's balance)")
        return PermanentError(told) if found.get("type") in _WRONG else Transient(told)

    async def _streamed(self, events: openai.AsyncStream[Any], show: ShowPartial) -> Drawn:
        """Show the partial images of a stream and return its picture."""
        response = events.response
        request_id = response.headers.get("x-request-id", "")
        if "text/event-stream" not in response.headers.get("content-type", ""):
            # Servers that know no streams leave the parameter unread and give the picture alone.
            whole = ImagesResponse.construct(**json.loads(await response.aread()))
            return await self._read(whole, request_id)
        async for event in events:
            kind = str(getattr(event, "type", ""))
            if kind.endswith(".partial_image"):
                await show(*_partial(event))
            elif kind.endswith(".completed"):
                usage = _usage(getattr(event, "usage", None), 1)
                return await self._file(event, usage, request_id)
            elif kind == "error":
                said = str(getattr(event, "message", None) or "no reason was given")
                code = getattr(event, "code", None)
                raise openai.APIError(said, response.request, body={"message": said, "code": code})
        raise UnusableReply("the stream ended before the picture", Usage())

    async def _read(self, response: object, request_id: str = "") -> Drawn:
        # The library builds its objects without looking at what they hold.
        request_id = str(getattr(response, "_request_id", None) or request_id)
        data = getattr(response, "data", None)
        if not isinstance(data, list):
            raise UnusableReply("malformed reply: it holds no list of pictures", Usage())
        usage = _usage(getattr(response, "usage", None), len(data))
        if not data:
            raise UnusableReply("empty reply: no picture", usage)
        return await self._file(data[0], usage, request_id)

    async def _file(self, found: object, usage: Usage, request_id: str) -> Drawn:
        encoded, url = getattr(found, "b64_json", None), getattr(found, "url", None)
        if isinstance(encoded, str) and encoded:
            return Drawn(decoded(encoded, usage), usage, request_id)
        if isinstance(url, str) and url:
            return Drawn(await self._fetched(url, usage), usage, request_id)
        raise UnusableReply("empty reply: neither b64_json nor url", usage)

    async def _fetched(self, url: str, usage: Usage) -> bytes:
        """Return the file at an address that the server gave; the key is not sent there."""
        if url.startswith("data:"):
            return decoded(url.partition(",")[2], usage)
        there, home = urlsplit(url), urlsplit(self.base_url)
        if there.scheme != "https" and (there.scheme, there.netloc) != (home.scheme, home.netloc):
            raise UnusableReply(
                f"the picture lies at a {there.scheme or 'strange'} address, which is not fetched: "
                "let the server send b64_json",
                usage,
                retry=False,
            )
        http = self._clients.get()[1]
        parts, length = [], 0
        async with http.stream("GET", url, follow_redirects=False) as response:
            if response.status_code != 200:
                raise UnusableReply(
                    f"the picture could not be fetched: HTTP {response.status_code}", usage
                )
            async for part in response.aiter_bytes():
                length += len(part)
                if length > MAX_BYTES:
                    raise UnusableReply(too_large(length), usage, retry=False)
                parts.append(part)
        return b"".join(parts)

    def _client(self) -> Clients:
        http = openai.DefaultAsyncHttpxClient(**http_settings())
        return self._sdk(http), http

    @staticmethod
    async def _close(client: Clients) -> None:
        await client[0].close()


def _partial(event: object) -> tuple[int, bytes]:
    """Return number and file of a partial image; the file is empty where it cannot be read."""
    number, encoded = (getattr(event, name, None) for name in ("partial_image_index", "b64_json"))
    try:
        data = decoded(encoded if isinstance(encoded, str) else "", Usage())
    except UnusableReply:
        data = b""
    return number if isinstance(number, int) else 0, data


def decoded(text: str, usage: Usage) -> bytes:
    """Return the file in base64 ``text``; raises ``UnusableReply``, which carries ``usage``."""
    if len(text) > MAX_BYTES * 4 // 3 + 4:
        raise UnusableReply(too_large(len(text) * 3 // 4), usage, retry=False)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnusableReply("malformed reply: the picture is not valid base64", usage) from None


def _usage(given: object, images: int) -> Usage:
    """Tokens as the reply counts them; those received are of images unless it says otherwise."""

    def count(found: object, name: str) -> int | None:
        value = getattr(found, name, None)
        return value if isinstance(value, int) and value >= 0 else None

    tokens_out = count(given, "output_tokens") or 0
    details_in = getattr(given, "input_tokens_details", None)
    drawn = count(getattr(given, "output_tokens_details", None), "image_tokens")
    return Usage(
        count(given, "input_tokens") or 0,
        tokens_out,
        images=images,
        image_tokens_in=count(details_in, "image_tokens") or 0,
        image_tokens_out=tokens_out if drawn is None else drawn,
    )
