"""No secret is written or sent: planted ones are looked for in everything that comes out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from scenewright.config.accounts import AccountSpec
from scenewright.config.settings import load_settings
from scenewright.service.api.access import SESSION
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving
from tests.service.threaded import threaded

ACCOUNT = "canary-5c1e0b7d-account-of-a-provider"
SHAPED = "sk-proj-canary9f31aa70bd6644c5a1e2"
PASSWORD = "canary-password-of-the-database"


def telltale() -> FastAPI:
    """A provider that takes no key and tells the whole of it in its error."""
    app = FastAPI()

    @app.api_route("/{path:path}", methods=["POST", "GET"])
    async def refuse(request: Request, path: str) -> JSONResponse:
        shown = request.headers.get("authorization", "")
        said = f"Incorrect API key provided: {shown.removeprefix('Bearer ')} (header {shown})"
        return JSONResponse({"error": {"message": said, "code": "invalid_api_key"}}, 401)

    return app


def _around(text: str, planted: str) -> str:
    """Where a secret stands."""
    at = text.index(planted)
    return text[max(0, at - 200) : at + 300]


async def everything(client: httpx2.AsyncClient, run: str) -> list[str]:
    """All that the service says of a run, and of itself."""
    said = []
    for path in (
        f"/v1/refinements/{run}", f"/v1/refinements/{run}/events", f"/runs/{run}",
        f"/runs/{run}/main", f"/runs/{run}/page.html", f"/runs/{run}/compare", "/runs", "/",
        "/v1/refinements", "/v1/profiles", "/openapi.json", "/metrics", "/healthz", "/readyz",
        "/nowhere", "/login",
    ):  # fmt: skip
        reply = await client.get(path)
        said.append(f"{reply.headers}\n{reply.text}")
    return said


@pytest.mark.slow
@pytest.mark.parametrize("secret", [ACCOUNT, SHAPED])
async def test_no_secret_comes_out(
    tmp_path: Path,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # Libraries tell headers at DEBUG, the client of this test among them; the service never asks
    # for that.
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "scenewright")
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "ANTHROPIC_API_KEY", "TELLTALE_KEY"):
        monkeypatch.setenv(name, secret)
    (tmp_path / "data").mkdir()
    said: list[str] = []
    with threaded(telltale()) as provider:
        account = AccountSpec(
            provider="openai", base_url=f"{provider}/v1", key_variable="TELLTALE_KEY", attempts=1
        )
        base = load_settings()
        profile = {"extends": "miniature", "judges": ["telltale:judge"], "report_judges": []}
        base = base.model_copy(
            update={
                "accounts": {**base.accounts, "telltale": account},
                "profiles": {**base.profiles, "telltale": profile},
            }
        )

        def models(request: Any) -> dict[str, Any]:
            replaced = dict(scripted()(request))
            if request.profile == "telltale":
                replaced = {"backend": replaced["backend"], "composer": replaced["composer"]}
            return replaced

        settings = ServiceSettings(data=tmp_path / "data", keys=True)
        app = create_app(settings, base=base, models=models)
        async with serving(app) as url:
            scopes = ("refine", "read", "score", "parse", "admin")
            _, key = await app.state.service.keys.create("studio", scopes=scopes)
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                done = await client.post("/login", data={"key": key, "next": "/"})
                token = client.cookies[SESSION]
                assert done.status_code == 303
                client.cookies.clear()
                client.headers["Authorization"] = f"Bearer {key}"
                for asked in (
                    {"triplets": "red ball on table", "rounds": 2},
                    {"triplets": "red ball on table", "rounds": 1, "profile": "telltale"},
                ):
                    made = await client.post("/v1/refinements", json=asked)
                    assert made.status_code == 202, made.text
                    await client.get(made.json()["links"]["events"])
                    said += await everything(client, made.json()["id"])
                shown = await client.get(made.json()["links"]["self"])
                # The provider was asked, and its refusal is told.
                assert "401" in shown.text or "key" in shown.text
                said.append((await client.get("/v1/profiles", headers={"X-API-Key": "x"})).text)
    kept = {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert any(name.endswith("manifest.json") for name in kept)
    assert any(name.endswith("events.jsonl") for name in kept)
    out, err = capfd.readouterr()
    said += [out, err, caplog.text, *(str(vars(record)) for record in caplog.records)]
    for planted in (secret, key, key.rpartition("_")[2], token):
        assert [name for name, data in kept.items() if planted.encode() in data] == []
        assert [_around(text, planted) for text in said if planted in text] == []


async def test_the_databases_password_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    from scenewright.service.core.database import DatabaseError, open_database

    settings = ServiceSettings(database=f"postgresql://me:{PASSWORD}@127.0.0.1:1/none")
    with pytest.raises(DatabaseError) as caught:
        async with open_database(settings):
            raise AssertionError("there is no such database")
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in caplog.text
