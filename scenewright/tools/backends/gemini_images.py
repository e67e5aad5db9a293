"""Gemini's image models through google-genai's stateless call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google import genai
from google.genai import types

from scenewright.agents.judges.gemini import (
    REFUSALS,
    GeminiApi,
    reason_name,
    usage_of,
)
from scenewright.providers.retry import UnusableReply
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

_WORDS = 120


class GeminiImages(GeminiApi[ImageCaps], ImageWire[genai.Client]):
    """One user turn: the words, then the pictures; the answer is a picture."""

    async def draw(self, order: Order, show: ShowPartial) -> Drawn:
        """See :class:`~.image_wire.ImageWire`; the API has no partial images."""
        parts = [types.Part.from_text(text=order.prompt)]
        parts += [
            types.Part.from_bytes(data=data, mime_type="image/png") for data in order.pictures
        ]
        size = types.ImageConfig(
            aspect_ratio=order.size.ratio or None, image_size=order.size.resolution or None
        )
        # The list is of one of the many kinds that are taken.
        contents: Any = [types.Content(role="user", parts=parts)]
        response = await self._clients.get().aio.models.generate_content(
            model=self.model,
            contents=contents,
            config=types.GenerateContentConfig(
                response_modalities=["IMAGE"],
                image_config=size,
                **self._caps.parameters,
            ),
        )
        return self._read(response)

    def _read(self, response: types.GenerateContentResponse) -> Drawn:
        usage = _usage(response)
        blocked = response.prompt_feedback and response.prompt_feedback.block_reason
        if blocked:
            raise _refused(blocked, usage)
        if not response.candidates:
            raise UnusableReply("empty reply: no candidate", usage)
        candidate = response.candidates[0]
        stop = candidate.finish_reason
        if stop in REFUSALS or stop == types.FinishReason.IMAGE_RECITATION:
            raise _refused(stop, usage)
        said = ""
        for part in (candidate.content and candidate.content.parts) or []:
            # Models that think show their sketches as well.
            if part.thought:
                continue
            said += part.text or ""
            blob = part.inline_data
            if blob is None or not blob.data:
                continue
            if not (blob.mime_type or "image/").startswith("image/"):
                raise UnusableReply(f"a {blob.mime_type} came in place of a picture", usage)
            if len(blob.data) > MAX_BYTES:
                raise UnusableReply(too_large(len(blob.data)), usage, retry=False)
            return Drawn(blob.data, replace(usage, images=1), response.response_id or "")
        ended = f"it ended by {reason_name(stop)}"
        words = f"; it said: {said[:_WORDS]!r}" if said.strip() else ""
        raise UnusableReply(f"empty reply: no picture ({ended}{words})", usage)


def _refused(reason: object, usage: Usage) -> UnusableReply:
    return UnusableReply(
        f"refused: {reason_name(reason)} (say it in other words)", usage, retry=False
    )


def _usage(response: types.GenerateContentResponse) -> Usage:
    """Tokens by kind; those received count as text where the reply does not say more."""
    found = response.usage_metadata
    if found is None:
        return Usage()

    def images(details: list[types.ModalityTokenCount] | None) -> int:
        kind = types.MediaModality.IMAGE
        return sum(one.token_count or 0 for one in details or [] if one.modality == kind)

    return replace(
        usage_of(response),
        image_tokens_in=images(found.prompt_tokens_details),
        image_tokens_out=images(found.candidates_tokens_details),
    )
