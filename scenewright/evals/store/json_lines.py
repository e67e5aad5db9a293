"""Files of JSON lines that grow by appending: a kill loses at most the line being written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scenewright.core.user_files import decoded


def append_lines(path: Path, lines: Iterable[str]) -> None:
    """Add ``lines`` (without their ends) to ``path``, safe from a power cut when this returns.

    A line that a kill cut off is taken out first. Raises ``OSError``.
    """
    with path.open("ab+") as file:
        size = file.seek(0, os.SEEK_END)
        if size and (file.seek(size - 1), file.read(1))[1] != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(f"{line}\n" for line in lines).encode())
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number, from 1, and the value of each line that is not blank.

    A last line without an end that is no JSON was cut off by a kill: it is left out. Raises
    ``OSError``, and ``ValueError`` that names the line.
    """
    lines = decoded(path.read_bytes(), "the file", ValueError).split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise ValueError(f"line {number}: not valid JSON ({error})") from error
        yield number, value
