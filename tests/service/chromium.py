"""A headless Chromium that tests drive over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.headless import CHROMIUM, OPTIONS

PATIENCE = 60.0
"""Seconds after which what is waited for counts as missing."""


class Tab:
    """One page in the browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self.console: list[str] = []
        """Errors and warnings that the page's console has shown."""

    async def attach(self) -> None:
        """Open an empty page."""
        context = await self.send("Target.createBrowserContext", disposeOnDetach=True)
        target = await self.send("Target.createTarget", url="about:blank", **context)
        attached = await self.send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command and what it gives."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send(json.dumps(message))
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def _read(self) -> None:
        async for raw in self._socket:
            message = json.loads(raw)
            waiting = self._waiting.pop(message.get("id", 0), None)
            if waiting is not None and not waiting.done():
                if "error" in message:
                    waiting.set_exception(RuntimeError(str(message["error"])))
                else:
                    waiting.set_result(message["result"])
            params = message.get("params", {})
            if message.get("method") == "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"])[:600])
            if message.get("method") == "Log.entryAdded":
                entry = params["entry"]
                if entry["level"] in ("error", "warning"):
                    self.console.append(f"{entry['text']} {entry.get('url', '')}")

    async def js(self, expression: str) -> Any:
        """The value of an expression in the page; awaits promises."""
        found = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(str(found["exceptionDetails"])[:800])
        return found["result"].get("value")

    async def until(self, expression: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression of the page is true."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if await self.js(f"!!({expression})"):
                        return
                    await asyncio.sleep(0.03)
        except TimeoutError:
            shown = await self.js("document.body.innerText")
            raise AssertionError(
                f"never true: {expression}\nthe page shows:\n{str(shown)[:3000]}\n{self.console}"
            ) from None

    async def size(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Give the page a width and height in pixels, and light or dark colours."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        await self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    async def open(self, url: str) -> None:
        """Go to ``url`` and wait until it is there."""
        await self.send("Page.navigate", url=url)
        await self.until(
            f"document.readyState === 'complete' && location.href.startsWith({json.dumps(url)})"
        )

    async def reload(self) -> None:
        """Load the page again and wait until the new one is there."""
        await self.js("window.before = true")
        await self.send("Page.reload")
        await self.until("!window.before && document.readyState === 'complete'")

    async def click(self, selector: str) -> None:
        """Click in the middle of the first element that fits, as a pointer does."""
        await self.until(f"document.querySelector({json.dumps(selector)}) !== null")
        x, y = await self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.pointer(kind, x, y)

    async def pointer(self, kind: str, x: float, y: float) -> None:
        """One event of the pointer: mousePressed, mouseMoved or mouseReleased."""
        await self.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1
        )

    async def type(self, text: str) -> None:
        """Type into what has the focus."""
        await self.send("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        """Press a key such as Tab, Enter, ArrowRight or a space."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code="Space" if key == " " else key,
                windowsVirtualKeyCode=codes[key],
                **(more if kind == "keyDown" else {}),
            )

    async def picture(self, path: Path, whole: bool = True) -> None:
        """A screenshot; ``whole``: of the page's full height."""
        found = await self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def close(self) -> None:
        """Let the page go."""
        self._reader.cancel()


@contextmanager
def launched(profile: Path) -> Iterator[str]:
    """A new headless Chromium whose profile is the folder ``profile``; its address."""
    assert CHROMIUM is not None
    told = profile / "DevToolsActivePort"
    told.unlink(missing_ok=True)
    process = subprocess.Popen(
        [
            CHROMIUM,
            *OPTIONS,
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(1200):
            # Two lines, the port and the path; the file may be seen before both are there.
            lines = told.read_text().splitlines() if told.is_file() else []
            if len(lines) >= 2:
                break
            if process.poll() is not None:
                raise RuntimeError("Chromium ended before it could be driven")
            time.sleep(0.05)
        else:
            raise RuntimeError("Chromium could not be driven within a minute")
        yield f"ws://127.0.0.1:{lines[0]}{lines[1]}"
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def tabbing(address: str) -> AsyncIterator[Tab]:
    """A page of its own, with no cookies and no cache, in the browser at ``address``."""
    async with connect(address, max_size=None) as socket:
        tab = Tab(socket)
        try:
            await tab.attach()
            yield tab
        finally:
            await tab.close()


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Tab]:
    """A page in a browser of its own, whose profile is the folder ``profile``."""
    with launched(profile) as address:
        async with tabbing(address) as tab:
            yield tab
