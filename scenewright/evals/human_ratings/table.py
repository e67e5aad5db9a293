"""Ratings as tables: rows of a database or a CSV file, and arrays of units and raters.

A unit is what raters are compared on: an item for a choice, a fact of a picture, or a picture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenewright.agents.judges.replay import Row, Table, TableError, read_table
from scenewright.core.facts import Fact
from scenewright.evals.human_ratings.store import Kept, RatingStore
from scenewright.evals.human_ratings.study import (
    ARM_SEPARATOR,
    ASPECTS,
    FACT_VALUES,
    KINDS,
    TIE,
    UNFIT,
    WHOLE,
    Kind,
    RatingError,
    RatingStudy,
    StudyFolder,
    put_csv,
    void_facts,
)
from scenewright.evals.statistics.figures import Array, Pictured

COLUMNS = (
    *("rater", "task", "kind", "item", "shown", "arm", "fact", "value", "seconds"),
    *("shown_at", "rated_at", "repeat", "changes"),
)
"""The columns of an exported table; see :class:`Rating`."""
_NEEDED = ("rater", "item", "value")


@dataclass(frozen=True, slots=True)
class Rating:
    """One rater's answer to one question."""

    rater: str
    task: str
    kind: Kind
    item: str
    shown: tuple[str, ...]
    """The arms on the page, from the first position on."""
    arm: str
    """The arm that was chosen, or the one whose picture was rated; empty for a tie."""
    fact: str
    """Id of the fact, or aspect of the object; empty where the whole picture was rated, or the
    object was taken out."""
    value: str
    """The position that was chosen (from 1) or :data:`~.study.TIE`, yes / no / cannot tell, or the
    score."""
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

    @property
    def tie(self) -> bool:
        """Return whether it says that the two candidates do not differ."""
        return self.kind == "choice" and self.value == TIE


def ratings_of(folder: StudyFolder) -> tuple[Rating, ...]:
    """Return all ratings of a study, by rater and in the order of their tasks.

    Answers to a fact that the same rater made void later are left out. Raises ``StoreFailed`` or
    ``RatingError`` for a database that cannot be read.
    """
    store = RatingStore(folder)
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
        void = study.form(task).ignored({one.fact: one.value for one in together})
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
                arm=_arm(study.kind, shown, one.value),
                fact=one.fact,
                value=one.value,
                seconds=one.seconds,
                shown_at=one.shown_at,
                rated_at=one.rated_at,
                repeat=showing.repeat,
                changes=one.changes,
            )


def _arm(kind: Kind, shown: Sequence[str], value: str) -> str:
    """Return the arm that a stored answer is about; empty for a tie."""
    if kind != "choice":
        return shown[0]
    return "" if value == TIE else shown[int(value) - 1]


def write_csv(ratings: Iterable[Rating], path: Path) -> int:
    """Write ``ratings`` as UTF-8 CSV (RFC 4180) in one step and return the number of rows.

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
    """Return the ratings in a CSV or parquet file.

    ``columns`` maps the names here to those of a table from elsewhere (``{"rater": "worker_id"}``),
    ``kind`` is the kind where no column has it. Required are rater, item and value; a choice needs
    arm instead of value, or of two arms the value "no difference". Raises ``RatingError`` with the
    line of an invalid rating.
    """
    names = {name: name for name in COLUMNS} | dict(columns or {})
    unknown = sorted(set(names) - set(COLUMNS))
    if unknown:
        raise RatingError(f"unknown column {', '.join(unknown)}: use {', '.join(COLUMNS)}")
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
    if found == "choice" and value.lower() == TIE:
        value = TIE
        if cells["arm"] or len(shown) != 2:
            raise _wrong(
                table,
                row,
                f"{TIE!r} needs the two arms that were shown in {wanted['shown']}, and no arm",
            )
    elif found == "choice":
        if not cells["arm"] or (shown and cells["arm"] not in shown):
            raise _wrong(table, row, f"the chosen arm {cells['arm']!r} is not among those shown")
    elif found == "facts":
        value = value.lower()
        if value not in FACT_VALUES:
            raise _wrong(table, row, f"{value!r}: a fact is {', '.join(FACT_VALUES)}")
    elif found == "objects" and cells["fact"] not in (WHOLE, *ASPECTS):
        raise _wrong(table, row, f"{cells['fact']!r}: of an object {', '.join(ASPECTS)} are rated")
    elif _number(value) is None and (found, cells["fact"], value) != ("objects", WHOLE, UNFIT):
        raise _wrong(table, row, f"{value!r} is not a score")
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


Unit = tuple[str, str, str]
"""Item, arm and fact; the last ones empty where the kind has none."""


@dataclass(frozen=True, slots=True)
class Units:
    """Table of ratings, first showings only."""

    kind: Kind
    keys: tuple[Unit, ...]
    """Unit of each row."""
    items: NDArray[np.intp]
    """Number of each row's item."""
    names: tuple[str, ...]
    raters: tuple[str, ...]
    """Rater of each column."""
    values: Array
    """(units, raters): number of the arm chosen (one more than the last for a tie, which is an
    answer of its own), 1 or 0 of a fact, or the score; NaN where a rater did not rate or could not
    tell."""
    arms: tuple[str, ...]


