"""``/mcp``: the MCP server over streamable HTTP, in the service's application."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from scenewright.service.core.errors import Unauthorized
from scenewright.service.core.identity import Identity
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.mcp.agent_sessions import agent_sessions
from scenewright.service.mcp.server import RequestContext, mcp_server

PATH = "/mcp"
_ENVELOPE = 2 * 2**20
"""Bytes of a request besides the picture in it."""


def add_mcp(app: FastAPI) -> None:
    """Add ``/mcp`` to ``app``; it answers within :func:`mcp_lifespan`."""
    app.router.routes.append(Route(PATH, endpoint=_Entry(), include_in_schema=False))


@asynccontextmanager
async def mcp_lifespan(app: FastAPI, service: Service) -> AsyncIterator[None]:
    """Return the MCP server of ``service`` behind ``app``'s ``/mcp``.

    No state is kept from one request to the next, so that a client goes on after a restart and
    with any server of several.
    """
    server = mcp_server(lambda _: agent_sessions(service), _identity)
    server.streamable_http_app(
        stateless_http=True,
        transport_security=security(service.settings),
        max_request_body_size=service.settings.upload_bytes * 4 // 3 + _ENVELOPE,
    )
    async with server.session_manager.run():
        app.state.mcp = server.session_manager
        yield


def security(settings: ServiceSettings) -> TransportSecuritySettings:
    """Names by which the service may be called: a page of another name must not reach it.

    Where keys are demanded any name will do: such a page has none to send.
    """
    names = ["127.0.0.1", "localhost", "[::1]", *settings.trusted_hosts]
    hosts = [form for name in names for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=not settings.demands_keys,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


def owns(path: str) -> bool:
    """Return whether errors at ``path`` are of MCP."""
    return path.rstrip("/").endswith(PATH)


def error_reply(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the reply to a request that is refused before it reaches the MCP server.

    A JSON-RPC error without an id: clients show its words in place of the bare status.
    """
    code = INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    error = {"code": code, "message": detail}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status, headers)


class _Entry:
    """The ASGI application at ``/mcp``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            sent = Headers(scope=scope).get("content-type", "")
            if sent.partition(";")[0].strip() != "application/json":
                told = error_reply(415, "the Content-Type of a request must be application/json")
                await told(scope, receive, send)
                return
        manager: StreamableHTTPSessionManager = scope["app"].state.mcp
        await manager.handle_request(scope, receive, _Refusals(send))


_ENVELOPE_ERRORS = {
    PARSE_ERROR: (PARSE_ERROR, "the body is not valid JSON: send one JSON-RPC message"),
    INVALID_PARAMS: (
        INVALID_REQUEST,
        'the body is not a JSON-RPC message: send an object with "jsonrpc": "2.0", a method, its '
        "params as an object, and for a request an id",
    ),
}
"""Code and text of errors of a whole body by the SDK's code for them."""


class _Refusals:
    """Send replies on; of a body that the SDK could not read, with an error in our own words."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 400:
            self._begun = message
            return
        if self._begun is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body", False):
            return
        begun, body = self._begun, self._body
        try:
            said = json.loads(body)
            # Of an error that belongs to a request: its id is not null.
            code = said["error"]["code"] if said.get("id") is None else None
        except (ValueError, KeyError, TypeError, AttributeError):
            code = None
        if code in _ENVELOPE_ERRORS:
            own, text = _ENVELOPE_ERRORS[code]
            error = {"code": own, "message": text}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        rest = [pair for pair in begun["headers"] if pair[0].lower() != b"content-length"]
        headers = [*rest, (b"content-length", str(len(body)).encode())]
        await self._send({**begun, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def _identity(context: RequestContext) -> Identity:
    request: Any = context.request
    found = getattr(request.state, "identity", None) if isinstance(request, Request) else None
    if not isinstance(found, Identity):
        raise Unauthorized("the request has no identity: send it through the service's address")
    return found
