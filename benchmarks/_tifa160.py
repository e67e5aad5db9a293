"""TIFA160 with human ratings: what three released judges answered, and what people thought.

The release of Cho et al., "Davidsonian Scene Graph" (ICLR 2024): 160 prompts drawn by five
text-to-image models, about five raters an image (1–5), and the yes/no answers of three judges to
the same questions. It is read where it lies, in four kinds of files:

- ``tifa160-likert-anns.csv``: one rating a row;
- ``dsg-1k-anns.csv``: the category of each question. (``tifa160-dev-anns.csv`` numbers other
  questions, so it does not fit the answers.)
- ``vqa_answers_release/JUDGE_dsg.csv``: one answer a row, with the questions it depends on.

Quirks of the release. One prompt was never asked: its five images have ratings and no questions.
One prompt has a dependency that is no number; as in the published evaluation all its questions
then count as independent. Some answers are neither yes nor no (digits, an empty text): NaN here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dsg"
SPLIT = "tifa160"
JUDGES = ("mplug", "instructblip", "pali17b")
PUBLISHED = {
    "spearman": {"mplug": 0.463, "instructblip": 0.442, "pali17b": 0.571},
    "kendall": {"mplug": 0.380, "instructblip": 0.364, "pali17b": 0.458},
}
"""With the mean rating, to three decimals (Cho et al., 2024, item-level correlation on TIFA160)."""
UNASKED = 0.0
"""Score of an image without questions in the published evaluation."""

_RATINGS = ("dsg_prompt_split", "t2i_model", "item_id", "worker_id", "answer")
_CATEGORIES = ("item_id", "proposition_id", "category_broad")
_ANSWERS = (
    *("dsg_prompt_split", "t2i_model", "item_id", "question", "question_id"),
    *("dependency_id", "answer"),
)


class DataError(ValueError):
    """A file of the release that cannot be used; names the file, the line and the fault."""


@dataclass(frozen=True, slots=True)
class Question:
    """One yes/no question of a prompt; yes says that the fact holds."""

    id: int
    """Its number within the prompt, from 1."""
    text: str
    """As the judges were asked."""
    category: str
    """``entity``, ``attribute``, ``relation``, ``action``, ``global`` or ``other``."""
    parents: tuple[int, ...]
    """Places in the image's ``questions`` that it depends on; all lie before it."""


@dataclass(frozen=True)
class RatedImage:
    """One image: its questions, the judges' answers and the human rating."""

    prompt: str
    """Id of the prompt."""
    model: str
    """The text-to-image model that drew it."""
    questions: tuple[Question, ...]
    """Parents before their children; empty if it was never asked about."""
    answers: NDArray[np.float64]
    """(n_questions, n_judges) in the order of ``JUDGES``: 1 yes, 0 no, NaN neither."""
    ratings: tuple[int, ...]
    """One a rater, 1 (worst) to 5."""

    @cached_property
    def rating(self) -> float:
        """Mean over the raters."""
        return float(np.mean(self.ratings))


def published_score(image: RatedImage, judge: int) -> float:
    """The score of one judge as in the published evaluation, in [0, 1].

    The mean over questions of *said yes, and so to every parent*. Parents count by what was
    answered, even where they were set to 0 themselves; an answer that is neither yes nor no
    counts as no; an image without questions scores ``UNASKED``.
    """
    if not image.questions:
        return UNASKED
    said = image.answers[:, judge] == 1.0
    kept = [said[at] and all(said[list(q.parents)]) for at, q in enumerate(image.questions)]
    return float(np.mean(kept))


def read_answer(text: str) -> float:
    """1 if the first word is yes, 0 if it is no, else NaN."""
    first = text.strip().lower().split()[:1]
    return {"yes": 1.0, "no": 0.0}.get(first[0] if first else "", float("nan"))


def load(folder: Path = DATA) -> list[RatedImage]:
    """All rated images in the release's ``folder``, by prompt and model.

    Raises ``DataError`` for a missing file or column, a rating outside 1–5, a repeated row, a
    question without category, a dependency on a question that is not there or on itself in a
    circle, judges that were not asked the same, and answers about an image that nobody rated.
    """
    ratings = _ratings(folder / "tifa160-likert-anns.csv")
    categories = _categories(folder / "dsg-1k-anns.csv")
    tables = [_answers(folder / "vqa_answers_release" / f"{judge}_dsg.csv") for judge in JUDGES]
    for judge, table in zip(JUDGES[1:], tables[1:], strict=True):
        asked = {key: {id_: row[:2] for id_, row in rows.items()} for key, rows in table.items()}
        first = {key: {id_: row[:2] for id_, row in r.items()} for key, r in tables[0].items()}
        for key in sorted(asked.keys() | first.keys()):
            if asked.get(key) != first.get(key):
                raise DataError(f"{judge} and {JUDGES[0]} were not asked the same about {key}")
    unrated = sorted(tables[0].keys() - ratings.keys())
    if unrated:
        raise DataError(f"nobody rated {unrated[0]}, which the judges were asked about")
    return [
        _image(key, ratings[key], [table.get(key, {}) for table in tables], categories)
        for key in sorted(ratings)
    ]


