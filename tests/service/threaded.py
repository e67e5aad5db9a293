"""A service in a thread of its own, for tests that call it without an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from tests.service.serving import Server


@contextmanager
def threaded(app: FastAPI) -> Iterator[str]:
    """Serve ``app`` on a free port, lifespan included; its address."""
    server = Server(
        uvicorn.Config(
            app,
            port=0,
            http="h11",
            loop="asyncio",
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        ends = time.monotonic() + 60
        while not server.started:
            if not thread.is_alive() or time.monotonic() > ends:
                raise RuntimeError("the server did not start: see its log above")
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        service = getattr(app.state, "service", None)
        if service is not None:
            service.broadcaster.close()
        server.should_exit = True
        thread.join(timeout=60)
