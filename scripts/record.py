"""Records a command as a terminal shows it, and draws the recording as an animated picture.

``.venv/bin/python scripts/record.py`` runs a command of the README in a pseudo-terminal and
writes ``docs/images/refine.cast`` (asciinema, version 2) and ``docs/images/refine.svg``. The
recording is what the terminal got, at the times at which it got it; pauses longer than
``IDLE_SECONDS`` are shortened to that in the file, whose header says so (``idle_time_limit``).
``--draw`` makes the picture from the recording that is there.

The picture needs no script: the screens lie side by side, and a CSS animation shows one at a time.
Who asks for less motion sees the last one.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
CAST = ROOT / "docs" / "images" / "refine.cast"
# A scene whose first picture lacks something, so that a repair can be seen.
SCENE = "yellow lamp below blue person; blue person left of green boat; black dog near green boat"
COMMAND = ("scenewright", "refine", SCENE)
TITLE = "A recorded terminal: scenewright refine draws a scene, verifies it and repairs it"
COLUMNS, ROWS = 92, 30
IDLE_SECONDS = 2.0
LAST_SECONDS = 5.0
"""How long the last screen stays before the animation begins again."""
FRAME_SECONDS = 0.1
"""Screens that follow each other faster are drawn as one."""

Event = tuple[float, str]


def record(command: tuple[str, ...], folder: Path) -> list[Event]:
    """Return the output of ``command``, run in ``folder``, as (seconds since the start, text)."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.chdir(folder)
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        environment = kept | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        os.execvpe(command[0], command, environment)
    decoder = codecs.getincrementaldecoder("utf-8")()
    began = time.monotonic()
    found: list[Event] = []
    while True:
        select.select([terminal], [], [])
        try:
            got = os.read(terminal, 65536)
        except OSError:  # Linux tells the end of a terminal so.
            got = b""
        if not got:
            break
        if text := decoder.decode(got):
            found.append((time.monotonic() - began, text))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):  # 1: facts are missing, which is a result
        raise SystemExit(
            f"`{' '.join(command)}` ended with {code}:\n{found[-1][1] if found else ''}"
        )
    return found


def shortened(events: list[Event], idle: float) -> list[Event]:
    """Return ``events`` with no pause longer than ``idle`` seconds."""
    found: list[Event] = []
    before = now = 0.0
    for at, text in events:
        now += min(at - before, idle)
        before = at
        found.append((round(now, 3), text))
    return found


