"""Judges that answer from a record, and the CSV and parquet tables of users.

A record has one row per answer, with the columns:

- ``image``: the content hash of the image (64 hex digits: SHA-256 of its PNG file as
  :func:`scenewright.core.images.png_bytes` writes it), or an image file, from the record's folder;
- ``question`` (the text that was asked) or ``fact_id``, or both: then the text decides;
- ``answer``: the option that was chosen; empty where the judge gave none;
- ``probability`` (optional): that the fact holds, in [0, 1];
- ``judge`` (optional): who answered.

Other columns are ignored.

A CSV file (UTF-8) has a line with the names of the columns; quotes, commas and line breaks are as
in RFC 4180. In a parquet file (name ends in ``.parquet``) a cell may be text, a number, a truth
value (read as 1 or 0), a list of texts (read as joined by ``|``) or null (read as empty). Column
names are read without case and outer spaces.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.agents.judges.reading import FactReading
from scenewright.core.error_text import error_text
from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import MAX_SIDE, ImageError, hash_of_image, load_image
from scenewright.core.ports.judge import JudgeCaps, JudgeError, unscored
from scenewright.core.user_files import decoded, other_separator

LIST_SEPARATOR = "|"
"""Separator of the texts of a list in one cell."""


class TableError(ScenewrightError, ValueError):
    """A table that cannot be read; names the file and, where there is one, the line or row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    cells: dict[str, str]
    """Column → stripped text; empty where the table lacks the column."""
    place: str
    """Position: ``line 3`` of a CSV file, ``row 2`` of a parquet file (the first is 1)."""

    def __getitem__(self, column: str) -> str:
        return self.cells[column]


@dataclass(frozen=True, slots=True)
class Table:
    """Wanted columns of a file."""

    path: Path
    """The file."""
    columns: frozenset[str]
    """Wanted columns that it has."""
    rows: tuple[Row, ...]
    """Rows in the order of the file; one at least."""
    unknown: tuple[str, ...] = ()
    """Other columns of the file, which nothing reads."""

    def wrong(self, row: Row, fault: str) -> TableError:
        """Return the error that ``row`` has this ``fault``."""
        return TableError(f"{self.path}, {row.place}: {fault}")


Check = Callable[[frozenset[str]], Sequence[str]]
"""Returns the names (for people) of missing columns, given those that are there."""
RowsOf = Callable[[Sequence[int]], Iterator[tuple[str, Sequence[Any]]]]
"""Yields the place of each row and its values in the columns of these indices."""


def read_table(
    path: Path, data: bytes, wanted: Sequence[str], lost: Check, prefix: str = ""
) -> Table:
    """Return the table in ``data``, the bytes of the file ``path``.

    Of the columns only those ``wanted`` are read, and those that begin with ``prefix``. ``lost``
    tells which columns are missing.
    Raises ``TableError`` for an empty file, one that is neither (by its name) CSV nor parquet,
    lost or repeated columns, a row of another length, cells of another type, and no rows.
    """
    if not data:
        raise TableError(f"{path} is empty: it needs columns with names")
    read = _parquet if path.suffix.lower() == ".parquet" else _csv
    written, rows_of = read(path, data)
    # In lower case; what follows the prefix is kept as it is.
    plain = [name.strip() for name in written]
    names = [
        prefix + name[len(prefix) :].strip()
        if prefix and name.lower().startswith(prefix)
        else name.lower()
        for name in plain
    ]
    known = {*wanted, *(name for name in names if prefix and name.startswith(prefix))}
    repeated = sorted({name for name in names if name in known and names.count(name) > 1})
    if repeated:
        raise TableError(f"{path} has the columns {', '.join(repeated)} twice")
    columns = frozenset(names) & known
    if missing := lost(columns):
        told = f"{path} lacks the columns {', '.join(missing)}{other_separator(names)}"
        raise TableError(told)
    chosen = [at for at, name in enumerate(names) if name in columns]
    rows = []
    for place, values in rows_of(chosen):
        cells = dict.fromkeys(wanted, "")
        for at, value in zip(chosen, values, strict=True):
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                cells[names[at]] = LIST_SEPARATOR.join(value)
            elif isinstance(value, str | int | float):
                # A truth value is read as 1 or 0.
                cells[names[at]] = str(int(value) if isinstance(value, bool) else value).strip()
            elif value is not None:
                kind = type(value).__name__
                told = f"{names[at]} holds {kind}: use text, a number or null"
                raise TableError(f"{path}, {place}: {told}")
        rows.append(Row(cells, place))
    if not rows:
        raise TableError(f"{path} has columns but no rows")
    unknown = tuple(name for name in dict.fromkeys(names) if name and name not in columns)
    return Table(path, columns, tuple(rows), unknown)


