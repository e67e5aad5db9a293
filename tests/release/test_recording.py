"""The recorded terminal: its recorder, its picture, and the recording of the README."""

from __future__ import annotations

import importlib
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
CAST = ROOT / "docs" / "images" / "refine.cast"


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("record")


def cast() -> tuple[dict[str, object], list[tuple[float, str, str]]]:
    header, *events = map(json.loads, CAST.read_text(encoding="utf-8").splitlines())
    return header, events


def plain(rows: tuple[tuple[tuple[str, object], ...], ...]) -> list[str]:
    return ["".join(text for text, _ in row) for row in rows]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("12345678", ["12345", "678"]),
        ("wait\rno\x1b[K", ["no"]),
        ("a\r\nb\r\n\x1b[1A\x1b[2Kc", ["a", "c", ""]),
        ("\x1b[?25la\x1b[?25h", ["a"]),
        ("a  \x1b[0m \x1b[4Gd", ["a  d"]),
        ("1\r\n2\r\n3\r\n4", ["2", "3", "4"]),
    ],
)
def test_a_screen_shows_what_a_terminal_would(
    record: ModuleType, text: str, lines: list[str]
) -> None:
    screen = record.Screen(5, 3)
    screen.feed(text)
    assert plain(screen.shown()) == lines


def test_styles_are_kept_and_ended(record: ModuleType) -> None:
    screen = record.Screen(20, 3)
    screen.feed("\x1b[1;31mred\x1b[0m \x1b[38;5;196mred\x1b[39mplain")
    (row,) = screen.shown()
    assert [(text, style.colour, style.bold) for text, style in row] == [
        ("red", "#ff7b72", True), (" ", "", False), ("red", "#ff0000", False), ("plain", "", False),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["\x1b[3J", "\x1b]0;title\a", "\x1b[48;5;1m", "\t"])
def test_what_a_screen_does_not_know_is_an_error(record: ModuleType, text: str) -> None:
    with pytest.raises(record.UnknownSequenceError):
        record.Screen(20, 3).feed(text)


def test_a_command_is_recorded_in_a_terminal(record: ModuleType, tmp_path: Path) -> None:
    code = (
        "import os, sys, time; print(os.get_terminal_size(), os.getcwd(), flush=True);"
        "time.sleep(0.3); print('ü', sys.stdout.isatty()); exit(1)"
    )
    events = record.record((sys.executable, "-c", code), tmp_path)
    size = f"os.terminal_size(columns={record.COLUMNS}, lines={record.ROWS})"
    text = "".join(text for _, text in events)
    assert text == f"{size} {tmp_path}\r\nü True\r\n"
    assert events[-1][0] - events[0][0] > 0.2
    with pytest.raises(SystemExit, match="ended with 2"):
        record.record((sys.executable, "-c", "exit(2)"), tmp_path)


def test_pauses_are_shortened_and_nothing_else(record: ModuleType) -> None:
    events = [(0.5, "a"), (9.0, "b"), (9.25, "c")]
    assert record.shortened(events, 2.0) == [(0.5, "a"), (2.5, "b"), (2.75, "c")]


def test_the_recording_is_one_of_asciinema_and_of_the_command_that_the_page_names(
    record: ModuleType,
) -> None:
    header, events = cast()
    assert header["version"] == 2
    assert {"width", "height", "timestamp", "command", "idle_time_limit"} <= set(header)
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    pauses = [after - at for at, after in pairwise([0.0, *times])]
    assert max(pauses) <= record.IDLE_SECONDS + 0.001
    assert {kind for _, kind, _ in events} == {"o"}
    page = (ROOT / "docs" / "get-started.md").read_text(encoding="utf-8")
    assert f"`{header['command']}`" in page
    text = "".join(text for _, _, text in events)
    assert not re.search(r"/(tmp|home|root|work|var)/", text), "a path of one machine"


def test_the_picture_is_drawn_from_the_recording(record: ModuleType) -> None:
    picture = CAST.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == record.as_svg(CAST.read_text(encoding="utf-8"), record.TITLE)
    assert len(picture) < 200_000
    tree = ElementTree.fromstring(picture)
    assert {element.tag.rpartition("}")[2] for element in tree.iter()} <= {
        "svg", "title", "style", "defs", "text", "tspan", "rect", "circle", "g", "use",
    }  # fmt: skip
    assert "prefers-reduced-motion" in picture


def test_the_last_screen_shows_the_result(record: ModuleType) -> None:
    *_, (_, last) = record.screens(CAST.read_text(encoding="utf-8"))
    shown = "\n".join(plain(last))
    assert "SGScore" in shown or "facts hold" in shown
    assert "index.html" in shown
