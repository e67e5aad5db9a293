"""Client of OpenAI's API and of servers that speak its protocol."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import openai

from scenewright.core.error_text import hidden
from scenewright.core.validation import mapping_of
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    Dialect,
    MalformedReply,
    OutputSchema,
    RawReply,
    Terms,
)
from scenewright.providers.clients.client import (
    Drawn,
    ImageRequest,
    ModelClient,
    ShowPartial,
    fetch_picture,
    picture_of,
)
from scenewright.providers.clients.openai_format import (
    add_chat_event,
    add_response_event,
    by_schema,
    parse_tool_call,
    request_body,
    usage_of,
)
from scenewright.providers.clients.reading import (
    RawCompletion,
    count_of,
    events_of,
    status_error,
    text_of,
)
from scenewright.providers.retry import RequestChanged, UnusableReply
from scenewright.providers.usage import Usage

BASE_URL = "https://api.openai.com/v1"
"""Base URL with the version."""
_UNKNOWN = ("unknown_parameter", "unsupported_parameter")
_REQUIRED = {
    "model",
    "messages",
    "input",
    "tools",
    "tool_choice",
    "response_format",
    "text",
    "reasoning",
}
"""Parameters that are never left out."""


class OpenAIClient(ModelClient[openai.AsyncOpenAI]):
    """A model behind OpenAI's protocol: chat, decisions or images."""

    provider = "openai"
    default_url = BASE_URL

    _left_out: frozenset[str] = frozenset()
    """Parameters of pictures that are not sent."""

    async def complete(self, request: CompletionRequest) -> Completion:
        """See :class:`ModelClient`; notes whether the way of asking worked.

        Raises ``RequestChanged`` where a tool was not called and another way is left.
        """
        terms = self.terms()
        found, wanted, call = await super().complete(request), request.output, None
        if found.stop == "refusal" or wanted is None:
            return found
        if isinstance(wanted, OutputSchema):
            if by_schema(self._settings, terms) and terms.way != "schema":
                return found
            usable = found.data is not None
            filled = found.called or (usable and terms.way == "schema")
        elif not wanted.forced:
            return found
        elif found.calls:
            filled = usable = True
        else:
            call = parse_tool_call(found.text, wanted)
            usable = call is not None
            filled = usable and terms.way == "schema"
        if filled:
            self._negotiation.confirm(terms.way)
        elif (found.text or usable) and self._negotiation.reject(terms.way) and not usable:
            raise RequestChanged(f"the tool was not called: {found.text[:80]!r}", found.usage)
        return found if call is None else replace(found, text="", stop="tools", calls=(call,))

    async def _receive(self, raw: RawCompletion, request: CompletionRequest, terms: Terms) -> None:
        body = self._body(request, terms)
        client = self._clients.get()
        add = add_response_event if terms.responses else add_chat_event
        api: Any = client.responses if terms.responses else client.chat.completions
        create = api.with_streaming_response.create
        opened = create(**_as_arguments(create, body))
        try:
            ended = await self._collect(raw, opened, add, id_header="x-request-id")
        except openai.APIStatusError as error:
            wanted = request.output
            forced = wanted is not None and (isinstance(wanted, OutputSchema) or wanted.forced)
            refusal = status_error(error.response).message
            param = text_of(mapping_of(error.body).get("param"))
            optional = set(body) - _REQUIRED
            if "strict" not in terms.left_out and '"strict": true' in json.dumps(body.get("tools")):
                optional.add("strict")
            changed = self._negotiation.refused(
                terms, optional, error.status_code, refusal, param, forced=forced
            )
            if not changed:
                raise
            told = f"refused ({refusal}): sent again {changed}"
            raise RequestChanged(hidden(told, self._key.get_secret_value())) from error
        if not ended and not (raw.parts or raw.calls or raw.thoughts or raw.refusal):
            raise MalformedReply("the server sent no choices")

    def check(self, request: CompletionRequest) -> None:
        """See :class:`ModelClient`."""
        self._body(request, self.terms())

    def _body(self, request: CompletionRequest, terms: Terms) -> dict[str, Any]:
        dialect = dialect_of(self.base_url)
        return request_body(self.model, request, self._settings, terms, dialect)

    async def decide(self, body: Mapping[str, Any]) -> RawReply:
        """Return the unread reply to ``POST /decisions``."""
        # The raw reply: the SDK's types do not check what they hold.
        reply = await self._clients.get().decisions.with_raw_response.create(**body)
        return RawReply(reply.text, {name.lower(): one for name, one in reply.headers.items()})

    async def draw(self, request: ImageRequest, show: ShowPartial) -> Drawn:
        """Make one attempt of ``images/generations``, or ``images/edits`` where pictures are sent.

        ``show`` gets partial images as they come. Raises as :meth:`complete`.
        """
        images = self._clients.get().images.with_streaming_response
        # Servers differ in what else they take: it is data and goes beside the named parameters.
        more: dict[str, Any] = {
            name: one for name, one in request.parameters.items() if name not in self._left_out
        }
        size = f"{request.width}x{request.height}"
        named = {"model": self.model, "prompt": request.prompt, "size": size}
        if request.partial_images:
            more |= {"stream": True, "partial_images": request.partial_images}
        if request.pictures:
            files = [
                (f"picture-{at}.png", data, "image/png")
                for at, data in enumerate(request.pictures, start=1)
            ]
            if request.mask is not None:
                more["mask"] = ("mask.png", request.mask, "image/png")
            body = {"image": files, **named, **more}
            opened: Any = images.edit(**_as_arguments(images.edit, body))
        else:
            opened = images.generate(**_as_arguments(images.generate, named | more))
        try:
            async with opened as response:
                request_id = response.headers.get("x-request-id") or ""
                events = events_of(response, self.base_url)
                return await self._drawn(events, show, request_id)
        except openai.APIStatusError as error:
            details = mapping_of(error.body)
            name, code = text_of(details.get("param")), text_of(details.get("code"))
            refused = error.status_code in (400, 422) and name in set(more) - {"mask", "image"}
            if not refused or code not in _UNKNOWN:
                raise
            self._left_out |= {name}
            told = f"{self.model} does not take {name}: sent again without it"
            raise RequestChanged(told) from error

    async def _drawn(
        self, events: AsyncIterator[Mapping[str, Any]], show: ShowPartial, request_id: str
    ) -> Drawn:
        """Show the partial images of a reply and return its picture."""
        async for event in events:
            kind = text_of(event.get("type"))
            if kind.endswith(".partial_image"):
                number = event.get("partial_image_index")
                try:
                    data = picture_of(text_of(event.get("b64_json")), Usage())
                except UnusableReply:
                    data = b""
                await show(number if isinstance(number, int) else 0, data)
                continue
            if kind and not kind.endswith(".completed"):
                continue
            found = event
            pictures: Any = [event]
            if not kind:
                pictures = event.get("data")
                if not isinstance(pictures, list):
                    raise UnusableReply("malformed reply: it holds no list of pictures", Usage())
                found = mapping_of(pictures[0]) if pictures else {}
            usage = _image_usage(event.get("usage"), len(pictures))
            if not pictures:
                raise UnusableReply("empty reply: no picture", usage)
            encoded, url = text_of(found.get("b64_json")), text_of(found.get("url"))
            if not encoded and not url:
                raise UnusableReply("empty reply: neither b64_json nor url", usage)
            if encoded:
                return Drawn(picture_of(encoded, usage), usage, request_id)
            return Drawn(await fetch_picture(url, self.base_url, usage), usage, request_id)
        raise UnusableReply("the stream ended before the picture", Usage())

    def _client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(**self._sdk_options())


def dialect_of(base_url: str) -> Dialect:
    """Return whose rules of schemas and parameters hold at an address."""
    host = urlsplit(base_url).hostname or ""
    if host == "api.openai.com" or host.endswith(".api.openai.com"):
        return "openai"
    return "azure" if host.endswith(".azure.com") else "compatible"


def _as_arguments(method: Callable[..., Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the SDK's ``method``: what it does not name goes beside them."""
    known = inspect.signature(method).parameters
    named = {name: one for name, one in body.items() if name in known}
    beside = {name: one for name, one in body.items() if name not in known}
    return named | ({"extra_body": beside} if beside else {})


def _image_usage(given: object, images: int) -> Usage:
    """Tokens as the reply counts them; those received are of images unless it says otherwise."""
    found, usage = mapping_of(given), usage_of(given)
    drawn = mapping_of(found.get("output_tokens_details")).get("image_tokens")
    return replace(
        usage,
        images=images,
        image_tokens_in=count_of(mapping_of(found.get("input_tokens_details")).get("image_tokens")),
        image_tokens_out=usage.tokens_out if drawn is None else count_of(drawn),
    )
