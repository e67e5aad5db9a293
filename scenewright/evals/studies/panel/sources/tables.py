"""Read and write tables of answers as CSV and parquet files: one row an answer.

Only image, fact, judge, and answer or probability are needed; see :data:`COLUMNS`. Errors name the
line that does not fit.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from scenewright.agents.judges.replay import Row, Table, TableError, read_table
from scenewright.agents.panel.aggregation import mid_ranks
from scenewright.core.facts import FactKind
from scenewright.core.flushing import write_text
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)

COLUMNS = (
    *("image", "item", "model", "round", "rating", "fact", "kind", "group", "question", "parents"),
    *("truth", "judge", "family", "fingerprint", "answer", "probability", "vote"),
    *("score", "score_min", "score_max", "seconds", "tokens", "usd"),
)
"""The columns of a table. Of an image: item (default: the image itself), model, round and rating
(several raters joined by ``|``). Of a fact: kind (default object), group, question, parents (ids of
facts of the same image, joined by ``|`` or a JSON list) and truth (1, 0 or empty). Of a judge:
family, fingerprint, score_min and score_max (of its scores, default 0 and 10). Of an answer: answer
(yes, no, ``unscored``: asked without a usable answer, ``unasked``) and probability that the fact
holds, or a score; vote (1 or 0, where a judge's choice contradicts its probability), seconds,
tokens and usd. A row with a score and no fact is about the whole picture; where the ranges of such
scores differ between judges, each judge's are its mid-ranks among all pictures."""
WIDE = "judge:"
"""Begins the columns of a wide table: ``judge:NAME`` holds the answers of the judge NAME."""
PICTURE = "picture"
"""Fact of a score of the whole picture."""
_LOWEST, _HIGHEST = 0.0, 10.0
"""Range of scores that name none."""
SEPARATOR = "|"
"""Between ratings, and between parents."""
ANSWERS = ("yes", "no", "unscored", "unasked")
"""What stands in the column ``answer``."""


def rows_of(table: AnswerTable) -> Iterator[dict[str, Any]]:
    """Return the rows of ``table``: one a fact and judge, and one an image that has no facts."""
    facts_of: dict[int, list[int]] = {}
    for row, fact in enumerate(table.facts):
        facts_of.setdefault(fact.image, []).append(row)
    for number, image in enumerate(table.images):
        base: dict[str, Any] = dict.fromkeys(COLUMNS) | {
            "image": image.id,
            "item": image.item,
            "model": image.model or None,
            "round": image.round,
            "rating": SEPARATOR.join(repr(float(r)) for r in image.ratings) or None,
        }
        if number not in facts_of:
            yield base
        for row in facts_of.get(number, ()):
            fact = table.facts[row]
            truth = table.truth[row]
            of_fact = base | {
                "fact": fact.id,
                "kind": fact.kind,
                "group": fact.group or None,
                "question": fact.question or None,
                "parents": _joined([table.facts[parent].id for parent in fact.parents]),
                "truth": None if np.isnan(truth) else int(truth),
            }
            for at, judge in enumerate(table.judges):
                yield of_fact | {
                    "judge": judge.id,
                    "family": judge.family or None,
                    "fingerprint": judge.fingerprint or None,
                    **_answer(table, row, at),
                }


def _answer(table: AnswerTable, row: int, at: int) -> dict[str, Any]:
    said, vote = table.said[row, at], table.votes[row, at]
    if np.isnan(said):
        answer = "unscored" if table.asked[row, at] else "unasked"
    else:
        answer = "yes" if vote == 1.0 else "no"
    costs = {name: float(getattr(table, name)[row, at]) for name in ("seconds", "tokens", "usd")}
    told = None if np.isnan(said) else float(said)
    # A vote against the probability is told twice, so that it is no mistake.
    against = told is not None and _contradicts(vote, told)
    return {"answer": answer, "probability": told, "vote": int(vote) if against else None, **costs}


def _contradicts(vote: float, probability: float) -> bool:
    return probability != 0.5 and (probability > 0.5) != (vote == 1.0)


def _joined(parents: list[str]) -> str | None:
    if not parents:
        return None
    plain = SEPARATOR.join(parents)
    # An id may hold the separator, as those of relations do.
    unclear = any(SEPARATOR in parent for parent in parents) or plain.startswith("[")
    return json.dumps(parents, ensure_ascii=False) if unclear else plain


def write_table(table: AnswerTable, path: str | Path) -> Path:
    """Write ``table`` as CSV, or as parquet where the name ends so; whole or not at all.

    :func:`~scenewright.evals.studies.panel.sources.tables.load_table` reads it back. Raises
    ``PanelStudyError`` if it cannot be written, and where an id stands twice or has spaces at its
    ends, which could not be read back.
    """
    file = Path(path)
    _check(table)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix.lower() == ".parquet":
            _write_parquet(table, file)
        else:
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows_of(table))
            write_text(file, text.getvalue().removesuffix("\n"))
    except OSError as error:
        raise PanelStudyError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def _write_parquet(table: AnswerTable, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, pa.DataType] = {
        "round": pa.int64(),
        "truth": pa.int8(),
        "vote": pa.int8(),
        **dict.fromkeys(("probability", "seconds", "tokens", "usd"), pa.float64()),
        **dict.fromkeys(("score", "score_min", "score_max"), pa.float64()),
    }
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in COLUMNS])
    draft = file.with_name(f".{file.name}.tmp")
    with pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        block: list[dict[str, Any]] = []
        for row in rows_of(table):
            block.append(row)
            if len(block) == 4096:
                writer.write_table(pa.Table.from_pylist(block, schema=schema))
                block = []
        writer.write_table(pa.Table.from_pylist(block, schema=schema))
    draft.replace(file)