def kind_of(ratings: Sequence[Rating]) -> Kind:
    """Return the kind of the ratings.

    Raises ``RatingError`` for no ratings or ratings of several kinds.
    """
    kinds = {rating.kind for rating in ratings}
    if len(kinds) != 1:
        raise RatingError(
            "there are no ratings yet" if not kinds
            else f"there are ratings of several kinds: {', '.join(sorted(kinds))}; give one"
        )  # fmt: skip
    return kinds.pop()


def arms_of(ratings: Iterable[Rating], study: RatingStudy | None = None) -> tuple[str, ...]:
    """Return all arms: those of the study, else those of the ratings, sorted."""
    if study is not None:
        return study.arms
    return tuple(sorted({arm for r in ratings for arm in (*r.shown, r.arm) if arm}))


def first_of(ratings: Sequence[Rating]) -> list[Rating]:
    """Return one rating of each rater and unit, of the first showing that the rater rated.

    Facts that were void at the first showing are not taken from the second.
    """
    showing: dict[tuple[str, str, str], bool] = {}
    found: dict[tuple[str, Unit], Rating] = {}
    for rating in sorted(ratings, key=lambda r: r.repeat):
        unit = unit_of(rating)
        if showing.setdefault((rating.rater, *unit[:2]), rating.repeat) == rating.repeat:
            found.setdefault((rating.rater, unit), rating)
    return list(found.values())


def units_of(ratings: Sequence[Rating], study: RatingStudy | None = None) -> Units:
    """Return the table of ``ratings``, those of :func:`first_of`.

    Raises ``RatingError`` as :func:`kind_of`.
    """
    kind, arms = kind_of(ratings), arms_of(ratings, study)
    rows: dict[Unit, int] = {}
    columns: dict[str, int] = {}
    items: dict[str, int] = {}
    cells: dict[tuple[int, int], float] = {}
    for rating in first_of(ratings):
        row = rows.setdefault(unit_of(rating), len(rows))
        items.setdefault(rating.item, len(items))
        column = columns.setdefault(rating.rater, len(columns))
        cells[row, column] = code_of(rating, arms)
    values = np.full((len(rows), len(columns)), np.nan)
    for place, value in cells.items():
        values[place] = value
    return Units(
        kind=kind,
        keys=tuple(rows),
        items=np.array([items[item] for item, _, _ in rows], np.intp),
        names=tuple(items),
        raters=tuple(columns),
        values=values,
        arms=arms,
    )


def others_of(values: Array, rater: int, mean: bool) -> Array:
    """Return (units,) what the others say: the mean of their scores, or their most frequent value.

    ``values`` is (units, raters). NaN without others and for ties.
    """
    rest = np.delete(values, rater, axis=1)
    there = ~np.isnan(rest)
    found = np.full(len(rest), np.nan)
    for row in np.flatnonzero(there.any(1)):
        said = rest[row, there[row]]
        if mean:
            found[row] = said.mean()
        else:
            codes, counts = np.unique(said, return_counts=True)
            best = codes[counts == counts.max()]
            found[row] = best[0] if len(best) == 1 else np.nan
    return found


