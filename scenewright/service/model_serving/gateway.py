"""The HTTP side of served models: a plain ASGI application over doors."""

from __future__ import annotations

import hmac
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from scenewright.core.images import ImageError
from scenewright.core.validation import first_problem
from scenewright.providers.model_serving import (
    LINES,
    PROBLEM,
    AnswerOrder,
    Cards,
    GenerateOrder,
    Problem,
    ProblemLine,
    ReplyLine,
    image_file,
)
from scenewright.service.model_serving.models import ModelEndpoint, StreamItem, failed, unfit

M = TypeVar("M", bound=BaseModel)


class _Wrong(Exception):
    """An order that is refused before it reaches a model."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class _Gateway:
    def __init__(self, doors: Mapping[str, ModelEndpoint], key: str, most_bytes: int) -> None:
        self._doors = doors
        self._key = key
        self._most_bytes = most_bytes

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def models(self, request: Request) -> Response:
        self._let_in(request)
        # One after the other: a door whose replicas start takes long only once.
        cards = Cards(models=tuple([await door.card() for door in self._doors.values()]))
        return _json(cards)

    async def model(self, request: Request) -> Response:
        self._let_in(request)
        return _json(await self._door(request).card())

    async def answer(self, request: Request) -> Response:
        self._let_in(request)
        door = self._door(request)
        order = await self._order(request, AnswerOrder)
        image = _file(order.image, "the picture")
        reply = await door.answer(image, order.facts, order.fingerprint)
        return _problem(reply) if isinstance(reply, Problem) else _json(reply)

    async def generate(self, request: Request) -> Response:
        self._let_in(request)
        door = self._door(request)
        order = await self._order(request, GenerateOrder)
        images = {name: _file(text, f"the picture {name}") for name, text in order.images.items()}
        lines = door.generate(order.request, images, order.fingerprint)
        if LINES in request.headers.get("accept", ""):
            return await _stream(lines)
        return await _last(lines, request)

    def _let_in(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        if self._key and not hmac.compare_digest(given.encode(), f"Bearer {self._key}".encode()):
            raise _Wrong(
                Problem(
                    title="No entry",
                    status=401,
                    detail="this server asks for a key: set it in the environment of the client "
                    "(SCENEWRIGHT_SERVE_KEY, or key_variable of its account)",
                )
            )

    def _door(self, request: Request) -> ModelEndpoint:
        name = request.path_params["model"]
        door = self._doors.get(name)
        if door is None:
            there = ", ".join(self._doors)
            raise _Wrong(
                Problem(
                    title="No such model",
                    status=404,
                    detail=f"no model {name!r} is served here: there are {there}",
                )
            )
        return door

    async def _order(self, request: Request, kind: type[M]) -> M:
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > self._most_bytes:
                most = self._most_bytes / 2**20
                detail = (
                    f"the request is larger than {most:g} MB: send smaller pictures, or serve "
                    "with a larger most_megabytes"
                )
                raise _Wrong(Problem(title="Too large", status=413, detail=detail))
        try:
            return kind.model_validate_json(bytes(data))
        except ValidationError as error:
            raise _Wrong(unfit(first_problem(error, "the request"))) from None


def gateway(
    doors: Mapping[str, ModelEndpoint], key: str = "", most_bytes: int = 64 * 2**20
) -> Starlette:
    """Return the application that serves ``doors`` by their ids.

    ``key``: what clients must send as a bearer token; empty: nothing. ``most_bytes``: most of one
    request.
    """
    made = _Gateway(doors, key, most_bytes)
    return Starlette(
        routes=[
            Route("/healthz", made.health, methods=["GET"]),
            Route("/models", made.models, methods=["GET"]),
            Route("/models/{model:path}/answer", made.answer, methods=["POST"]),
            Route("/models/{model:path}/generate", made.generate, methods=["POST"]),
            Route("/models/{model:path}", made.model, methods=["GET"]),
        ],
        exception_handlers={
            _Wrong: _refused,
            HTTPException: _of_http,
            ClientDisconnect: _gone,
            Exception: _broken,
        },
    )


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, _Wrong)
    return _problem(error.problem)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"{request.method} {request.url.path}: see docs/scaling.md for what is served"
    return _problem(Problem(title=str(error.detail), status=error.status_code, detail=detail))


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _broken(_: Request, error: Exception) -> Response:
    return _problem(failed(error))


async def _stream(lines: AsyncIterator[StreamItem]) -> Response:
    """Line by line; a problem before the first step has its HTTP status."""
    first = await anext(lines)
    if isinstance(first, ProblemLine):
        return _problem(first.problem)

    async def told() -> AsyncIterator[bytes]:
        async with _closing(lines):
            yield _line(first)
            async for line in lines:
                yield _line(line)

    return StreamingResponse(told(), media_type=LINES)


async def _last(lines: AsyncIterator[StreamItem], request: Request) -> Response:
    """Return the end of a drawing; one that nobody waits for any more is stopped."""
    async with _closing(lines):
        async for line in lines:
            match line:
                case ReplyLine():
                    return _json(line.reply)
                case ProblemLine():
                    return _problem(line.problem)
                case _:
                    if await request.is_disconnected():
                        raise ClientDisconnect
    return _problem(failed(RuntimeError("the drawing ended without a picture")))


def _closing(lines: AsyncIterator[StreamItem]) -> Any:
    return aclosing(lines)


def _file(text: str, name: str) -> bytes:
    try:
        return image_file(text, name)
    except ImageError as error:
        raise _Wrong(unfit(str(error))) from None


def _line(line: StreamItem) -> bytes:
    return f"{line.model_dump_json()}\n".encode()


def _json(message: BaseModel) -> Response:
    return Response(message.model_dump_json(), media_type="application/json")


def _problem(problem: Problem) -> Response:
    wait = problem.retry_after
    headers = {} if wait is None else {"retry-after": str(math.ceil(wait))}
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, problem.status, headers, media_type=PROBLEM)
