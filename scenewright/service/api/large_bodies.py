"""Large JSON bodies, read and validated away from the event loop.

A scene of some thousand names takes a tenth of a second to validate. FastAPI does that in the event
loop, where everybody else waits meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from scenewright.service.api.common import HeadRoute
from scenewright.service.core.service import Service
from scenewright.service.core.worker_thread import LARGE_SCENE_ITEMS

LARGE_BODY = 16 * 1024
"""Bytes beyond which a body is read aside: about what a large scene takes."""


class LargeBodyRoute(HeadRoute):
    """Read bodies beyond ``LARGE_BODY`` in the turn of large scenes.

    The reply is the same either way, but that ``Busy`` may come where too many wait.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI, which is given a validated body where it is large."""
        handle, field = super().get_route_handler(), self.body_field
        if field is None:
            return handle

        async def answer(request: Request) -> Response:
            if not _is_json(request):
                return await handle(request)
            body = await request.body()
            if len(body) <= LARGE_BODY:
                return await handle(request)

            def read() -> tuple[Any, list[Any]] | None:
                try:
                    data = json.loads(body)
                except (ValueError, RecursionError):
                    return None
                return field.validate(data, {}, loc=("body",))

            service: Service = request.app.state.service
            found = await service.worker_thread.compute(LARGE_SCENE_ITEMS + 1, read)
            if found is None:
                # FastAPI says what is wrong with it.
                return await handle(request)
            value, errors = found
            if errors:
                raise RequestValidationError(errors)
            return await handle(_ReadRequest(request, body, value))

        return answer


class _ReadRequest(Request):
    """A request whose body was read and validated."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._bytes = body
        self._value = value

    async def body(self) -> bytes:
        return self._bytes

    async def json(self) -> Any:
        # Pydantic takes an instance of the body's model as it is.
        return self._value


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )
