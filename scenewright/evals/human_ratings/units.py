"""Ratings as numbers: who said what of which unit, and what people make of each picture.

A unit is what raters are compared on: an item for a choice, a fact of a picture, or a picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.core.facts import Fact
from scenewright.evals.human_ratings.asking import void_facts
from scenewright.evals.human_ratings.study import Kind, RatingError, RatingStudy
from scenewright.evals.human_ratings.table import Rating
from scenewright.evals.statistics.correlation import Pictured
from scenewright.evals.statistics.figures import Array

Unit = tuple[str, str, str]
"""Item, arm and fact; the last ones empty where the kind has none."""


@dataclass(frozen=True, slots=True)
class Units:
    """A table of ratings, first showings only."""

    kind: Kind
    """What was asked."""
    keys: tuple[Unit, ...]
    """What each row is about."""
    items: NDArray[np.intp]
    """Number of each row's item."""
    names: tuple[str, ...]
    """The items."""
    raters: tuple[str, ...]
    """Who the columns are."""
    values: Array
    """(units, raters): number of the arm chosen, 1 or 0 of a fact, or the score; NaN where a
    rater did not rate or could not tell."""
    arms: tuple[str, ...]
    """All arms."""


def kind_of(ratings: Sequence[Rating]) -> Kind:
    """What was asked. Raises ``RatingError`` for no ratings or ratings of several kinds."""
    kinds = {rating.kind for rating in ratings}
    if len(kinds) != 1:
        raise RatingError(
            "there are no ratings yet" if not kinds
            else f"there are ratings of several kinds: {', '.join(sorted(kinds))}; give one"
        )  # fmt: skip
    return kinds.pop()


def arms_of(ratings: Iterable[Rating], study: RatingStudy | None = None) -> tuple[str, ...]:
    """All arms: those of the study, else those of the ratings in the order of the alphabet."""
    if study is not None:
        return study.arms
    return tuple(sorted({arm for r in ratings for arm in (*r.shown, r.arm) if arm}))


def first_of(ratings: Sequence[Rating]) -> list[Rating]:
    """One rating of each rater and unit, of the first showing that the rater rated.

    Facts that were void at the first showing do not come in from the second.
    """
    showing: dict[tuple[str, str, str], bool] = {}
    found: dict[tuple[str, Unit], Rating] = {}
    for rating in sorted(ratings, key=lambda r: r.repeat):
        unit = unit_of(rating)
        if showing.setdefault((rating.rater, *unit[:2]), rating.repeat) == rating.repeat:
            found.setdefault((rating.rater, unit), rating)
    return list(found.values())


def units_of(ratings: Sequence[Rating], study: RatingStudy | None = None) -> Units:
    """The table of ``ratings``, those of :func:`first_of`.

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


def unit_of(rating: Rating) -> Unit:
    """What ``rating`` is about."""
    if rating.kind == "choice":
        return rating.item, "", ""
    return rating.item, rating.arm, rating.fact


def code_of(rating: Rating, arms: Sequence[str]) -> float:
    """``rating`` as a number; NaN for a rater who cannot tell."""
    if rating.kind == "choice":
        return float(arms.index(rating.arm))
    if rating.kind == "facts":
        return {"yes": 1.0, "no": 0.0}.get(rating.value, np.nan)
    return float(rating.value)


def again_of(ratings: Sequence[Rating]) -> dict[str, list[tuple[Rating, Rating]]]:
    """Rater → the pairs of first and second rating of the same unit."""
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
    """What people make of each picture: the share of raters who chose it, the mean score, or the
    mean over raters of the share of its facts that hold.

    A fact that a rater denied the ground of counts as not satisfied, as in the score card; facts
    that a rater could not tell are left out, and so are raters who did not finish the picture.
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
    votes: dict[str, Counter[str]] = {}
    shown: dict[str, set[str]] = {}
    for rating in ratings:
        votes.setdefault(rating.item, Counter())[rating.arm] += 1
        shown.setdefault(rating.item, set()).update((*rating.shown, rating.arm))
    return {
        (item, arm): votes[item][arm] / votes[item].total()
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
