"""Reads tables of answers, your own too; what does not fit is told with its line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

import numpy as np

from scenewright.agents.judges.replay import Row, Table, TableError, read_table
from scenewright.core.facts import FactKind
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.sources.table_file import ANSWERS, COLUMNS, SEPARATOR
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

_YES = ("yes", "1", "1.0", "true")
_NO = ("no", "0", "0.0", "false")
_OF_IMAGE = ("item", "model", "round", "rating")
_OF_FACT = ("kind", "group", "question", "parents", "truth")
_OF_JUDGE = ("family", "fingerprint")


@dataclass(slots=True)
class _Seen:
    """What rows said of one thing, and where."""

    cells: dict[str, tuple[str, Row]] = field(default_factory=dict)
    row: Row | None = None

    def __getitem__(self, name: str) -> str:
        return self.cells[name][0] if name in self.cells else ""


@dataclass(slots=True)
class _Image(_Seen):
    facts: dict[str, _Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Said:
    probability: float
    vote: float
    asked: bool
    costs: tuple[float, float, float]
    row: Row


def load_table(path: str | Path) -> AnswerTable:
    """The table of answers in a CSV or parquet file; its columns are those of
    :data:`~scenewright.evals.studies.panel.sources.table_file.COLUMNS`.

    Columns of an image, a fact or a judge may be given in one of its rows or in all. A fact may
    stand before its parents. A judge without a row for a fact was not asked. Raises
    ``PanelStudyError`` for a file that cannot be read, and with the line for a cell that does not
    fit, things said differently twice, and answers given twice.
    """
    file = Path(path)
    try:
        table = read_table(file, file.read_bytes(), COLUMNS, _lost)
    except OSError as error:
        raise PanelStudyError(
            f"the table {file} cannot be read: {error.strerror or error}"
        ) from error
    except TableError as error:
        raise PanelStudyError(str(error)) from error
    try:
        return _Reader(table).table()
    except TableError as error:
        raise PanelStudyError(str(error)) from error


def _lost(columns: frozenset[str]) -> list[str]:
    lost = [name for name in ("image", "fact", "judge") if name not in columns]
    if not {"answer", "probability"} & columns:
        lost.append("answer (or probability)")
    return lost


class _Reader:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._images: dict[str, _Image] = {}
        self._judges: dict[str, _Seen] = {}
        self._said: dict[tuple[str, str, str], _Said] = {}
        for row in table.rows:
            self._take(row)

    def _wrong(self, row: Row, fault: str) -> TableError:
        return self._table.wrong(row, fault)

    def _take(self, row: Row) -> None:
        name = row["image"]
        if not name:
            raise self._wrong(row, "it names no image")
        image = self._images.setdefault(name, _Image())
        self._note(image, row, _OF_IMAGE, f"of the image {name}")
        if not row["fact"]:
            if row["judge"]:
                raise self._wrong(row, "it names a judge but no fact")
            return
        fact = image.facts.setdefault(row["fact"], _Seen())
        self._note(fact, row, _OF_FACT, f"of the fact {row['fact']} of the image {name}")
        if not row["judge"]:
            if row["answer"] or row["probability"]:
                raise self._wrong(row, "it has an answer but names no judge")
            return
        judge = self._judges.setdefault(row["judge"], _Seen())
        self._note(judge, row, _OF_JUDGE, f"of the judge {row['judge']}")
        key = (name, row["fact"], row["judge"])
        if key in self._said:
            before = self._said[key].row.place
            raise self._wrong(row, f"{row['judge']} answered this fact in {before} already")
        self._said[key] = self._answer(row)

    def _note(self, seen: _Seen, row: Row, names: tuple[str, ...], of: str) -> None:
        seen.row = seen.row or row
        for name in names:
            if not row[name]:
                continue
            said, first = seen.cells.setdefault(name, (row[name], row))
            if said != row[name]:
                raise self._wrong(
                    row, f"the {name} {of} is {row[name]!r}, but {said!r} in {first.place}"
                )

    def _answer(self, row: Row) -> _Said:
        answer = row["answer"].lower()
        probability = self._number(row, "probability", 0.0, 1.0)
        costs = tuple(self._number(row, name, 0.0) or 0.0 for name in ("seconds", "tokens", "usd"))
        seconds, tokens, usd = costs
        if answer in ANSWERS[2:] or (not answer and probability is None):
            if probability is not None:
                raise self._wrong(row, f"it is {answer}, but has a probability: leave one out")
            return _Said(math.nan, math.nan, answer != "unasked", (seconds, tokens, usd), row)
        if answer and answer not in (*_YES, *_NO):
            raise self._wrong(row, f"the answer is {answer!r}: use one of {', '.join(ANSWERS)}")
        vote = float(probability > 0.5) if not answer else float(answer in _YES)  # type: ignore[operator]
        found = vote if probability is None else probability
        return _Said(found, vote, True, (seconds, tokens, usd), row)

    def _number(self, row: Row, name: str, low: float, high: float = math.inf) -> float | None:
        text = row[name]
        # A column of numbers that was written by pandas has nan where nothing stands.
        if not text or text.lower() == "nan":
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or math.isinf(value):
            bounds = f"from {low:g} to {high:g}" if math.isfinite(high) else f"of {low:g} or more"
            raise self._wrong(row, f"{name} is {text!r}: use a number {bounds}")
        return value

    def table(self) -> AnswerTable:
        """All of it as one table."""
        if not self._judges:
            raise TableError(f"{self._table.path} holds no answers: no row names a judge")
        images: list[ImageRow] = []
        facts: list[FactRow] = []
        truth: list[float] = []
        places: dict[tuple[str, str], int] = {}
        for name, image in self._images.items():
            for fact_id in self._ordered(image):
                seen = image.facts[fact_id]
                places[name, fact_id] = len(facts)
                facts.append(
                    FactRow(
                        id=fact_id,
                        image=len(images),
                        kind=self._kind(seen),
                        group=seen["group"],
                        question=seen["question"],
                        parents=tuple(places[name, p] for p in self._parents(seen)),
                    )
                )
                truth.append(self._truth(seen))
            images.append(self._image_row(name, image))
        shape = (len(facts), len(self._judges))
        column = {judge: at for at, judge in enumerate(self._judges)}
        asked = np.zeros(shape, bool)
        arrays = {name: np.zeros(shape) for name in ("said", "votes", "seconds", "tokens", "usd")}
        arrays["said"][:] = arrays["votes"][:] = np.nan
        for (image_id, fact_id, judge), said in self._said.items():
            at = places[image_id, fact_id], column[judge]
            arrays["said"][at], arrays["votes"][at] = said.probability, said.vote
            asked[at] = said.asked
            for name, cost in zip(("seconds", "tokens", "usd"), said.costs, strict=True):
                arrays[name][at] = cost
        return AnswerTable(
            name=self._table.path.stem,
            judges=tuple(
                JudgeColumn(judge, seen["family"], seen["fingerprint"])
                for judge, seen in self._judges.items()
            ),
            images=tuple(images),
            facts=tuple(facts),
            asked=asked,
            truth=np.array(truth),
            **arrays,
        )

    def _image_row(self, name: str, image: _Image) -> ImageRow:
        ratings: tuple[float, ...] = ()
        if image["rating"] and image["rating"].lower() != "nan":
            row = image.cells["rating"][1]
            try:
                ratings = tuple(float(part) for part in image["rating"].split(SEPARATOR))
            except ValueError:
                ratings = (math.nan,)
            if not all(map(math.isfinite, ratings)):
                raise self._wrong(
                    row, f"the rating is {image['rating']!r}: use numbers joined by {SEPARATOR}"
                )
        number: int | None = None
        if image["round"] and image["round"].lower() != "nan":
            row = image.cells["round"][1]
            found = self._number(row, "round", 0.0) or 0.0
            if found != int(found):
                raise self._wrong(row, f"round is {image['round']!r}: use a whole number")
            number = int(found)
        return ImageRow(name, image["item"] or name, image["model"], number, ratings)

    def _kind(self, seen: _Seen) -> FactKind:
        kind = seen["kind"].lower() or "object"
        if kind not in get_args(FactKind):
            row = seen.cells["kind"][1]
            raise self._wrong(
                row, f"the kind is {kind!r}: use one of {', '.join(get_args(FactKind))}"
            )
        return cast(FactKind, kind)

    def _truth(self, seen: _Seen) -> float:
        text = seen["truth"].lower()
        if text in ("", "nan"):
            return math.nan
        if text not in (*_YES, *_NO):
            raise self._wrong(seen.cells["truth"][1], f"the truth is {text!r}: write 1 or 0")
        return float(text in _YES)

    def _parents(self, seen: _Seen) -> list[str]:
        text = seen["parents"]
        if not text.startswith("["):
            return [part for part in text.split(SEPARATOR) if part]
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
            raise self._wrong(seen.cells["parents"][1], f"parents is {text}, no JSON list of texts")
        return found

    def _ordered(self, image: _Image) -> list[str]:
        """Ids of its facts, each after its parents, else as they came."""
        done: dict[str, None] = {}
        waiting: Mapping[str, list[str]] = {i: self._parents(s) for i, s in image.facts.items()}
        for fact_id, parents in waiting.items():
            for parent in parents:
                if parent not in waiting:
                    row = image.facts[fact_id].cells["parents"][1]
                    raise self._wrong(row, f"its parent {parent!r} is no fact of its image")
        while len(done) < len(waiting):
            before = len(done)
            for fact_id, parents in waiting.items():
                if fact_id not in done and all(parent in done for parent in parents):
                    done[fact_id] = None
            if len(done) == before:
                stuck = next(fact_id for fact_id in waiting if fact_id not in done)
                row = image.facts[stuck].cells["parents"][1]
                raise self._wrong(row, f"{stuck} depends on itself through its parents")
        return list(done)
