"""``/mcp``: the MCP server over streamable HTTP, in the service's application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INTERNAL_ERROR, INVALID_REQUEST
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

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
        manager: StreamableHTTPSessionManager = scope["app"].state.mcp
        await manager.handle_request(scope, receive, send)


def _identity(context: RequestContext) -> Identity:
    request: Any = context.request
    found = getattr(request.state, "identity", None) if isinstance(request, Request) else None
    if not isinstance(found, Identity):
        raise Unauthorized("the request has no identity: send it through the service's address")
    return found
