"""Pages of results: sections of sentences, plots and tables, as one HTML file and as Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scenewright.evals.reporting.frames import Frame
from scenewright.evals.reporting.pages import asset, render, render_text

_SIZE = re.compile(rb'viewBox="0 0 ([\d.]+) [\d.]+"')
_PIXELS = 1.6
"""Pixels for a point of a plot, at most: letters of 10 points are then as large as small text."""
_WIDE = 580.0
"""Points; a wider plot takes the width of the page."""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The page loads nothing: style and plots are embedded."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot that lies beside the page."""

    folder: Path
    """Folder of the page."""
    file: str
    """Its SVG, relative to that."""
    title: str
    """What it shows, in words."""

    @property
    def data(self) -> bytes:
        """Return the file."""
        return (self.folder / self.file).read_bytes()

    @property
    def uri(self) -> str:
        """Return the file as a data URI."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.data).decode("ascii")

    @property
    def points(self) -> float:
        """Return its width in points."""
        found = _SIZE.search(self.data[:4000])
        return float(found[1]) if found else 300.0

    @property
    def pixels(self) -> int:
        """Return how wide it is shown at most."""
        return round(self.points * _PIXELS)

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width of the page."""
        return self.points > _WIDE


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page."""

    id: str
    """For links."""
    title: str
    """Above it."""
    lead: str = ""
    """A sentence below the title."""
    findings: tuple[str, ...] = ()
    """Sentences, the most important first."""
    plots: tuple[Picture, ...] = ()
    """Beside each other."""
    frames: tuple[Frame, ...] = ()
    """Tables; they are folded where there are findings."""
    notes: tuple[str, ...] = ()
    """What must be known to read it."""
    files: tuple[str, ...] = ()
    """Further files beside the page."""
    facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Title → names with their values, folded."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page."""

    kind: str
    """What it is, for example ``Panel study``."""
    title: str
    """Its name."""
    date: str
    """When it was made."""
    answer: str
    """The sentence that leads it."""
    lead: str = ""
    """Id of the section whose first sentence and plot these are; empty: of none."""
    about: tuple[str, ...] = ()
    """Paragraphs below."""
    stats: tuple[tuple[str, str, str], ...] = ()
    """Label, value and note."""
    notices: tuple[str, ...] = ()
    """What to know of all of it."""
    sections: tuple[Section, ...] = ()
    """From top to bottom."""

    def html(self) -> str:
        """Return the page as HTML; all text is escaped, and it needs no other file."""
        style = "".join(asset(f"{name}.css") for name in ("style", "report", "document"))
        return render("document.html.j2", page=self, policy=POLICY, style=style)

    def markdown(self) -> str:
        """Return the page as GitHub's Markdown."""
        return render_text("document.md.j2", page=self)

    @property
    def leading(self) -> Section | None:
        """Return the section that leads the page."""
        return next((one for one in self.sections if one.id == self.lead), None)
