"""Rank scored pictures within their classes, select from the ranks, and compare with people.

REAL (Section 4.4) compares training sets augmented with the best, the worst and random pictures of
each class; all three are drawn from the same scored pictures. Where the cut falls among equal
scores the selection says nothing about them, and :func:`ties` tells how many there are.

Agreement with people (Section 4.3) is Spearman's rho and Kendall's τ. People's label of a picture
is a number, or made of their answers: each question's majority vote is its truth, and the picture's
label the share of its questions whose truth is yes.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from scenewright.core.validation import FrozenModel
from scenewright.evals.datasets.reading import json_lines, number_of, rows_of, text_of
from scenewright.evals.statistics.figures import RESAMPLES, Figure, correlate
from scenewright.evals.studies.real.schema import SchemaError

How = Literal["high", "random", "low", "none"]
"""Best of each class, any of each class, worst of each class, or no picture at all."""
HOW: tuple[How, ...] = get_args(How)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One picture that can be ranked."""

    image: str
    """Its path or name; not twice in one class."""
    label: str
    """Its class, within which it is ranked."""
    score: float | None
    """Higher is better; None if it is unscored."""
    digest: str = ""
    """Hash of its content, where it is known: equal scores are distinguished by it, so that the
    order does not depend on where the files lie. Else by the hash of ``image``."""


def by_rank(rows: Iterable[Ranked]) -> dict[str, list[Ranked]]:
    """Return by class its scored pictures, best first; classes in the order of their names.

    Equal scores are ordered by hash, so the result does not depend on the order of ``rows``.
    Unscored pictures are left out: they have no rank. A class all of whose pictures are unscored
    stands there empty. Raises ``ValueError`` for a score that is not a finite number, and for a
    picture that stands twice in a class.
    """
    classes: dict[str, list[Ranked]] = {}
    seen: set[tuple[str, str]] = set()
    for row in rows:
        if (row.label, row.image) in seen:
            raise ValueError(f"{row.image} stands twice in the class {row.label!r}")
        seen.add((row.label, row.image))
        inside = classes.setdefault(row.label, [])
        if row.score is None:
            continue
        if not math.isfinite(row.score):
            raise ValueError(f"{row.image} has the score {row.score}: give a number, or none")
        inside.append(row)
    return {label: sorted(classes[label], key=_best_first) for label in sorted(classes)}


def select(rows: Iterable[Ranked], k: int, how: How, seed: int = 0) -> list[Ranked]:
    """Select at most ``k`` scored pictures of each class.

    ``high`` takes the best ones, ``low`` the worst ones (worst first), ``random`` as many of any
    rank, ``none`` nothing. ``high`` and ``low`` share no picture where a class has ``2·k`` scored
    ones. ``random`` depends on ``seed`` alone, not on the order of ``rows`` or on the other
    classes. Unscored pictures are in no selection. Classes follow each other by name. Raises
    ``ValueError`` as :func:`by_rank`, for a negative ``k`` and for another ``how``.
    """
    if k < 0:
        raise ValueError(f"{k} pictures a class cannot be selected")
    if how not in HOW:
        raise ValueError(f"unknown selection {how!r}: use {', '.join(HOW)}")
    if how == "none":
        return []
    found: list[Ranked] = []
    for ranked in by_rank(rows).values():
        if how == "low":
            ranked.reverse()
        elif how == "random":
            ranked.sort(key=lambda row: _hash(f"{seed}\0{row.label}\0{_name(row)}"))
        found.extend(ranked[:k])
    return found


def tied_at(scores: Sequence[float], k: int) -> range:
    """Return the places of ``scores``, in rank order, that share the score at the cut.

    The cut is after the first ``k``; some of the places are before it and some after it. Empty
    where the cut separates two scores, or nothing.
    """
    if not 0 < k < len(scores) or scores[k - 1] != scores[k]:
        return range(0)
    first = next(at for at, score in enumerate(scores) if score == scores[k])
    last = next((at for at in range(k, len(scores)) if scores[at] != scores[k]), len(scores))
    return range(first, last)


