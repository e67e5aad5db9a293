"""The run page in a real browser: nothing sticks out, nothing fails, tips open by keyboard."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.runs.report.render import write_index, write_page
from tests.headless import CHROMIUM, OPTIONS
from tests.runs.report.sample import write_sample

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

# Runs in a copy of the page, which then tells its measures to the frame around it.
PROBE = """
<script>
addEventListener("load", () => {
  const width = document.documentElement.clientWidth;
  const out = { width, body: document.body.scrollWidth };
  out.page = document.documentElement.scrollWidth;
  out.dark = getComputedStyle(document.body).backgroundColor;
  out.broken = [...document.images].filter((i) => !i.complete || !i.naturalWidth).length;
  const cell = document.querySelector(".cell");
  for (const part of document.querySelectorAll("details")) part.open = true;
  out.page = Math.max(out.page, document.documentElement.scrollWidth);
  if (cell) {
    cell.focus();
    // The page follows the scrolling that the focus causes, one event later.
    setTimeout(() => {
      const box = cell.querySelector(".tip").getBoundingClientRect();
      out.tip = { left: box.left, right: box.right, top: box.top, bottom: box.bottom };
      out.height = innerHeight;
      cell.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
      out.hidden = getComputedStyle(cell.querySelector(".tip")).display === "none";
      const shown = () => [...document.querySelectorAll(".tabpanel")]
        .filter((p) => getComputedStyle(p).display !== "none").map((p) => p.id);
      out.before = shown();
      document.querySelector(".tablist label").click();
      out.after = shown();
      const picture = document.querySelector(".hero-shot .zoom");
      picture.focus();
      picture.click();
      const dialog = document.querySelector("dialog[open]");
      const large = dialog.querySelector("img").getBoundingClientRect();
      out.enlarged = [Math.round(large.width), Math.round(large.height)];
      out.download = dialog.querySelector("a").download;
      out.same = dialog.querySelector("a").href === picture.querySelector("img").src;
      out.offered = document.querySelector("a[data-download]").download;
      dialog.close();
      out.back = document.activeElement === picture;
      parent.postMessage(out, "*");
    }, 300);
    return;
  }
  parent.postMessage(out, "*");
});
</script></body>
"""
FRAME = """<!doctype html><title>waiting</title>
<style>body{{margin:0}}iframe{{border:0;width:{width}px;height:900px}}</style>
<pre></pre><script>
addEventListener("message", (event) => {{
  document.querySelector("pre").textContent = JSON.stringify(event.data);
}});
</script><iframe src="probed.html"></iframe>"""


def look(page: Path, width: int, dark: bool = False) -> tuple[dict[str, Any], list[str]]:
    """What the page measures in a frame of ``width`` pixels, and what the console said."""
    assert CHROMIUM is not None
    source = page.read_text(encoding="utf-8")
    assert source.count("</body>") == 1
    if "script-src" not in source:
        source = source.replace("img-src", "script-src 'unsafe-inline'; img-src")
    (page.parent / "probed.html").write_text(source.replace("</body>", PROBE), encoding="utf-8")
    frame = page.parent / "frame.html"
    frame.write_text(FRAME.format(width=width), encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            *OPTIONS,
            "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            f"--user-data-dir={page.parent / 'profile'}",
            "--virtual-time-budget=4000",
            "--window-size=1400,1000",
            "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    found = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    assert found[1], done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


def crowded() -> SceneGraph:
    """Twelve objects with long names, many attributes and many relations."""
    objects = tuple(
        SceneObject(
            id=f"o{i}",
            name=f"extraordinarily long object name number {i}" if i % 3 == 0 else f"thing{i}",
            attributes=Attributes({"color": "red", "material": "brushed aluminium", "n": str(i)}),
        )
        for i in range(12)
    )
    relations = tuple(
        Relation(
            source=f"o{i}", predicate="somewhere to the left of", target=f"o{(i * 5 + 1) % 12}"
        )
        for i in range(12)
        if (i * 5 + 1) % 12 != i
    )
    return SceneGraph(objects=objects, relations=relations)


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scene", [None, crowded()], ids=["kitchen", "crowded"])
def test_nothing_sticks_out_and_the_console_is_silent(
    tmp_path: Path, width: int, scene: SceneGraph | None
) -> None:
    write_sample(tmp_path, scene, rounds=3)
    found, console = look(write_page(tmp_path), width)
    assert console == []
    assert found["width"] == width
    assert max(found["page"], found["body"]) <= width
    assert found["broken"] == 0
    tip = found["tip"]
    assert 0 <= tip["left"] < tip["right"] <= width
    assert 0 <= tip["top"] < tip["bottom"] <= found["height"]
    assert found["hidden"]
    assert len(found["before"]) == 1
    assert found["after"] == ["p0"]
    assert found["enlarged"][0] >= 0.85 * width
    assert found["enlarged"][1] > 600
    assert re.fullmatch(r"[a-z0-9-]{4,60}\.webp", found["download"])
    assert found["offered"] == found["download"]
    assert found["same"]
    assert found["back"]


def test_dark_and_light_differ(tmp_path: Path) -> None:
    write_sample(tmp_path, rounds=1)
    page = write_page(tmp_path)
    light, _ = look(page, 800)
    dark, _ = look(page, 800, dark=True)

    def brightness(color: str) -> int:
        return sum(map(int, re.findall(r"\d+", color)[:3]))

    assert brightness(light["dark"]) > 600
    assert brightness(dark["dark"]) < 120


@pytest.mark.parametrize("width", [375, 1280])
def test_the_index_fits_too(tmp_path: Path, width: int) -> None:
    run = tmp_path / "run"
    run.mkdir()
    write_sample(run, crowded(), rounds=4)
    write_page(run)
    found, console = look(write_index(tmp_path, [run], "Scenes"), width)
    assert console == []
    assert max(found["page"], found["body"]) <= width
