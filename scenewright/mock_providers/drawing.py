"""One request for a picture, in any provider's format."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fastapi import Request, Response

from scenewright.agents.judges.tokens import text_tokens
from scenewright.core.images import png_bytes
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.generator import OWN_SIDE, Wanted, drawn, known_image_model
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import Finish, Visit
from scenewright.mock_providers.server import Lab
from scenewright.mock_providers.wire import Format

MAX_IMAGES = 16
"""Most pictures in a request."""
_PATCH = 32
POLICY = (
    "Your request was rejected by the safety system. If you believe this is an error, ask for "
    "something else."
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of a request for a picture."""

    text: int
    """Of its words."""
    images: int
    """Of its pictures."""
    drawn: int
    """Of the picture that came: one for each started square of 32 pixels."""


class ImageForm(Format, Protocol):
    """One provider's format of requests for pictures and their answers."""

    def read(self, visit: Visit, model: str) -> Wanted:
        """The request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """
        ...

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of a picture of ``size`` by the provider's published rule."""
        ...

    def reply(self, wanted: Wanted, files: list[bytes], spent: Spent, id: str) -> Any:
        """The body of a response; ``id`` is 24 hexadecimal digits."""
        ...

    def refused(self, wanted: Wanted, spent: Spent, id: str) -> Any:
        """The body of a response that declines, or a ``Problem``."""
        ...


async def draw(lab: Lab, request: Request, form: ImageForm, model: str = "") -> Response:
    """The answer of ``lab`` to a request for a picture; ``model``: where the address names it."""

    async def prepare(visit: Visit) -> Finish:
        if visit.body is None:
            raise Problem("too_large", 413, "the request is too large")
        wanted = form.read(visit, model)
        known_image_model(wanted.model)
        if len(wanted.pictures) > MAX_IMAGES:
            raise Problem.invalid(f"give at most {MAX_IMAGES} images", "image")
        looks = [await lab.pictures.look(file, "image") for file in wanted.pictures]
        width, height = wanted.size or (OWN_SIDE, OWN_SIDE)
        spent = Spent(
            text=text_tokens(wanted.prompt),
            images=sum(form.image_tokens(look.size, False) for look in looks),
            drawn=-(-width // _PATCH) * -(-height // _PATCH),
        )
        visit.charge(spent.text + spent.images)

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            id = visit.chance.id
            if fault is Fault.REFUSAL:
                return form.refused(wanted, spent, id), 0
            if fault is Fault.INVALID_JSON:
                return b'{"created": 17', 0
            image = await drawn(wanted, lab.seeds.next(wanted))
            file = await asyncio.to_thread(png_bytes, image)
            files = _BROKEN[fault](file) if fault in _BROKEN else [file]
            return form.reply(wanted, files, spent, id), spent.drawn

        return finish

    return await lab.serve(request, form, prepare)


_BROKEN: dict[Fault | None, Callable[[bytes], list[bytes]]] = {
    Fault.EMPTY: lambda _: [],
    Fault.TRUNCATED_JSON: lambda file: [file[: len(file) // 2]],
    Fault.OUTSIDE_OPTIONS: lambda _: [b"<html>no picture</html>"],
    Fault.WRONG_NUMBER: lambda file: [file, file],
}
"""What becomes of a picture's file by each fault that an answer of its form can hold."""
