"""Fenced blocks of the pages, the commands of their shell blocks, and running their Python."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

EntryT = TypeVar("EntryT")

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Fenced block of a page."""

    page: str
    """Its path from the root of the repository."""
    line: int
    """The line of the page on which its text begins."""
    language: str
    text: str

    def __str__(self) -> str:
        return self.place

    @property
    def place(self) -> str:
        """Page and line, as editors open them."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """Simple command of a shell block, without its comment."""

    block: Block
    text: str
    """Its words as the page writes them, continued lines joined."""
    variables: tuple[tuple[str, str], ...]
    """Variables of the environment that are set for it alone."""
    words: tuple[str, ...]
    stdout: str | None
    """The file into which it writes."""

    @property
    def program(self) -> str:
        """Name of the program, or an empty text of a line that only sets variables."""
        return self.words[0] if self.words else ""


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of ``page``, of ``languages`` alone if any are named."""
    source = page.read_text(encoding="utf-8")
    found = [
        Block(
            page.relative_to(ROOT).as_posix(),
            source.count("\n", 0, match.start("text")) + 1,
            match["language"],
            re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE),
        )
        for match in _BLOCK.finditer(source)
    ]
    return [block for block in found if not languages or block.language in languages]


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of every page, of ``languages`` alone if any are named."""
    return [block for page in PAGES for block in blocks(page, *languages)]


def commands(block: Block) -> list[Command]:
    """Return the commands of a shell block in their order."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [command_of(block, line) for line in lines if _bare(line)]


def command_of(block: Block, line: str) -> Command:
    """Return the command of one line; a ``>`` names its output."""
    words = shlex.split(line, comments=True)
    stdout = None
    if ">" in words:
        at = words.index(">")
        stdout = words[at + 1]
        del words[at : at + 2]
    count = 0
    while count < len(words) and _VARIABLE.fullmatch(words[count]):
        count += 1
    variables = [word.split("=", 1) for word in words[:count]]
    return Command(
        block,
        _bare(line),
        tuple((name, value) for name, value in variables),
        tuple(words[count:]),
        stdout,
    )


def _bare(line: str) -> str:
    """Return a line without its comment, its words set apart by one blank outside of quotes."""
    lexer = shlex.shlex(line, posix=False, punctuation_chars=False)
    lexer.whitespace_split = True
    return " ".join(lexer)


def has_line(block: Block, key: str) -> bool:
    """Return whether ``key`` is ``PAGE: LINE`` of this block, the line without indentation."""
    page, _, line = key.partition(": ")
    return block.page == page and line in map(str.strip, block.text.splitlines())


def entry(table: Mapping[str, EntryT], block: Block) -> EntryT | None:
    """Return the entry of a block in a table whose keys are :func:`has_line`'s."""
    return next((value for key, value in table.items() if has_line(block, key)), None)


def run_source(
    source: str, place: str, names: dict[str, Any]
) -> Coroutine[Any, Any, object] | None:
    """Run Python in ``names``; where it awaits at its top, return the coroutine that runs it."""
    code = compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)
    return done if inspect.iscoroutine(done) else None