def ties(rows: Iterable[Ranked], k: int, how: Literal["high", "low"]) -> dict[str, int]:
    """Return by class how many pictures share the score at the cut of a selection.

    A hash takes some of them and leaves others; 0 where the scores decide.
    """
    found = {}
    for label, ranked in by_rank(rows).items():
        scores = [row.score for row in ranked if row.score is not None]
        found[label] = len(tied_at(scores if how == "high" else scores[::-1], k))
    return found


def _best_first(row: Ranked) -> tuple[float, str, str]:
    assert row.score is not None
    return -row.score, _hash(_name(row)), row.image


def _name(row: Ranked) -> str:
    return row.digest or row.image


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_ARM = "real"
_YES, _NO = {"yes", "true", "1"}, {"no", "false", "0"}


class Agreement(FrozenModel):
    """One way of scoring beside the people."""

    name: str
    """The way, for example ``s_att`` or ``gpt_score``."""
    spearman: Figure
    """Spearman's rho with its 95 % interval over pictures; ``n`` counts those that both know."""
    kendall: Figure
    """Kendall's τ-b, likewise."""
    unscored: int
    """Labelled pictures without this score."""


def labels_of(answers: Iterable[tuple[str, str, bool]]) -> dict[str, float]:
    """Return by picture the share of its questions to which most people said yes.

    ``answers``: (picture, question, whether one person said yes). A question on which people are
    split evenly has no majority: it counts a half.
    """
    votes: dict[tuple[str, str], list[bool]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for image, question, yes in answers:
        votes[image, question].append(yes)
    for (image, _), said in votes.items():
        lead = 2 * sum(said) - len(said)
        shares[image].append(0.5 if lead == 0 else float(lead > 0))
    return {image: fmean(some) for image, some in shares.items()}


def agreement(
    scores: Mapping[str, Mapping[str, float | None]],
    labels: Mapping[str, float],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Agreement]:
    """Compare each way of scoring (name → picture → score) with the ``labels`` of pictures.

    Pictures without a score are counted and left out, never taken as 0. Intervals are of pictures
    drawn with replacement, the same ones for every way.
    """
    people = {(image, _ARM): label for image, label in labels.items()}
    found: list[Agreement] = []
    for name, given in scores.items():
        known = {
            (image, _ARM): score
            for image in labels
            if (score := given.get(image)) is not None and math.isfinite(score)
        }
        ranks = correlate(name, known, people, resamples=resamples, seed=seed)
        found.append(
            Agreement(
                name=name,
                spearman=ranks.spearman,
                kendall=ranks.kendall,
                unscored=len(labels) - len(known),
            )
        )
    return found


def read_labels(path: str | Path) -> dict[str, float]:
    """Read the labels of a file of CSV or JSON lines.

    A line has ``image`` with ``label`` (a number), or with ``question`` and ``answer`` (yes or no),
    one line a person. Raises ``DatasetError`` with the line for what cannot be read, and
    ``SchemaError`` for a file of both kinds and for a picture that has two numbers.
    """
    file = Path(path)
    answers: list[tuple[str, str, bool]] = []
    numbers: dict[str, float] = {}
    rows = rows_of(file, ["image"]) if file.suffix.lower() == ".csv" else json_lines(file)
    for place, row in rows:
        image = text_of(row, "image", place)
        if row.get("label") not in (None, ""):
            if image in numbers:
                raise SchemaError(f"{place}: {image} has two labels: give one")
            numbers[image] = number_of(row["label"], place, "label")
            continue
        question, said = str(row.get("question") or ""), str(row.get("answer")).strip().lower()
        if not question or said not in _YES | _NO:
            raise SchemaError(
                f"{place}: give label (a number), or question with answer (yes or no)"
            )
        answers.append((image, question, said in _YES))
    if numbers and answers:
        raise SchemaError(f"{file} has labels and answers: give one of the two")
    if not numbers and not answers:
        raise SchemaError(f"{file} has no labels")
    return numbers or labels_of(answers)