def as_cast(events: list[Event], command: tuple[str, ...]) -> str:
    """Return a recording in asciinema's format, version 2."""
    shown = " ".join(f'"{word}"' if " " in word else word for word in command)
    header = {
        "version": 2, "width": COLUMNS, "height": ROWS, "timestamp": int(time.time()),
        "idle_time_limit": IDLE_SECONDS, "command": shown,
        "env": {"TERM": "xterm-256color", "SHELL": "/bin/sh"},
    }  # fmt: skip
    lines = [header, *([at, "o", text] for at, text in events)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Style:
    """How a character looks."""

    colour: str = ""
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False


Cell = tuple[str, Style]
Row = tuple[tuple[str, Style], ...]
"""Runs of characters of one style."""

PLAIN = Style()
COLOURS = {
    "0": "#6e7681", "1": "#ff7b72", "2": "#56d364", "3": "#e3b341",
    "4": "#79c0ff", "5": "#d2a8ff", "6": "#56d4dd", "7": "#c9d1d9",
}  # fmt: skip
_SEQUENCE = re.compile(r"\x1b\[(?P<mark>\??)(?P<numbers>[\d;]*)(?P<letter>[A-Za-z])")


class UnknownSequenceError(ValueError):
    """A terminal was told something that :class:`Screen` does not know."""


@dataclass
class Screen:
    """A terminal of a fixed width: what rich and plain commands write to it.

    Lines that leave at the top are dropped. A control sequence that is not known is an error, so
    that no picture shows another screen than a terminal would.
    """

    columns: int
    rows: int
    lines: list[list[Cell]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: Style = PLAIN

    def feed(self, text: str) -> None:
        """Show ``text``."""
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    raise UnknownSequenceError(f"unknown sequence {text[at : at + 12]!r}")
                self._control(found["mark"], found["numbers"], found["letter"])
                at = found.end()
                continue
            at += 1
            if character == "\n":
                self._down()
            elif character == "\r":
                self.column = 0
            elif character >= " ":
                self._put(character)
            elif character != "\a":
                raise UnknownSequenceError(f"unknown character {character!r}")

    def _down(self) -> None:
        self.row += 1
        while self.row >= len(self.lines):
            self.lines.append([])
        if len(self.lines) > self.rows:
            del self.lines[0]
            self.row -= 1

    def _put(self, character: str) -> None:
        if self.column == self.columns:
            self.column = 0
            self._down()
        line = self.lines[self.row]
        line.extend((" ", PLAIN) for _ in range(self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1

    def _control(self, mark: str, numbers: str, letter: str) -> None:
        count = int(numbers or 1) if numbers.isdigit() or not numbers else 1
        match mark, letter:
            case "", "m":
                self._restyle([int(number or 0) for number in numbers.split(";")])
            case "", "A":
                self.row = max(0, self.row - count)
            case "", "B":
                self.row = min(len(self.lines) - 1, self.row + count)
            case "", "G":
                self.column = count - 1
            case "", "K" if numbers == "2":
                self.lines[self.row] = []
            case "", "K" if numbers in ("", "0"):
                del self.lines[self.row][self.column :]
            case "?", "h" | "l" if numbers == "25":
                pass  # the cursor, which is not drawn
            case _:
                raise UnknownSequenceError(f"unknown sequence ESC [{mark}{numbers}{letter}")

    def _restyle(self, codes: list[int]) -> None:
        at = 0
        while at < len(codes):
            code = codes[at]
            at += 1
            match code:
                case 0:
                    self.style = PLAIN
                case 1:
                    self.style = replace(self.style, bold=True)
                case 2:
                    self.style = replace(self.style, dim=True)
                case 3:
                    self.style = replace(self.style, italic=True)
                case 4:
                    self.style = replace(self.style, underline=True)
                case 22:
                    self.style = replace(self.style, bold=False, dim=False)
                case 38 if codes[at : at + 1] == [5] and len(codes) > at + 1:
                    self.style = replace(self.style, colour=palette(codes[at + 1]))
                    at += 2
                case 39:
                    self.style = replace(self.style, colour="")
                case _ if 30 <= code <= 37:
                    self.style = replace(self.style, colour=COLOURS[str(code - 30)])
                case _ if 90 <= code <= 97:
                    self.style = replace(self.style, colour=COLOURS[str(code - 90)])
                case _:
                    raise UnknownSequenceError(f"unknown colour or style {code}")

    def shown(self) -> tuple[Row, ...]:
        """Return the lines as runs of one style."""
        return tuple(_runs(line) for line in self.lines)


def palette(number: int) -> str:
    """Return the colour of xterm's palette of 256."""
    if number < 16:
        return COLOURS[str(number % 8)]
    if number < 232:
        levels = (0, 95, 135, 175, 215, 255)
        red, rest = divmod(number - 16, 36)
        return "#" + "".join(f"{levels[level]:02x}" for level in (red, *divmod(rest, 6)))
    return "#" + f"{8 + 10 * (number - 232):02x}" * 3


def _runs(line: list[Cell]) -> Row:
    found: list[tuple[str, Style]] = []
    for character, style in line:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + character, style)
        else:
            found.append((character, style))
    while found and found[-1][0].isspace() and found[-1][1] == PLAIN:
        found.pop()
    return tuple(found)


def screens(cast: str) -> Iterator[tuple[float, tuple[Row, ...]]]:
    """Yield (second, screen) of a recording, as a viewer would see them; no two alike in a row."""
    header, *events = map(json.loads, cast.splitlines())
    screen = Screen(header["width"], header["height"])
    # The command as it was typed, which the recording of its output alone does not hold.
    screen.feed(f"\x1b[32m$\x1b[0m {header['command']}\r\n")
    last: tuple[Row, ...] = screen.shown()
    shown = 0.0
    yield 0.0, last
    for number, (at, _, text) in enumerate(events):
        screen.feed(text)
        following = events[number + 1][0] if number + 1 < len(events) else None
        if following is not None and following - at < 0.03:
            continue  # one update of a screen may come in pieces
        now = screen.shown()
        if now != last and (at - shown >= FRAME_SECONDS or following is None):
            yield at, now
            last, shown = now, at


def as_svg(cast: str, title: str) -> str:
    """Return the recording as an animated picture."""
    frames = list(screens(cast))
    header = json.loads(cast.splitlines()[0])
    size, wide, high = 14, 8.43, 19
    inner = round(header["width"] * wide)
    rows = max(len(rows) for _, rows in frames)
    width, height = inner + 32, rows * high + 62
    total = frames[-1][0] + LAST_SECONDS
    unique: dict[Row, str] = {}
    drawn, steps = [], []
    for number, (at, lines) in enumerate(frames):
        uses = [
            f'<use href="#{unique.setdefault(line, f"r{len(unique)}")}" y="{row * high}"/>'
            for row, line in enumerate(lines)
            if line
        ]
        drawn.append(f'<g transform="translate({number * width})">{"".join(uses)}</g>')
        steps.append(f"{100 * at / total:.2f}%{{transform:translateX({-number * width}px)}}")
    steps.append(f"100%{{transform:translateX({-(len(frames) - 1) * width}px)}}")
    texts = "".join(
        f'<text id="{name}" xml:space="preserve">{"".join(map(_span, _placed(line), line))}</text>'
        for line, name in unique.items()
    )
    last = -(len(frames) - 1) * width
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">
<title>{escape(title)}</title>
<style>
text{{font:{size}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:#c9d1d9}}
.b{{font-weight:bold}}.d{{opacity:.6}}.i{{font-style:italic}}.u{{text-decoration:underline}}
#film{{animation:film {total:.2f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateX({last}px)}}}}
@keyframes film{{{"".join(steps)}}}
</style>
<defs>{texts}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="6" fill="#ff5f56"/><circle cx="40" cy="18" r="6" fill="#ffbd2e"/>\
<circle cx="60" cy="18" r="6" fill="#27c93f"/>
<svg x="16" y="52" width="{inner}" height="{rows * high}" viewBox="0 -15 {inner} {rows * high}">
<g id="film">{"".join(drawn)}</g>
</svg>
</svg>
"""


def _placed(line: Row) -> Iterator[int]:
    """Yield the column at which each run begins."""
    at = 0
    for text, _ in line:
        yield at
        at += len(text)


def _span(column: int, run: tuple[str, Style]) -> str:
    text, style = run
    marks = {"b": style.bold, "d": style.dim, "i": style.italic, "u": style.underline}
    classes = " ".join(name for name, on in marks.items() if on)
    shown = f' class="{classes}"' if classes else ""
    colour = f' fill="{style.colour}"' if style.colour else ""
    # Each run has its place and width: fonts differ in how wide a character is.
    place = f'x="{column * 8.43:.1f}" textLength="{len(text) * 8.43:.1f}"'
    return f"<tspan {place}{shown}{colour}>{escape(text)}</tspan>"


def main(draw: bool) -> None:
    """Record, unless ``draw``; then draw."""
    if not draw:
        with tempfile.TemporaryDirectory() as folder:
            events = record(COMMAND, Path(folder))
            cast = as_cast(shortened(events, IDLE_SECONDS), COMMAND)
        # The folder of the recording is of no interest, and of this machine alone.
        CAST.write_text(cast.replace(f"{Path(folder).resolve()}/", ""), encoding="utf-8")
    svg = as_svg(CAST.read_text(encoding="utf-8"), TITLE)
    CAST.with_suffix(".svg").write_text(svg, encoding="utf-8")
    print(f"wrote {CAST.relative_to(ROOT)} and {CAST.with_suffix('.svg').relative_to(ROOT)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draw", action="store_true", help="draw the recording that is there")
    main(parser.parse_args().draw)
