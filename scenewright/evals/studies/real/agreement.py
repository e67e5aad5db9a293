"""Whether scores rank pictures as people do (REAL, Sec. 4.3): Spearman's rho and Kendall's τ.

People's label of a picture is a number, or made of their answers: each question's majority vote is
its truth, and the picture's label the share of its questions whose truth is yes.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from scenewright.evals.statistics.correlation import correlate
from scenewright.evals.statistics.figures import RESAMPLES, Figure
from scenewright.evals.studies.real.schema import SchemaError

_ARM = "real"
_YES, _NO = {"yes", "true", "1"}, {"no", "false", "0"}


class Agreement(BaseModel):
    """One way of scoring beside the people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The way, for example ``s_att`` or ``gpt_score``."""
    spearman: Figure
    """Spearman's rho with its 95 % interval over pictures; ``n`` counts those that both know."""
    kendall: Figure
    """Kendall's τ-b, likewise."""
    unscored: int
    """Labelled pictures without this score."""


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """What one person answered to one question about one picture."""

    image: str
    """The picture."""
    question: str
    """The question."""
    yes: bool
    """What they said."""


def labels_of(answers: Iterable[HumanAnswer]) -> dict[str, float]:
    """Picture → share of its questions to which most people said yes.

    A question on which people are split evenly has no majority: it counts a half.
    """
    votes: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        votes[answer.image][answer.question].append(answer.yes)
    return {
        image: sum(_majority(said) for said in questions.values()) / len(questions)
        for image, questions in votes.items()
    }


def _majority(votes: Sequence[bool]) -> float:
    yes = 2 * sum(votes) - len(votes)
    return 0.5 if yes == 0 else float(yes > 0)


def agreement(
    scores: Mapping[str, Mapping[str, float | None]],
    labels: Mapping[str, float],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Agreement]:
    """One line a way of scoring: name → picture → score, against the ``labels`` of pictures.

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
    """The labels of a file of CSV or JSON lines: ``image`` with ``label`` (a number), or with
    ``question`` and ``answer`` (yes or no), one line a person.

    Raises ``SchemaError`` with the line for what cannot be read, for a file of both kinds, and for
    a picture that has two numbers.
    """
    file = Path(path)
    answers: list[HumanAnswer] = []
    numbers: dict[str, float] = {}
    for place, row in _rows(file):
        image = str(row.get("image") or "").strip()
        if not image:
            raise SchemaError(f"{file}, {place}: image is missing")
        if row.get("label") not in (None, ""):
            if image in numbers:
                raise SchemaError(f"{file}, {place}: {image} has two labels: give one")
            numbers[image] = _number(row["label"], f"{file}, {place}")
            continue
        question, said = str(row.get("question") or ""), str(row.get("answer")).strip().lower()
        if not question or said not in _YES | _NO:
            raise SchemaError(
                f"{file}, {place}: give label (a number), or question with answer (yes or no)"
            )
        answers.append(HumanAnswer(image, question, said in _YES))
    if numbers and answers:
        raise SchemaError(f"{file} has labels and answers: give one of the two")
    if not numbers and not answers:
        raise SchemaError(f"{file} has no labels")
    return numbers or labels_of(answers)


def _number(value: Any, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SchemaError(f"{place}: label is {value!r}: give a number")
    return number


def _rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{file} cannot be read: {error}") from error
    if file.suffix.lower() == ".csv":
        table = csv.DictReader(text.splitlines())
        return [(f"line {table.line_num}", dict(row)) for row in table]
    found: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise SchemaError(f"{file}, line {number}: no JSON ({error})") from error
            if not isinstance(row, dict):
                raise SchemaError(f"{file}, line {number}: no JSON object")
            found.append((f"line {number}", row))
    return found
