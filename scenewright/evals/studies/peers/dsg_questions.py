"""The graph of questions about a text, by a language model in three steps (Cho et al., 2024,
Sec. 3.2): tuples, what each depends on, and a yes/no question for each.

What comes back is read as the released sets are (:mod:`scenewright.evals.datasets.dsg`): a tuple
without a question is left out and its own parents stand in for it; dependencies on what is not
there, on themselves and in circles are cut. All of it is counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.core.facts import Fact
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.dsg import facts_of_rows
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.studies.peers.item_questions import ItemQuestions
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

PROMPTS = TUPLES, DEPENDENCIES, QUESTIONS = "dsg_tuples", "dsg_dependencies", "dsg_questions"
CATEGORIES = ("entity", "attribute", "relation", "action", "global", "other")

NO_ID = "tuple without a number of its own"
NO_ARGUMENTS = "tuple that states nothing"
UNKNOWN_CATEGORY = "tuple of an unknown category"
SAME_TUPLE = "tuple that was there already"
NO_PARENT = "dependency that is no number"


class DsgMaker:
    """Implements :class:`~scenewright.evals.studies.peers.item_questions.QuestionMaker`."""

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        """``ledger`` keeps what ``model`` says."""
        self._ledger = ledger
        self._model = model

    @property
    def fingerprint(self) -> str:
        """Model and prompts."""
        told = "\0".join((self._model.fingerprint, *(load_prompt(name).hash for name in PROMPTS)))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def expected(self, about: str) -> dict[str, ExpectedUsage]:
        """Tuples, dependencies and questions."""
        return expected_steps(self._model, PROMPTS, about)

    async def make(self, about: str) -> ItemQuestions:
        """The questions with their parents. Raises ``MetricError`` where the model gives none."""
        steps = Steps(self._ledger, self._model)
        tuples: dict[str, str] = await steps.ask(TUPLES, read_tuples, text=as_data(about))
        facts: tuple[Fact, ...] = ()
        if tuples:
            shown = as_data([{"id": int(at), "tuple": words} for at, words in tuples.items()])
            ids = [int(at) for at in tuples]
            parents: dict[str, list[int]] = await steps.ask(
                DEPENDENCIES, _parents_of(ids), text=as_data(about), tuples=shown,
            )  # fmt: skip
            questions: dict[str, str] = await steps.ask(
                QUESTIONS, _questions_of(ids), text=as_data(about), tuples=shown,
            )  # fmt: skip
            rows = [
                (
                    "dsg",
                    {
                        "proposition_id": at,
                        "tuple": words,
                        "dependency": ",".join(map(str, parents.get(at, []))) or "0",
                        "question_natural_language": questions.get(at, ""),
                    },
                )
                for at, words in tuples.items()
            ]
            try:
                _, facts = facts_of_rows(rows, steps.dropped)
            except (DatasetError, ValueError) as error:
                raise MetricError(f"the tuples make no scene: {error}") from error
        return ItemQuestions(facts, "chat", dict(steps.dropped), steps.usd, steps.tokens)


def read_tuples(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
    """Number → tuple in DSG's own form, ``attribute - color (dog, red)``; the others are counted.

    Raises ``ValueError`` for a reply without a list.
    """
    found: dict[str, str] = {}
    for row in rows_in(given, "tuples", lost):
        number, category = row.get("id"), plain(row.get("category")).casefold()
        kind = plain(row.get("kind")).translate(_NO_BRACKETS) or "-"
        values = row.get("arguments")
        parts = [plain(one) for one in values] if isinstance(values, list) else []
        # A comma or a bracket within a part would divide it.
        parts = [part.replace(",", "").translate(_NO_BRACKETS).strip() for part in parts]
        words = f"{category} - {kind} ({', '.join(part for part in parts if part)})"
        whole = isinstance(number, int) and not isinstance(number, bool) and number > 0
        if not whole or str(number) in found:
            lost[NO_ID] += 1
        elif category not in CATEGORIES:
            lost[UNKNOWN_CATEGORY] += 1
        elif not any(parts):
            lost[NO_ARGUMENTS] += 1
        elif words.casefold() in {known.casefold() for known in found.values()}:
            lost[SAME_TUPLE] += 1
        else:
            found[str(number)] = words
    return found


_NO_BRACKETS = str.maketrans("", "", "()")


def _parents_of(ids: Sequence[int]) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, list[int]]:
        rows = numbered_rows(rows_in(given, "dependencies", lost), "id", ids, lost)
        found: dict[str, list[int]] = {}
        for number, row in rows.items():
            values = row.get("parents")
            parents = values if isinstance(values, list) else []
            whole = [one for one in parents if isinstance(one, int) and not isinstance(one, bool)]
            if len(whole) < len(parents) or not isinstance(values, list):
                lost[NO_PARENT] += max(1, len(parents) - len(whole))
            found[str(number)] = [one for one in whole if one >= 0]
        return found

    return read


def _questions_of(ids: Sequence[int]) -> Any:
    def read(given: Mapping[str, Any], lost: Counter[str]) -> dict[str, str]:
        rows = numbered_rows(rows_in(given, "questions", lost), "id", ids, lost)
        return {str(number): plain(row.get("question")) for number, row in rows.items()}

    return read
