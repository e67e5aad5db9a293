"""A database that closes connections in the middle: who asks is told to come again."""

from __future__ import annotations

from pathlib import Path

import httpx2
from sqlalchemy import event, text

from scenewright.service.app import create_app
from tests.service.databases import kept
from tests.service.serving import scripted, serving


async def test_a_connection_that_is_cut_in_the_middle_is_503_and_the_next_request_is_served(
    tmp_path: Path,
) -> None:
    async with kept("postgresql", tmp_path) as settings:
        app = create_app(settings, models=scripted())
        async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
            asked = await client.post("/v1/refinements", json={"text": "red ball on table"})
            run = asked.json()["id"]
            engine = app.state.service.engine.sync_engine
            cuts = 0

            def cut(conn, cursor, statement, parameters, context, executemany):  # type: ignore[no-untyped-def]
                nonlocal cuts
                if "AS cut_here" in statement:
                    cuts += 1
                    # Its own connection, by the server, as a database does that is shut down.
                    cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

            event.listen(engine, "before_cursor_execute", cut)
            service = app.state.service
            original = service.store.get

            async def first_cut(*given: object) -> object:
                async with service.engine.connect() as connection:
                    await connection.execute(text("SELECT 1 AS cut_here"))
                return await original(*given)

            service.store.get = first_cut
            away = await client.get(f"/v1/refinements/{run}")
            service.store.get = original
            event.remove(engine, "before_cursor_execute", cut)
            assert cuts == 1
            assert away.status_code == 503, away.text
            assert int(away.headers["retry-after"]) >= 1
            assert away.headers["content-type"] == "application/problem+json"
            assert "send it again" in away.json()["detail"]
            again = await client.get(f"/v1/refinements/{run}")
            assert again.status_code == 200
