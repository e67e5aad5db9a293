"""Decision models of System One's ``/v1/systemone``: one wire for all hosts of ``hosts.toml``.

No client of it is among our dependencies: the makers' own (typesafe-sdk, perplexityai) speak to
one host each, and send no pictures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2

from scenewright.agents.judges.decisions.asking import Question
from scenewright.agents.judges.decisions.models import DecisionCaps, Host
from scenewright.agents.judges.decisions.reading import (
    DecisionReading,
    JsonObject,
    WireReply,
    parse_json,
    picture_name,
    put,
    raws_of,
    read_named,
    tokens_in,
    weighed,
)
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MalformedReply, of_other, of_status, shown
from scenewright.config.accounts import NO_KEY
from scenewright.core.error_text import hidden
from scenewright.core.validation import cut_short
from scenewright.providers.retry import Decision, PermanentError, Transient
from scenewright.providers.sdk_clients import SdkWire, http_settings
from scenewright.providers.usage import Usage

_MESSAGE_LENGTH = 300


@dataclass
class HostError(RuntimeError):
    """A reply that reports a failed request."""

    status: int
    """HTTP status, which may be 200 where only the body reports the failure."""
    message: str
    """What the host says."""
    codes: tuple[int | str, ...] = ()
    """The host's own error codes."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers of the reply, in lower case."""


class SystemOneWire(SdkWire[DecisionCaps, httpx2.AsyncClient]):
    """Implements :class:`~scenewright.agents.judges.decisions.reading.DecisionWire`."""

    def __init__(
        self,
        model: str,
        caps: DecisionCaps,
        host: Host,
        *,
        provider: str,
        api_key: str,
        base_url: str | None = None,
    ) -> None:
        """Store the host's settings; ``provider`` is its name.

        Raises ``JudgeError`` if the host's address needs something that the environment lacks.
        """
        self.provider = provider
        self.default_url = host.base_url
        super().__init__(model, caps, api_key=api_key, base_url=base_url)
        self._host = host
        self._url = host.url(self.base_url, model)

    def build(self, picture: PreparedImage, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the body: the state with the picture, then a map of questions."""
        asked = {question.name: put(question) for question in questions}
        return {"model": self.model, **self._pictured(picture, asked), "questions": asked}

    async def send(self, request: dict[str, Any]) -> WireReply:
        """Make one attempt.

        Raises ``HostError`` for an HTTP error.
        """
        reply = await self._clients.get().post(self._url, json=request)
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if reply.status_code != 200:
            message, codes = said_in(reply.text)
            raise HostError(reply.status_code, message, codes, headers)
        return WireReply(reply.text, headers)

    def read(self, response: object, questions: Sequence[Question]) -> DecisionReading:
        """Return the answers by their names, and the usage.

        An answer whose labels held next to nothing of the probability is none. Raises ``HostError``
        where the body says that the request failed.
        """
        if not isinstance(response, WireReply):
            raise MalformedReply(f"a {type(response).__name__} instead of a reply")
        whole = parse_json(response.text)
        if isinstance(whole, Mapping) and whole.get("success") is False:
            message, codes = said_in(response.text)
            raise HostError(200, message, codes, response.headers)
        body = _at(whole, self._host.reply)
        answers = _at(body, ("answers",))
        if not isinstance(body, Mapping) or not isinstance(answers, JsonObject):
            raise MalformedReply(f"no answers: {shown(response.text)}")
        found = read_named(questions, raws_of(answers))
        served = body.get("model")
        return DecisionReading(
            answers=tuple(
                weighed(one, self._mass(question.name, body))
                for one, question in zip(found, questions, strict=True)
            ),
            usage=Usage(
                tokens_in(body, *self._host.input_tokens),
                tokens_in(body, "usage", "output_tokens"),
                tokens_in(body, *self._host.cached_tokens) if self._host.cached_tokens else 0,
            ),
            model=served if isinstance(served, str) else "",
            request_id=response.headers.get(self._host.request_id, ""),
        )

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an error, by HTTP status and by the host's own codes."""
        key = self._key.get_secret_value()
        if isinstance(error, HostError):
            told = f"{self._place}: {error.message}"
            if not set(error.codes).isdisjoint(self._host.lasting_codes):
                return PermanentError(hidden(told, key))
            if error.status == 200:
                return Transient(hidden(told, key), replied=True)
            return of_status(error.status, error.headers, told, key)
        found = of_other(error, key)
        return replace(found, reason=f"{hidden(self._place, key)}: {found.reason}")

    @property
    def _place(self) -> str:
        return f"{self._host.title} at {self._url}"

    def _pictured(self, picture: PreparedImage, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state, and the image in the host's place for it."""
        data_url = f"data:{picture.media_type};base64,{picture.base64}"
        match self._host.pictures:
            case "assets":
                digest = hashlib.sha256(picture.data).hexdigest()
                name = picture_name(digest, json.dumps(asked, ensure_ascii=False))
                form = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
                asset = {"type": "image", "format": form, "data_base64": picture.base64}
                return {"state": name, "assets": {name: asset}}
            case "images":
                image = data_url if self._host.encoding == "data_url" else picture.base64
                return {"state": self._host.state, "images": [image]}
            case "parts":
                return {"state": [{"type": "image_url", "image_url": {"url": data_url}}]}

    def _mass(self, name: str, body: Mapping[str, Any]) -> Any:
        """Return the joint probability of a question's labels, where the host reports it."""
        path = self._host.label_mass
        return _at(body, [step.replace("{name}", name) for step in path]) if path else None

    def _client(self) -> httpx2.AsyncClient:
        key = self._key.get_secret_value()
        headers = dict(self._host.headers)
        if key != NO_KEY:
            headers["authorization"] = f"Bearer {key}"
        # How many at once is the account's matter.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        return httpx2.AsyncClient(headers=headers, limits=limits, **http_settings())

    @staticmethod
    async def _close(client: httpx2.AsyncClient) -> None:
        await client.aclose()


def _at(value: object, path: Sequence[str]) -> Any:
    """Return the value at ``path`` in nested objects, or None."""
    found: Any = value
    for step in path:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def said_in(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Return the message and the codes in the body of an error, in any host's form."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return cut_short(text.strip(), _MESSAGE_LENGTH) or "no reason was given", ()
    return cut_short(_message(body), _MESSAGE_LENGTH) or "no reason was given", tuple(_codes(body))


def _message(body: object) -> str:
    """Return the text of an error: its ``detail``, ``error``, ``errors`` or ``message``."""
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return "; ".join(filter(None, map(_message, body)))
    if not isinstance(body, Mapping):
        return ""
    place = body.get("loc")
    named = f"{'.'.join(map(str, place))}: " if isinstance(place, list) and place else ""
    for name in ("msg", "message", "detail", "error", "errors"):
        told = _message(body.get(name))
        if told:
            return f"{named}{told}"
    return ""


def _codes(body: object) -> list[int | str]:
    if isinstance(body, list):
        return [code for one in body for code in _codes(one)]
    if not isinstance(body, Mapping):
        return []
    code = body.get("code")
    own = [code] if isinstance(code, int | str) and not isinstance(code, bool) else []
    return own + _codes(body.get("error")) + _codes(body.get("errors"))
