"""Models behind ``scenewright models serve``: messages, client, and the connection to Ray.

``docs/scaling.md`` describes the messages. Bodies are JSON, images in them base64 of a PNG file.
Ray is imported at first use.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx2
from PIL import Image
from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from scenewright.config.accounts import NO_KEY
from scenewright.core.error_text import error_text, hidden, relayed
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import ImageError, png_bytes, read_image
from scenewright.core.ports.backend import BackendFeatures, GenerationRequest, PromptCount
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.validation import FiniteModel, first_problem
from scenewright.providers.retry import (
    Decision,
    PermanentError,
    Transient,
    classify_http,
    unreachable,
)
from scenewright.providers.sdk_clients import PerLoop
from scenewright.providers.transport import http_client

PROTOCOL = 2
"""Version of the messages; raised for incompatible changes."""
MAX_FACTS = 4096
MAX_PICTURES = 64
PROBLEM = "application/problem+json"
LINES = "application/x-ndjson"
"""Accept type of a drawing: a line per step, then one with the picture."""

Picture = Annotated[str, StringConstraints(min_length=1)]
Fingerprint = Annotated[str, StringConstraints(max_length=128)]


class ModelCard(FiniteModel):
    """A served model."""

    id: str
    """``kind:model``, for example ``local:miniature/judge-a``."""
    kind: Literal["judge", "backend"]
    """What it does."""
    fingerprint: str
    """Fingerprint in the server's process."""
    caps: JudgeCaps | None = None
    """Abilities of a judge, with its vocabulary if that is closed."""
    features: BackendFeatures | None = None
    """Abilities of a backend."""
    weights: str = ""
    """Of a judge: digest of its weights (:mod:`scenewright.config.model_identity`), which tells a
    copy under another name; empty where it has none of its own."""
    protocol: int = PROTOCOL
    """Version of the messages."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.caps is None) == (self.kind == "judge"):
            raise ValueError("a judge has caps, and nothing else has")
        if (self.features is None) == (self.kind == "backend"):
            raise ValueError("a backend has features, and nothing else has")
        return self


class Cards(FiniteModel):
    """All models of a server."""

    models: tuple[ModelCard, ...]
    """In the order in which they were named."""


class AnswerOrder(FiniteModel):
    """Order to judge facts of one picture."""

    image: Picture
    """The picture."""
    facts: tuple[Fact, ...] = Field(min_length=1, max_length=MAX_FACTS)
    fingerprint: Fingerprint = ""
    """Fingerprint of the wanted judge; empty: any."""


class AnswerReply(FiniteModel):
    """Answers of a judge."""

    fingerprint: str
    answers: tuple[Answer, ...]
    """One a fact, in their order."""


class GenerateOrder(FiniteModel):
    """Order to draw one picture."""

    request: GenerationRequest
    """What decides it."""
    images: dict[str, Picture] = Field(default_factory=dict, max_length=MAX_PICTURES)
    """Content hash → picture, of all that the request names."""
    fingerprint: Fingerprint = ""
    """Fingerprint of the wanted backend; empty: any."""


class GenerateReply(FiniteModel):
    """A drawn picture and its cost."""

    fingerprint: str
    image: Picture
    """The picture."""
    seconds: float
    """Wall time of the drawing, without the wait for its turn."""
    usd: float = 0.0
    """Cost in US dollars."""
    prompt: str = ""
    """The words that the model was given; empty: those of the request."""
    count: PromptCount | None = None
    """How many tokens the prompt has and how many were not read; None: not known."""
    steps: int | None = None
    """Denoising steps that were done; None: not known."""
    details: dict[str, str | int | float] = Field(default_factory=dict)
    """What the backend says of it."""


class Problem(FiniteModel):
    """Problem details (RFC 9457)."""

    title: str
    """Kind of problem, in a few words."""
    status: int = Field(ge=400, le=599)
    """The HTTP status."""
    detail: str
    """Problem and remedy."""
    type: str = "about:blank"
    """No page describes them further."""
    retry_after: float | None = Field(default=None, ge=0)
    """Seconds until a retry may succeed; also sent as ``Retry-After``."""


class StepLine(FiniteModel):
    """Progress line of a drawing."""

    step: int
    """Steps done, from 1."""
    of: int
    """Steps in all."""


class ReplyLine(FiniteModel):
    """Last line of a successful drawing."""

    reply: GenerateReply
    """The picture."""


class ProblemLine(FiniteModel):
    """Last line of a failed drawing."""

    problem: Problem


def encoded_image(image: Image.Image) -> str:
    """Return ``image`` as text; equal pixels give equal text.

    Raises ``ImageError`` as ``png_bytes``.
    """
    return base64.b64encode(png_bytes(image)).decode("ascii")


def image_file(text: str, name: str) -> bytes:
    """Return the image file in ``text``.

    Raises ``ImageError`` with ``name`` if it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ImageError(f"{name} is not base64: send a PNG file in standard base64") from None