def _check(table: AnswerTable) -> None:
    if not table.facts:
        raise PanelStudyError(f"{table.name} has no facts: there is nothing to write")
    images = [image.id for image in table.images]
    facts = [f"{fact.id} of {images[fact.image]}" for fact in table.facts]
    for what, found in (("image", images), ("fact", facts)):
        twice = [name for name, n in Counter(found).items() if n > 1]
        if twice:
            raise PanelStudyError(f"{table.name}: the {what} {twice[0]} stands twice")
    texts = [*images, *table.judge_ids, *(fact.id for fact in table.facts)]
    for text in texts:
        if not text or text != text.strip():
            raise PanelStudyError(f"{table.name}: the id {text!r} is empty or has spaces at an end")


_YES = ("yes", "1", "1.0", "true")
_NO = ("no", "0", "0.0", "false")
_OF_IMAGE = ("item", "model", "round", "rating")
_OF_FACT = ("kind", "group", "question", "parents", "truth")
_OF_JUDGE = ("family", "fingerprint", "score_min", "score_max")


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
    """Return the table of answers in a CSV or parquet file.

    Its columns are those of :data:`~scenewright.evals.studies.panel.sources.tables.COLUMNS`.

    Columns of an image, a fact or a judge may be given in one of its rows or in all. A fact may
    stand before its parents. A judge without a row for a fact was not asked. A wide table has one
    row a fact (or picture) and a column ``judge:NAME`` for each judge. Raises ``PanelStudyError``
    for a file that cannot be read, and with the line for a cell that does not fit, things said
    differently twice, and answers given twice.
    """
    return read_answers(path)[0]


def read_answers(path: str | Path) -> tuple[AnswerTable, tuple[str, ...]]:
    """Return :func:`load_table`, and what to know of it: columns that nothing reads."""
    file = Path(path)
    try:
        table = read_table(file, file.read_bytes(), COLUMNS, _lost, WIDE)
    except OSError as error:
        raise PanelStudyError(
            f"the table {file} cannot be read: {error.strerror or error}"
        ) from error
    except TableError as error:
        raise PanelStudyError(str(error)) from error
    try:
        return _Reader(_long(table)).table(), _unread(table)
    except TableError as error:
        raise PanelStudyError(str(error)) from error


def _lost(columns: frozenset[str]) -> list[str]:
    wide = any(name.startswith(WIDE) for name in columns)
    lost = [] if "image" in columns else ["image"]
    if "judge" not in columns and not wide:
        lost.append(f"judge (or a column {WIDE}NAME for each judge)")
    if "fact" not in columns and not wide and "score" not in columns:
        lost.append("fact")
    if not wide and not {"answer", "probability", "score"} & columns:
        lost.append("answer (or probability, or score)")
    return lost


def _unread(table: Table) -> tuple[str, ...]:
    """Return a sentence about the columns that nothing reads."""
    if not table.unknown:
        return ()
    shown = []
    for name in table.unknown:
        close = get_close_matches(name, COLUMNS, 1)
        shown.append(f"{name} (did you mean {close[0]}?)" if close else name)
    return (f"Columns of {table.path.name} that nothing reads: {', '.join(shown)}.",)


def _long(table: Table) -> Table:
    """Return a wide table with one row an answer; another as it is.

    Raises ``TableError`` for one that is both.
    """
    wide = sorted(name for name in table.columns if name.startswith(WIDE))
    if not wide:
        return table
    both = {"judge", "answer", "probability", "score"} & table.columns
    if both:
        raise TableError(
            f"{table.path} has columns {WIDE}NAME and {', '.join(sorted(both))}: give one row an "
            "answer, or one column a judge"
        )
    rows = []
    for row in table.rows:
        for name in wide:
            said = row[name]
            words = said.lower() in (*_YES[:1], *_NO[:1], *ANSWERS[2:], "true", "false", "")
            kind = "answer" if words else "probability" if row["fact"] else "score"
            cells = {**row.cells, "judge": name.removeprefix(WIDE), kind: said}
            rows.append(Row(cells, f"{row.place}, {name}"))
    return Table(table.path, table.columns, tuple(rows), table.unknown)


