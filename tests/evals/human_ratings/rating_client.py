"""A rater's browser without a screen."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from scenewright.evals.human_ratings.app import create_app
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import StudyFolder

OWN = "http://127.0.0.1"


@asynccontextmanager
async def client(
    folder: StudyFolder, token: str | None = None, base: str = OWN
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the pages of ``folder``, which follows redirects."""
    store = RatingStore(folder)
    transport = httpx2.ASGITransport(app=create_app(folder, store, token))
    try:
        async with httpx2.AsyncClient(
            transport=transport, base_url=base, follow_redirects=True
        ) as made:
            yield made
    finally:
        store.close()


async def begin(browser: httpx2.AsyncClient, name: str = "Ann") -> httpx2.Response:
    """The first page of a rater."""
    return await browser.post("/begin", data={"rater": name})


async def press(
    browser: httpx2.AsyncClient, page: httpx2.Response, value: str, **more: Any
) -> httpx2.Response:
    """Press the button of that value on ``page``; the page that follows."""
    action = re.search(r'action="([^"]+)"', page.text)
    assert action is not None
    assert f'value="{value}"' in page.text, value
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    return await browser.post(html.unescape(action[1]), data={**hidden, "value": value, **more})


def pictures(page: httpx2.Response) -> list[str]:
    """Addresses of the pictures on ``page``."""
    return re.findall(r'<img src="([^"]+)"', page.text)


def heading(page: httpx2.Response) -> str:
    """The page's question or title."""
    found = re.search(r"<h1[^>]*>([^<]*)</h1>", page.text)
    assert found is not None
    return html.unescape(found[1])