def decoded_image(text: str, name: str) -> Image.Image:
    """Return the image in ``text`` as RGB.

    Raises ``ImageError`` with ``name`` if it is invalid.
    """
    return read_image(image_file(text, name), name)


M = TypeVar("M", bound=BaseModel)

CARD_SECONDS = 60.0
"""Longest wait for a server's model card, in seconds: a replica may have to start."""


class ServingError(RuntimeError):
    """An unusable model server; gives the reason and the remedy."""


class RefusedReply(RuntimeError):
    """A reply with an HTTP error, or a stream that ended with a problem."""

    def __init__(
        self, status: int, detail: str, wait: float | str | None = None, *, ours: bool = True
    ) -> None:
        """``wait``: seconds that the server asks to wait, or its header of that name, if any.

        ``ours``: whether the body is a :class:`Problem`.
        """
        self.detail = relayed(detail)
        super().__init__(self.detail)
        self.status = status
        self.headers = {} if wait is None else {"retry-after": str(wait)}
        self.ours = ours


class InvalidReply(RuntimeError):
    """A reply outside the protocol, or cut off."""


class ModelServer:
    """Client of one served model, for any number of event loops."""

    def __init__(self, model: str, base_url: str, api_key: str = NO_KEY) -> None:
        """``model``: id on the server; ``api_key``: the server's key, if it needs one."""
        self.model = model
        self.base_url = base_url.rstrip("/")
        self._key = SecretStr("" if api_key == NO_KEY else api_key)
        self._clients: PerLoop[httpx2.AsyncClient] = PerLoop(
            self._client, httpx2.AsyncClient.aclose
        )

    def card(self, kind: Literal["judge", "backend"]) -> ModelCard:
        """Fetch the model's card; blocks for one short request.

        Raises ``ServingError`` if nobody answers, or the model is missing or of another kind.
        """
        try:
            with httpx2.Client(headers=self._headers(), timeout=CARD_SECONDS) as client:
                found = client.get(self._url())
        except (httpx2.HTTPError, OSError) as error:
            raise ServingError(
                f"no server of models answers at {self.base_url} "
                f"({error_text(error, key=self._secret)}): start one with "
                f"`scenewright models serve {self.model}`, or correct base_url of the account"
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
                f"{self.base_url} is not a model server: base_url is the address that "
                "`scenewright models serve` prints"
            ) from None
        if card.kind != kind:
            raise ServingError(
                f"{self.model} at {self.base_url} is a {card.kind}: name it where a {card.kind} "
                "is wanted"
            )
        return card

    async def ask(self, verb: str, order: BaseModel, kind: type[M]) -> M:
        """Return the reply to ``order``.

        Raises ``RefusedReply``, ``InvalidReply`` and what the HTTP client does.
        """
        async with self._send(verb, order, "application/json") as found:
            return _read(kind, await found.aread())

    @asynccontextmanager
    async def lines(self, verb: str, order: BaseModel) -> AsyncIterator[AsyncIterator[str]]:
        """Stream the lines of the reply to ``order``; raises as :meth:`ask`."""
        async with self._send(verb, order, LINES) as found:
            yield found.aiter_lines()

    @asynccontextmanager
    async def _send(
        self, verb: str, order: BaseModel, accept: str
    ) -> AsyncIterator[httpx2.Response]:
        headers = {"content-type": "application/json", "accept": accept}
        async with self._clients.get().stream(
            "POST", self._url(verb), content=order.model_dump_json(), headers=headers
        ) as found:
            if found.status_code != 200:
                body = await found.aread()
                raise refusal(found.status_code, body, found.headers.get("retry-after"))
            yield found

    def classify(self, error: Exception) -> Decision:
        """Return the decision for an attempt's error, without secrets."""
        match error:
            case RefusedReply():
                if not error.ours:
                    # A proxy in between, or a server whose application is not running.
                    return Transient(self._hidden(f"HTTP {error.status}: {error.detail}"))
                detail = self._hidden(error.detail)
                found = classify_http(error.status, error.headers, detail)
                # The server's message has the remedy; our hints are for providers.
                return PermanentError(detail) if isinstance(found, PermanentError) else found
            case InvalidReply():
                return Transient(self._hidden(str(error)))
            case OSError() | httpx2.HTTPError():
                text = f"no connection to {self.base_url}: {unreachable(error, self._secret)}"
                return Transient(self._hidden(text))
            case _:
                return PermanentError(error_text(error, key=self._secret))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()

    def _url(self, verb: str = "") -> str:
        name = quote(self.model, safe=":/")
        return f"{self.base_url}/models/{name}{f'/{verb}' if verb else ''}"

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._secret}"} if self._secret else {}

    def _hidden(self, text: str) -> str:
        return hidden(text, self._secret)

    @property
    def _secret(self) -> str:
        return self._key.get_secret_value()

    def _client(self) -> httpx2.AsyncClient:
        # How many at once is the account's matter.
        return http_client(self.base_url, headers=self._headers())


