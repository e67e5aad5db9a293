"""Start page, gallery and pages of runs against the rules of accessibility."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import httpx2
import pytest

from scenewright.core.ports.backend import BackendError
from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.accessibility import faults
from tests.service.chromium import CHROMIUM, Tab, launched, tabbing
from tests.service.serving import scripted, serving
from tests.service.test_run_page import begun, still

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
BROKEN = "sdxl"
"""Profile whose backend fails here."""


def models(request: RefinementRequest) -> Mapping[str, Any]:
    given = dict(scripted()(request))
    if request.profile == BROKEN:
        given["backend"].failing = lambda request: BackendError(
            "no weights:\n  one  here\nGet them with `scenewright models pull sdxl`."
        )
    return given


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with launched(tmp_path_factory.mktemp("browser") / "profile") as address:
        yield address


@pytest.fixture
async def tab(browser: str) -> AsyncIterator[Tab]:
    async with tabbing(browser) as found:
        yield found


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False)], ids=["wide", "dark", "phone"]
)
async def test_pages_have_no_fault(
    client: httpx2.AsyncClient, tab: Tab, width: int, dark: bool
) -> None:
    done = await begun(client, patience=9)
    failed = await begun(client, profile=BROKEN)
    partly = await begun(client, triplets=None, text="A dog glancing furtively. Ein Hund mit Ball.")
    for run, status in ((done, "finished"), (failed, "failed"), (partly, "finished")):
        assert (await still(client, run))["status"] == status
    await tab.size(width, 900, dark)
    pages = ["/", "/?text=A%20red%20ball%20on%20a%20table%20glancing%20furtively.", "/runs"]
    pages += ["/?text=no%20cat", "/runs?words=zebra", f"/?like={done}"]
    pages += [
        f"/runs?compare={done}",
        f"/runs/{done}/compare",
        f"/runs/{done}/compare?with={partly}",
    ]
    for path in (*pages, f"/runs/{done}", f"/runs/{failed}", f"/runs/{partly}"):
        await tab.open(f"{client.base_url}{path}")
        if path.startswith("/?text"):
            await tab.until("!document.querySelector('#warned').hidden")
        assert await faults(tab) == [], path
        await tab.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert await faults(tab) == [], f"{path}, opened"
        if path == f"/runs/{done}":
            await tab.click("[data-act=edit]")
            await tab.until("document.querySelector('#edit-scene')")
            await tab.js("document.querySelector('#edit-scene').open = true")
            await tab.until("document.querySelector('.ge-node')")
            assert await faults(tab) == [], f"{path}, edited"
        assert await tab.js("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("<button></button>", "no name"),
        ("<img src='/static/icon.svg'>", "no alternative text"),
        ("<p style='color: #999; background: #fff'>pale</p>", "contrast 2.85"),
        ("<p style='color: #0005; background: #fff'>pale</p>", "contrast"),
        ("<button aria-label='Take away'>Remove</button>", "name without what is shown"),
        ("<h4>deep</h4>", "heading after one of level"),
        ("<i id='main'></i>", "id given twice"),
        ("<label for='nowhere'>x</label>", "for names nothing"),
        ("<div aria-hidden='true'><a href='/'>x</a></div>", "focus in a hidden part"),
        (
            "<div style='overflow: auto; width: 9px'><p style='width: 99px'>x</p></div>",
            "scrolls and takes no focus",
        ),
    ],
)
async def test_a_fault_is_found(
    client: httpx2.AsyncClient, tab: Tab, added: str, told: str
) -> None:
    await tab.size(1280)
    await tab.open(f"{client.base_url}/runs")
    await tab.js(f"document.querySelector('main').insertAdjacentHTML('beforeend', `{added}`)")
    found = await faults(tab)
    assert len(found) == 1
    assert told in found[0]
