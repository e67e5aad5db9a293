"""A judge that answers from a record: a CSV or parquet file of answers that were given before.

One row an answer, with the columns:

- ``image``: the content hash of the image (64 hex digits: SHA-256 of its PNG file as
  :func:`scenewright.core.images.png_bytes` writes it), or an image file, from the record's folder;
- ``question`` (the text that was asked) or ``fact_id``, or both: then the text decides;
- ``answer``: the option that was chosen; empty where the judge gave none;
- ``probability`` (optional): that the fact holds, in [0, 1];
- ``judge`` (optional): who answered.

Other columns are left alone. How cells are read: :mod:`~scenewright.agents.judges.records_table`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from scenewright.agents.judges.records_table import Row, Table, TableError, read_table
from scenewright.core.facts import Answer, Fact, ProbabilityMethod
from scenewright.core.images import MAX_SIDE, ImageError, hash_of_image, load_image
from scenewright.core.ports.judge import JudgeCaps, JudgeError, unscored

_HASH = re.compile(r"[0-9a-fA-F]{64}")
_COLUMNS = ("image", "question", "fact_id", "answer", "probability", "judge")
_READING = 1
"""Raised when the way in which a record is read changes."""

Key = tuple[str, str, str]
"""Image hash; ``question`` or ``fact_id``; digest of that text."""


@dataclass(frozen=True, slots=True)
class _Entry:
    answer: str
    probability: float | None
    place: str

    def contradicts(self, other: _Entry) -> bool:
        return (self.answer.casefold(), self.probability) != (
            other.answer.casefold(),
            other.probability,
        )


class ReplayJudge:
    """Implements :class:`~scenewright.core.ports.judge.Judge`.

    A fact is looked up by its question, then by its id. What the record does not hold is
    ``unscored`` with the reason, never guessed. The record is read once, when the judge is made.
    """

    def __init__(
        self,
        record: str | os.PathLike[str],
        *,
        judge: str | None = None,
        name: str | None = None,
        method: ProbabilityMethod = "verbalized",
    ) -> None:
        """``record``: a CSV file (UTF-8), or a parquet file if its name ends so.

        ``judge``: whose answers, of several in the file. ``name`` is what follows ``replay:`` in
        the judge's id (default: the file as given, and ``#judge`` where one is named).
        ``method``: how the record's probabilities were obtained.

        Raises ``JudgeError``, with the line or row where there is one, for a file that is missing,
        empty or no such table, lost columns, a row without image, question or fact, a probability
        outside [0, 1] or without an answer, rows that contradict each other, an image that
        cannot be read, and several judges of whom none is named.
        """
        self._path = Path(record)
        self._name = name or (f"{record}#{judge}" if judge else str(record))
        data = self._bytes()
        rows: Sequence[Row] = self._table(data).rows
        if judge is None:
            self._single(rows)
        else:
            rows = [row for row in rows if row["judge"] == judge]
            if not rows:
                raise JudgeError(f"{self._path} has no answers by {judge!r}: check the name")
        self._entries: dict[Key, _Entry] = {}
        self._images: dict[str, str] = {}
        for row in rows:
            self._keep(row)
        self._known = {image_hash for image_hash, _, _ in self._entries}
        stated = any(entry.probability is not None for entry in self._entries.values())
        self._caps = JudgeCaps(
            facts_per_call=512,
            probability=method if stated else "binary",
            max_side=MAX_SIDE,
            local=True,
        )
        self._record = hashlib.sha256(data).hexdigest()
        # An image file that is named may change while the record does not.
        parts = [_READING, self._record, judge, method, sorted(self._images.items())]
        self._fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self._closed = False

    @property
    def id(self) -> str:
        """``replay:`` and the name."""
        return f"replay:{self._name}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the file, the images it names and the settings that matter."""
        return self._fingerprint

    @property
    def caps(self) -> JudgeCaps:
        """What it can do; ``binary`` where the record holds no probability."""
        return self._caps

    def __len__(self) -> int:
        """How many questions about images the record answers or leaves open."""
        return len(self._entries)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """One answer a fact, in order; ``unscored`` where the record has none.

        The image must be the recorded one pixel by pixel. Raises ``JudgeError`` only after
        :meth:`aclose`.
        """
        if self._closed:
            raise JudgeError(f"{self.id} is closed: make a new judge")
        if not facts:
            return []
        try:
            # Packing a large picture takes long enough to hold up the event loop.
            image_hash = await asyncio.to_thread(hash_of_image, image)
        except ImageError as error:
            return unscored(self.id, facts, str(error))
        return [self._read(image_hash, fact) for fact in facts]

    async def aclose(self) -> None:
        """Let the record go."""
        self._closed = True
        self._entries.clear()

    def _read(self, image_hash: str, fact: Fact) -> Answer:
        entry = self._entries.get(_key(image_hash, "question", fact.question))
        entry = entry or self._entries.get(_key(image_hash, "fact_id", fact.id))
        if entry is None:
            known = image_hash in self._known
            what = f"{fact.question!r} about this image" if known else f"image {image_hash}"
            return unscored(self.id, (fact,), f"the record has no answer to {what}")[0]
        if not entry.answer:
            reason = f"{entry.place} of the record holds no answer"
            return unscored(self.id, (fact,), reason)[0]
        wanted = entry.answer.casefold()
        choice = next((o for o in fact.options if o.strip().casefold() == wanted), None)
        if choice is None:
            reason = f"the recorded answer {entry.answer!r} is none of {', '.join(fact.options)}"
            return unscored(self.id, (fact,), reason)[0]
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if choice == fact.expected else "no",
            choice=choice,
            probability=entry.probability,
            method=self._caps.probability if entry.probability is not None else None,
            model=f"{self._name}:{self._record[:12]}",
            prompt_id=f"record@{_READING}#{self._record[:12]}",
        )

    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise JudgeError(
                f"the record {self._path} cannot be read: {error.strerror or error}"
            ) from error

    def _table(self, data: bytes) -> Table:
        try:
            return read_table(self._path, data, _COLUMNS, _lost)
        except TableError as error:
            raise JudgeError(str(error)) from error

    def _single(self, rows: Sequence[Row]) -> None:
        judges = sorted({row["judge"] for row in rows})
        if len(judges) > 1:
            raise JudgeError(
                f"{self._path} holds answers of several judges "
                f"({', '.join(name or 'unnamed' for name in judges)}): name one"
            )

    def _keep(self, row: Row) -> None:
        if not row["image"]:
            raise self._wrong(row, "it names no image")
        column = "question" if row["question"] else "fact_id"
        if not row[column]:
            raise self._wrong(row, "it has neither question nor fact_id")
        entry = _Entry(row["answer"], self._probability(row), row.place)
        key = _key(self._image(row), column, row[column])
        before = self._entries.setdefault(key, entry)
        if entry.contradicts(before):
            raise self._wrong(row, f"it contradicts {before.place}")

    def _probability(self, row: Row) -> float | None:
        text = row["probability"]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self._wrong(row, f"the probability {text!r} is no number") from None
        if not 0.0 <= value <= 1.0:
            raise self._wrong(row, f"the probability {text} is outside [0, 1]")
        if not row["answer"]:
            raise self._wrong(row, "it has a probability but no answer")
        return value

    def _image(self, row: Row) -> str:
        name = row["image"]
        if _HASH.fullmatch(name):
            return name.lower()
        if name not in self._images:
            try:
                self._images[name] = hash_of_image(load_image(self._path.parent / name))
            except ImageError as error:
                raise self._wrong(row, f"{error}; or give the image's hash") from error
        return self._images[name]

    def _wrong(self, row: Row, fault: str) -> JudgeError:
        return JudgeError(f"{self._path}, {row.place}: {fault}")


def _lost(columns: frozenset[str]) -> list[str]:
    lost = [name for name in ("image", "answer") if name not in columns]
    if not {"question", "fact_id"} & columns:
        lost.append("question (or fact_id)")
    return lost


def _key(image_hash: str, column: str, text: str) -> Key:
    return image_hash, column, hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