class _Reader:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._images: dict[str, _Image] = {}
        self._judges: dict[str, _Seen] = {}
        self._said: dict[tuple[str, str, str], _Said] = {}
        self._scales: set[tuple[float, float]] = set()
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
        fact_id = row["fact"]
        if not fact_id:
            if row["judge"] and not row["score"] and "fact" in self._table.columns:
                raise self._wrong(
                    row, "it names a judge but no fact: only a score may be of the whole picture"
                )
            if not row["judge"]:
                return
            fact_id = PICTURE
        fact = image.facts.setdefault(fact_id, _Seen())
        self._note(fact, row, _OF_FACT, f"of the fact {fact_id} of the image {name}")
        if not row["judge"]:
            if row["answer"] or row["probability"] or row["score"]:
                raise self._wrong(row, "it has an answer but names no judge")
            return
        judge = self._judges.setdefault(row["judge"], _Seen())
        self._note(judge, row, _OF_JUDGE, f"of the judge {row['judge']}")
        key = (name, fact_id, row["judge"])
        if key in self._said:
            before = self._said[key].row.place
            raise self._wrong(row, f"{row['judge']} answered this fact in {before} already")
        self._said[key] = self._answer(row, judge)

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

    def _answer(self, row: Row, judge: _Seen) -> _Said:
        answer = row["answer"].lower()
        probability = self._number(row, "probability", 0.0, 1.0)
        scored = self._score(row, judge)
        if scored is not None:
            if probability is not None or answer in (*_YES, *_NO):
                raise self._wrong(
                    row, "it has a score and an answer or probability: give one of them"
                )
            probability = scored
        costs = tuple(self._number(row, name, 0.0) or 0.0 for name in ("seconds", "tokens", "usd"))
        seconds, tokens, usd = costs
        if answer in ANSWERS[2:] or (not answer and probability is None):
            if probability is not None:
                raise self._wrong(row, f"it is {answer}, but has a probability: leave one out")
            return _Said(math.nan, math.nan, answer != "unasked", (seconds, tokens, usd), row)
        if answer and answer not in (*_YES, *_NO):
            raise self._wrong(row, f"the answer is {answer!r}: use one of {', '.join(ANSWERS)}")
        vote = float(probability > 0.5) if not answer else float(answer in _YES)  # type: ignore[operator]
        meant = row["vote"] in ("0", "1", "0.0", "1.0") and float(row["vote"]) == vote
        if probability is not None and _contradicts(vote, probability) and not meant:
            raise self._wrong(
                row,
                f"the answer is {answer}, but the probability that the fact holds is "
                f"{probability:g}: mend one of them. The probability is of the fact, not of the "
                f"answer; where the judge did say both, add the column vote with {vote:g}",
            )
        found = vote if probability is None else probability
        return _Said(found, vote, True, (seconds, tokens, usd), row)

    def _score(self, row: Row, judge: _Seen) -> float | None:
        """Return the row's score as a share of its range."""
        if not row["score"] or row["score"].lower() == "nan":
            return None
        low, high = _LOWEST, _HIGHEST
        for name in ("score_min", "score_max"):
            text = judge[name]
            try:
                value = float(text) if text else (_LOWEST if name == "score_min" else _HIGHEST)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise self._wrong(row, f"{name} is {text!r}: use a number")
            low, high = (value, high) if name == "score_min" else (low, value)
        if not low < high:
            raise self._wrong(row, f"score_min is {low:g} and score_max {high:g}: it must be above")
        try:
            value = float(row["score"])
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise self._wrong(
                row,
                f"score is {row['score']!r}: use a number from {low:g} to {high:g}, or name "
                "another range in the columns score_min and score_max",
            )
        if not row["fact"]:
            self._scales.add((low, high))
        return (value - low) / (high - low)

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
        if len(self._scales) > 1:
            # One judge's 7 of 10 may be another one's 3 of 5: only their orders are compared.
            rows = [fact.id == PICTURE for fact in facts]
            arrays["said"][rows] = mid_ranks(arrays["said"][rows])
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
                    row,
                    f"the rating is {image['rating']!r}: use one number a rater, joined by "
                    f"{SEPARATOR}, as in 4{SEPARATOR}5{SEPARATOR}4",
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
                    raise self._wrong(row, f"its parent {parent!r} is not a fact of its image")
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
