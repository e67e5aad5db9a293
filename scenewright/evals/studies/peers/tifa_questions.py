"""TIFA's questions about a text, by a language model (Hu et al., 2023, Sec. 3).

Written by one call (prompt ``tifa_questions``), then filtered: a question stays only if the model,
given the text alone, picks the expected choice (``tifa_filter``; the choices are dealt anew, since
the right one tends to come first), and with ``both`` also answers it without choices in the same
words (``tifa_open``).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.core.facts import Fact
from scenewright.core.formats.published_questions import NUMBERS, TYPES
from scenewright.evals.datasets.tifa import FEW_CHOICES, TWICE, WRONG_ANSWER, facts_of_questions
from scenewright.evals.metrics.options import text
from scenewright.evals.studies.peers.item_questions import ItemQuestions, dealt
from scenewright.evals.studies.peers.writing import (
    Steps,
    expected_steps,
    numbered_rows,
    plain,
    rows_in,
)
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.evals.annotation.voters import TextModel
    from scenewright.evals.store.ledger import Ledger

PROMPTS = QUESTIONS, FILTER, OPEN = "tifa_questions", "tifa_filter", "tifa_open"
FILTERS = ("choice", "both", "none")
FREE_FORM_F1 = 0.7
"""Least F1 of the words of a free answer with those of the expected one."""
_MERGED = {"animal": "animal/human", "human": "animal/human"}

NO_QUESTION = "question without words"
UNKNOWN_TYPE = "question about an unknown type of element"
OTHER_CHOICE = "question that the text answers otherwise"
OTHER_WORDS = "question that the text answers in other words"
_UNUSED = "tifa"


class TifaMaker:
    """Implements :class:`~scenewright.evals.studies.peers.item_questions.QuestionMaker`."""

    def __init__(self, ledger: Ledger, model: TextModel, filtered: str = "choice") -> None:
        """``filtered``: of :data:`FILTERS`; ``ledger`` keeps what the model says. Raises
        ``MetricError`` for another filter."""
        self._ledger = ledger
        self._model = model
        self._filter = text("filter", filtered, FILTERS)

    @property
    def fingerprint(self) -> str:
        """Model, prompts and filter."""
        prompts = [load_prompt(name).hash for name in PROMPTS]
        told = "\0".join((self._model.fingerprint, self._filter, *prompts))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def expected(self, about: str) -> dict[str, ExpectedUsage]:
        """Writing, and the filter's calls."""
        calls = {"none": (QUESTIONS,), "choice": (QUESTIONS, FILTER)}
        return expected_steps(self._model, calls.get(self._filter, PROMPTS), about)

    async def make(self, about: str) -> ItemQuestions:
        """The questions that stay. Raises ``MetricError`` where the model gives none."""
        steps = Steps(self._ledger, self._model)
        rows = await steps.ask(QUESTIONS, read_questions, text=as_data(about))
        facts = facts_of_questions([(_UNUSED, row) for row in rows], None, steps.dropped)
        if facts and self._filter != "none":
            facts = await self._by_choice(steps, about, facts)
        if facts and self._filter == "both":
            facts = await self._by_words(steps, about, facts)
        return ItemQuestions(facts, "chat", dict(steps.dropped), steps.usd, steps.tokens)

    async def _by_choice(self, steps: Steps, about: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        asked = [
            {"number": at, "question": fact.question, "choices": list(dealt(fact).options)}
            for at, fact in enumerate(facts, start=1)
        ]
        said = await steps.ask(
            FILTER, _reader(len(facts), "choice"), text=as_data(about), questions=as_data(asked),
        )  # fmt: skip
        kept = tuple(
            fact
            for at, fact in enumerate(facts, start=1)
            if said.get(str(at), "").casefold() == fact.expected.casefold()
        )
        # Those without an answer were counted as such when the reply was read.
        steps.dropped[OTHER_CHOICE] += sum(str(at + 1) in said for at in range(len(facts))) - len(
            kept
        )
        steps.dropped += Counter()
        return kept

    async def _by_words(self, steps: Steps, about: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        free = [fact for fact in facts if not fact.is_binary]
        if not free:
            return tuple(facts)
        asked = [{"number": at, "question": fact.question} for at, fact in enumerate(free, 1)]
        said = await steps.ask(
            OPEN, _reader(len(free), "answer"), text=as_data(about), questions=as_data(asked),
        )  # fmt: skip
        lost = set()
        for at, fact in enumerate(free, start=1):
            answer = said.get(str(at))
            if answer is None or word_f1(answer, fact.expected) < FREE_FORM_F1:
                lost.add(fact.id)
                steps.dropped[OTHER_WORDS] += answer is not None
        steps.dropped += Counter()
        return tuple(fact for fact in facts if fact.id not in lost)


def read_questions(given: Mapping[str, Any], lost: Counter[str]) -> list[dict[str, Any]]:
    """The usable questions of a reply, in the form of the release; the others are counted.

    Raises ``ValueError`` for a reply without a list.
    """
    kept: list[dict[str, Any]] = []
    seen: set[str] = set()
    for row in rows_in(given, "questions", lost):
        question, element = plain(row.get("question")), plain(row.get("element"))
        kind = plain(row.get("type")).casefold()
        choices = row.get("choices")
        options = [plain(one) for one in choices] if isinstance(choices, list) else []
        options = list(dict.fromkeys(one for one in options if one))
        answer = plain(row.get("answer"))
        exact = next((one for one in options if one.casefold() == answer.casefold()), "")
        if not question:
            lost[NO_QUESTION] += 1
        elif kind not in TYPES:
            lost[UNKNOWN_TYPE] += 1
        elif len({one.casefold() for one in options}) < 2:
            lost[FEW_CHOICES] += 1
        elif not exact:
            lost[WRONG_ANSWER] += 1
        elif question.casefold() in seen:
            lost[TWICE] += 1
        else:
            seen.add(question.casefold())
            kept.append(
                {
                    "question": question,
                    "choices": options,
                    "answer": exact,
                    "element_type": _MERGED.get(kind, kind),
                    "element": element,
                }
            )
    return kept


def _reader(count: int, key: str) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
        rows = rows_in(given, "answers", lost)
        found = numbered_rows(rows, "number", range(1, count + 1), lost)
        # Kept as JSON, whose keys are texts.
        return {str(number): plain(row.get(key)) for number, row in found.items()}

    return read


def word_f1(said: str, expected: str) -> float:
    """F1 of the words of two answers, in [0, 1]; number words count as digits."""
    one, other = _bag(said), _bag(expected)
    shared = (one & other).total()
    return 2.0 * shared / (one.total() + other.total()) if shared else 0.0


def _bag(words: str) -> Counter[str]:
    found = re.findall(r"[\w'-]+", words.casefold())
    return Counter(NUMBERS.get(word, word) for word in found)