Key = tuple[str, str]
"""Prompt and text-to-image model."""
_Row = tuple[str, str, float]
"""Question, dependencies as written, answer."""


def _image(
    key: Key,
    ratings: dict[str, int],
    tables: list[dict[int, _Row]],
    categories: dict[tuple[str, int], str],
) -> RatedImage:
    prompt, model = key
    rows = tables[0]
    parents = _dependencies(key, {id_: row[1] for id_, row in rows.items()})
    try:
        order = list(TopologicalSorter(parents).static_order())
    except CycleError as error:
        raise DataError(f"{key}: questions depend on each other in a circle: {error}") from error
    questions = []
    for id_ in order:
        if (prompt, id_) not in categories:
            raise DataError(f"question {id_} of {prompt} has no category in dsg-1k-anns.csv")
        places = tuple(order.index(parent) for parent in parents[id_])
        questions.append(Question(id_, rows[id_][0], categories[prompt, id_], places))
    answers = np.array([[table[id_][2] for table in tables] for id_ in order], float)
    return RatedImage(
        prompt=prompt,
        model=model,
        questions=tuple(questions),
        answers=answers.reshape(len(order), len(tables)),
        ratings=tuple(ratings.values()),
    )


def _dependencies(key: Key, written: dict[int, str]) -> dict[int, tuple[int, ...]]:
    """Question → the questions it depends on; 0 is the root, and a question is no parent of
    itself."""
    found: dict[int, tuple[int, ...]] = {}
    for id_, text in written.items():
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdecimal() for part in parts):
            return dict.fromkeys(written, ())
        numbers = [int(part) for part in parts]
        lost = [number for number in numbers if number and number not in written]
        if lost:
            raise DataError(f"{key}: question {id_} depends on {lost[0]}, which is not there")
        found[id_] = tuple(number for number in numbers if number not in (0, id_))
    return found


def _ratings(path: Path) -> dict[Key, dict[str, int]]:
    found: dict[Key, dict[str, int]] = {}
    for place, row in _rows(path, _RATINGS):
        if row["answer"] not in ("1", "2", "3", "4", "5"):
            raise DataError(f"{place}: the rating is {row['answer']!r}, not 1 to 5")
        raters = found.setdefault((row["item_id"], row["t2i_model"]), {})
        if row["worker_id"] in raters:
            raise DataError(f"{place}: rater {row['worker_id']} rated the image twice")
        raters[row["worker_id"]] = int(row["answer"])
    return found


def _categories(path: Path) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for place, row in _rows(path, _CATEGORIES):
        if row["item_id"].startswith(f"{SPLIT}_"):
            number = _number(place, "proposition_id", row["proposition_id"])
            found[row["item_id"], number] = row["category_broad"].strip()
    return found


def _answers(path: Path) -> dict[Key, dict[int, _Row]]:
    found: dict[Key, dict[int, _Row]] = {}
    for place, row in _rows(path, _ANSWERS):
        if row["dsg_prompt_split"] != SPLIT:
            continue
        number = _number(place, "question_id", row["question_id"])
        rows = found.setdefault((row["item_id"], row["t2i_model"]), {})
        if number in rows:
            raise DataError(f"{place}: question {number} is answered twice for one image")
        rows[number] = (row["question"], row["dependency_id"], read_answer(row["answer"]))
    if not found:
        raise DataError(f"{path} has no answers of the split {SPLIT}")
    return found


def _number(place: str, column: str, text: str) -> int:
    if not text.isdecimal():
        raise DataError(f"{place}: {column} is {text!r}, not a number")
    return int(text)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, row) of each line of a CSV file that has ``columns``."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            lost = [name for name in columns if name not in (reader.fieldnames or ())]
            if lost:
                raise DataError(f"{path} has no column {', '.join(lost)}")
            for row in reader:
                place = f"{path}, line {reader.line_num}"
                if any(row[name] is None for name in columns):
                    raise DataError(f"{place} is cut off: it has too few fields")
                yield place, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no CSV file: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