def refusal(status: int, body: bytes, wait: str | None = None) -> RefusedReply:
    """Return the error for a reply with ``status``: its problem, or its text."""
    try:
        detail, ours = Problem.model_validate_json(body).detail, True
    except ValueError:
        detail, ours = body[:200].decode("utf-8", "replace").strip(), False
    return RefusedReply(status, detail or "no reason was given", wait, ours=ours)


def line_of(kinds: Callable[[object], type[M]], text: str) -> M:
    """Return a line of a stream; ``kinds`` tells which message a JSON object is.

    Raises ``InvalidReply``.
    """
    try:
        raw = json.loads(text)
    except ValueError:
        raise InvalidReply(f"a line of the reply is not JSON: {text[:80]!r}") from None
    return _read(kinds(raw), text.encode())


def _read(kind: type[M], data: bytes) -> M:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise InvalidReply(
            f"the reply does not fit the protocol ({first_problem(error)})"
        ) from None


def is_remote_cluster(address: str) -> bool:
    """Return whether the cluster was started elsewhere rather than by this process."""
    return bool(address or os.environ.get("RAY_ADDRESS"))


@asynccontextmanager
async def connected_to_ray(
    address: str, cpus: int, failed: Callable[[str], Exception]
) -> AsyncIterator[None]:
    """Connect to the Ray cluster at ``address`` for the block.

    If empty, it is the one of ``RAY_ADDRESS``, or else a local one with at least ``cpus`` CPUs that
    ends with the block. An existing connection is used, and stays. If the cluster cannot be
    reached, raises ``failed(reason)``.
    """
    import ray

    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if is_remote_cluster(address):
        options["address"] = address or None
    else:
        # Not one that others have started here, which Ray would join without being asked.
        options |= {"address": "local", "include_dashboard": False}
        options["num_cpus"] = max(os.cpu_count() or 1, cpus)
    try:
        await asyncio.to_thread(lambda: ray.init(**options))
    except Exception as error:
        raise failed(
            f"no Ray cluster at {address or 'this machine'}: {error}. Check `ray status`, or leave "
            "--address out to work on this machine alone"
        ) from error
    try:
        yield
    finally:
        with suppress(Exception):
            await asyncio.shield(asyncio.to_thread(ray.shutdown))
