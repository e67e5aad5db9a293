"""Checks of a page in the browser: names, labels, landmarks, references, focus and contrast.

They are the rules of WCAG 2.1 AA that a program can decide, worked out from what the browser
computed: colours behind transparency, names from labels, what is scrolled.
"""

from __future__ import annotations

from pathlib import Path

from tests.service.chromium import Tab

FAULTS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


async def faults(tab: Tab) -> list[str]:
    """Return what is wrong with the page of a tab, a line each, once its animations are over."""
    await tab.until("document.getAnimations().every(a => a.effect.getTiming().iterations > 9"
                    " || a.playState === 'finished')")  # fmt: skip
    found: list[str] = await tab.js(FAULTS)
    return found
