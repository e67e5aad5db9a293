"""A backend behind a provider's image API: OpenAI's images, Gemini's image models.

The provider is asked through a client of :mod:`scenewright.providers.clients`. Limits, time,
repeats and the account are the :class:`~scenewright.providers.caller.Caller`'s.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

from PIL import Image

from scenewright.agents.judges.pictures import text_tokens
from scenewright.config.accounts import missing_key
from scenewright.core.images import ImageError, preview_bytes, read_image
from scenewright.core.ports.backend import (
    BackendError,
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    LoadImage,
    OnStep,
)
from scenewright.providers.caller import Caller
from scenewright.providers.clients.client import ModelClient
from scenewright.providers.clients.factory import make_client
from scenewright.providers.retry import (
    CallError,
    PermanentError,
    RateLimited,
    Transient,
    UnusableReply,
)
from scenewright.providers.usage import ExpectedUsage, Reply, Usage
from scenewright.tools.backends.checks import check_request
from scenewright.tools.backends.image_models import ImageCaps, image_caps_of
from scenewright.tools.backends.image_wire import (
    WORDING,
    PreparedRequest,
    fit_result,
    prepare_request,
)
from scenewright.tools.backends.prompts import count_prompt

_LOG = logging.getLogger(__name__)
_NOT_DRAWN = {
    "as_of", "source", "output_tokens", "qualities", "complexities", "prompt_tokens",
    "prompt_characters", "partial_images", "partial_tokens",
}  # fmt: skip
"""Keys of a model's row that decide no picture."""