def unit_of(rating: Rating) -> Unit:
    """Return the unit of ``rating``."""
    if rating.kind == "choice":
        return rating.item, "", ""
    return rating.item, rating.arm, rating.fact


def code_of(rating: Rating, arms: Sequence[str]) -> float:
    """Return ``rating`` as a number; NaN for "cannot tell"."""
    if rating.kind == "choice":
        return float(len(arms) if rating.tie else arms.index(rating.arm))
    if rating.kind == "facts":
        return {"yes": 1.0, "no": 0.0}.get(rating.value, np.nan)
    return float(rating.value)


def again_of(ratings: Sequence[Rating]) -> dict[str, list[tuple[Rating, Rating]]]:
    """Return the pairs of first and second rating of the same unit by rater."""
    first: dict[tuple[str, Unit], Rating] = {}
    pairs: dict[str, list[tuple[Rating, Rating]]] = {}
    for rating in sorted(ratings, key=lambda r: r.repeat):
        before = first.setdefault((rating.rater, unit_of(rating)), rating)
        if before is not rating:
            pairs.setdefault(rating.rater, []).append((before, rating))
    return pairs


def human_values(
    ratings: Sequence[Rating], study: RatingStudy | None = None
) -> dict[Pictured, float]:
    """Return people's value of each picture, over raters.

    It is the share of raters who chose it (a tie is half a choice of each), the mean score, or the
    mean share of its facts that hold. A fact whose parent a rater denied counts as not satisfied,
    as in the score card; facts that a rater could not tell are left out, and so are raters who did
    not finish the picture.
    """
    kind = kind_of(ratings)
    first = first_of(ratings)
    if kind == "choice":
        return _chosen(first)
    if kind == "score":
        return _means(((r.item, r.arm), float(r.value)) for r in first)
    asked = {} if study is None else {(t.item, t.candidates[0].arm): t.facts for t in study.tasks}
    said: dict[tuple[str, Pictured], dict[str, str]] = {}
    for r in first:
        said.setdefault((r.rater, (r.item, r.arm)), {})[r.fact] = r.value
    shares = (
        (pictured, _recall(values, asked.get(pictured))) for (_, pictured), values in said.items()
    )
    return _means((pictured, share) for pictured, share in shares if share is not None)


def _chosen(ratings: Iterable[Rating]) -> dict[Pictured, float]:
    votes: dict[str, defaultdict[str, float]] = {}
    shown: dict[str, set[str]] = {}
    for rating in ratings:
        count = votes.setdefault(rating.item, defaultdict(float))
        for arm in rating.shown if rating.tie else (rating.arm,):
            count[arm] += 0.5 if rating.tie else 1.0
        shown.setdefault(rating.item, set()).update(filter(None, (*rating.shown, rating.arm)))
    return {
        (item, arm): votes[item][arm] / sum(votes[item].values())
        for item, arms in shown.items()
        for arm in sorted(arms)
    }


def _recall(values: Mapping[str, str], facts: Sequence[Fact] | None) -> float | None:
    if facts is None:
        known = [value for value in values.values() if value != "cannot tell"]
        return known.count("yes") / len(known) if known else None
    void = void_facts(facts, values)
    if any(fact.id not in values and fact.id not in void for fact in facts):
        return None
    told = [f.id for f in facts if f.id in void or values[f.id] != "cannot tell"]
    yes = sum(fact not in void and values[fact] == "yes" for fact in told)
    return yes / len(told) if told else None


def _means(pairs: Iterable[tuple[Pictured, float]]) -> dict[Pictured, float]:
    found: dict[Pictured, list[float]] = {}
    for pictured, value in pairs:
        found.setdefault(pictured, []).append(value)
    return {pictured: sum(values) / len(values) for pictured, values in found.items()}
