"""TIFA160 with human ratings: what three released judges answered, and what people thought.

The release of Cho et al., "Davidsonian Scene Graph" (ICLR 2024): 160 prompts drawn by five
text-to-image models, about five raters an image (1-5), and the answers of three judges to the
questions of DSG, TIFA and VQ2A. It is read where it lies, in three kinds of files:

- ``tifa160-likert-anns.csv``: one rating a row;
- ``dsg-1k-anns.csv``: the prompts, and the category of each DSG question.
  (``tifa160-dev-anns.csv`` numbers other questions, so it does not fit the answers.)
- ``vqa_answers_release/JUDGE_QUESTIONS.csv``: one answer a row; with the questions that it depends
  on for DSG, and with the choices for TIFA by PaLI.

Quirks of the release. One prompt was never asked the questions of DSG: its five images have
ratings and no facts. One prompt has a dependency that is no number; as in the published evaluation
all its questions then count as independent. Some answers are neither yes nor no (digits, an empty
text): unscored here. TIFA's and VQ2A's questions were asked about two more models, whose images
nobody rated: left out. The answers that TIFA expects are not part of it: see :mod:`.tifa_key`.

The answers that TIFA's questions expect, where a release has the choices but not the key.

The DSG release holds what judges said to TIFA's questions about TIFA160, and the choices (in the
text that PaLI was given), but not which choice is right. It follows from how the questions were
made (Hu et al., 2023): of the prompt, with the right choice first, except that numbers are in their
own order; and kept only if a language model that reads the prompt picks the same. So the first
choice is expected unless the prompt says another.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scenewright.core.facts import FactKind
from scenewright.core.formats.published_questions import NUMBERS, YES_OR_NO, read_choices
from scenewright.evals.studies.panel.table import (
    AnswerTable,
    FactRow,
    ImageRow,
    JudgeColumn,
    PanelStudyError,
)

_COUNTED = 3
"""Words after a number that may name what is counted."""
_PLAIN = frozenset(
    {"a", "an", "the", "is", "are", "what", "how", "many", "there", "in", "on", "of", "or", "and"}
)


def expected_answer(question: str, choices: Sequence[str], prompt: str) -> str:
    """Return the choice that ``prompt`` makes right.

    - yes, where yes and no are the choices;
    - of numbers, the one that the prompt gives to what the question names;
    - the first, unless the sentence of the prompt that is closest to the question names another
      and not the first.

    Raises ``ValueError`` without choices.
    """
    if not choices:
        raise ValueError(f"{question!r} has no choices")
    if tuple(choices) == YES_OR_NO:
        return "yes"
    asked = set(_words(question)) - _PLAIN
    if all(choice.isdecimal() for choice in choices):
        return _count(asked, choices, prompt)
    sentences = [_words(part) for part in re.split(r"[.!?]\s", prompt)]
    near = max(sentences, key=lambda words: len(asked & set(words)))
    named = [choice for choice in choices if _within(_words(choice), near)]
    return choices[0] if not named or choices[0] in named else named[0]


def _count(asked: set[str], choices: Sequence[str], prompt: str) -> str:
    words = [NUMBERS.get(word, word) for word in _words(prompt)]
    places = [at for at, word in enumerate(words) if word in choices]
    if not places:
        return choices[0]
    return words[max(places, key=lambda at: len(asked & set(words[at + 1 : at + 1 + _COUNTED])))]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _within(part: list[str], whole: list[str]) -> bool:
    n = len(part)
    return any(whole[at : at + n] == part for at in range(len(whole) - n + 1))


Questions = Literal["dsg", "tifa", "vq2a"]
"""Whose questions: all three sets are about the same images."""
QUESTIONS: tuple[Questions, ...] = ("dsg", "tifa", "vq2a")
SPLIT = "tifa160"
JUDGES = ("mplug", "instructblip", "pali17b")
"""mPLUG-large, InstructBLIP (Vicuna-7B) and PaLI-17B."""
WITH_CHOICES = "pali17b"
"""The judge whose file holds TIFA's choices."""
KIND_OF: Mapping[str, FactKind] = {
    "entity": "object",
    "global": "object",
    "attribute": "attribute",
    "other": "attribute",
    "relation": "relation",
    "action": "relation",
}
"""Category of a DSG question → kind of the fact."""

_RATINGS = ("dsg_prompt_split", "t2i_model", "item_id", "worker_id", "answer")
_PROMPTS = ("item_id", "text", "proposition_id", "category_broad")
_ANSWERS = ("dsg_prompt_split", "t2i_model", "item_id", "question", "answer")
_DSG_ANSWERS = (*_ANSWERS, "question_id", "dependency_id")

Key = tuple[str, str]
"""Prompt and text-to-image model."""


