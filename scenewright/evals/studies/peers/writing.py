"""Questions by a language model: one reply a step, kept once it was paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scenewright.agents.judges.pictures import character_tokens
from scenewright.config.settings import Settings, SettingsError
from scenewright.evals.metrics.base import MetricError
from scenewright.prompts import load_prompt
from scenewright.providers.usage import ExpectedUsage, Usage

if TYPE_CHECKING:
    from scenewright.evals.annotation.voters import TextModel
    from scenewright.evals.store.ledger import Ledger

Numbered = dict[int, Mapping[str, Any]]
"""Number → row of a reply."""
NO_ROW = "row of a reply that is none"
UNKNOWN_NUMBER = "number that was not asked for"
TWICE = "number answered twice"
MISSING = "number left out"
_SHOWN = 8


_ANSWER_TOKENS = 300
"""Tokens of a reply about a text: eight questions or tuples, or so."""


def expected_steps(
    model: TextModel, prompts: Sequence[str], about: str
) -> dict[str, ExpectedUsage]:
    """Id of ``model`` → what calls with these prompts about a text take, by a quarter of the
    characters; each is taken to be shown one reply of another."""
    total = ExpectedUsage()
    for name in prompts:
        prompt = load_prompt(name)
        characters = len(prompt.text) + len(str(prompt.output)) + len(about)
        usage = Usage(character_tokens(characters) + _ANSWER_TOKENS, _ANSWER_TOKENS)
        total = total + ExpectedUsage(1, usage, model.price(usage))
    return {model.name: total}


class Steps:
    """The steps of one text: what they cost, and what was left out on the way."""

    def __init__(self, ledger: Ledger, model: TextModel) -> None:
        """``ledger`` keeps the replies of ``model``."""
        self._ledger = ledger
        self._model = model
        self.dropped: Counter[str] = Counter()
        """Why something was left out → how often."""
        self.usd = 0.0
        """Dollars."""
        self.tokens = 0
        """Tokens in and out."""

    async def ask(
        self, prompt: str, read: Callable[[Any, Counter[str]], Any], **variables: str
    ) -> Any:
        """Return what ``read`` makes of the reply to ``prompt``.

        ``read`` counts what it leaves out under the reason; the model is told once, and what it
        then gives is taken. Raises ``MetricError`` if the model gives nothing usable, and asks
        again next time.
        """
        from scenewright.evals.annotation.texts import ask_text
        from scenewright.evals.errors import AnnotationError

        def reader(given: Mapping[str, Any], last: bool) -> Any:
            lost: Counter[str] = Counter()
            data = read(given, lost)
            if lost and not last:
                told = "; ".join(f"{why} ({n} times)" for why, n in lost.most_common(_SHOWN))
                raise ValueError(told)
            return {"data": data, "dropped": dict(lost)}

        try:
            reply = await ask_text(
                self._ledger, self._model, prompt, prompt, reader, retry=True, **variables
            )
        except AnnotationError as error:
            raise MetricError(str(error)) from error
        self.usd += reply.usd
        self.tokens += reply.tokens_in + reply.tokens_out
        if reply.state == "failed":
            raise MetricError(f"{self._model.name} wrote no questions ({prompt}): {reply.reason}")
        self.dropped.update(reply.data["dropped"])
        return reply.data["data"]


def rows_in(given: Mapping[str, Any], key: str, lost: Counter[str]) -> list[Mapping[str, Any]]:
    """The rows of a list in a reply; raises ``ValueError`` if it is none."""
    rows = given.get(key)
    if not isinstance(rows, list):
        raise ValueError(f"{key} is missing or no list")
    lost.update(NO_ROW for row in rows if not isinstance(row, Mapping))
    return [row for row in rows if isinstance(row, Mapping)]


def numbered_rows(
    rows: Sequence[Mapping[str, Any]], key: str, wanted: Sequence[int], lost: Counter[str]
) -> Numbered:
    """The first row of each number of ``wanted``, and the others counted."""
    found: Numbered = {}
    for row in rows:
        number = row.get(key)
        if isinstance(number, bool) or not isinstance(number, int) or number not in wanted:
            lost[UNKNOWN_NUMBER] += 1
        elif number in found:
            lost[TWICE] += 1
        else:
            found[number] = row
    for number in wanted:
        if number not in found:
            lost[MISSING] += 1
    return found


def plain(value: object) -> str:
    """A value of a reply as a line of text; empty for what is none."""
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def model_of(name: str, spec: Any, settings: Settings) -> TextModel:
    """The language model ``ACCOUNT:MODEL`` of the metric ``name``; raises ``MetricError``."""
    from scenewright.evals.annotation.voters import text_model_of
    from scenewright.evals.errors import AnnotationError
    from scenewright.evals.metrics.options import text

    try:
        return text_model_of(text("chat", spec), settings, "questions")
    except (SettingsError, AnnotationError) as error:
        raise MetricError(f"{name}: {error}") from error
