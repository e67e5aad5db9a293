"""OpenAPI description of all routes: how errors look, and how keys are shown."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from scenewright.service.api.access import SESSION

PROBLEM = "application/problem+json"
_SECURITY: dict[str, dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, where keys are demanded (`scenewright keys create`).",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "The same in a header of its own.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION,
        "description": "A browser that signed in at `/login`.",
    },
}
_OPEN = ("/healthz", "/readyz")


def complete(app: FastAPI) -> None:
    """Have ``app`` describe its errors as what they are, and its keys."""
    described = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(described())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    schema.setdefault("components", {})["securitySchemes"] = _SECURITY
    # One of them, or none: whether a key is demanded is the service's setting.
    schema["security"] = [*({name: []} for name in _SECURITY), {}]
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            if path in _OPEN:
                operation["security"] = []
            content = operation["responses"].get("default", {}).get("content", {})
            if "Problem" in str(content.get("application/json")):
                content[PROBLEM] = content.pop("application/json")
    return schema