@dataclass(slots=True)
class _Asked:
    """A question with what each judge said."""

    question: str
    depends: str = "0"
    """As written."""
    said: list[float] = field(default_factory=list)


_Table = dict[Key, dict[int, _Asked]]
"""Image → number of the question → question."""


def load_dsg_release(folder: Path, questions: Questions = "dsg") -> AnswerTable:
    """Return the answers of all judges to one set of questions, by prompt and model.

    Facts have the question's number as id; for DSG its category as ``group``, for TIFA ``yes or
    no`` or ``choice``, and otherwise nothing. ``said`` is 1 for the expected answer, 0 for another,
    NaN for one that cannot be used. Kinds are known for DSG alone; all else is ``object``.

    Raises ``PanelStudyError`` for a missing file or column, a rating outside 1-5, a repeated row, a
    DSG question without category, a dependency on a question that is not there or in a circle,
    judges that were not asked the same, and answers about an image that nobody rated.
    """
    if questions not in QUESTIONS:
        raise PanelStudyError(f"unknown questions {questions!r}: use one of {', '.join(QUESTIONS)}")
    ratings = _ratings(folder / "tifa160-likert-anns.csv")
    prompts, categories = _prompts(folder / "dsg-1k-anns.csv")
    asked = _answered(folder / "vqa_answers_release", questions, prompts)
    drew = {model for _, model in ratings}
    unrated = sorted(key for key in asked.keys() - ratings.keys() if key[1] in drew)
    if unrated:
        raise PanelStudyError(
            f"{unrated[0]}, which the judges were asked about, has no rating: take all files of "
            "one release"
        )
    images: list[ImageRow] = []
    facts: list[FactRow] = []
    said: list[list[float]] = []
    for key in sorted(ratings):
        prompt, model = key
        mine = asked.get(key, {})
        parents = _dependencies(key, mine)
        try:
            order = list(TopologicalSorter(parents).static_order())
        except CycleError as error:
            raise PanelStudyError(
                f"{key}: questions depend on each other in a circle: {error.args[1]}"
            ) from error
        start = len(facts)
        for number in order:
            group = _group(questions, mine[number].question, categories, (prompt, number))
            facts.append(
                FactRow(
                    id=str(number),
                    image=len(images),
                    kind=KIND_OF.get(group, "object"),
                    group=group,
                    question=read_choices(mine[number].question)[0],
                    parents=tuple(start + order.index(parent) for parent in parents[number]),
                )
            )
            said.append(mine[number].said)
        images.append(ImageRow(f"{prompt}/{model}", prompt, model, None, ratings[key]))
    return AnswerTable(
        name=f"TIFA160 with the questions of {questions.upper()}",
        judges=tuple(JudgeColumn(judge) for judge in JUDGES),
        images=tuple(images),
        facts=tuple(facts),
        said=np.array(said, float).reshape(len(facts), len(JUDGES)),
        asked=np.ones((len(facts), len(JUDGES)), bool),
    )


def read_answer(text: str) -> float:
    """1 if the first word is yes, 0 if it is no, else NaN."""
    first = text.strip().lower().split()[:1]
    return {"yes": 1.0, "no": 0.0}.get(first[0] if first else "", float("nan"))


def _group(
    questions: Questions,
    question: str,
    categories: Mapping[tuple[str, int], str],
    key: tuple[str, int],
) -> str:
    if questions == "vq2a":
        return ""
    if questions == "tifa":
        return "yes or no" if read_choices(question)[1] == YES_OR_NO else "choice"
    if key not in categories:
        raise PanelStudyError(f"question {key[1]} of {key[0]} has no category in dsg-1k-anns.csv")
    return categories[key]


def _answered(folder: Path, questions: Questions, prompts: Mapping[str, str]) -> _Table:
    """Return the answers of all judges, side by side; of TIFA with the choices in the question."""
    tables: dict[str, _Table] = {}
    order = (WITH_CHOICES, *(judge for judge in JUDGES if judge != WITH_CHOICES))
    for judge in order:
        path = folder / f"{judge}_{questions}.csv"
        key = tables.get(WITH_CHOICES) if questions == "tifa" else None
        tables[judge] = _answers(path, questions, prompts, key)
    found = tables[JUDGES[0]]
    for judge in JUDGES[1:]:
        for image in sorted(found.keys() | tables[judge].keys()):
            mine, first = tables[judge].get(image, {}), found.get(image, {})
            if _questions_of(mine) != _questions_of(first):
                raise PanelStudyError(f"{judge} and {JUDGES[0]} were not asked the same: {image}")
            for number, row in mine.items():
                first[number].said += row.said
    return found


def _questions_of(rows: Mapping[int, _Asked]) -> dict[int, tuple[str, str]]:
    return {number: (row.question, row.depends) for number, row in rows.items()}