def _csv(path: Path, data: bytes) -> tuple[list[str], RowsOf]:
    text = decoded(data, str(path), TableError)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    with _named(path, "a CSV file", csv.Error):
        names = next(reader, [])

    def rows(chosen: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
        with _named(path, "a CSV file", csv.Error):
            for cells in filter(None, reader):
                place = f"line {reader.line_num}"
                if len(cells) != len(names):
                    raise TableError(f"{path}, {place}: it does not have {len(names)} fields")
                yield place, [cells[at] for at in chosen]

    return names, rows


def _parquet(path: Path, data: bytes) -> tuple[list[str], RowsOf]:
    # Imported here: pyarrow is large, and most records are CSV files.
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TableError(
            f"{path} is read by pyarrow: `pip install 'scenewright[evals]'`, or write a CSV file"
        ) from error

    with _named(path, "a parquet file", pa.ArrowException, OSError):
        file = pq.ParquetFile(pa.BufferReader(data))
        names: list[str] = list(file.schema_arrow.names)

    def rows(chosen: Sequence[int]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        numbers = count(1)
        with _named(path, "a parquet file", pa.ArrowException, OSError):
            # Unused columns of a large file, such as pixels, are not decoded.
            for batch in file.iter_batches(columns=[names[at] for at in chosen]):
                held = [batch.column(names[at]).to_pylist() for at in chosen]
                for values in zip(*held, strict=True):
                    yield f"row {next(numbers)}", values

    return names, rows


@contextmanager
def _named(path: Path, kind: str, *errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(f"{path} is not {kind}: {first}") from error


_HASH = re.compile(r"[0-9a-fA-F]{64}")
_COLUMNS = ("image", "question", "fact_id", "answer", "probability", "judge")
_READING = 1
"""Version of the reading of records."""

Key = tuple[str, str, str]
"""Image hash; ``question`` or ``fact_id``; digest of that text."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A recorded answer."""

    answer: str
    probability: float | None
    place: str


class ReplayJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    A fact is looked up by its question, then by its id. What the record does not hold is
    ``unscored`` with the reason, never guessed. The record is read once, when the judge is made.
    """

    def __init__(self, record: str | os.PathLike[str], *, judge: str | None = None) -> None:
        """``record``: a CSV file (UTF-8), or a parquet file if its name ends so.

        ``judge``: whose answers, of several in the file.

        Raises ``JudgeError``, with the line or row where there is one, for a file that is missing,
        empty or no such table, lost columns, a row without image, question or fact, a probability
        outside [0, 1] or without an answer, rows that contradict each other, an image that
        cannot be read, and several judges of whom none is named.
        """
        self._path = Path(record)
        self._name = f"{record}#{judge}" if judge else str(record)
        self.id = f"replay:{self._name}"
        """``replay:``, the file as given, and ``#judge`` where one is named."""
        self._entries: dict[Key, _Entry] = {}
        self._images: dict[str, str] = {}
        try:
            data = self._path.read_bytes()
            self._read(read_table(self._path, data, _COLUMNS, missing_columns), judge)
        except OSError as error:
            reason = error.strerror or error
            raise JudgeError(f"the record {self._path} cannot be read: {reason}") from error
        except TableError as error:
            raise JudgeError(str(error)) from error
        self._known = {image_hash for image_hash, _, _ in self._entries}
        stated = any(entry.probability is not None for entry in self._entries.values())
        self.caps = JudgeCaps(
            facts_per_call=512,
            probability="verbalized" if stated else "binary",
            max_side=MAX_SIDE,
            local=True,
        )
        """Abilities; ``binary`` where the record holds no probability."""
        self._record = hashlib.sha256(data).hexdigest()
        # An image file that is named may change while the record does not.
        parts = [_READING, self._record, judge, "verbalized", sorted(self._images.items())]
        self.fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        """SHA-256 (hex) of the file, the images it names and the settings that matter."""
        self._closed = False

    def __len__(self) -> int:
        """Return the number of recorded questions, answered or not."""
        return len(self._entries)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact, in order; ``unscored`` where the record has none.

        The image must be the recorded one pixel by pixel. Raises ``JudgeError`` only after
        :meth:`aclose`.
        """
        if self._closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")
        try:
            # Packing a large picture takes long enough to hold up the event loop.
            image_hash = await asyncio.to_thread(hash_of_image, image)
        except ImageError as error:
            return unscored(self.id, facts, error_text(error))
        return [self._answer(image_hash, fact) for fact in facts]

    async def aclose(self) -> None:
        """Release the record."""
        self._closed = True
        self._entries.clear()

    def _answer(self, image_hash: str, fact: Fact) -> Answer:
        entry = self._entries.get(_key(image_hash, "question", fact.question))
        entry = entry or self._entries.get(_key(image_hash, "fact_id", fact.id))
        choice = None
        if entry is None:
            known = image_hash in self._known
            what = f"{fact.question!r} about this image" if known else f"image {image_hash}"
            reason = f"the record has no answer to {what}"
        elif not entry.answer:
            reason = f"{entry.place} of the record holds no answer"
        else:
            recorded = entry.answer.casefold()
            choice = next((o for o in fact.options if o.strip().casefold() == recorded), None)
            reason = f"the recorded answer {entry.answer!r} is not one of {', '.join(fact.options)}"
        if entry is None or choice is None:
            return unscored(self.id, (fact,), reason)[0]
        method = None if entry.probability is None else self.caps.probability
        return FactReading(choice, entry.probability, method).answer(
            fact,
            self.id,
            model=f"{self._name}:{self._record[:12]}",
            prompt_id=f"record@{_READING}#{self._record[:12]}",
        )

    def _read(self, table: Table, judge: str | None) -> None:
        """Read the entries of one judge."""
        judges = sorted({row["judge"] for row in table.rows})
        if judge is None and len(judges) > 1:
            raise TableError(
                f"{self._path} holds answers of several judges "
                f"({', '.join(name or 'unnamed' for name in judges)}): name one"
            )
        if judge is not None and judge not in judges:
            raise TableError(f"{self._path} has no answers by {judge!r}: check the name")
        for row in table.rows:
            if judge not in (None, row["judge"]):
                continue
            if not row["image"]:
                raise table.wrong(row, "it names no image")
            column = "question" if row["question"] else "fact_id"
            if not row[column]:
                raise table.wrong(row, "it has neither question nor fact_id")
            name = row["image"]
            if name not in self._images and not _HASH.fullmatch(name):
                try:
                    self._images[name] = hash_of_image(load_image(self._path.parent / name))
                except ImageError as error:
                    raise table.wrong(row, f"{error}; or give the image's hash") from error
            key = _key(self._images.get(name) or name.lower(), column, row[column])
            text, value = row["probability"], None
            if text:
                try:
                    value = float(text)
                except ValueError:
                    problem = f"the probability {text!r} is not a number"
                    raise table.wrong(row, problem) from None
                if not 0.0 <= value <= 1.0:
                    raise table.wrong(row, f"the probability {text} is outside [0, 1]")
                if not row["answer"]:
                    raise table.wrong(row, "it has a probability but no answer")
            entry = _Entry(row["answer"], value, row.place)
            before = self._entries.setdefault(key, entry)
            same = before.answer.casefold() == entry.answer.casefold()
            if not same or before.probability != entry.probability:
                raise table.wrong(row, f"it contradicts {before.place}")


def missing_columns(columns: frozenset[str]) -> list[str]:
    """Return the columns of a record that ``columns`` lack."""
    missing = [name for name in ("image", "answer") if name not in columns]
    return missing + ([] if {"question", "fact_id"} & columns else ["question (or fact_id)"])


def _key(image_hash: str, column: str, text: str) -> Key:
    return image_hash, column, hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


def replay_judge(spec: str, *_own: object) -> ReplayJudge:
    """Return the judge ``replay:FILE`` or ``replay:FILE#JUDGE``; its record is read each time."""
    record, _, judge = spec.partition(":")[2].partition("#")
    return ReplayJudge(record, judge=judge or None)
