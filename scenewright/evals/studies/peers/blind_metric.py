"""The blind baseline by a language model: relation questions answered without the picture.

The RelationRecall of a text-only chat model, to stand beside that of the judges: chance is one in
the number of options. It is the same for all pictures of an item; the model is asked once an item
and its reply is kept. The baseline by counts needs no model and no metric: see
:mod:`scenewright.evals.reporting.blind`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from scenewright.agents.chat.language_replies import as_data
from scenewright.config.settings import Settings, load_settings
from scenewright.core.facts import Fact
from scenewright.evals.metrics.base import MetricError, MetricScore, Need, Sample
from scenewright.evals.studies.peers.writing import (
    Steps,
    expected_steps,
    model_of,
    numbered_rows,
    rows_in,
)
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage

if TYPE_CHECKING:
    from scenewright.evals.annotation.voters import TextModel
    from scenewright.evals.store.ledger import Ledger

PROMPT = "blind_relations"
UNKNOWN_OPTION = "the answer is not one of the options"


class Blind:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "blind"
    higher_is_better = False

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        """``ledger`` keeps the replies of ``model``."""
        self._ledger = ledger
        self._model = model
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def version(self) -> str:
        """Number, model and prompt."""
        return f"1:{self._model.fingerprint}:{load_prompt(PROMPT).hash}"

    @property
    def needs(self) -> frozenset[Need]:
        """The questions that judges are asked."""
        return frozenset({"judges"})

    async def expected(self, sample: Sample, size: tuple[int, int]) -> Mapping[str, ExpectedUsage]:
        """One call an item; nothing where no relation is asked for."""
        asked = _relations(sample.facts)
        return expected_steps(self._model, (PROMPT,), _shown(asked)) if asked else {}

    async def score(self, sample: Sample) -> MetricScore:
        """Return the share of relation questions that the model guesses right.

        ``chance`` is a part: what guessing at random gets. Unscored where no relation is asked
        for; raises ``MetricError`` where the model leaves a question out or cannot be asked.
        """
        asked = _relations(sample.facts)
        if not asked:
            return MetricScore(value=None, reason="no relation is asked for")
        shown = _shown(asked)
        steps = Steps(self._ledger, self._model)
        async with self._locks.setdefault(shown, asyncio.Lock()):
            said = await steps.ask(PROMPT, _reader(asked), questions=shown)
        right = [said[str(at)] == fact.expected for at, fact in enumerate(asked, start=1)]
        chance = sum(1.0 / len(fact.options) for fact in asked) / len(asked)
        return MetricScore(
            value=sum(right) / len(right),
            parts={"chance": chance},
            tokens_in=steps.tokens,
            usd=steps.usd,
        )


def make(settings: Settings | None, chat: Any = None, folder: Any = None) -> Blind:
    """The metric of the registry; raises ``MetricError`` without a model or for a wrong option."""
    from scenewright.evals.studies.peers.item_questions import ledger_in
    from scenewright.evals.studies.peers.question_metric import questions_folder

    if chat is None:
        raise MetricError('blind needs a language model: name one, chat = "ACCOUNT:MODEL"')
    model = model_of(Blind.name, chat, settings or load_settings())
    return Blind(ledger_in(questions_folder(folder)), model)


def _relations(facts: Sequence[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.kind == "relation" and not fact.is_binary]


def _shown(asked: Sequence[Fact]) -> str:
    return as_data(
        [
            {
                "number": at,
                "question": fact.question,
                "options": dict(zip(ascii_uppercase, fact.options, strict=False)),
            }
            for at, fact in enumerate(asked, start=1)
        ]
    )


def _reader(asked: Sequence[Fact]) -> Any:
    def read(given: Mapping[str, Any], counted: Counter[str]) -> dict[str, str]:
        lost: Counter[str] = Counter()
        rows = rows_in(given, "answers", lost)
        found: dict[str, str] = {}
        for number, row in numbered_rows(rows, "number", range(1, len(asked) + 1), lost).items():
            options = asked[number - 1].options
            letter = str(row.get("option")).strip().rstrip(").").upper()
            at = ascii_uppercase.find(letter) if len(letter) == 1 else -1
            if 0 <= at < len(options):
                found[str(number)] = options[at]
            else:
                lost[UNKNOWN_OPTION] += 1
        if lost:
            # An incomplete reply is no reply: it is asked for again, and not kept.
            raise ValueError("; ".join(f"{why} ({n} times)" for why, n in lost.items()))
        return found

    return read
