"""Files of a study: whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from scenewright.evals.human_ratings.study import RatingError


def put_file(path: Path, data: bytes | str) -> Path:
    """Write ``data`` (text as UTF-8) at ``path`` in one step.

    Raises ``RatingError`` if that fails.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data.encode() if isinstance(data, str) else data)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise RatingError(f"{path} cannot be written: {error.strerror or error}") from error
    return path


def put_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str | int]]) -> int:
    """Write a CSV table (UTF-8, RFC 4180) in one step; how many rows it has.

    Raises ``RatingError`` if that fails.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    body = list(rows)
    writer.writerows(body)
    put_file(path, text.getvalue())
    return len(body)
