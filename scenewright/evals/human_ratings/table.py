"""Ratings as a table: from a study's database, to CSV, and from CSV, a stranger's too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scenewright.agents.judges.replay import Row, Table, TableError, read_table
from scenewright.evals.human_ratings.asking import WHOLE, unasked
from scenewright.evals.human_ratings.files import put_csv
from scenewright.evals.human_ratings.opening import store_of
from scenewright.evals.human_ratings.store import Kept
from scenewright.evals.human_ratings.study import (
    ARM_SEPARATOR,
    ASPECTS,
    FACT_VALUES,
    KINDS,
    UNFIT,
    Kind,
    RatingError,
    RatingStudy,
    StudyFolder,
)

COLUMNS = (
    *("rater", "task", "kind", "item", "shown", "arm", "fact", "value", "seconds"),
    *("shown_at", "rated_at", "repeat", "changes"),
)
"""The columns of an exported table; see :class:`Rating`."""
_NEEDED = ("rater", "item", "value")


@dataclass(frozen=True, slots=True)
class Rating:
    """One row: what one rater said of one thing."""

    rater: str
    """Name of the rater."""
    task: str
    """Id of the task."""
    kind: Kind
    """What was asked."""
    item: str
    """The item."""
    shown: tuple[str, ...]
    """The arms on the page, from the first position on."""
    arm: str
    """The arm that was chosen, or the one whose picture was rated."""
    fact: str
    """Id of the fact, or aspect of the object; empty where the whole picture was rated, or the
    object was taken out."""
    value: str
    """The position that was chosen (from 1), yes / no / cannot tell, or the score."""
    seconds: float | None = None
    """From the showing of the page to the first answer."""
    shown_at: str = ""
    """When the page was shown, ISO 8601 in UTC."""
    rated_at: str = ""
    """When the answer that stands came."""
    repeat: bool = False
    """Whether the rater had met the task before."""
    changes: int = 0
    """How often the answer was changed."""


def ratings_of(folder: StudyFolder) -> tuple[Rating, ...]:
    """All ratings of a study, rater after rater in the order of their tasks.

    Answers to a fact that the same rater made void later on are left out. Raises
    ``StoreFailed`` or ``RatingError`` for a database that cannot be read.
    """
    store = store_of(folder)
    try:
        return tuple(_rows(folder.study, store.all()))
    finally:
        store.close()


def _rows(study: RatingStudy, kept: Iterable[Kept]) -> Iterator[Rating]:
    showings: dict[tuple[str, int], list[Kept]] = {}
    for one in kept:
        showings.setdefault((one.rater, one.showing.number), []).append(one)
    for together in showings.values():
        showing = together[0].showing
        task = showing.task
        shown = tuple(task.candidates[slot].arm for slot in showing.slots)
        void = unasked(study.kind_of(task), task, {one.fact: one.value for one in together})
        order = {fact.id: at for at, fact in enumerate(task.facts)}
        for one in sorted(together, key=lambda k: order.get(k.fact, -1)):
            if one.fact in void:
                continue
            yield Rating(
                rater=one.rater,
                task=task.id,
                kind=study.kind,
                item=task.item,
                shown=shown,
                arm=shown[int(one.value) - 1] if study.kind == "choice" else shown[0],
                fact=one.fact,
                value=one.value,
                seconds=one.seconds,
                shown_at=one.shown_at,
                rated_at=one.rated_at,
                repeat=showing.repeat,
                changes=one.changes,
            )


def write_csv(ratings: Iterable[Rating], path: Path) -> int:
    """Write ``ratings`` as UTF-8 CSV (RFC 4180) in one step; how many rows they are.

    Raises ``RatingError`` if the file cannot be written.
    """
    return put_csv(path, COLUMNS, map(_cells, ratings))


def _cells(r: Rating) -> tuple[str | int, ...]:
    seconds = "" if r.seconds is None else f"{r.seconds:.3f}"
    return (
        *(r.rater, r.task, r.kind, r.item, ARM_SEPARATOR.join(r.shown), r.arm),
        *(r.fact, r.value, seconds, r.shown_at, r.rated_at, int(r.repeat), r.changes),
    )


def read_csv(
    path: Path, columns: Mapping[str, str] | None = None, kind: Kind | None = None
) -> tuple[Rating, ...]:
    """The ratings in a CSV or parquet file.

    ``columns`` gives a stranger's table its names here (``{"rater": "worker_id"}``), ``kind`` what
    was asked where no column says so. Needed are rater, item and value; a choice needs shown and
    arm instead of value. Raises ``RatingError`` with the line for what cannot be read.
    """
    names = {name: name for name in COLUMNS} | dict(columns or {})
    unknown = sorted(set(names) - set(COLUMNS))
    if unknown:
        raise RatingError(f"there is no column {', '.join(unknown)}: use {', '.join(COLUMNS)}")
    wanted = {name: given.strip().lower() for name, given in names.items()}

    def lost(there: frozenset[str]) -> list[str]:
        needed = ("rater", "item", "arm") if kind == "choice" else _NEEDED
        missing = [wanted[name] for name in needed if wanted[name] not in there]
        if kind is None and wanted["kind"] not in there:
            missing.append(f"{wanted['kind']} (or --kind)")
        return missing

    try:
        table = read_table(path, path.read_bytes(), tuple(wanted.values()), lost)
    except OSError as error:
        raise RatingError(f"{path} cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise RatingError(str(error)) from error
    return tuple(_rating(table, row, wanted, kind) for row in table.rows)


def _rating(table: Table, row: Row, wanted: Mapping[str, str], kind: Kind | None) -> Rating:
    cells = {name: row[given] for name, given in wanted.items()}
    said = cells["kind"] or kind or ""
    if said not in KINDS:
        raise _wrong(table, row, f"the kind is {said!r}: use one of {', '.join(KINDS)}")
    found: Kind = said
    for name in ("rater", "item"):
        if not cells[name]:
            raise _wrong(table, row, f"{wanted[name]} is empty")
    shown = tuple(filter(None, cells["shown"].split(ARM_SEPARATOR)))
    value = cells["value"]
    if found == "choice":
        if not cells["arm"] or (shown and cells["arm"] not in shown):
            raise _wrong(table, row, f"the chosen arm {cells['arm']!r} is not among those shown")
    elif found == "facts":
        value = value.lower()
        if value not in FACT_VALUES:
            raise _wrong(table, row, f"{value!r}: a fact is {', '.join(FACT_VALUES)}")
    elif found == "objects" and cells["fact"] not in (WHOLE, *ASPECTS):
        raise _wrong(table, row, f"{cells['fact']!r}: of an object {', '.join(ASPECTS)} are rated")
    elif _number(value) is None and (found, cells["fact"], value) != ("objects", WHOLE, UNFIT):
        raise _wrong(table, row, f"{value!r} is no score")
    return Rating(
        rater=cells["rater"],
        task=cells["task"] or f"{cells['item']}{ARM_SEPARATOR}{cells['arm']}",
        kind=found,
        item=cells["item"],
        shown=shown or ((cells["arm"],) if cells["arm"] and found != "choice" else ()),
        arm=cells["arm"],
        fact=cells["fact"],
        value=value,
        seconds=_number(cells["seconds"]),
        shown_at=cells["shown_at"],
        rated_at=cells["rated_at"],
        repeat=cells["repeat"].lower() in ("1", "true", "yes"),
        changes=int(_number(cells["changes"]) or 0),
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e9 else None


def _wrong(table: Table, row: Row, fault: str) -> RatingError:
    return RatingError(str(table.wrong(row, fault)))