def _answers(
    path: Path, questions: Questions, prompts: Mapping[str, str], key: _Table | None
) -> _Table:
    """``key`` is the table whose questions hold the choices, if these do not."""
    found: _Table = {}
    for place, row in _rows(path, _DSG_ANSWERS if questions == "dsg" else _ANSWERS):
        if row["dsg_prompt_split"] != SPLIT:
            continue
        image = row["item_id"], row["t2i_model"]
        rows = found.setdefault(image, {})
        # Only DSG numbers its questions; those of the others are in one order in all files.
        number = (
            _number(place, "question_id", row["question_id"])
            if questions == "dsg"
            else len(rows) + 1
        )
        if number in rows:
            raise PanelStudyError(f"{place}: question {number} is answered twice for one image")
        asked = _Asked(row["question"], row.get("dependency_id", "0"))
        if questions == "tifa":
            others = (key or {}).get(image, {})
            asked.question = _with_choices(place, asked.question, others, number)
            if image[0] not in prompts:
                raise PanelStudyError(f"{place}: {image[0]} has no prompt in dsg-1k-anns.csv")
            asked.said = [_as_expected(asked.question, prompts[image[0]], row["answer"])]
        else:
            asked.said = [read_answer(row["answer"])]
        rows[number] = asked
    if not found:
        raise PanelStudyError(f"{path} has no answers of the split {SPLIT}")
    return found


def _with_choices(place: str, question: str, key: Mapping[int, _Asked], number: int) -> str:
    words, choices = read_choices(question)
    if choices:
        return question
    other = key.get(number)
    if other is None or read_choices(other.question)[0] != words:
        raise PanelStudyError(
            f"{place}: {question!r} is not question {number} of {WITH_CHOICES}, whose file holds "
            "the choices"
        )
    return other.question


def _as_expected(question: str, prompt: str, said: str) -> float:
    """As in the published evaluation: the very words, and an empty text is no answer."""
    words, choices = read_choices(question)
    if not said.strip():
        return float("nan")
    return float(said == expected_answer(words, choices, prompt))


def _dependencies(key: Key, asked: Mapping[int, _Asked]) -> dict[int, tuple[int, ...]]:
    """Return the questions that each question depends on.

    0 is the root, and a question is no parent of itself.
    """
    found: dict[int, tuple[int, ...]] = {}
    for number, row in asked.items():
        parts = [part.strip() for part in row.depends.split(",")]
        if not all(part.isdecimal() for part in parts):
            return dict.fromkeys(asked, ())
        numbers = [int(part) for part in parts]
        lost = [parent for parent in numbers if parent and parent not in asked]
        if lost:
            raise PanelStudyError(
                f"{key}: question {number} depends on {lost[0]}, which is not there"
            )
        found[number] = tuple(parent for parent in numbers if parent not in (0, number))
    return found


def _ratings(path: Path) -> dict[Key, tuple[float, ...]]:
    found: dict[Key, dict[str, float]] = {}
    for place, row in _rows(path, _RATINGS):
        if row["answer"] not in ("1", "2", "3", "4", "5"):
            raise PanelStudyError(f"{place}: the rating is {row['answer']!r}, not 1 to 5")
        raters = found.setdefault((row["item_id"], row["t2i_model"]), {})
        if row["worker_id"] in raters:
            raise PanelStudyError(f"{place}: rater {row['worker_id']} rated the image twice")
        raters[row["worker_id"]] = float(row["answer"])
    return {key: tuple(raters.values()) for key, raters in found.items()}


def _prompts(path: Path) -> tuple[dict[str, str], dict[tuple[str, int], str]]:
    """Text of each prompt, and category of each of its questions."""
    texts: dict[str, str] = {}
    categories: dict[tuple[str, int], str] = {}
    for place, row in _rows(path, _PROMPTS):
        if row["item_id"].startswith(f"{SPLIT}_"):
            number = _number(place, "proposition_id", row["proposition_id"])
            texts[row["item_id"]] = row["text"].strip()
            categories[row["item_id"], number] = row["category_broad"].strip()
    return texts, categories


def _number(place: str, column: str, text: str) -> int:
    if not text.isdecimal():
        raise PanelStudyError(f"{place}: {column} is {text!r}, not a number")
    return int(text)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, row) of each line of a CSV file that has ``columns``."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            lost = [name for name in columns if name not in (reader.fieldnames or ())]
            if lost:
                raise PanelStudyError(f"{path} has no column {', '.join(lost)}")
            for row in reader:
                place = f"{path}, line {reader.line_num}"
                if any(row[name] is None for name in columns):
                    raise PanelStudyError(f"{place} is cut off: it has too few fields")
                yield place, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise PanelStudyError(f"{path} is not a valid CSV file: {error}") from error
    except OSError as error:
        raise PanelStudyError(f"{path} cannot be read: {error.strerror or error}") from error
