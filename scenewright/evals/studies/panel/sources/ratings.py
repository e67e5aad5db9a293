"""What people said of the pictures of an evaluation, joined to its table of answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scenewright.agents.judges.replay import Row, Table, TableError, read_table
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

_COLUMNS = ("item", "arm", "model", "round", "rater", "rating", "value", "kind")


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture of an evaluation: what ratings may name it by."""

    item: str
    """The item."""
    arm: str
    """The arm."""
    model: str
    """What counts as the model."""
    round: int
    """The round."""
    kept: bool
    """Whether the arm gives it: ratings that name no round are of it."""


@dataclass(frozen=True, slots=True)
class _Said:
    item: str
    arm: str
    model: str
    round: int | None
    rater: str
    fact: str
    """Empty where the whole picture was rated."""
    value: float
    place: str


def with_ratings(
    table: AnswerTable, shown: Sequence[Shown], path: str | Path
) -> tuple[AnswerTable, tuple[str, ...]]:
    """``table`` with what people said in the CSV or parquet file ``path``; and what to know of it.

    ``shown`` tells of each image. The file has the columns item, arm or model (neither: where each
    item has one picture), rating, and rater and round if you like; or it is what ``scenewright rate
    export`` wrote: scores are then ratings, and the majority's yes or no to a fact is its truth.
    Raises ``PanelStudyError`` with the line for what does not fit, and where no picture is rated.
    """
    file = Path(path)
    said = _read(file)
    place: dict[tuple[int, str], int] = {}
    for row, fact in enumerate(table.facts):
        place[fact.image, fact.id] = row
    ratings: dict[int, dict[str, float]] = {}
    votes: dict[int, dict[str, float]] = {}
    strange = again = 0
    first = ""
    for one in said:
        images = _images(shown, one)
        if len(images) > 1:
            raise PanelStudyError(
                f"{file}, {one.place}: {one.item} has {len(images)} pictures: say which one by the "
                "columns arm (or model) and round"
            )
        row_of = place.get((images[0], one.fact)) if images and one.fact else None
        if not images or (one.fact and row_of is None):
            strange += 1
            first = first or one.place
            continue
        target = (
            ratings.setdefault(images[0], {}) if row_of is None else votes.setdefault(row_of, {})
        )
        # A rater who met a picture twice counts once, by what was said first.
        again += one.rater in target
        target.setdefault(one.rater, one.value)
    if not ratings and not votes:
        raise PanelStudyError(
            f"{file}: none of its {len(said)} rows is of a picture of this evaluation (the first: "
            f"{first}): items are named like {table.images[0].item!r}, arms like "
            f"{shown[0].arm!r}, models like {shown[0].model!r}"
        )
    notes = []
    if strange:
        notes.append(
            f"{strange} of {len(said)} rows of {file.name} are of no picture or fact of this "
            f"evaluation (the first: {first})."
        )
    if again:
        notes.append(f"{again} rows of {file.name} repeat a rater's earlier one and do not count.")
    truth = table.truth.copy()
    for row, by_rater in votes.items():
        share = float(np.mean(list(by_rater.values())))
        truth[row] = math.nan if share == 0.5 else float(share > 0.5)
    if votes:
        notes.append(
            f"{int((~np.isnan(truth)).sum())} facts have the truth that most raters said; ties "
            "have none."
        )
    images_now = tuple(
        replace(image, ratings=tuple(ratings[at].values())) if at in ratings else image
        for at, image in enumerate(table.images)
    )
    return replace(table, images=images_now, truth=truth), tuple(notes)


def _images(shown: Sequence[Shown], said: _Said) -> list[int]:
    return [
        at
        for at, one in enumerate(shown)
        if one.item == said.item
        and (not said.arm or one.arm == said.arm)
        and (not said.model or one.model == said.model)
        and (one.kept if said.round is None else one.round == said.round)
    ]


def _read(file: Path) -> list[_Said]:
    def lost(columns: frozenset[str]) -> list[str]:
        missing = [] if "item" in columns else ["item"]
        return missing if {"rating", "value"} & columns else [*missing, "rating"]

    try:
        table = read_table(file, file.read_bytes(), _COLUMNS, lost)
    except OSError as error:
        raise PanelStudyError(
            f"the ratings {file} cannot be read: {error.strerror or error}"
        ) from error
    except TableError as error:
        raise PanelStudyError(str(error)) from error
    if "rating" not in table.columns:
        return _exported(file)
    return [_simple(table, row, at) for at, row in enumerate(table.rows)]


def _simple(table: Table, row: Row, at: int) -> _Said:
    def number(name: str) -> float:
        try:
            value = float(row[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise PanelStudyError(str(table.wrong(row, f"{name} is {row[name]!r}: use a number")))
        return value

    if not row["item"]:
        raise PanelStudyError(str(table.wrong(row, "it names no item")))
    return _Said(
        item=row["item"],
        arm=row["arm"],
        model=row["model"],
        round=int(number("round")) if row["round"] else None,
        # Without raters every row is another one's.
        rater=row["rater"] or f"row {at}",
        fact="",
        value=number("rating"),
        place=row.place,
    )


def _exported(file: Path) -> list[_Said]:
    from scenewright.evals.human_ratings.study import RatingError
    from scenewright.evals.human_ratings.table import read_csv

    try:
        rows = read_csv(file)
    except RatingError as error:
        raise PanelStudyError(str(error)) from error
    found = []
    for at, row in enumerate(rows, start=1):
        if row.kind not in ("score", "facts"):
            raise PanelStudyError(
                f"{file} holds ratings of the kind {row.kind}: give scores of pictures, or yes and "
                "no to facts"
            )
        if row.repeat or row.value == "cannot tell":
            continue
        value = float(row.value) if row.kind == "score" else float(row.value == "yes")
        arm = row.arm or (row.shown[0] if row.shown else "")
        fact = row.fact if row.kind == "facts" else ""
        found.append(_Said(row.item, arm, "", None, row.rater, fact, value, f"rating {at}"))
    return found