@dataclass(eq=False, repr=False)
class RemoteBackend:
    """Implements :class:`~scenewright.core.ports.backend.ImageBackend` over an image API.

    Requests are sent side by side, as many as the account allows. The provider knows no seed:
    the same request gives another picture each time. Steps, guidance and the weights of references
    have no effect, but a reference whose weight is not above 0 is left out.
    """

    client: ModelClient[Any]
    """The backend closes it."""
    caller: Caller
    """It stays open."""
    caps: ImageCaps
    _: KW_ONLY
    account: str = ""
    """Precedes the model in the id (default: the provider)."""
    priced_as: str = ""
    """Precedes it in the table of prices (default: the account)."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels of requests that name none."""
    quality: str | None = None
    """The provider's word for how much work goes into a picture."""
    complexity: str | None = None
    """The same for how much planning."""
    partial_images: int = 0
    """Pictures asked for while one is drawn, where somebody follows the steps."""

    def __post_init__(self) -> None:
        """Raise ``BackendError`` for words and partial images that the model does not know."""
        self.account = self.account or self.client.provider
        self.priced_as = self.priced_as or self.account
        self._closed = False
        caps = self.caps
        for setting, word, known in (
            ("quality", self.quality, caps.qualities),
            ("complexity", self.complexity, caps.complexities),
        ):
            if word is not None and known is not None and word not in known:
                raise BackendError(
                    f"{self.id} does not know the {setting} {word!r}: "
                    + (f"use one of {', '.join(known)}" if known else "leave it out")
                )
        if self.partial_images > (most := caps.partial_images):
            remedy = f"at most {most} partial images: ask for fewer"
            raise BackendError(
                f"{self.id} gives "
                + (remedy if most else "no partial images: leave partial_images out")
            )

    def __repr__(self) -> str:
        """Return the backend's id."""
        return f"RemoteBackend({self.id!r})"

    @property
    def id(self) -> str:
        """``account:model``."""
        return f"{self.account}:{self.client.model}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of account, place, model, sizes, quality, parameters and wording."""
        parts = {
            "account": self.account,
            "provider": self.client.provider,
            "place": self.client.place,
            "model": self.client.model,
            "size": self.features.default_size,
            "quality": self.quality,
            "caps": self.caps.model_dump(mode="json", exclude=_NOT_DRAWN),
            "wording": WORDING,
        }
        if self.complexity is not None:
            parts["complexity"] = self.complexity
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def features(self) -> BackendFeatures:
        """Its abilities."""
        return self.caps.features(self.size)

    def expected(self, prompt: str, pictures: int = 0) -> ExpectedUsage:
        """Return the expected usage of ``prompt`` with so many pictures; makes no call."""
        shown = pictures * self.caps.output_tokens
        drawn = self.caps.output_tokens + self.partial_images * self.caps.partial_tokens
        usage = Usage(text_tokens(prompt) + shown, drawn, 0, 1, shown, drawn)
        return ExpectedUsage(
            1, usage, self.caller.price_of(self.priced_as, self.client.model, usage)
        )

    async def generate(
        self,
        request: GenerationRequest,
        load: LoadImage,
        on_step: OnStep | None = None,
    ) -> GeneratedImage:
        """Draw ``request``; ``load`` is called from another thread.

        ``on_step`` is called with each partial image and once at the end. Raises ``BackendError``
        for what cannot be served and for a call that is lost, with the reason. Cancelling the
        awaiting task ends the call; what was sent may still be billed.
        """
        if self._closed:
            raise BackendError(f"{self.id} was closed: make a new one")
        self._check(request)
        began = time.perf_counter()
        usual = self.features.default_size
        size = request.width or usual[0], request.height or usual[1]
        # Where nobody follows the steps, partial images would only cost.
        partial = 0 if on_step is None else self.partial_images
        work = await asyncio.to_thread(
            prepare_request, request, size, self.caps, load,
            quality=self.quality, complexity=self.complexity, partial_images=partial,
        )  # fmt: skip
        reply = await self._called(work, on_step)
        image = await asyncio.to_thread(fit_result, reply.value, work)
        if on_step is not None:
            on_step(GenerationStep(partial + 1, partial + 1))
        return GeneratedImage(
            image=image,
            seconds=time.perf_counter() - began,
            usd=reply.usd,
            prompt=work.request.prompt,
            count=count_prompt(self, request.prompt),
            details={
                "served": f"{reply.value.width}x{reply.value.height}",
                "pictures": len(work.request.pictures),
                "attempts": reply.attempts,
                "tokens_out": reply.usage.tokens_out,
            },
        )

    async def aclose(self) -> None:
        """Close the connections; the caller stays open."""
        if not self._closed:
            self._closed = True
            await self.client.aclose()

    async def _called(self, work: PreparedRequest, on_step: OnStep | None) -> Any:
        sent = work.request
        steps = sent.partial_images + 1

        async def show(number: int, data: bytes) -> None:
            def preview_of_file() -> bytes:
                return preview_bytes(fit_result(read_image(data, "its file"), work))

            try:
                preview = await asyncio.to_thread(preview_of_file)
            except ImageError as error:
                # The picture itself may still come.
                _LOG.warning("%s: a partial image is left out: %s", self.id, error)
                return
            if on_step is not None and 0 <= number < sent.partial_images:
                on_step(GenerationStep(number + 1, steps, preview))

        async def attempt() -> Reply[Image.Image]:
            drawn = await self.client.draw(sent, show)
            try:
                name = "the picture that came"
                image = await asyncio.to_thread(read_image, drawn.data, name)
            except ImageError as error:
                raise UnusableReply(str(error), drawn.usage) from None
            return Reply(image, drawn.usage, drawn.request_id)

        pictures = len(sent.pictures)
        try:
            return await self.caller.call(
                attempt,
                classify=self.client.classify,
                provider=self.priced_as,
                model=self.client.model,
                tokens=text_tokens(sent.prompt)
                + (1 + pictures) * self.caps.output_tokens
                + sent.partial_images * self.caps.partial_tokens,
                label=f"{self.id} picture",
            )
        except CallError as error:
            raise BackendError(f"{self.id} drew nothing: {error}. {self._advice(error)}") from None

    def _advice(self, error: CallError) -> str:
        match error.decision:
            case PermanentError():
                return "What was drawn before is kept: put this right and go on"
            case RateLimited():
                return (
                    f"Wait and go on, or lower concurrent or requests_per_minute in "
                    f"[accounts.{self.account}] of scenewright.toml"
                )
            case Transient(timed_out=True):
                return (
                    f"Try again; a slow model needs a longer timeout in [accounts.{self.account}] "
                    "of scenewright.toml"
                )
            case _:
                return "What was drawn before is kept: try again once that has passed"

    def _check(self, request: GenerationRequest) -> None:
        features = self.features
        where = f'[accounts.{self.account}.models."{self.client.model}"] of scenewright.toml'
        most = self.caps.prompt_characters
        if most is not None and len(request.prompt) > most:
            raise BackendError(
                f"the prompt has {len(request.prompt)} characters, {self.id} takes {most}: shorten "
                "it, or draw a smaller scene"
            )
        start = request.start
        if start is not None and start.instruct and not features.instructions:
            raise BackendError(f"{self.id} takes no instructions: describe the picture instead")
        if start is not None and not features.edit:
            raise BackendError(
                f"{self.id} cannot start from a picture: leave 'start' out, or tell that it can by "
                f"pictures = 1 in {where}"
            )
        some = f", or tell that it takes some by pictures in {where}"
        advice = "give fewer" if features.references else f"give fewer{some}"
        check_request(request, features, self.id, references_advice=advice)


def remote_backend(
    provider: str,
    model: str,
    caller: Caller,
    *,
    api_key: str | None,
    base_url: str | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | None = None,
    **settings: Any,
) -> RemoteBackend:
    """Return a backend ``provider:model``, of ``openai`` or ``gemini``.

    ``base_url``: a server that speaks the provider's protocol, instead of the provider's own.
    ``name``: the account, in place of the provider in the id. ``overrides``: keys of
    :class:`~.image_models.ImageCaps`, in place of what the table of facts says. ``settings``: those
    of :class:`RemoteBackend`. The provider's library is imported here. Raises ``BackendError`` for
    a missing key, a provider without image models or a setting that cannot be.
    """
    caps = image_caps_of(provider, model, overrides)
    key = (api_key or "").strip()
    if not key:
        raise BackendError(missing_key(provider, name))
    client = make_client(provider, model, api_key=key, base_url=base_url)
    return RemoteBackend(
        client,
        caller,
        caps,
        account=name or "",
        # Another server's models are not the provider's, whatever they are called.
        priced_as=provider if base_url is None else "",
        **settings,
    )
