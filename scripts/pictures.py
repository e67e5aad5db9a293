"""Draws the pictures of pages that the README shows, from the pages as they are now.

``make pictures``: needs Chromium. ``docs/images/run.png`` is the page of the demo's hard scene,
``docs/images/service.png`` the service's start page with a sentence, beside the page of its run.
Nothing is chosen by its result: the seed is 0 and the options are the defaults.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scenewright import load_scene, refine  # noqa: E402
from scenewright.cli.demo import SCENES  # noqa: E402
from tests.headless import CHROMIUM, OPTIONS  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SENTENCE = (
    "A person wearing a red hat is left of a house. A black dog is right of the house. "
    "A yellow ball is under a table."
)
RUN_SIZE, SERVICE_SIZE = (1280, 1250), (1000, 900)
GAP, GAP_COLOR = 15, "#e4dcd3"
READY_SECONDS = 120.0
SETTLED_MS = 4000
"""How long a page's scripts may run before its picture is taken."""


def shot(address: str, place: Path, size: tuple[int, int]) -> Image.Image:
    """Return the page at ``address`` as Chromium shows it in a window of this size in pixels."""
    if CHROMIUM is None:
        raise SystemExit("there is no Chromium here: install it (Debian: apt install chromium)")
    options = (
        *OPTIONS,
        f"--window-size={size[0]},{size[1]}",
        f"--virtual-time-budget={SETTLED_MS}",
        f"--screenshot={place}",
    )
    done = subprocess.run(
        [CHROMIUM, *options, address], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode or not place.exists():
        raise SystemExit(f"Chromium took no picture of {address}:\n{done.stderr[-1000:]}")
    return Image.open(place).convert("RGB")


def run_picture(folder: Path) -> Image.Image:
    """Return the page of the demo's hard scene."""
    result = asyncio.run(refine(load_scene(SCENES["hard"]), out=folder / "run"))
    page = result.folder / "index.html"
    return shot(page.as_uri(), folder / "run.png", RUN_SIZE)


def service_picture(folder: Path) -> Image.Image:
    """Return the start page with a sentence, and beside it the page of that sentence's run."""
    command = [
        *(sys.executable, "-m", "scenewright", "serve"),
        *("--port", "0", "--data", str(folder / "data")),
    ]
    log = folder / "serve.log"
    with log.open("w") as told:
        server = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT)
    try:
        address = _address(log, server)
        with httpx2.Client(base_url=address, timeout=60) as client:
            asked = client.post("/v1/refinements", json={"text": SENTENCE})
            run = asked.raise_for_status().json()
            while run["status"] in ("queued", "running"):
                time.sleep(0.5)
                run = client.get(f"/v1/refinements/{run['id']}").raise_for_status().json()
        start = httpx2.URL(address, path="/", params={"text": SENTENCE})
        left = shot(str(start), folder / "start.png", SERVICE_SIZE)
        right = shot(f"{address}/runs/{run['id']}", folder / "page.png", SERVICE_SIZE)
    finally:
        server.terminate()
        server.wait(60)
    both = Image.new("RGB", (left.width + GAP + right.width, left.height), GAP_COLOR)
    both.paste(left, (0, 0))
    both.paste(right, (left.width + GAP, 0))
    return both


def _address(log: Path, server: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + READY_SECONDS
    while time.monotonic() < ends and server.poll() is None:
        for word in log.read_text().split():
            if word.startswith("http://"):
                return word.rstrip("/.,")
        time.sleep(0.2)
    raise SystemExit(f"the service did not start:\n{log.read_text()}")


def main() -> None:
    """Draw both."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as made:
        folder = Path(made)
        for name, draw in (("run.png", run_picture), ("service.png", service_picture)):
            draw(folder).save(IMAGES / name, optimize=True)
            print(f"written: {(IMAGES / name).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
